// Package afpacket is the injector pipeline in Go on packet rings: the portable datapath for every Linux interface,
// with the events that only software has (delay, duplicate, reorder, rewrite).
//
// Frames leave through XDP sockets in copy mode, or packet sockets where an interface does not support them.
//
// One goroutine, [Switch.Run], owns pipeline and sockets. It takes frames from all ports in turn, so that sequence
// numbers, stamps and ITER agree, and releases the caller's lock between rounds of at most a few dozen frames.
package afpacket

import (
	"errors"

	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/link"
)

// ErrUnsupported says that this operating system has no packet sockets.
var ErrUnsupported = errors.New("afpacket needs Linux")

// Config is what a Switch is opened with.
type Config struct {
	Ports []string // interface names; the index is the port number
	Seed  uint64   // of the UDP destination ports of mirror copies
	// PacketSockets has frames sent through packet sockets even where an XDP socket could.
	PacketSockets bool
	// Report is called with faults while packets pass, such as a port that went down. It must not block; nil: no reports.
	Report func(error)
}

// PortStats counts what a port lost. A run with losses must not be analysed: the trace shows frames that never left, or
// lacks frames that a host sent.
type PortStats struct {
	Name     string
	Received uint64
	Missed   uint64 // arrived while the ring was full
	Cut      uint64 // were longer than a slot of the ring
	Sent     uint64
	Unsent   uint64 // the kernel refused to send
}

// round is how many frames of one port are taken before the next port is served.
const round = link.DefaultBatch

// Pipeline returns the datapath to program, under the lock that Run's do takes.
func (s *Switch) Pipeline() *pipeline.Pipeline { return s.pipeline }
