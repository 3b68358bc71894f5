package tcp

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// ECN is what the analyzer must know of explicit congestion notification. The zero value: the hosts don't use it.
type ECN struct {
	On bool
	// DCTCP: the receiver echoes and the sender reacts by RFC 8257, not by RFC 3168.
	DCTCP bool
	Gain  float64 // g
	Alpha float64 // α at the start
	// Everything may carry ECT, also retransmissions and packets without payload.
	Everything bool
	// Immediate: packets leave their NIC when their host decides to send them, so the trace has the sender's own order.
	// α and the least window can only be recomputed then.
	Immediate bool
	// Written returns how many bytes are written to a stream at its start; 0: not known. What a sender leaves unsent can
	// only be judged if it is known to have more.
	Written func(src, dst, connection uint32) int64
}

// mark is a state of a receiver: after which arrival its acknowledgements carry ECE.
type mark struct {
	at   clock.Time // of the arrival
	have int64      // in order, after it
	echo bool
}

// ecnReceiver is what a receiver has to echo.
type ecnReceiver struct {
	// states from the latest acknowledgement's on, oldest first. Empty: nothing has arrived.
	states []mark
}

// ecnSender is what a sender may know of marks, and what it has to do.
type ecnSender struct {
	over    int64      // where the reduction for a mark ends at the earliest
	recover int64      // and at the latest
	turned  clock.Time // when it began
	mayCWR  int        // how often the window may have been reduced since CWR was sent last
	mayBy   clock.Time // when it may have been last
	spare   int64      // below it, one more reduction may come
	owesCWR bool       // it was reduced for a mark for certain
	owesBy  clock.Time // when
	byMark  bool       // the latest reduction was for a mark

	// DCTCP (RFC 8257, 3.3)
	alpha         float64
	acked, marked int64 // bytes
	windowEnd     int64

	floor  float64    // the congestion window is at least so many bytes
	heard  clock.Time // when something arrived last
	unsure bool       // the reaction to a mark could not be judged
}

// lazySlack is how many segments less than its least window a sender may have in flight: the window is a number of
// whole segments, and limited transmit (RFC 3042) shows up to two segments more than the window.
const lazySlack = 4

// marks takes the marks of a segment that has reached its receiver, before the segment itself: what is not in the
// receiver's window says nothing (RFC 3168, 6.1.5).
func (a *Analyzer) marks(s *stream, o *Observation, before int64, input uint8) {
	if !a.cfg.ECN.On {
		return
	}
	e := &s.echoed
	latest := mark{}
	if n := len(e.states); n > 0 {
		latest = e.states[n-1]
	} else {
		e.states = append(e.states, latest)
	}
	if input == rxOld && s.place(o.Seq, before, &a.cfg)+int64(o.Payload) <= before {
		return
	}
	switch ce := o.ECN == packet.CE; {
	case a.cfg.ECN.DCTCP:
		latest.echo = ce
	default:
		latest.echo = ce || latest.echo && !o.CWR
	}
	latest.at, latest.have = a.now, s.have
	e.states = append(e.states, latest)
}

// echoes judges the ECN-Echo of an acknowledgement: some state that the receiver may have been in when it decided to
// send it must explain it.
func (a *Analyzer) echoes(s *stream, o *Observation) {
	e := &s.echoed
	if len(e.states) == 0 {
		if o.ECE {
			a.blame(causeEchoUnfounded(a.rx(s), 0), s, o.Number, "no ECE: nothing has arrived",
				"the receiver echoed a mark before anything had arrived")
		}
		return
	}
	ack := s.place(o.Ack, s.have, &a.cfg)
	from := a.earliest(s)
	found, known := -1, false
	for i := len(e.states) - 1; i >= 0; i-- {
		m := &e.states[i]
		if m.have != ack || i+1 < len(e.states) && e.states[i+1].at < from {
			continue
		}
		known = true
		if m.echo != o.ECE || a.cfg.ECN.DCTCP && !e.alike(i, o.ECE) {
			continue
		}
		found = i
		if a.cfg.ECN.DCTCP { // the latest leaves the least to be echoed
			break
		}
	}
	switch {
	case found >= 0:
		e.states = e.states[found:]
	case !known: // acknowledged in part, or falsely
	case o.ECE:
		a.blame(causeEchoUnfounded(a.rx(s), ack), s, o.Number,
			fmt.Sprintf("no ECE in the acknowledgement of byte %d: %s", ack, a.noMark()),
			fmt.Sprintf("the receiver acknowledged byte %d with ECE", ack))
		a.forget(s, ack)
	default:
		a.blame(causeEchoMissing(a.rx(s), ack), s, o.Number,
			fmt.Sprintf("ECE in the acknowledgement of byte %d: %s", ack, a.aMark()),
			fmt.Sprintf("the receiver acknowledged byte %d without ECE", ack))
		a.forget(s, ack)
	}
}

// earliest returns from when on a receiver's state may explain what leaves it now.
func (a *Analyzer) earliest(s *stream) clock.Time { return a.decided(s.key.dst) }

