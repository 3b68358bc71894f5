// Package fair has the settings, labels, decisions and counters of switches with core-stateless fair queueing (CSFQ,
// HCSFQ) as data: what a test sets and what a switch reports. Models implement it, the analyzer compares, and neither
// imports the other. Clauses are those of the reference model (hcsfq.md).
package fair

import "candela.dev/candela/clock"

// Scheme is which nodes a switch keeps.
type Scheme uint8

// Schemes.
const (
	CSFQ  Scheme = iota // the link alone
	HCSFQ               // the tree
)

// Mode is how a switch measures, drops and adapts.
type Mode uint8

// Modes.
const (
	Ideal     Mode = iota // section 4: exponential averages, real numbers
	Dataplane             // section 5: windows, integers, additive increase and multiplicative decrease
)

// Node is an interior node of the tree. Node 0 is the link; parents come before their children.
type Node struct {
	Parent int // of the link -1
	Weight int // beside its siblings
}

// Member says where flows belong. Flows and hosts are lists of first and last; an empty one is all.
type Member struct {
	Hosts  [][2]int64 // that send
	Flows  [][2]int64 // Packet.Flow
	Node   int        // interior node that the flow is a leaf of: its parent
	Weight int        // beside its siblings, times the weight that the test gives the flow of a packet
}

// Settings are those of one switch. Every port has its own state.
type Settings struct {
	Scheme  Scheme
	Mode    Mode
	Nodes   []Node
	Members []Member // the first that applies to a flow counts; the last applies to all

	K, KAlpha, KC clock.Duration // 0: see At
	KF            clock.Duration // after which F decays while packets are dropped; 0: never
	Phi           float64        // share of the link rate that is the capacity of node 0
	MinFactor     float64        // no update of a congested node multiplies alpha by less
	// AlphaFloor is a share of what a node may get, which for the link is Phi times its rate, for others their weight
	// times alpha of their parent. An update of a node that is not congested makes alpha at least that. 0: the
	// specification.
	AlphaFloor   float64
	InitialShare int // alpha of the nodes below the link is C divided by this at the start, that of the link C
	// ParentBefore says that a node reads the alpha that its parent had before the packet. Otherwise it reads either that
	// or the one that it has now (4.3), always the same.
	ParentBefore bool
	// Tick is the resolution of the clock by which the switch measures: times are rounded down to it. 0: exact.
	Tick clock.Duration
	// TailIgnored says that a packet for which the FIFO has no room does not count in F.
	TailIgnored bool
	Overflow    bool // of CSFQ, 4.5: each tail drop multiplies alpha by 0.99, in K_c not by less than 0.75 together
	Packets     int  // that may wait in the FIFO
	Bytes       int  // that may wait; 0: no limit
	Bypass      int  // packets of fewer bytes (without framing and shim) have no label, are not measured and not tested
	Shim        bool // labels are shims of frames between switches, see ShimBytes; otherwise metadata
	// of Dataplane
	Window        clock.Duration // W: a packet at most so long after the beginning of a window belongs to it; 0: see At
	WindowDivides bool           // a sample is bytes/W, not bytes divided by the time since the window began
	AverageShift  int            // a sample has the weight 2^-AverageShift in its average; 0: it replaces it
	DropBits      int            // n
	Decrease      int            // M: alpha -= alpha/M
	Increase      int            // alpha += C/Increase
	Additive      bool           // a node that is not congested also adds; otherwise alpha is the largest child rate
	Recirculation clock.Duration // until a new alpha is read
}

// Constants are the times of a port.
type Constants struct{ K, KAlpha, KC, Window clock.Duration }

// At returns the times of a port. Those that are not set follow its rate: K, K_alpha and W are 100 us or 40 packets of
// 1500 bytes, whichever is longer (4.4), K_c is twice K_alpha in mode Ideal, and W in mode Dataplane (5, 3).
func (s *Settings) At(rate clock.BitRate) Constants {
	scaled := max(100*clock.Microsecond, 40*rate.Serialise(1500))
	or := func(set, rule clock.Duration) clock.Duration {
		if set > 0 {
			return set
		}
		return rule
	}
	c := Constants{KAlpha: or(s.KAlpha, scaled), Window: or(s.Window, scaled)}
	c.K = or(s.K, c.KAlpha)
	c.KC = or(s.KC, 2*c.KAlpha)
	if s.Mode == Dataplane {
		c.KC = or(s.KC, c.Window)
	}
	return c
}

// Ticked returns a time as the clock of the switch shows it.
func (s *Settings) Ticked(now clock.Time) clock.Time {
	if s.Tick > 0 {
		now -= now % clock.Time(s.Tick)
	}
	return now
}

