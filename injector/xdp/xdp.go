// Package xdp is the injector pipeline in the Linux kernel: eBPF programs on the receive path of network interfaces,
// with table entries from the P4Runtime server of package switchd. A Linux machine with two ports is then an injector
// switch.
//
// The program decides exactly as [candela.dev/candela/injector/pipeline] does (one suite of packets tests both), with
// the base contract's actions; events that hold packets need the afpacket datapath.
//
// # Conditions for an exact trace
//
// Mirror sequence, timestamps and ITER agree only if one CPU handles the packets of all ports: one receive queue for
// each injected port, and every port's NAPI on the same CPU. [Open] arranges that and [Datapath.Check] verifies it.
// Frames are linear: an interface whose MTU needs several buffers is refused.
//
// A redirect into a veth whose far end has neither a program nor GRO is lost without any counter. [Pass] attaches a
// program to such a far end; probe packets, not counters, show what arrives.
package xdp

import (
	"errors"
	"time"
)

// MaxPorts is how many ports the program has room for.
const MaxPorts = 16

// MaxMTU is the largest MTU of a port: veth refuses XDP from about 3.5 KB on without frags, and a page must hold the
// clone.
const MaxMTU = 3498

// ErrUnsupported says that this operating system has no XDP.
var ErrUnsupported = errors.New("xdp needs Linux")

// Mode says where the program runs.
type Mode uint8

// Modes. The zero value uses the driver's hook and falls back to the generic one; see [Datapath.Mode].
const (
	ModeAny     Mode = iota
	ModeDriver       // native XDP or an error
	ModeGeneric      // after the kernel made an skb: every driver, slower; its packets cannot be moved to one CPU
)

var modeNames = [...]string{"any", "driver", "generic"}

// String returns the mode's name.
func (m Mode) String() string { return modeNames[m] }

// Config is what a Datapath is opened with.
type Config struct {
	Ports []string // interface names; the index is the port number
	Seed  uint64   // of the UDP destination ports of mirror copies
	Mode  Mode
	// CPU handles the packets of all ports, by threaded NAPI. Negative: threads are not moved; see Check.
	CPU int
	// MultiQueue allows several receive queues and CPUs: stamps and sequence numbers may then disagree.
	MultiQueue bool
}

// Diagnostics counts what the contract has no counter for.
type Diagnostics struct {
	Runts      uint64 // events that found nothing to cut
	Unmirrored uint64 // packets without a copy for want of a redirect map
}

// napiWait bounds how long a NAPI thread may take to appear.
const napiWait = time.Second
