package tcp

import (
	"fmt"
	"sort"

	"candela.dev/candela/clock"
)

// segment is a range of the stream as it was sent first.
type segment struct {
	span
	sent     clock.Time // last
	decided  clock.Time // and that, at the earliest
	ordinal  uint64     // of the last transmission
	times    int        // sent
	sacked   bool
	sackedAt clock.Time // when it was SACKed first
	missed   bool       // it was taken for lost then
	lost     bool       // it may be taken for lost, and was not retransmitted since
	unsure   bool       // it is unknown whether it was
	flying   bool
}

// transmission is one that was a retransmission.
type transmission struct {
	start   int64
	ordinal uint64
}

// sender is what one end has sent and received, and the greatest window that the rules allow it.
type sender struct {
	state     uint8 // of senderMachine
	una, next int64
	segments  []segment // from una on
	limit     int64     // of the receiver's window; 0: not known yet
	lately    history   // what Config.Hold ago may not have been known

	ordinal       uint64 // transmissions
	delivered     uint64 // ordinal of the latest one that may be known to have arrived
	certain       uint64 // and of the latest one that is, whichever copy of a retransmitted segment arrived
	retransmitted []transmission
	top           int64  // end of the highest segment that was SACKed
	judged        int64  // everything below that is not SACKed may be taken for lost
	amnesty       int64  // everything below may be retransmitted once: a timeout may have come since it was sent
	pardon        uint64 // transmissions before that

	window
	swift   *swiftSender // nil: another congestion control
	over    int64        // where a recovery, or what follows a timeout, ends at the earliest
	recover int64        // and at the latest
	turned  clock.Time   // when one began last
	unsure  int          // segments of which it is unknown whether they were taken for lost
	entered uint64       // transmissions before a recovery
	rescued bool         // its one rescue is used up
	period  period
	force   bool // one retransmission may go whatever is on its way

	timer     clock.Time // when the retransmission timer was started last, at the latest
	armed     clock.Time // and at the earliest: the packet may have waited at its NIC
	began     clock.Time // the same of the first start since the latest new acknowledgement
	cleared   clock.Time // the latest new acknowledgement
	timeouts  int        // since then
	repeats   int        // retransmissions of the first segment since then
	doublings int        // of the timer, at most: retransmissions of first segments that a timeout may have caused
	doubled   uint64     // ordinal of the latest of them: a sample of a later transmission ends the backoff (RFC 6298, 5)
	unseen    bool       // one of those may have been caused by a timeout that was not recognised
	longest   clock.Duration
	stalled   bool // reported
	hidden    int  // timeouts whose interval is inconclusive
	samples
	dups duplicates
	gone bool // the host may have given the connection up

	initial  int64 // window in bytes
	answered bool  // something has arrived that answers data
	overrun  bool  // of the initial window, reported
}

// acked is what was acknowledged at an instant.
type acked struct {
	at  clock.Time
	una int64
}

// history is what was acknowledged over time, oldest first.
type history []acked

const dupThresh = 3 // RFC 6675

// sends judges a packet with data that leaves a host.
func (a *Analyzer) sends(s *stream, o *Observation) {
	start := s.place(o.Seq, s.next, &a.cfg)
	end := start + int64(o.Payload)
	a.overdue(s)
	s.waiting -= float64(o.Payload)
	a.paces(s, start >= s.next, o.Number)
	if s.limit > 0 && end > s.limit {
		a.breaks(s, txBeyondReceiver, causeBeyondReceiver(a.tx(s), end, s.limit), o.Number,
			fmt.Sprintf("no byte after %d, the end of the receiver's window", s.limit),
			fmt.Sprintf("the sender sent byte %d; the receiver's window ends at byte %d", end, s.limit))
	}
	switch {
	case start > s.next:
		a.breaks(s, txSkip, causeSkip(a.tx(s), start, s.next), o.Number, fmt.Sprintf("byte %d, the next one", s.next),
			fmt.Sprintf("the sender sent byte %d; byte %d is the next one", start, s.next))
		a.fresh(s, span{s.next, end})
	case start == s.next:
		a.opens(s, end, o.Number)
		a.owesPartial(s, true, o.Number)
		a.fresh(s, span{start, end})
		s.proves()
	case end <= s.una:
		if end <= a.knownUna(s) {
			a.breaks(s, txRetransmitAcked, causeAcknowledged(a.tx(s), span{start, end}), o.Number,
				fmt.Sprintf("no byte before %d, which is acknowledged", s.una),
				fmt.Sprintf("the sender retransmitted bytes %d to %d; all bytes before %d are acknowledged", start, end, s.una))
		}
		s.ordinal++
		a.overtakes(s)
		return
	default:
		a.resends(s, span{start, end}, o.Number)
		if s.force { // the first retransmission of a recovery (RFC 6675, 5, step 4.3)
			s.force = false
			return
		}
	}
	if most := a.room(s) + float64(a.cfg.MSS); float64(s.flight) > most {
		if s.swift != nil {
			a.swiftOverruns(s, most, o.Number)
			return
		}
		a.overruns(s, most, o.Number)
	}
}

