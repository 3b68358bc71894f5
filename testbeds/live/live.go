// Package live runs a simulated switch on real frames. A fabric.Network of one switch serves its events up to the real
// clock; its hosts are network namespaces. A veth pair with a packet ring at each end joins a host to its port. The
// code of the switch, its taps and its judges is the code of a simulation.
//
// In the network, a host is represented by its port, which is a fabric.Stack. A frame from the ring is serialised into
// the switch at link rate; a packet that left the switch is written to the interface. The host itself is the kernel, or
// a fabric.Stack in its namespace driven by the same clock.
//
// All of them run on one goroutine, that of Advance. See docs/internals/adr/0021-live-switch.md.
package live

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/sockets"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds/virtual/fabric"
)

var (
	// ErrUnsupported reports that this machine or user can't create network namespaces.
	ErrUnsupported = errors.New("a live switch needs network namespaces: Linux and root")
	// ErrBusy reports that the machine gave the run too little CPU time.
	ErrBusy = errors.New("the machine was too busy to hold the configured rates")
)

// Config describes a live switch.
type Config struct {
	// Net has one switch and has not run yet. The hosts' transports are in Stacks, not in Net.
	Net *fabric.Network
	// Stacks are the transports of hosts; nil: the kernel's, or none.
	Stacks []fabric.Stack
	// Datagrams are the packets that Stacks send and receive through UDP sockets of their hosts' kernels; nil: Stacks have
	// rings.
	Datagrams *wire.Codecs
	Links     []fabric.LinkSpec // of hosts
	// Slowdown divides the speed of the test: 1000 turns 100 Gb/s into 100 Mb/s.
	Slowdown int64
	MaxFrame int  // bytes of the longest frame without FCS
	IPv6     bool // kernel hosts have IPv6 addresses, too
	ECN      bool // connections of the kernels negotiate ECN
	// FirstSequence is the initial sequence number of our TCP.
	FirstSequence uint32
	// Connections are the TCP connections of the kernels.
	Connections []Connection
	// Finished is called with a connection's number when its receiver has all bytes.
	Finished func(now clock.Time, number int)
	// Steady: the clock never stands still, as those of hosts on other machines do not; see Remote.
	Steady bool
	// Remote makes other machines the hosts, joined to interfaces of this one; nil: the switch creates namespaces.
	Remote *Remote
}

// Remote describes hosts that are machines with the TCP of their kernels. Their driver runs the switch on the switch's
// machine.
type Remote struct {
	Ports []RemotePort // by host
	// Ready is called before the switch's clock starts, when it accepts frames. It returns when the hosts have started.
	Ready func() error
	// Finished receives each connection that failed or whose receiver has all bytes.
	Finished chan sockets.Ended
	// Over is called when the traffic is over. It stops the hosts and returns their counters.
	Over func() ([]HostCounts, error)
}

// RemotePort is the cabling of a host.
type RemotePort struct {
	Interface string // of this machine
	MAC       packet.MAC
}

// HostCounts are the counts of a host's interface since before the traffic.
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
	Stop       clock.Time // of a transfer of 0 bytes: it sends nothing new from then on; 0: until the run ends
	Congestion string     // as the kernel calls its congestion controls
	DSCP       uint8
	IPv6       bool
	// Rank is what the switch's table gives packets of Src; those of Dst have rank 0. Unranked: none has a rank.
	Rank wire.Ranking
}

// Transfer returns the transfer for the sockets at both ends.
func (c *Connection) Transfer() sockets.Transfer {
	t := sockets.Transfer{Number: c.Number, From: c.Src.IPv4(), To: c.Dst.IPv4(), Port: uint16(FirstPort + c.Number),
		Bytes: c.Bytes, Leaves: c.Stop > 0, Congestion: c.Congestion, DSCP: c.DSCP}
	if c.IPv6 {
		t.From, t.To = c.Src.IPv6(), c.Dst.IPv6()
	}
	return t
}

// FirstPort is the server port of kernel connection 0.
const FirstPort = 20000

