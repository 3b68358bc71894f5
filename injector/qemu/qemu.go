// Package qemu is the injector pipeline in Go between virtual machines: each port is a Unix datagram socket with the
// framing of QEMU's -netdev dgram, one raw Ethernet frame per datagram, without privilege, bridge or kernel network.
//
// Such a socket loses nothing: a sender whose peer is slow has to wait. The switch never waits for one port: what a
// peer cannot take yet waits in the port's FIFO, so stamps are those of arrival at the switch whatever the peers do. A
// port can also be a function of this process, which is how dumpers are attached.
//
// The switch asks hosts for echoes, hundreds of bytes a second, to measure how long they hold frames ([Holds]).
//
// One goroutine, [Switch.Run], owns pipeline and sockets.
package qemu

import (
	"errors"

	"candela.dev/candela/injector/pipeline"
)

// ErrUnsupported says that this operating system has no such sockets.
var ErrUnsupported = errors.New("the qemu datapath needs Linux")

// Port is one port of the switch: a pair of sockets, or a function.
type Port struct {
	// Local is the path that the switch binds, Remote the one of the guest's QEMU (its local.path).
	Local, Remote string
	// Record is called with each frame that leaves a port without sockets. Frames are valid during the call.
	Record func(frame []byte)
	// Echo says that the host at the port may answer echoes, which measure how long it holds frames.
	Echo bool
}

// Config is what a Switch is opened with.
type Config struct {
	Ports []Port // the index is the port number
	Seed  uint64 // of the UDP destination ports of mirror copies
	// Queue bounds the bytes that wait for one port; 0 means 64 MiB. Frames beyond it are lost and counted.
	Queue int
	// Report is called with faults while packets pass. It must not block; nil: no reports.
	Report func(error)
}

const defaultQueue = 64 << 20

// PortStats counts what a port did. A run with losses must not be analysed.
type PortStats struct {
	Received uint64
	Sent     uint64
	Unsent   uint64 // no peer took them, or the FIFO was full
	Cut      uint64 // arrived longer than any frame may be
	Waited   uint64 // had to wait in the FIFO
}

// Pipeline returns the datapath to program, under the lock that Run's do takes.
func (s *Switch) Pipeline() *pipeline.Pipeline { return s.pipeline }