// knownUna returns what a sender certainly knew to be acknowledged when it decided to send what leaves its NIC now.
func (a *Analyzer) knownUna(s *stream) int64 { return s.lately.by(a.known(s.key.src)) }

// by returns the latest value of an instant, 0 if there is none, and forgets those before it.
func (h *history) by(at clock.Time) int64 {
	n := 0
	for n < len(*h) && (*h)[n].at <= at {
		n++
	}
	if n == 0 {
		return 0
	}
	*h = (*h)[n-1:]
	return (*h)[0].una
}

// fresh books new data.
func (a *Analyzer) fresh(s *stream, r span) {
	a.sender.Step(&s.state, txNew)
	if s.una == s.next {
		// If the timer ran before for what is below, the latest acknowledgement has restarted it.
		s.timer, s.armed, s.timeouts, s.repeats, s.stalled = a.now, max(a.decided(s.key.src), s.cleared), 0, 0, false
		s.unseen, s.began = false, s.armed
	}
	if a.cfg.Hold > 0 && a.known(s.key.src) <= s.turned { // decided before, perhaps: it was outstanding then
		s.recover = max(s.recover, r.end)
		if s.state < txRecovery { // then its end was not the end, either
			a.sender.Step(&s.state, txMayLose)
		}
		if s.amnesty == r.start {
			s.amnesty, s.pardon = r.end, s.ordinal+1
		}
	}
	s.ordinal++
	s.segments = append(s.segments, segment{span: r, sent: a.now, decided: a.known(s.key.src), ordinal: s.ordinal,
		times: 1, flying: true})
	s.next = r.end
	s.flight += r.end - r.start
	if a.cfg.Detection == NewReno && a.cfg.Hold > 0 && r.start == s.una && a.known(s.key.src) <= s.turned {
		// A duplicate or a partial ACK since may have asked for it again.
		g := &s.segments[len(s.segments)-1]
		s.presumeLost(g)
		s.doubt(g)
	}
	a.restarts(s)
}

// resends judges a retransmission.
func (a *Analyzer) resends(s *stream, r span, number uint64) {
	i := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].end > r.start })
	for ; i < len(s.segments) && s.segments[i].start < r.end; i++ {
		g := &s.segments[i]
		expired := a.expired(s)
		a.justify(s, i, number)
		s.dups.owed = s.dups.owed && i > 0
		s.ordinal++
		a.rearm(s, i, expired)
		s.settle(g)
		g.sent, g.decided, g.ordinal, g.lost = a.now, a.known(s.key.src), s.ordinal, false
		if a.cfg.Hold > 0 && a.known(s.key.src) <= s.turned { // may have been decided before as well as after
			s.pardon = s.ordinal
		}
		g.times++
		if !g.flying && !g.sacked {
			g.flying = true
			s.flight += g.end - g.start
		}
		s.retransmitted = append(s.retransmitted, transmission{g.start, s.ordinal})
		if g.sacked && g.sackedAt > g.decided {
			a.overtakes(s)
		}
	}
	s.next = max(s.next, r.end)
	a.restarts(s)
}

