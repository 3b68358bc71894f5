package deflect

// Kinds of decisions, in this order. About each packet for which a route was found a switch records, in the order in
// which it happens:
//
//	Route      if Forwarding is PowerOfTwo and there are several equal paths
//	Tested     the destination port; not of Vertigo and ECMP
//	Pick       if it is to be deflected, after Tested of the candidates (PD)
//	one of Queued, Deflected, NoPort and Tail
//
// With Vertigo, if the destination port is full: Extracted of each victim, Queued of the packet, then Pick of each
// victim, Displaced of what it displaces, and Deflected (or Displaced, if it is itself dropped). The packet is the
// victim itself if not enough packets are less important; it is not extracted then.
//
// Occupancy of a record is what waits in the queue of the record in truth, without the packet of the record.
const (
	Route     = iota // no outcome; Port: the destination port
	Tested           // no outcome; Port: the port that was tested
	Pick             // no outcome; Port: the port that was picked, else the destination port
	Extracted        // no outcome; Port: where it waited
	Queued           // outcome queued; Port: the destination port
	Deflected        // outcome queued; Port: the port that it was deflected to
	NoPort           // outcome dropped, reason no-deflection-port; Port: the destination port
	Tail             // outcome dropped, reason tail; Port: the port where the queue refused it
	Displaced        // outcome dropped, reason evicted; Port: the port at whose queue that happened
	// Made: no outcome; the switch has made the packet, an SRC of Bolt. No pipeline decides about it: it goes to the port
	// of its route, Port, and Queued or Tail follows.
	Made
)

// Values of Made.
const (
	MadeFor  = iota // the packet that it answers
	MadeFrom        // its sender, as it says
	MadeTo
	MadeIngress // the port by which the packet that it answers has come in, which says the pipe
)

// Values of Route.
const (
	RouteFirst      = iota // ports that were drawn, in this order
	RouteSecond            //
	RouteSeenFirst         // bytes, as the ingress sees them
	RouteSeenSecond        //
	RoutePaths             // how many equal paths there are
)

// Causes of Route.
const (
	RouteShorter = 1 + iota
	RouteTie     // both are equal; a bit that is drawn decides
)

// Values of Tested. R is TestNumerator / TestDenominator; both are 0 if R is not evaluated (TestFull, and schemes other
// than PD).
const (
	TestSeen        = iota // occ in bytes, as the ingress sees it
	TestPriority           // priority value; of DistEWMA divided by Unit, unless the port is full
	TestNumerator          // Quantile: k. Oracle: packets with smaller values. Dist…: R in billionths, rounded to nearest
	TestDenominator        // Quantile: W or f, at least 1. Oracle: packets that wait, at least 1. Dist…: 10^9
	TestDraw               // Probabilistic: U, 53 bits; −1: none drawn
	TestSampled            // 1: the packet enters the window
	TestState              // Quantile: WindowHash before that. DistExact: sum of the values that wait. DistEWMA: M as seen
	TestCount              // Quantile: f before that. DistExact, Oracle: packets that wait. SD: the bit
)

// Causes of Tested.
const (
	TestRoom = 1 + iota // room: the port takes the packet
	TestFull            // full, as the ingress sees it: occ + len ≥ Q (SD: its bit is 1)
	TestOver            // PD: not full, but over the threshold, or the draw was against it
)

// Values of Pick.
const (
	PickEgress   = iota // the destination port; of a victim that was pulled out, the port where it waited
	PickEligible        // n: how many ports are eligible
	// PickDraw: SD: r, a position in the list of eligible ports, from 0 (if Inclusive, n is 0, too). DIBS: how many ports
	// were drawn. PD, Vertigo: how many candidates. Naive: the position of the port.
	PickDraw
	PickFirst  // PD, Vertigo: the first candidate port; else −1
	PickSecond // the second one; −1: there is none. If Choices is larger, the records Tested have the others
	// PickBits: bit i says that the eligible port at position i is full as the ingress sees it (SD: its bit), i < 63.
	PickBits
	PickSeen // bytes at the picked port, as the ingress sees them; −1: none was picked
	// PickAvoidable: if none was picked, how many eligible ports are not full as the ingress sees them (DEF-17).
	PickAvoidable
)

// Causes of Pick.
const (
	PickChosen = 1 + iota
	PickTie    // PD, Vertigo: candidates with the shortest queue are equal, and a draw decides
	PickNone
)

// Values of Queued, Deflected, NoPort, Tail, Extracted and Displaced.
const (
	FateEgress      = iota // the destination port, as of Pick; of Displaced that of the packet that came in
	FateIngress            // the port by which the packet has come in
	FateDeflections        // of the packet so far, here included, on all switches
	FateTTL                // after this switch has decremented it
	FatePriority           // priority value
	FateStale              // of Tail: 1: the ingress saw room
)

// CauseNone is the cause of records that have none.
const CauseNone = 0

// WindowHash returns what Tested says of a window: FNV-1a, 64 bits, over the priority values from the oldest on, each
// as eight bytes, the lowest first; as a signed number.
func WindowHash(oldestFirst func(yield func(uint64) bool)) int64 {
	h := uint64(14695981039346656037)
	for v := range oldestFirst {
		for range 8 {
			h = (h ^ v&0xff) * 1099511628211
			v >>= 8
		}
	}
	return int64(h)
}

