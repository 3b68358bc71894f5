// Package counters compares the NICs' counters with the trace. If the trace shows exactly how often something happened,
// the counter must be equal; if the observer at the switch cannot know (a timeout that crossed a NAK, a NAK that came
// too late to matter), the counter must be within what is possible.
package counters

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Name is the analyzer's name in configurations, metrics and rule ids.
const Name = "counters"

// interval is what a counter may be: from least to most.
type interval struct {
	least, most int64
}

func (v *interval) exact(n int64) { v.least, v.most = v.least+n, v.most+n }
func (v *interval) maybe(n int64) { v.most += n }

// String prints the interval in words.
func (v interval) String() string {
	if v.least == v.most {
		return fmt.Sprint(v.least)
	}
	return fmt.Sprintf("%d to %d", v.least, v.most)
}

// duplicates are requests received again on one flow: those that were served, and those that wait for a sign that the
// responder still serves.
type duplicates struct {
	served, waiting int64
	unsure          bool
}

// serve handles any answer. If an RNR NAK crossed a repetition, the answer may be to the first execution of what looked
// like duplicates.
func (d *duplicates) serve(unsure bool) {
	d.served += d.waiting
	d.waiting = 0
	d.unsure = d.unsure || unsure
}

// ends are the hosts of a flow, indices of Input.Hosts; len(Hosts) is an unknown host.
type ends struct {
	from, to int
}

// defaultFloorNS is half the shortest timeout assumed if the input does not give it: 65 us, exponent 4. Half, because
// the path from the host to the observer may have become faster since the timer started.
const defaultFloorNS = 32_768

// Analyzer compares counters with a trace.
type Analyzer struct {
	meta       trace.Meta
	input      Input
	tracker    *rounds.Tracker
	general    bool // without the fast path, for tests
	flows      []ends
	expected   [][numCounters]interval // by host; the last one takes what belongs to no host
	duplicates []duplicates            // by flow
	stalled    []bool                  // by flow: nothing new was acknowledged since the latest timeout
	floorNS    int64                   // a restart sooner after the timer's start is not a timeout

	strays int64 // packets of no known connection, sent and received by unknown hosts
	moved  int64 // packets whose order or number of arrivals the injector changed
}

// New returns an analyzer for one trace and the counters of the same test.
func New(meta trace.Meta, input Input) *Analyzer {
	a := &Analyzer{
		meta: meta, input: input, tracker: rounds.New(meta),
		expected: make([][numCounters]interval, len(input.Hosts)+1),
	}
	hosts := map[netip.Addr]int{}
	for i := range input.Hosts {
		for _, ip := range input.Hosts[i].IPs {
			hosts[ip.Unmap()] = i
		}
	}
	a.floorNS = defaultFloorNS
	if input.TimeoutNS > 0 {
		a.floorNS = input.TimeoutNS / 2
	}
	host := func(ip netip.Addr) int {
		if i, ok := hosts[ip]; ok {
			return i
		}
		return len(input.Hosts)
	}
	for _, c := range meta.Connections.All() {
		requester, responder := host(c.Requester.IP), host(c.Responder.IP)
		a.flows = append(a.flows, ends{requester, responder}, ends{responder, requester})
	}
	a.duplicates = make([]duplicates, len(a.flows))
	a.stalled = make([]bool, len(a.flows))
	return a
}

// Name returns "counters".
func (a *Analyzer) Name() string { return Name }

// Share implements analyzers.Follower.
func (a *Analyzer) Share(t *rounds.Tracker) { a.tracker = t }

// Packet observes one record.
func (a *Analyzer) Packet(r *trace.Record) { a.Follow(r, a.tracker.Packet(r)) }

// Follow implements analyzers.Follower.
func (a *Analyzer) Follow(r *trace.Record, step *rounds.Step) {
	if r.Flow < 0 || int(r.Flow) >= len(a.flows) {
		a.strays++
		return
	}
	at := a.flows[r.Flow]
	from, to := &a.expected[at.from], &a.expected[at.to]
	if step != nil && !a.general && plain(r, step) {
		from[TxPackets].exact(1)
		to[RxPackets].exact(1)
		return
	}
	a.traffic(r, from, to)
	if step != nil {
		a.stateful(r, step, from, to)
	}
}

// plain reports whether r counts only as a packet sent and received: a request in order without an event.
func plain(r *trace.Record, step *rounds.Step) bool {
	return step.Marks == 0 && r.Event == trace.EventNone && r.Flags&(trace.Sent|trace.Passed) == trace.Sent|trace.Passed &&
		r.ICRC != packet.ICRCInvalid && r.ECN != packet.CE && r.Opcode.IsRequest()
}