// Report has a run's own measurements.
type Report struct {
	Slowdown   int64
	Real       time.Duration // duration of the traffic
	Stopped    time.Duration // time for which the run's clock stood still because the machine gave the run no CPU
	LongestGap time.Duration // longest time between two polls of the rings, less the intended wait
	// ToSwitch is the longest time of a frame from the host's decision to the switch port, ToHost from there to the host.
	ToSwitch, ToHost clock.Duration
	// Read is how long frames waited in the rings of ports, Written how long after it was due a frame was written to its
	// interface. Both add to the delays of links.
	Read, Written Lateness
	Waiting       int // most frames that waited at a host for its link to the switch
	// Trips are the least RTTs that the kernels measured, by connection.
	Trips   map[int]time.Duration
	Frames  uint64   // frames that entered the switch
	Foreign uint64   // of those, frames that are not of the test: the kernel's own
	Lost    []string // losses outside the switch: place and number
	// Mismatches describes the first few of Mismatched: frames whose bytes differ from what the switch's taps show, or
	// that a link changed.
	Mismatches []string
	Mismatched int
}

// Text summarises the run in a line.
func (r *Report) Text() string {
	const tenth = 100 * time.Microsecond
	s := fmt.Sprintf("the clock ran at 1/%d of real time: %v of traffic, stopped for %v of them (longest gap %v); "+
		"%d frames came to the switch", r.Slowdown, r.Real.Round(time.Millisecond), r.Stopped.Round(tenth),
		r.LongestGap.Round(tenth), r.Frames)
	if r.Foreign > 0 {
		s += fmt.Sprintf(", %d of them not of the test", r.Foreign)
	}
	s += fmt.Sprintf("; host to port at most %v, port to host %v; %s and %s; at most %d frames waited for a link",
		r.ToSwitch, r.ToHost, r.Read.text("read"), r.Written.text("written"), r.Waiting)
	if least, most := r.trips(); most > 0 {
		s += fmt.Sprintf("; the kernels measured RTTs of at least %v to %v", least.Round(tenth), most.Round(tenth))
	}
	return s
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

// trips returns the smallest and the largest of the least RTTs.
func (r *Report) trips() (least, most time.Duration) {
	for _, t := range r.Trips {
		if most == 0 || t < least {
			least = t
		}
		most = max(most, t)
	}
	return least, most
}

// Losses lists losses outside the switch; empty: none.
func (r *Report) Losses() string { return strings.Join(r.Lost, "; ") }

// Differences lists the mismatched bytes; empty: none.
func (r *Report) Differences() string {
	text := strings.Join(r.Mismatches, "; ")
	if n := r.Mismatched - len(r.Mismatches); n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return text
}

// mostAtOnce bounds how far the clock advances in a round beyond the intended wait. When the machine gives the run no
// CPU, the clock stands still, so that no host or switch appears late.
const mostAtOnce = 2 * time.Millisecond

// runClock is the real clock less the time the run could not use, slowed down.
type runClock struct {
	real     func() time.Duration // since some instant, monotonic
	slowdown int64
	last     time.Duration // real time less stopped, at the latest reading
	steady   bool          // it never stands still
	stopped  time.Duration // not counted, unless it is steady
	longest  time.Duration
}

// now reads the clock after a wait of at most meant.
func (c *runClock) now(meant time.Duration) clock.Time {
	t := c.shown()
	if gap := t - c.last - meant; gap > mostAtOnce {
		c.longest = max(c.longest, gap)
		c.stopped += gap - mostAtOnce
		t = c.shown()
	}
	c.last = max(c.last, t)
	return clock.Time(0).Add(clock.FromStd(c.last) / clock.Duration(c.slowdown))
}

// shown is the real time that the clock counts.
func (c *runClock) shown() time.Duration {
	if c.steady {
		return c.real()
	}
	return c.real() - c.stopped
}

// took is the real time at the latest reading.
func (c *runClock) took() time.Duration {
	if c.steady {
		return c.last
	}
	return c.last + c.stopped
}

// until returns the real time until at.
func (c *runClock) until(at clock.Time) time.Duration {
	const most = time.Second // no wait is longer: slowed down, Never would overflow
	now := clock.Time(0).Add(clock.FromStd(c.last) / clock.Duration(c.slowdown))
	if left := at.Sub(now); left < clock.FromStd(most)/clock.Duration(c.slowdown) {
		return max(0, (left * clock.Duration(c.slowdown)).Std())
	}
	return most
}

// StationConfig describes a host of a lab whose stack has UDP sockets of its machine.
type StationConfig struct {
	Host      fabric.HostID
	Stack     fabric.Stack
	Link      fabric.LinkSpec
	Datagrams *wire.Codecs
	IPv6      bool
	Slowdown  int64
}