// overtakes follows a retransmission that leaves after an acknowledgement of its segment: if it was decided before, the
// sender takes the acknowledgement for its own, which makes earlier retransmissions seem lost.
func (a *Analyzer) overtakes(s *stream) {
	if a.cfg.Hold > 0 && a.cfg.Detection != NewReno {
		s.delivered = s.ordinal
		a.detects(s)
	}
}

// restarts moves the latest start of the timer of a sender that restarts it with every transmission.
func (a *Analyzer) restarts(s *stream) {
	if a.cfg.RestartsOnSend {
		s.timer = a.now
	}
}

// rearm handles a retransmission, which moves the latest start of the timer. Whatever else explains a retransmission of
// the first segment, a timeout may have caused it if the timer may have expired; and a recovery may restart the timer
// at each retransmission (RFC 6675, 6).
func (a *Analyzer) rearm(s *stream, i int, expired bool) {
	if i > 0 && s.state == txLoss {
		return
	}
	s.timer, s.stalled = a.now, false
	if i > 0 {
		return
	}
	s.repeats++
	if expired {
		s.doublings, s.doubled = s.doublings+1+a.timersWithin(s, a.now.Sub(a.decided(s.key.src))), s.ordinal
	}
}

// justify looks for what lets a segment be retransmitted.
func (a *Analyzer) justify(s *stream, i int, number uint64) {
	g := &s.segments[i]
	expired := a.expired(s)
	switch {
	case g.sacked && g.end > s.amnesty && !expired:
		if g.sackedAt <= a.known(s.key.src) {
			a.breaks(s, txRetransmitSACKed, causeSACKed(a.tx(s), g.span), number, "no byte that is SACKed",
				fmt.Sprintf("the sender retransmitted bytes %d to %d, which are SACKed", g.start, g.end))
		}
		return
	case g.lost, g.missed && g.sackedAt > a.known(s.key.src):
		a.sender.Step(&s.state, txRetransmitLost)
	// of the first segment, by a timeout that was not recognised
	case g.end <= s.amnesty && g.ordinal <= s.pardon && (i > 0 || !expired):
		a.sender.Step(&s.state, txRetransmitAll)
		return
	case a.cfg.Detection == SACK && s.mayRescue(g) && (i > 0 || !expired || g.times == 1):
		a.rescue(s, g, number)
	// a timeout that was not seen, or one that came since
	case i == 0 && s.repeats == 0 && g.end <= s.amnesty && g.ordinal <= s.pardon:
		a.sender.Step(&s.state, txRetransmitAll)
	// or the host decided it before it knew of the latest acknowledgement
	case i == 0 && expired && s.una > 0 && a.known(s.key.src) < s.cleared:
	case i == 0:
		a.timeout(s, number)
		return
	case !expired:
		a.early(s, g, number)
	}
	if expired { // a timeout may have come
		a.doubt(s)
		s.unseen = s.unseen || i == 0
	}
}

// early reports a retransmission that nothing explains.
func (a *Analyzer) early(s *stream, g *segment, number uint64) {
	if a.cfg.NoFastRetransmit && s.signs(g) {
		a.fastAlthoughOff(s, g, number)
		return
	}
	a.breaks(s, txRetransmitEarly, causeEarly(a.tx(s), g), number, "three later segments SACKed before",
		a.retransmitted(g))
}

// retransmitted describes a retransmission that comes too early.
func (a *Analyzer) retransmitted(g *segment) string {
	return fmt.Sprintf("the sender retransmitted bytes %d to %d %s after it had sent them; nothing indicated their loss",
		g.start, g.end,
		a.now.Sub(g.sent).Text())
}

// mayRescue reports whether a recovery may retransmit a segment because a later one is SACKed and there is nothing
// better to send: each once (RFC 6675, NextSeg 3), and one of them a second time (4).
func (s *sender) mayRescue(g *segment) bool {
	return s.una < s.recover && s.top > g.end && (g.ordinal <= s.entered || !s.rescued)
}

func (a *Analyzer) rescue(s *stream, g *segment, number uint64) {
	if g.ordinal > s.entered {
		s.rescued = true
	}
	if rule := a.sender.Step(&s.state, txRetransmitRescue); rule != "" {
		a.blame(causeEarly(a.tx(s), g), s, number, "three later segments SACKed before, or a recovery", a.retransmitted(g))
	}
}

