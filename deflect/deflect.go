// Package deflect has the settings, marks, decisions and counters of switches that deflect packets as data: what a test
// sets and what a switch or a host reports. Models implement it, the analyzer compares, and neither imports the other.
// Sections (§) are those of the reference model (deflection.md).
//
// Terms. A neighbour port leads to another switch. NB(sw) lists the neighbour ports of a switch by number (§2). Q is
// the room of a queue in bytes; a queue of occ bytes is full for a packet of len bytes if occ + len ≥ Q. occ is what
// waits: neither the frame on the wire nor the arriving packet count.
package deflect

import "candela.dev/candela/clock"

// Scheme is what a switch does with a packet whose destination port has no room.
type Scheme uint8

// Schemes.
const (
	ECMP    Scheme = iota // §3.1: it drops it
	Naive                 // §3.1: to a neighbour port at random, whatever waits there
	DIBS                  // §3.2: to a neighbour port at random of those that are not full
	SD                    // §3.3: to the first neighbour port from a random one on whose bit is 0
	Vertigo               // §3.4: PIFO queues; packets with larger priority values are pulled out and deflected
	PD                    // §3.5 to 3.8: as if they were to be pulled out, before they are queued
)

// Forwarding is how the destination port is chosen among equally short paths (§2.1). It does not depend on the scheme.
type Forwarding uint8

// Ways to forward.
const (
	Routed     Forwarding = iota // as the routes of the network say: a hash of flow and switch, unless it sprays
	PowerOfTwo                   // for each packet, two different ones are drawn, and the shorter queue is taken
)

// Relative is how PD obtains the relative priority R of a packet at a port, a fraction from 0 (most important) to 1.
type Relative uint8

// Methods.
const (
	Quantile  Relative = iota // §3.6
	DistExact                 // §3.7: by the mean of what waits
	DistEWMA                  // §3.7: by a moving average, as hardware does, with tables
	Oracle                    // §4, ideal: the share of waiting packets with smaller priority values
)

// Source is where priority values come from (§3.9). Larger values are less important.
type Source uint8

// Sources.
const (
	Remaining Source = iota // of the mark: RFS / 2^Ret (§6.2), if Boost, else RFS
	LAS                     // of the mark: bytes of the flowlet before the packet
	Class                   // of the switch: Classes, by sender and receiver
)

// Info is what the ingress of a switch knows of its queues (§5).
type Info uint8

// Ways to know.
const (
	// Exact: the queues as they are. SD's bit of a port is whether it is full for the packet at hand.
	Exact Info = iota
	// Snapshot: every Period, all that the queues are is copied into what the ingress sees. SD's bit is occ ≥ Congested.
	Snapshot
	// Recirculated: so are registers of the ports, of which packets that leave write occ (without the packet that leaves)
	// and the bit; all registers are 0 at the start. The mean of DistExact is as in Snapshot.
	Recirculated
)

// Eligible is which neighbour ports a packet may be deflected to: in the order of their numbers, without those whose
// trunks have failed. They are called the list of eligible ports.
type Eligible uint8

// Sets of ports.
const (
	// Neighbours: all (§2), also the one that it has come by, and the one that it was to leave by.
	Neighbours Eligible = iota
	NotIngress          // but the one that it has come by
	NotEgress           // but the one that it was to leave by
	Neither             // but both
)

// Settings are those of one switch.
type Settings struct {
	Scheme     Scheme
	Queue      int // Q in bytes
	Forwarding Forwarding
	Eligible   Eligible

	Info Info
	// Period is that of Snapshot, Δ; of Recirculated, 0 means the model of §5: see PeriodOf.
	Period clock.Duration
	// Pipes keep a copy each of what the ingress sees, a generator, and windows of Quantile. A packet belongs to the pipe
	// of the port that it has come by: see PipeOf.
	Pipes     int
	Congested int // C in bytes: SD's bit, if Info is not Exact, says that a port holds at least so much

	// Inclusive: SD draws r from [0, n], not [0, n): a scan from n on begins at 0 (§13).
	Inclusive bool

	// Of PD.
	OnFull        bool  // ports are tested for room alone, as with α = 0; R is not evaluated
	Alpha         int64 // α in millionths
	Choices       int   // neighbour ports drawn
	TieFirst      bool  // of candidates with equal queues the first drawn is taken, not one at random
	Probabilistic bool  // §3.8 in place of Eq. 1
	MinThreshold  int   // min_th in bytes, of Probabilistic
	EqualDeflects bool  // occ = τ deflects
	Relative      Relative
	Window        int  // W
	Sample        int  // S
	SampleQueued  bool // packets are sampled as they are queued, not as they are tested
	ByFilled      bool // R = k/f, not k/W
	Divisor       int  // of DistEWMA: the weight of a packet is 1/Divisor
	Unit          int  // of DistEWMA: priority values are divided by it, rounded up

	Boost   bool      // §6.2; Vertigo always boosts
	Classes []ClassOf // of Class: the first that applies counts; a packet to which none applies has the value 0

	Priority Source // of PD and Vertigo, which has Remaining and LAS

	// Of hosts, with PD and Vertigo.
	Ordering bool           // receivers have the shim of §6.3
	Hold     clock.Duration // ω
	Gap      clock.Duration // δ
}