// The tests of PD, in integers. Numerator/Denominator is R, alpha is in millionths.
//
//   - Eq. 1 (§3.5): over if (Q − occ) · 10^6 · Denominator < Q · alpha · Numerator; if EqualDeflects, also at equality.
//   - §3.8: occ ≤ MinThreshold has room, without a draw. Otherwise U is drawn, and the packet is over if
//     U · Denominator · (Q − MinThreshold) < 2^53 · Numerator · (occ − MinThreshold).
//   - DistEWMA (§3.7): over if floor(Q · alpha · Numerator / (10^6 · 10^9)) ≥ Q − occ: equality deflects. With
//     Probabilistic, as §3.8.
//   - R of Dist… is 1 − exp(−x/M), in billionths; 0 if x = 0 or the port has no packets (DistExact), 1 if M = 0 < x.
//   - DistEWMA takes the mid-point of a bin for x and M: 0 for at most 2; 3, 6, 12, 24, 48 for up to 4, 8, 16, 32, 64;
//     48 above. A packet that is queued at a port carries M' = floor(((Divisor − 1) M + x) / Divisor), of M as it was
//     seen at that port, to the egress register, which it writes as it leaves. Exact reads the register as it is.
//   - A full port is TestFull: R is not evaluated, and the window does not advance. Every other test of a port
// evaluates     R and advances, candidates included: one test of each per packet. If the destination port is drawn as a
//     candidate, it is not tested again: it has refused the packet.
//   - SampleQueued: S counts packets that are queued at the port, destination or deflected, and samples the first,
//     (S+1)th, …; TestSampled then is 0, and FatePriority enters the window.

// DistBin returns the mid-point of the bin of a value (§3.7).
func DistBin(v uint64) uint64 {
	if v <= 2 {
		return 0
	}
	mid := uint64(3)
	for top := uint64(4); v > top && mid < 48; top *= 2 {
		mid *= 2
	}
	return mid
}

// Rules of the judge, by the properties of §9. Seeded bugs name them.
const (
	RuleRoom         = "deflect.room"         // DEF-1: DIBS and SD drop only if all eligible ports are full
	RuleTarget       = "deflect.target"       // DEF-2: deflection goes to an eligible port with room
	RuleNeedless     = "deflect.needless"     // DEF-3: nothing is deflected if the destination port has room
	RuleVerdict      = "deflect.verdict"      // DEF-4: PD's verdict is that of Eq. 1, or §3.8
	RuleImportant    = "deflect.important"    // DEF-5: R = 0 is deflected on full alone
	RuleMonotone     = "deflect.monotone"     // DEF-6: less important packets fare no better
	RuleChoice       = "deflect.choice"       // DEF-7: ports are chosen with the right probabilities
	RulePath         = "deflect.path"         // DEF-8: TTL, visits, length of the path
	RuleConservation = "deflect.conservation" // DEF-9: each packet ends once
	RuleOrder        = "deflect.order"        // DEF-10: FIFO, or PIFO
	RuleVictim       = "deflect.victim"       // DEF-11: Vertigo's victims are the largest, and larger
	RuleShim         = "deflect.shim"         // DEF-12: held for at most ω, nothing lost
	RuleMark         = "deflect.mark"         // DEF-13: marks of hosts
	RuleWindow       = "deflect.window"       // DEF-14: what the window holds
	RuleFloor        = "deflect.floor"        // DEF-15: no query is faster than the link
	RuleStale        = "deflect.stale"        // DEF-16: what the ingress sees is as old as it may be, or newer
	RuleDropped      = "deflect.dropped"      // DEF-17: PD drops only if all candidates refuse
	RuleRecord       = "deflect.record"       // records agree with each other and with the taps
	RuleForwarding   = "deflect.forwarding"   // §2.1: PowerOfTwo takes the shorter of two drawn
	RuleTTL          = "deflect.ttl"          // §7: TTL drops, a warning
	RuleCounters     = "deflect.counters"     // counters agree with records and taps
)

// Counters are those of one switch since it started.
type Counters struct{ Ports []PortCounters }

// PortCounters are those of a port.
type PortCounters struct {
	Arrived      uint64 // packets for which it was the destination port
	From         uint64 // of these, deflected to another port
	To           uint64 // packets deflected to it
	NoPort       uint64 // packets for which it was the destination port, dropped for want of one to deflect to
	Tail         uint64 // refused by its queue
	Displaced    uint64 // dropped at its queue for a more important one
	Avoidable    uint64 // of NoPort: an eligible port was not full as the ingress saw it (DEF-17)
	Preemptive   uint64 // of From and NoPort: the port was not full as the ingress saw it
	Extracted    uint64 // pulled out of its queue
	Evaluations  uint64 // of R
	BouncedBack  uint64 // of To: packets that came by it
	SecondOrMore uint64 // of To: packets that had been deflected before, on any switch
}

// HostCounters are those of the shim of a host since the start.
type HostCounters struct {
	Marked        uint64 // data packets sent
	Retransmitted uint64 // of these, sent before
	Received      uint64 // data packets that arrived
	Reordered     uint64 // of these, out of order: with bytes before one that had arrived
	Held          uint64 // of Received, kept for some time
	Timeouts      uint64 // of timers that let held packets go
	Discarded     uint64 // duplicates of packets that are held (§6.3)
	Delivered     uint64 // data packets passed on, in whatever order
	Late          uint64 // of these, with bytes before one that had been passed on
	LongestHoldPS int64  // picoseconds
}
