// Package live runs a simulated switch on real frames: a fabric.Network of one switch whose events are served up to
// the real clock, and whose hosts are network namespaces of their own. Between a host and its port lies a veth pair
// with a packet ring at each end. The code of the switch, its taps and its judges are those of a simulation.
//
// What stands for host h in the network is its port (a fabric.Stack): a frame that comes out of the ring is serialised
// into the switch at the rate of the link, and a packet that has left the switch is written to the interface. The host
// itself is a fabric.Stack that is driven by the same clock in its namespace, or the kernel.
//
// One goroutine, that of Advance, serves all of them. See docs/internals/adr/0021-live-switch.md.
package live

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/sockets"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds/virtual/fabric"
)

var (
	// ErrUnsupported says that this machine, or this user, can't have network namespaces.
	ErrUnsupported = errors.New("a live switch needs network namespaces: Linux and root")
	// ErrBusy says that the machine gave the run too little of its time.
	ErrBusy = errors.New("the machine was too busy to hold the configured rates")
)

// Config describes a live switch.
type Config struct {
	// Net has one switch. Nothing of it has run yet; the hosts' transports are Stacks, not its own.
	Net *fabric.Network
	// Stacks are the transports of hosts; nil: the kernel's, or none.
	Stacks []fabric.Stack
	Links  []fabric.LinkSpec // of hosts
	// Slowdown is how much longer than in the test everything takes: 1000 makes 100 Gb/s 100 Mb/s.
	Slowdown int64
	MaxFrame int  // bytes of the longest frame without FCS
	IPv6     bool // hosts that are the kernel's have IPv6 addresses, too
	// FirstSequence is that of our TCP.
	FirstSequence uint32
	// Connections are the kernel's TCP connections.
	Connections []Connection
	// Finished is told when the receiver of a connection has all bytes, by number.
	Finished func(now clock.Time, number int)
	// Remote says that hosts are other machines, joined to interfaces of this one; nil: the switch makes namespaces.
	Remote *Remote
}

// Remote is the hosts of a live switch that are machines of their own, with the TCP of their kernels. Whoever drives
// them has the switch's machine run the switch.
type Remote struct {
	Ports []RemotePort // by host
	// Ready is called when the switch takes frames, before its clock starts. It returns when the hosts have begun.
	Ready func() error
	// Finished has a connection of which the receiver has all, or that failed.
	Finished chan sockets.Ended
	// Over is called when the traffic is over. It returns when the hosts have stopped, with what they have counted.
	Over func() ([]HostCounts, error)
}

// RemotePort is where a host is cabled to.
type RemotePort struct {
	Interface string // of this machine
	MAC       packet.MAC
}

// HostCounts is what the interface of a host has counted since before the traffic.
type HostCounts struct {
	Sent, Received uint64
	Losses         []string // name and count
}

// Connection is a transfer between two kernels. Its server port is FirstPort plus its number.
type Connection struct {
	Number     int // from 1
	Src, Dst   fabric.HostID
	Bytes      int64 // 0: until the run ends
	Start      clock.Time
	Congestion string // as the kernel calls its congestion controls
	DSCP       uint8
	IPv6       bool
}

// Transfer is what the sockets of the connection's ends do.
func (c *Connection) Transfer() sockets.Transfer {
	t := sockets.Transfer{Number: c.Number, From: c.Src.IPv4(), To: c.Dst.IPv4(), Port: uint16(FirstPort + c.Number),
		Bytes: c.Bytes, Congestion: c.Congestion, DSCP: c.DSCP}
	if c.IPv6 {
		t.From, t.To = c.Src.IPv6(), c.Dst.IPv6()
	}
	return t
}

// FirstPort is that of a kernel's connection number 0.
const FirstPort = 20000

// Report is what a run measured of itself.
type Report struct {
	Slowdown   int64
	Real       time.Duration // that the traffic took
	Stopped    time.Duration // for which the clock of the run stood still, because the machine gave the run no CPU
	LongestGap time.Duration // between two looks at the rings, beyond what was meant
	// Transit is the most that a frame took between a host's decision and the port of the switch, and from there to the
	// host.
	ToSwitch, ToHost clock.Duration
	Frames           uint64   // that came to the switch
	Foreign          uint64   // of those, not of the test: the kernel's own
	Lost             []string // what was lost outside the switch: where, and how many
	// Mismatches are frames whose bytes are not what the taps of the switch show, or that a link has changed: the first
	// few of Mismatched.
	Mismatches []string
	Mismatched int
}

// Text says in a line how the run went.
func (r *Report) Text() string {
	const tenth = 100 * time.Microsecond
	s := fmt.Sprintf("the clock ran at 1/%d of real time: %v of traffic, stopped for %v of them (longest gap %v); "+
		"%d frames came to the switch", r.Slowdown, r.Real.Round(time.Millisecond), r.Stopped.Round(tenth),
		r.LongestGap.Round(tenth), r.Frames)
	if r.Foreign > 0 {
		s += fmt.Sprintf(", %d of them not of the test", r.Foreign)
	}
	return s + fmt.Sprintf("; host to port at most %v, port to host %v", r.ToSwitch, r.ToHost)
}

// Busy returns an error that wraps ErrBusy if the run's clock stood still for more than it ran.
func (r *Report) Busy() error {
	if r.Stopped*2 <= r.Real {
		return nil
	}
	return fmt.Errorf("%w: in %v of traffic its clock stood still for %v (longest gap %v)", ErrBusy,
		r.Real.Round(time.Millisecond),
		r.Stopped.Round(time.Millisecond), r.LongestGap.Round(time.Millisecond))
}

// Losses says what was lost outside the switch; empty: nothing.
func (r *Report) Losses() string { return strings.Join(r.Lost, "; ") }

// Differences says which bytes were not what the taps show; empty: none.
func (r *Report) Differences() string {
	text := strings.Join(r.Mismatches, "; ")
	if n := r.Mismatched - len(r.Mismatches); n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return text
}

// mostAtOnce is how far the clock of a run goes in one round beyond what the round waited for: when the machine gives
// the run no CPU, the clock stands still, and no host or switch seems to have been late.
const mostAtOnce = 2 * time.Millisecond

// runClock is the real clock less what the run could not use, slowed down.
type runClock struct {
	real     func() time.Duration // since some instant, monotonic
	slowdown int64
	last     time.Duration // real time less stopped, at the latest reading
	stopped  time.Duration
	longest  time.Duration
}

// now reads the clock after a wait of at most meant.
func (c *runClock) now(meant time.Duration) clock.Time {
	t := c.real() - c.stopped
	if gap := t - c.last - meant; gap > mostAtOnce {
		c.longest = max(c.longest, gap)
		c.stopped += gap - mostAtOnce
		t -= gap - mostAtOnce
	}
	c.last = max(c.last, t)
	return clock.Time(0).Add(clock.FromStd(c.last) / clock.Duration(c.slowdown))
}

// until returns how long it really takes until at.
func (c *runClock) until(at clock.Time) time.Duration {
	const most = time.Second // no wait is longer: slowed down, Never would overflow
	now := clock.Time(0).Add(clock.FromStd(c.last) / clock.Duration(c.slowdown))
	if left := at.Sub(now); left < clock.FromStd(most)/clock.Duration(c.slowdown) {
		return max(0, (left * clock.Duration(c.slowdown)).Std())
	}
	return most
}