// stateful counts what depends on earlier packets.
func (a *Analyzer) stateful(r *trace.Record, step *rounds.Step, from, to *[numCounters]interval) {
	if r.Opcode.IsRequest() {
		if step.Marks != 0 {
			a.request(r, step, from, to)
		}
		return
	}
	if r.Has(trace.Sent) {
		// A responder that still answers has served the duplicates before.
		a.duplicates[step.Flow].serve(step.Is(rounds.Unsure))
	}
	if step.Marks&(rounds.GapOpened|rounds.TrimmedNext|rounds.TrimmedAhead) != 0 {
		to[ImpliedNak].maybe(1)
	}
	if step.Is(rounds.Progress) && (r.Opcode != packet.Acknowledge || r.Syndrome.IsAck()) {
		a.stalled[step.Flow] = false
	}
	if step.Is(rounds.Progress) && step.QuietNS >= a.floorNS {
		to[LocalAckTimeout].maybe(1) // it may have come just too late to prevent a retransmission, or in time to cancel it
	}
	if r.Opcode == packet.Acknowledge && !r.Syndrome.IsAck() {
		negative(r, step, from, to)
	}
}

// traffic counts what needs no state.
func (a *Analyzer) traffic(r *trace.Record, from, to *[numCounters]interval) {
	sent := r.Has(trace.Sent)
	if sent {
		from[TxPackets].exact(1)
	}
	if r.Event.Departs() { // what else happens here happens to one packet in its place
		a.moved++
	}
	if r.Has(trace.Passed) && r.Event.Arrives() {
		to[RxPackets].exact(1)
		if r.Event.Damages() || r.ICRC == packet.ICRCInvalid {
			to[ICRC].exact(1)
		} else if r.Lost() {
			to[ICRC].maybe(1)
		}
	}
	delivered := r.Delivered()
	if r.Opcode == packet.CNP {
		if sent {
			from[CNPSent].exact(1)
		}
		if delivered {
			to[CNPHandled].exact(1)
		}
	}
	if delivered && r.Marked() {
		if to[ECNMarked].maybe(1); r.Opcode.IsData() {
			to[ECNMarked].least++
		}
	}
}

// request counts retransmissions: from is the requester, to the responder.
func (a *Analyzer) request(r *trace.Record, step *rounds.Step, from, to *[numCounters]interval) {
	if step.Is(rounds.Restart) {
		a.restart(r, step, from)
	}
	if step.Is(rounds.Duplicate) {
		// A NIC may count messages or packets.
		if to[DuplicateRequest].maybe(1); r.Opcode.Starts() {
			a.duplicates[step.Flow].waiting++
		}
	} else if step.Is(rounds.Unsure) {
		to[DuplicateRequest].maybe(1)
	}
	if step.Is(rounds.GapOpened) {
		to[OutOfSequence].maybe(1)
	}
}

// restart counts causes. If the timer may have expired just before another cause arrived, either may have been counted.
func (a *Analyzer) restart(r *trace.Record, step *rounds.Step, from *[numCounters]interval) {
	sure := int64(1)
	if step.QuietNS >= a.floorNS || step.Carried { // or a NAK from before the latest progress, which was counted then
		sure = 0
	}
	switch step.Cause {
	case rounds.Timeout:
		a.stalled[step.Flow] = true
		if from[LocalAckTimeout].maybe(1); step.Certain && step.DoubtNS < a.floorNS {
			from[LocalAckTimeout].least++
		} else if r.Opcode.Verb() == packet.VerbRead || r.Opcode.Verb() == packet.VerbAtomic {
			from[ImpliedNak].maybe(1)
		}
		return
	case rounds.Nack:
		from[PacketSeqErr].least += sure
	case rounds.RNR:
		from[RNRReceived].least += sure
	case rounds.Implied:
		if step.Is(rounds.ByTrim) {
			sure = 0 // a NIC may count it elsewhere
		}
		from[ImpliedNak].least += sure
	case rounds.None:
	}
	from[LocalAckTimeout].maybe(1 - sure)
}

// negative counts NAKs from a responder to a requester.
func negative(r *trace.Record, step *rounds.Step, from, to *[numCounters]interval) {
	sent, delivered := r.Has(trace.Sent), r.Delivered()
	switch {
	case r.Syndrome == packet.SyndromeNakSequence:
		if step.Is(rounds.AnswersGap) {
			from[OutOfSequence].least++
		} else if sent {
			from[OutOfSequence].maybe(1)
		}
		if delivered {
			to[PacketSeqErr].maybe(1)
		}
	case r.Syndrome.IsRNR():
		if sent {
			from[RNRSent].exact(1)
		}
		if delivered {
			to[RNRReceived].maybe(1)
		}
	}
}
