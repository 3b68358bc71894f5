// Package live runs the RoCE endpoints of package rdma on a network interface in real time, without an RDMA NIC.
//
// The endpoint owns its addresses. They are not configured on the interface, so that the kernel neither answers for
// them nor rejects their packets. This package answers ARP and neighbour discovery (see [Neighbour]).
//
// A single goroutine owns the NIC model, the workload and the sockets of a [Host]. Methods may be called from any
// goroutine and wait for this one.
package live

import (
	"errors"
	"fmt"
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/framelog"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/packet"
)

// ErrUnsupported is the error on operating systems without packet sockets.
var ErrUnsupported = errors.New("live endpoints need Linux")

// ErrClosed is the error after Close.
var ErrClosed = errors.New("the host was closed")

// Connection is one queue pair of the host and its traffic.
type Connection struct {
	QP rdma.QPConfig
	// Traffic is posted by this host, PeerTraffic by the peer. No messages: nothing.
	Traffic, PeerTraffic generator.Traffic
}

// Config describes a Host.
type Config struct {
	Interface string
	// Socket, if set, replaces the interface and needs no privilege. NIC.MAC is then required.
	Socket *Socket
	// NIC is the model. A zero MAC means that of the interface.
	NIC         rdma.Config
	Side        generator.Side // of every connection
	Connections []Connection

	// Log records every RoCE frame sent or received. Snap is the number of bytes of a frame that the switch's mirror
	// copies keep.
	Log  bool
	Snap int

	BarrierSync  bool
	ReceiveDepth int
	RepostDelay  clock.Duration
}

// Socket is a pair of Unix datagram sockets that carry one frame per datagram.
type Socket struct {
	Local  string // path, bound here
	Remote string // path of the peer
}

// Frames are the frame logs of a host.
type Frames struct {
	Sent, Received *framelog.Log // nil: not recorded
	Probes         uint64        // probe frames that have arrived
}

// End is the metadata of one side of a connection, exchanged before traffic starts.
type End struct {
	IP     netip.Addr
	QPN    packet.QPN
	IPSN   packet.PSN
	MAC    packet.MAC
	Region generator.Region
}

// workload returns the host's side of the application.
func (c *Config) workload(qps []*rdma.QP, peers []End) (*generator.Workload, error) {
	ends := make([]generator.Ends, len(qps))
	for i, qp := range qps {
		ends[i][c.Side] = generator.End{QP: qp, Region: qp.Region()}
		ends[i][c.Side.Peer()] = generator.End{Region: peers[i].Region}
	}
	return generator.NewWorkload(generator.WorkloadConfig{
		BarrierSync: c.BarrierSync, ReceiveDepth: c.ReceiveDepth, RepostDelay: c.RepostDelay,
		TrafficOf: func(connection int, side generator.Side) generator.Traffic {
			if side == c.Side {
				return c.Connections[connection].Traffic
			}
			return c.Connections[connection].PeerTraffic
		},
	}, ends)
}

func (c *Config) checkPeers(peers []End) error {
	if len(peers) != len(c.Connections) {
		return fmt.Errorf("metadata of %d connections, this host has %d", len(peers), len(c.Connections))
	}
	return nil
}