// ClassOf is a row of the table of classes. Empty lists are all hosts; spans have a first and a last host.
type ClassOf struct {
	Senders, Receivers [][2]int64
	Value              uint32
}

// TTL is what hosts send with: how many switches a packet may visit. A switch decrements it on arrival, and drops the
// packet (reason "ttl" of the fabric, without a decision record) if it is then 0.
const TTL = 250

// PeriodOf returns the period of Recirculated by the model of §5 for n control packets: max(0.59 us, n / 301e6 s),
// rounded down to picoseconds. n is the number of ports, times Pipes.
func PeriodOf(n int) clock.Duration {
	return max(590*clock.Nanosecond, clock.Duration(int64(n)*1_000_000/301)*clock.Picosecond)
}

// PipeOf returns the pipe of a port: ports are divided in blocks.
func PipeOf(port, ports, pipes int) int { return port * pipes / ports }

// When the ingress of pipe j is updated. Instants are j·Δ/Pipes + i·Δ for i = 0, 1, …, with j·Δ/Pipes rounded down to
// picoseconds. An update at T shows the state of the queues, or registers, before all that happens at T, and packets
// that arrive at T see it. Before the first update the ingress sees empty queues.
//
// The copy of queues is used for: "full" of the tests below, occ of Eq. 1 and of §3.8, SD's bits, the mean of Dist…,
// and the comparisons of two queues. Queues themselves refuse what has no room (§5): such a packet is dropped with the
// reason "tail", wherever it was to be queued. Window, and counts of Oracle, are those of the ingress itself.

// Mark is what the sender of a packet tells switches and the receiver (§6.1). A packet has it in Rank, packed by Pack,
// with the flag Ranked. Without that flag it is control.
type Mark struct {
	Control bool // no payload: SYN, ACK; all other fields are 0, and so is its priority value
	First   bool // the packet begins its message
	Flowlet uint16
	Ret     uint8  // retransmissions that boost it
	Value   uint32 // RFS, the bytes of the message that are left, this packet included; with LAS, bytes before the packet
}

// Limits of marks: larger values are these.
const (
	MaxFlowlet = 1<<13 - 1 // flowlets of a flow begin with 0 again after it
	MaxRet     = 12
	MaxValue   = 1<<32 - 1
)

// A packed mark, from the highest bit: the priority value Value >> Ret, 32 bits; Control and First, a bit each;
// Flowlet, 13 bits; Ret, 5 bits; the Ret lowest bits of Value, in 12 bits.
const (
	priorityShift = 32
	controlBit    = 1 << 31
	firstBit      = 1 << 30
	flowletShift  = 17
	retShift      = 12
	lowMask       = 1<<12 - 1
)

// Pack returns a mark as a rank.
func (m Mark) Pack() uint64 {
	ret := min(m.Ret, MaxRet)
	rank := uint64(m.Value>>ret)<<priorityShift | uint64(m.Flowlet&MaxFlowlet)<<flowletShift | uint64(ret)<<retShift |
		uint64(m.Value&(1<<ret-1))
	if m.Control {
		rank |= controlBit
	}
	if m.First {
		rank |= firstBit
	}
	return rank
}

// MarkOf is the inverse of Pack.
func MarkOf(rank uint64) Mark {
	m := Mark{Control: rank&controlBit != 0, First: rank&firstBit != 0, Flowlet: uint16(rank >> flowletShift & MaxFlowlet),
		Ret: min(uint8(rank>>retShift&0x1f), MaxRet)}
	m.Value = uint32(rank>>priorityShift)<<m.Ret | uint32(rank)&lowMask&(1<<m.Ret-1)
	return m
}

// Priority returns the boosted priority value of a packed mark: Value / 2^Ret, rounded down (§6.2). Queues of Vertigo
// order by it, FIFO among equals.
func Priority(rank uint64) uint32 { return uint32(rank >> priorityShift) }

// How hosts mark (§6.1), as the models read it:
//
//   - A flow is sender, receiver, protocol and number. A packet is known by its number in the flow (Number of taps),
//     which a retransmission has again.
//   - A message ends where Rank of the transport (remaining) says. If that end changes, another message begins: First,
//     the next Flowlet, and Ret of the flow is 0.
//   - A packet not seen before takes Ret of the flow. One that was seen has the mark that it had, with Ret one more; if
//     the flow has sent nothing for longer than Gap, Ret of the flow grows by one, too.
//   - LAS: Value is the payload of the flowlet that was sent before; a gap of more than Gap begins the next flowlet.
//     Ret is 0, and a retransmission has the mark that it had.

// Names of reasons of drops, besides the fabric's "tail" (the queue has no room) and "ttl".
const (
	ReasonNoPort  = "no-deflection-port" // §2: pick returned NONE
	ReasonEvicted = "evicted"            // §3.4: the largest priority value of a queue that is over Q
)