// timeout judges a retransmission of the first segment that only a timeout explains.
func (a *Analyzer) timeout(s *stream, number uint64) {
	g := &s.segments[0]
	single := a.leastTimer(s)
	waited, least := a.now.Sub(s.armed), single
	for range s.timeouts {
		least = min(2*least, a.ceiling())
	}
	what := fmt.Sprintf("the sender retransmitted bytes %d to %d after %s; its timer runs for at least %s", g.start, g.end,
		waited.Text(),
		least.Text())
	switch {
	case waited < single && (s.top > g.end || a.cfg.NoFastRetransmit && s.signs(g)):
		a.early(s, g, number)
		return
	case waited < single:
		a.breaks(s, txTimeoutEarly, causeTimeoutEarly(a.tx(s), g.span, waited, single), number,
			fmt.Sprintf("a timeout after at least %s", single.Text()), what)
	case waited < least:
		a.breaks(s, txNoBackoff, causeBackoff(a.tx(s), g.span, s.timeouts+1, waited, least), number,
			fmt.Sprintf("timeout %d in a row after at least %s", s.timeouts+1, least.Text()),
			what)
	default:
		a.sender.Step(&s.state, txTimeout)
		if a.now.Sub(s.timer) < least/4*3 {
			s.hidden++
		}
	}
	// However long the packet waited at its NIC, the timeout did not come earlier than allowed.
	s.armed = min(a.now, max(a.decided(s.key.src), s.armed.Add(least)))
	s.over, s.recover, s.entered, s.rescued = s.next, s.next, s.ordinal, false
	if a.cfg.Detection == PerPacket {
		s.turned = a.now
	}
	if a.swiftTimesOut(s, true); s.swift == nil {
		a.collapse(s)
	}
	a.losesProof(s)
	s.timeouts++
	s.dups = duplicates{}
	a.persists(s, s.timeouts, number)
	s.forgive(false)
}

// doubt handles the time at which an unseen timeout may have come.
func (a *Analyzer) doubt(s *stream) {
	a.sender.Step(&s.state, txMayExpire)
	a.losesProof(s)
	a.swiftTimesOut(s, false)
	s.turned = a.now
	s.forgive(true)
	s.recover = s.next
}

// forgive handles a timeout, or a possible one: nothing is certainly in flight, and everything may be retransmitted.
func (s *sender) forgive(unsure bool) {
	s.amnesty, s.pardon, s.flight = s.next, s.ordinal, 0
	for i := range s.segments {
		g := &s.segments[i]
		s.settle(g)
		if g.flying, g.lost = false, !g.sacked; g.lost && unsure {
			s.doubt(g)
		}
	}
}

// doubt counts a segment of which it is unknown whether it was taken for lost.
func (s *sender) doubt(g *segment) {
	if !g.unsure {
		g.unsure = true
		s.unsure++
	}
}

// settle ends that doubt.
func (s *sender) settle(g *segment) {
	if g.unsure {
		g.unsure = false
		s.unsure--
	}
}

// reduce handles a sign of loss that no sender may ignore. An earlier recovery has ended if una is past the latest
// place where it can end.
func (a *Analyzer) reduce(s *stream) {
	a.sender.Step(&s.state, txLosses)
	s.turned = a.now
	certain := s.una >= s.recover
	a.swiftLoses(s, certain)
	if certain {
		s.over = s.next
		if s.swift == nil && !a.reducedByMark(s) {
			a.halve(s)
			s.period.since = s.ordinal
		}
	}
	a.losesProof(s)
	s.recover, s.force, s.entered, s.rescued = s.next, true, s.ordinal, false
}

// wavers handles an acknowledgement after which a sender may, but need not, have started a recovery.
func (a *Analyzer) wavers(s *stream) {
	a.sender.Step(&s.state, txMayLose)
	a.losesProof(s)
	a.swiftLoses(s, false)
	s.turned = a.now
	if s.una >= s.recover {
		s.force, s.entered, s.rescued = true, s.ordinal, false
	}
	s.recover = s.next
}