// alike reports whether all that arrived after the first state, up to state i, has one mark (RFC 8257, 3.2): a change
// of CE is acknowledged at once.
func (e *ecnReceiver) alike(i int, echo bool) bool {
	for _, m := range e.states[1 : i+1] {
		if m.echo != echo {
			return false
		}
	}
	return true
}

// forget goes on after a violation from the latest state that an acknowledgement can be of.
func (a *Analyzer) forget(s *stream, ack int64) {
	e := &s.echoed
	for i := len(e.states) - 1; i > 0; i-- {
		if e.states[i].have == ack {
			e.states = e.states[i:]
			return
		}
	}
}

func (a *Analyzer) noMark() string {
	if a.cfg.ECN.DCTCP {
		return "segments without CE are among those that it acknowledges"
	}
	return "no CE has arrived since CWR"
}

func (a *Analyzer) aMark() string {
	if a.cfg.ECN.DCTCP {
		return "segments with CE are among those that it acknowledges"
	}
	return "CE has arrived, and no CWR since"
}

// labels judges the codepoint and CWR of a packet that leaves a host. fresh: it has new data.
func (a *Analyzer) labels(s *stream, o *Observation, fresh bool) {
	c, e := &a.cfg.ECN, &s.marked
	switch {
	case o.ECN == packet.NotECT:
	case c.On && a.cfg.Handshake && !s.greeting.ecn.agreed:
		a.blame(causeECTUnnegotiated(a.tx(s)), s, o.Number, "Not-ECT: the handshake has not negotiated ECN",
			fmt.Sprintf("the sender sent a packet with ECN codepoint %d; the handshake has not negotiated ECN", o.ECN))
	case c.On && (c.Everything || fresh):
	case !c.On:
		a.blame(causeECT(a.tx(s)), s, o.Number, "Not-ECT: the hosts don't use ECN",
			fmt.Sprintf("the sender sent a packet with ECN codepoint %d", o.ECN))
	case o.Payload > 0:
		a.blame(causeECTRetransmission(a.tx(s), s.place(o.Seq, s.next, &a.cfg)), s, o.Number,
			"Not-ECT on retransmissions", fmt.Sprintf("the sender retransmitted byte %d with ECN codepoint %d",
				s.place(o.Seq, s.next, &a.cfg), o.ECN))
	default:
		w := a.tx(s)
		w.host.Role = "Receiver"
		a.blame(causeECTACK(w), s, o.Number, "Not-ECT on packets without data",
			fmt.Sprintf("the sender sent a packet without data with ECN codepoint %d", o.ECN))
	}
	if !c.On {
		return
	}
	switch {
	case o.CWR && fresh && e.mayCWR == 0 && s.una < e.spare:
		e.spare = 0
	case o.CWR && (!fresh || e.mayCWR == 0):
		a.blame(causeCWRUnfounded(a.tx(s)), s, o.Number, "CWR on the first new segment after a reduction only",
			"the sender said that it had reduced its window; no mark or loss came since it said so last")
	case fresh && e.owesCWR && !o.CWR && a.follows(s, e.owesBy):
		a.blame(causeCWRMissing(a.tx(s)), s, o.Number,
			"CWR on the first new segment after a mark", "the sender sent new data without CWR after a mark")
		e.owesCWR = false
	}
	if o.CWR {
		e.mayCWR, e.owesCWR = max(0, e.mayCWR-1), false
		if a.follows(s, e.mayBy) {
			e.mayCWR = 0
		}
	}
	if fresh && !a.follows(s, e.turned) { // decided before the mark came, perhaps
		e.recover = max(e.recover, s.place(o.Seq, s.next, &a.cfg)+int64(o.Payload))
	}
}

// follows reports whether a sender certainly decided after an event to send what leaves it now.
func (a *Analyzer) follows(s *stream, event clock.Time) bool {
	return a.cfg.ECN.Immediate || a.decided(s.key.src) > event
}

// learnsMarks handles the ECN-Echo that reaches a sender, with so many newly acknowledged bytes.
func (a *Analyzer) learnsMarks(s *stream, o *Observation, bytes int64) {
	c, e := &a.cfg.ECN, &s.marked
	if !c.On {
		return
	}
	if c.DCTCP {
		a.estimate(s, o.ECE, bytes)
	}
	if !o.ECE {
		return
	}
	e.unsure = e.unsure || !c.Immediate
	if s.una >= e.over && s.una >= s.over {
		e.mayCWR, e.mayBy = e.mayCWR+1, a.now
		e.floor *= a.leaves(s)
	}
	if s.una < e.recover || s.una < s.recover || a.hides(s, e.recover, e.turned) ||
		a.hides(s, s.recover, s.turned) { // it may have been reduced in this window
		if s.una >= e.over {
			e.turned, e.recover = a.now, s.next
		}
		return
	}
	e.over, e.recover, e.turned, e.byMark = s.next, s.next, a.now, true
	e.owesCWR, e.owesBy = true, a.now
	to := max(leastThreshold*float64(a.cfg.MSS), s.size*a.leaves(s))
	if c.DCTCP && !c.Immediate { // α is not known
		to = s.size
	}
	s.threshold = to
	a.shrink(s, to)
}

