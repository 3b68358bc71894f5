// Package afpacket is the injector pipeline in Go on packet rings: the portable datapath, with the events that only
// software can do (delay, duplicate, reorder, rewrite), for every interface that Linux has.
//
// Frames leave through XDP sockets in copy mode, or packet sockets where an interface can't have one.
//
// One goroutine, [Switch.Run], owns pipeline and sockets. It takes frames as they come from all ports in turn, so that
// sequence numbers, stamps and ITER agree, and lets the caller's lock go between rounds of at most a few dozen frames.
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
	// Report is told what went wrong while packets pass, such as a port that went down; nil: nobody is. It must not block.
	Report func(error)
}

// PortStats counts what a port lost. A run with losses must not be analysed: the trace shows frames that never left, or
// lacks some that a host sent.
type PortStats struct {
	Name     string
	Received uint64
	Missed   uint64 // arrived while the ring was full
	Cut      uint64 // were longer than a slot of the ring
	Sent     uint64
	Unsent   uint64 // the kernel refused to send
}

// round is how many frames of one port are taken before the next port's turn.
const round = link.DefaultBatch

// Pipeline returns the datapath to program. Whoever does holds the lock that Run's do takes.
func (s *Switch) Pipeline() *pipeline.Pipeline { return s.pipeline }