// overdue reports a missing retransmission: the timer had certainly expired, and the NIC has served the connection
// since.
func (a *Analyzer) overdue(s *stream) {
	if s.una == s.next || s.stalled || a.gaveUp(s) {
		return
	}
	a.owesPartial(s, false, 0)
	most := a.longestTimer(s)
	waited := a.served(s.key.src).Sub(a.waiting(s.key.src, s.timer))
	if waited > most+slack+s.longest+a.cfg.Hold {
		s.stalled = true
		a.breaks(s, txNoTimeout, causeOverdue(a.tx(s), s.una, waited, most), 0,
			fmt.Sprintf("a retransmission of byte %d within %s, its timer", s.una, most.Text()),
			fmt.Sprintf("the sender did not retransmit byte %d for %s; its timer allows %s", s.una, waited.Text(), most.Text()))
	}
}

// learns handles what a host receives about its stream.
func (a *Analyzer) learns(s *stream, o *Observation) {
	ack := s.place(o.Ack, s.una, &a.cfg)
	if ack < 0 || ack > s.next {
		return // the receiver is at fault
	}
	a.overdue(s)
	a.withholds(s)
	s.taken++ // each arrival gives one, at most
	edge := ack + int64(o.Window)
	sameWindow := s.limit == 0 || edge == s.limit // a duplicate ACK has it (RFC 5681, 2)
	s.limit = max(s.limit, edge)
	s.answered = s.answered || ack > 0 || o.Payload == 0 && s.next > 0
	una, over := s.una, s.over
	advanced := ack > s.una
	if a.cfg.Timestamps {
		a.clocks(s, o)
	}
	s.period.delivered = 0
	if advanced {
		a.advance(s, ack)
	} else if s.next > 0 {
		a.sender.Step(&s.state, txAckOld)
	}
	if a.cfg.Detection == NewReno {
		a.steers(s, o)
		if !advanced && ack == s.una && o.Payload == 0 && sameWindow {
			a.takesDuplicate(s)
		}
	} else {
		if o.SACKStart != o.SACKEnd {
			a.sack(s, span{s.place(o.SACKStart, s.una, &a.cfg), s.place(o.SACKEnd, s.una, &a.cfg)})
		}
		a.steers(s, o)
		if n := s.period.delivered; a.cfg.Detection == PerPacket && s.swift == nil && n > 0 {
			a.grow(s, float64(n))
			s.peak = s.size
		}
		a.detects(s)
	}
	if una < over && over < s.over {
		// A loss was indicated as a recovery ended. A sender that found it before need not reduce its window now, but may
		// later, with the rest of what was lost.
		s.marked.spare = s.next
	}
	a.learnsMarks(s, o, s.una-una) // after losses: one reduction suffices for both
}

// detects looks for losses that an acknowledgement indicates.
func (a *Analyzer) detects(s *stream) {
	if a.cfg.NoFastRetransmit {
		return
	}
	lost := false
	s.period.lost = never
	if a.cfg.Detection == PerPacket {
		lost = s.presumePackets()
	} else {
		lost = s.presume()
	}
	maybe := s.retransmissions()
	switch {
	case a.cfg.Detection == PerPacket && s.una < s.over:
		a.reducesAgain(s, lost || maybe || s.unsure > 0)
	case s.una < s.over:
		if maybe { // the loss of a retransmission is another indication of congestion (RFC 5681, 4.3)
			a.losesProof(s)
		}
	case lost:
		a.reduce(s)
	case s.unsure > 0:
		a.wavers(s)
	}
}

