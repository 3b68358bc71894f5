// Package link is the raw side of a Linux network interface: receive rings and batched transmission on AF_PACKET, and
// the interface settings that affect a capture.
//
// [Ring] is a TPACKET_V3 receive ring: the kernel fills blocks of frames, which are read in place. [Sender] transmits
// batches with one system call; [XDPSender] does so at less cost if the interface supports XDP sockets. [Interface]
// reads and changes what would falsify a capture: offloads that merge, split or complete frames, the MTU, the
// promiscuous flag. Every change is read back, and undone by its owner.
//
// A VLAN tag that the kernel removed from a frame is restored, so frames are those of the wire, without FCS.
//
// Nothing here interprets frames. Only Linux has AF_PACKET; elsewhere every constructor returns [ErrUnsupported].
package link

import (
	"errors"
	"time"
)

var (
	// ErrUnsupported says that this operating system has no packet sockets.
	ErrUnsupported = errors.New("raw links need Linux")
	// ErrStopped says that a ring was stopped.
	ErrStopped = errors.New("ring stopped")
)

// Fanout deals the frames of an interface out to the rings of one group.
type Fanout struct {
	Group uint16 // equal for the rings that share; unique among groups of the network namespace
	Mode  FanoutMode
}

// FanoutMode says which ring of a group gets a frame.
type FanoutMode uint8

// Fanout modes, see packet(7). The zero value is by flow.
const (
	FanoutByFlow FanoutMode = iota
	FanoutRoundRobin
	FanoutByCPU
)

// RingConfig is what a Ring is opened with.
type RingConfig struct {
	Interface string
	// BlockBytes is the size of one block, a multiple of the page size; 0 means 1 MiB.
	BlockBytes int
	// Blocks is how many there are; 0 means 16. Blocks × BlockBytes is what can arrive while a reader is stalled.
	Blocks int
	// BlockTimeout is when the kernel hands over a block that is not full; 0 means 1 ms. It bounds the latency of a quiet
	// link.
	BlockTimeout time.Duration
	// Snap is how many bytes of each frame are kept; 0 means all.
	Snap int
	// Promiscuous receives frames to any address while the ring is open.
	Promiscuous bool
	// Outgoing receives what this host itself transmits, too.
	Outgoing bool
	Fanout   *Fanout // nil: this ring receives every frame
}

// Frame is one frame in a ring's block. Data is valid until the block is released.
type Frame struct {
	Data     []byte // without FCS, at most Snap bytes
	Length   int    // on the wire, without FCS
	Time     int64  // nanoseconds since the Unix epoch, as the kernel stamped it
	Outgoing bool   // transmitted by this host
}

// Stats counts what a ring has seen since it was opened.
type Stats struct {
	Frames  uint64 // that the kernel offered, dropped ones included
	Dropped uint64 // for want of room in the ring
	Freezes uint64 // times that the kernel found every block full
}

// TapConfig is what a Tap is opened with.
type TapConfig struct {
	Interface string
	// FrameBytes is the size of a slot, including about 100 bytes of the kernel; 0 means what the interface's MTU needs,
	// up to 16 KiB. A multiple of 256.
	FrameBytes int
	// Frames is how many slots there are, a multiple of 16; 0 means 1024.
	Frames int
}

const (
	defaultFrameBytes = 16 << 10
	defaultFrames     = 1024
)

// DefaultBatch is how many frames a Sender hands to the kernel at once.
const DefaultBatch = 64