// Labels. A packet's label is its Rank (flag Ranked): the number of its node, and below it the rate of its flow divided
// by the flow's weight, in bit/s, rounded. The switch that a packet enters from its host labels it; every switch
// relabels it, with a label rounded down; the last one takes the label off, so that Rank is 0 and the flag is not set.
//
// With Shim a label between switches has the flag Shimmed and is rounded down to ShimUnit; the packet is longer by
// ShimBytes from the queue of the edge to the last hop. A and F, which are compared with the capacity of a link, count
// what a packet takes on the link of the egress port: size, shim and framing. Labels count the packet as its host has
// sent it, with the framing of that link: flows get equal rates of that, whichever links add shims.
const labelBits = 48

// MaxLabel is the greatest rate in a label.
const MaxLabel = 1<<labelBits - 1

// ShimUnit is the unit of rates in shims, in bit/s: a label below it is 0, and the packet is no longer dropped.
const ShimUnit = 1000

// MostLayers is how many nodes a shim can name, the link included.
const MostLayers = 15

// ShimBytes returns the bytes of a shim with so many nodes from the link to the parent (package packet/fairshim).
func ShimBytes(layers int) int { return 4 + 2*layers }

// Layers returns how many nodes there are from the link to a node.
func (s *Settings) Layers(node int) (n int) {
	for ; node >= 0; node = s.Nodes[node].Parent {
		n++
	}
	return n
}

// LeastAlpha is the least fair rate in bit/s; the greatest is the link rate. These limits apply to every update,
// MinFactor to c/F alone.
const LeastAlpha = 1

// What the clauses leave open, as the models read it:
//
//   - 4.2: the first packet sets an estimate to len/K, one at the time of the last update adds len/K. F decays (an
//     update with no bits) at a packet that the drop test drops, if F has been updated at least KF ago.
//   - 4.3: of a packet, A of all its nodes is updated, then it is tested by the label and the alpha of its parent, then
//     its nodes go on from the link down. An F below 1 bit/s is 1. Nodes become due after more than K_c.
//   - 5, 1: A, F and flows have windows, whose rates start from 0. A packet with label 0 is never dropped. The packet
//     that closes a window is the first of the next. KF is not used.
//   - 5, 2: the test takes alpha rounded to bit/s. R are the upper DropBits of 64.
//   - 5, 4: an update starts from the alpha that is read.

// Label returns the rank with a node and a rate.
func Label(node int, rate uint64) uint64 { return uint64(node)<<labelBits | min(rate, MaxLabel) }

// OfLabel is the inverse of Label.
func OfLabel(rank uint64) (node int, rate uint64) { return int(rank >> labelBits), rank & MaxLabel }

// ReasonExcess is the name of the reason for which the drop test drops; a full FIFO is the fabric's reason "tail".
const ReasonExcess = "excess"

// Kinds of decisions, in this order. Of each packet for which a port was chosen a switch records Queued, Excess or
// Tail; and, before that of the packet with which it happens, State of each node whose alpha is due: K_c have passed
// since it changed or since the node became congested or ceased to be.
const (
	Queued = iota // outcome: queued
	Excess        // outcome: dropped; the drop test
	Tail          // outcome: dropped; passed the test, but the FIFO is full
	State         // no outcome
)

// Values of Queued, Excess and Tail.
const (
	ValueNode        = iota // parent of the flow
	ValueEdge               // 1: this switch has measured the flow and labelled the packet
	ValueLabel              // bit/s, as tested; 0: bypassed
	ValueAlpha              // bit/s, as tested, rounded
	ValueProbability        // billionths, rounded
	ValueDraw               // Ideal: U = ValueDraw/2^53, dropped if U < probability. Dataplane: R, of DropBits bits
	ValueRelabel            // bit/s: the label afterwards, also where it is taken off
)

// Causes of Queued, Excess and Tail.
const (
	CauseNone     = iota
	CauseTested   // by the drop test
	CauseBypassed // smaller than Bypass
)

// Values of State, in bit/s, rounded, as the update has used them. A and F include the packet.
const (
	ValueStateNode     = iota
	ValueArrival       // A
	ValueAccepted      // F
	ValueCapacity      // c
	ValueBefore        // alpha before
	ValueAfter         // and after
	ValueLargest       // tmpAlpha
	ValueSinceUpdateNS // since the last State of the node, or its start
)

// Causes of State.
const (
	CauseCongested   = 1 + iota // alpha := alpha c/F within limits, or AIMD
	CauseUncongested            // alpha := tmpAlpha unless that is 0
	CauseOverflow               // alpha := 0.99 alpha, as the FIFO has no room
)

// Counters are those of one switch since it started.
type Counters struct {
	Flows int // that its edge measures
	Ports []PortCounters
}

// PortCounters are those of a port.
type PortCounters struct {
	// Registers of aggregates: A, F and alpha of each node, and anything that is kept of flows other than at the edge.
	Registers                                int
	Packets, Excess, Tail, Bypassed, Updates uint64 // Updates of alpha, all nodes together
}