// advance follows a new acknowledgement.
func (a *Analyzer) advance(s *stream, ack int64) {
	state, doubtful := s.state, a.expired(s)
	if doubtful { // a timeout may have come whose retransmission waits at the NIC
		a.doubt(s)
	}
	// A retransmission that was decided may wait at the NIC: only what cannot have been retransmitted is a sample for
	// certain.
	n, certain := 0, !doubtful && state < txRecovery
	for n < len(s.segments) && s.segments[n].end <= ack {
		g := &s.segments[n]
		certain = certain && g.times == 1 && !g.sacked && !g.lost
		if !g.sacked {
			s.swift.delivers(g)
			a.sample(s, g)
		}
		s.longest = max(s.longest, a.now.Sub(g.decided))
		if g.times == 1 && !g.sacked { // Karn; what was SACKed has waited for others since
			a.rtt.Record(a.now.Sub(g.sent).Nanoseconds())
			if g.ordinal > s.doubled {
				s.doublings = 0
			}
		}
		s.deliver(g)
		s.settle(g)
		n++
	}
	s.segments = s.segments[n:]
	s.sampled = s.sampled || certain && n > 0 && (!a.cfg.Timestamps || s.stamped)
	if s.swift == nil && a.cfg.Detection != PerPacket && (ack >= s.over || s.timeouts > 0 || s.amnesty > s.una) {
		a.grow(s, float64(n))
	}
	s.una = ack
	s.lately = append(s.lately, acked{a.now, ack})
	a.knownUna(s) // forgets
	if !a.keepsTimer(s) {
		s.armed = a.now
	}
	s.began = s.armed
	s.timer, s.cleared, s.timeouts, s.repeats, s.unseen, s.stalled = a.now, a.now, 0, 0, false, false
	if a.cfg.Detection == NewReno {
		a.partial(s, n, state, doubtful)
	}
	s.peak = s.size
	a.sender.Step(&s.state, s.acknowledges())
}

// acknowledges returns what input a new acknowledgement is.
func (s *sender) acknowledges() uint8 {
	switch {
	case s.state >= txRecovery && s.una >= max(s.recover, s.amnesty):
		return txAckAll
	case s.state == txSlowStart && s.size >= s.threshold:
		return txAckGrown
	}
	return txAck
}

func (s *sender) deliver(g *segment) {
	if g.flying {
		g.flying = false
		s.flight -= g.end - g.start
	}
	if !g.sacked && (g.ordinal > s.period.since || g.lost || s.timeouts > 0 || s.amnesty > s.una) {
		s.period.delivered++
	}
	if s.delivered = max(s.delivered, g.ordinal); g.times == 1 && !g.lost {
		s.certain = max(s.certain, g.ordinal)
	}
}

// sack marks the segments of a block.
func (a *Analyzer) sack(s *stream, b span) {
	i := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].start >= b.start })
	for ; i < len(s.segments) && s.segments[i].end <= b.end; i++ {
		if g := &s.segments[i]; !g.sacked {
			s.deliver(g)
			g.sacked, g.missed, g.lost, g.sackedAt = true, g.lost, false, a.now
			s.swift.delivers(g)
			a.sample(s, g)
			s.settle(g)
			s.top = max(s.top, g.end)
		}
	}
}

// presume marks what is to be taken for lost: below three SACKed segments. It reports whether there is anything new.
func (s *sender) presume() (news bool) {
	found, edge := 0, -1
	for i := len(s.segments) - 1; i >= 0 && s.segments[i].end > s.judged; i-- {
		if s.segments[i].sacked {
			if found++; found == dupThresh {
				edge = i
				break
			}
		}
	}
	for i := range edge {
		if g := &s.segments[i]; !g.sacked && !g.lost && g.times == 1 {
			s.presumeLost(g)
			news = true
		}
	}
	if edge >= 0 {
		s.judged = max(s.judged, s.segments[edge].start)
	}
	return news
}

// retransmissions marks those that may be taken for lost: three later segments, or the originals of those, arrived. It
// reports whether there are any.
func (s *sender) retransmissions() (maybe bool) {
	for len(s.retransmitted) > 0 && s.retransmitted[0].ordinal+dupThresh <= s.delivered {
		t := s.retransmitted[0]
		s.retransmitted = s.retransmitted[1:]
		i := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].start >= t.start })
		if i < len(s.segments) && s.segments[i].start == t.start && s.segments[i].ordinal == t.ordinal &&
			!s.segments[i].sacked {
			g := &s.segments[i]
			s.presumeLost(g)
			s.doubt(g)
			maybe = true
			if t.ordinal+dupThresh <= s.certain {
				s.period.lost = max(s.period.lost, g.decided)
			}
		}
	}
	return maybe
}

func (s *sender) presumeLost(g *segment) {
	g.lost = true
	if g.flying {
		g.flying = false
		s.flight -= g.end - g.start
	}
}
