// Package live drives the RoCE endpoints of package rdma with the real clock on a network interface: a host that needs
// no RDMA NIC.
//
// The endpoint owns its addresses. They are not configured on the interface, so the kernel neither answers for them nor
// complains about packets that it does not know: ARP and neighbour discovery are answered here (see [Neighbour]).
//
// A [Host] has one goroutine, which owns NIC model, workload and sockets; every method may be called by any goroutine
// and waits for that one.
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

// ErrUnsupported says that this operating system has no packet sockets.
var ErrUnsupported = errors.New("live endpoints need Linux")

// ErrClosed says that the host was closed.
var ErrClosed = errors.New("the host was closed")

// Connection is one queue pair of the host and what passes over it.
type Connection struct {
	QP rdma.QPConfig
	// Traffic is what this host posts, PeerTraffic what the peer does; no messages: nothing.
	Traffic, PeerTraffic generator.Traffic
}

// Config is what a Host is opened with.
type Config struct {
	Interface string
	// Socket, if set, takes the place of the interface; it needs no privilege. Then NIC.MAC must be set.
	Socket *Socket
	// NIC is the model. A zero MAC stands for the interface's.
	NIC         rdma.Config
	Side        generator.Side // of every connection
	Connections []Connection

	// Log asks for a record of every RoCE frame that is sent or received; Snap is what mirror copies of the switch keep of
	// one.
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

// Frames are what a host has seen pass.
type Frames struct {
	Sent, Received *framelog.Log // nil: nothing was recorded
	Probes         uint64        // probe frames that have arrived
}

// End is what one side of a connection tells the other before traffic starts.
type End struct {
	IP     netip.Addr
	QPN    packet.QPN
	IPSN   packet.PSN
	MAC    packet.MAC
	Region generator.Region
}

// workload is the host's half of the application.
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