// hides reports whether the window of a reduction may end later than it seems: nothing after it was seen to leave, and
// segments that were decided before may be on their way to the NIC.
func (a *Analyzer) hides(s *stream, end int64, began clock.Time) bool {
	return s.next == end && !a.follows(s, began)
}

// leaves returns what a mark leaves of a window.
func (a *Analyzer) leaves(s *stream) float64 {
	switch c := &a.cfg.ECN; {
	case !c.DCTCP:
		return a.cfg.Beta
	case !c.Immediate:
		return reno // at worst
	}
	return 1 - s.marked.alpha/2
}

// estimate recomputes DCTCP's α from the trace.
func (a *Analyzer) estimate(s *stream, echo bool, bytes int64) {
	e := &s.marked
	e.acked += bytes
	if echo {
		e.marked += bytes
	}
	if s.una <= e.windowEnd {
		return
	}
	e.alpha += a.cfg.ECN.Gain * (float64(e.marked)/float64(max(e.acked, 1)) - e.alpha)
	e.acked, e.marked, e.windowEnd = 0, 0, s.next
}

// withholds judges, before something else reaches a sender, what it has left unsent since the last time: a sender with
// more to send fills its window.
func (a *Analyzer) withholds(s *stream) {
	c, e := &a.cfg.ECN, &s.marked
	heard := e.heard
	e.heard = a.now
	a.swiftWithholds(s, heard)
	if !c.On || !c.Immediate || c.Written == nil || e.floor == 0 {
		return
	}
	mss := int64(a.cfg.MSS)
	switch {
	case !a.mustFill(s, heard):
	case s.limit-s.next < mss || c.Written(s.key.src, s.key.dst, s.key.connection)-s.next < mss:
	case float64(s.flight+lazySlack*mss) < e.floor:
		a.blame(causeOverreaction(a.tx(s), s.flight, e.floor), s, 0,
			fmt.Sprintf("at least %.0f bytes in flight: what the marks leave of the congestion window", e.floor),
			fmt.Sprintf("%d bytes are in flight, and there is more to send; the congestion window is at least %.0f bytes",
				s.flight, e.floor))
		e.floor = float64(s.flight)
	}
}

// mustFill reports whether a sender that something reached last at an instant has had the time to fill its window, and
// its pipe is certain.
func (a *Analyzer) mustFill(s *stream, heard clock.Time) bool {
	if s.top > s.una || s.unsure > 0 || s.state == txRecovery || s.state >= txLoss {
		return false
	}
	n := a.nics[s.key.src]
	return n != nil && n.silenced < n.at && n.at.Add(n.took) < a.now && heard < a.now
}

// proves takes what is in flight after a new segment was sent as proof of the congestion window, without what duplicate
// ACKs add to it (RFC 3042; RFC 6582, 3.2, step 2). It proves no more than the greatest window: a sender may know that
// some of it is lost.
func (s *stream) proves() {
	s.marked.floor = max(s.marked.floor, min(float64(s.flight)-s.dups.extra, s.size))
}

// deflates handles the end of a recovery of RFC 6582, or what may be one: the window is then at least a segment more
// than what is in flight (3.2, step 3, option 1).
func (a *Analyzer) deflates(s *stream) {
	s.marked.floor = min(s.marked.floor, float64(s.flight+int64(a.cfg.MSS)))
}

// losesProof handles what may have reduced the window to an unknown size.
func (a *Analyzer) losesProof(s *stream) {
	e := &s.marked
	e.floor, e.mayCWR, e.mayBy, e.byMark = 0, e.mayCWR+1, a.now, false
}

// reducedByMark reports whether a sender need not reduce its window for a loss, because it may have done so for a mark
// in the same window (RFC 3168, 6.1.2). DCTCP has to (RFC 8257, 3.5).
func (a *Analyzer) reducedByMark(s *stream) bool {
	return a.cfg.ECN.On && !a.cfg.ECN.DCTCP && s.una < s.marked.recover
}

// unjudgedMarks notes the reactions that could not be judged.
func (a *Analyzer) unjudgedMarks() {
	for _, s := range a.order {
		if s.marked.unsure {
			a.blame(causeMarksUnjudged(a.tx(s)), s, 0, "packets that leave when their host decides to send them",
				"what the sender's marks leave of its window is judged in part: its packets may have waited, so the order of its "+
					"decisions is not known")
		}
	}
}

// causeExcess returns why too much is in flight.
func (a *Analyzer) causeExcess(s *stream, most float64) cause.Cause {
	if s.marked.byMark {
		return causeMarkIgnored(a.tx(s), s.flight, most)
	}
	return causeWindow(a.tx(s), s.flight, most)
}

// precedesGap reports whether the latest acknowledgement is of what arrived before the gap: DCTCP acknowledges that
// when the mark of the segment after the gap differs.
func (a *Analyzer) precedesGap(s *stream) bool {
	return a.cfg.ECN.DCTCP && len(s.echoed.states) > 0 && s.echoed.states[0].at < s.gap
}
