package tcp

import (
	"fmt"
	"slices"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// span is a range of the stream, end excluded.
type span struct{ start, end int64 }

// receiver is what one end has received and announced.
type receiver struct {
	rx           uint8      // state of receiverMachine
	have         int64      // in order
	beyond       []span     // after a gap, sorted and disjoint
	acknowledged int64      // highest acknowledgement
	told         history    // with Config.UnknownStack
	edge         int64      // highest end of its window that it announced
	since        clock.Time // when the oldest byte arrived that is in order and not acknowledged
	ahead        clock.Time // when the oldest unanswered segment after a gap arrived
	owes         bool       // there is one
	gap          clock.Time // since when there is a gap
	full         int        // full segments that arrived in order since the latest acknowledgement
	isDue        bool       // so many that they are to be acknowledged at once
	due          clock.Time // since when
	cameAt       clock.Time // when the latest segment arrived
	came         bool       // one has
	latest       []arrival  // what it may have known as the latest one, oldest first
}

// arrival is a segment that has arrived.
type arrival struct {
	at clock.Time
	span
	ahead bool // after a gap, and in the window
}

// notes remembers what has arrived, for SACK blocks.
func (a *Analyzer) notes(s *stream, start int64, payload int) {
	if a.cfg.Detection == NewReno || a.cfg.ECN.DCTCP || a.cfg.UnknownStack {
		return
	}
	r := span{start, start + int64(payload)}
	s.latest = append(s.latest, arrival{a.now, r, r.start > s.have && r.end <= s.edge})
	a.recent(s)
}

// recent returns the arrivals each of which may be the latest one that a receiver knew when it decided to send what
// leaves it now.
func (a *Analyzer) recent(s *stream) []arrival {
	n := 0
	for known := a.known(s.key.dst); n+1 < len(s.latest) && s.latest[n+1].at <= known; n++ {
	}
	s.latest = s.latest[n:]
	return s.latest
}

// recalls reports whether a SACK block holds one of those arrivals, or need not: the first block is that of the segment
// which triggered the acknowledgement, unless that advanced it (RFC 2018, 4).
func (a *Analyzer) recalls(s *stream, block span) bool {
	list := a.recent(s)
	return len(list) == 0 || slices.ContainsFunc(list, func(r arrival) bool {
		return !r.ahead || block.start <= r.start && r.end <= block.end
	})
}

// known reports whether any data has arrived.
func (r *receiver) known() bool { return r.have > 0 || len(r.beyond) > 0 }

// arrive enters a segment and returns what input it is.
func (r *receiver) arrive(now clock.Time, start int64, payload int) uint8 {
	s := span{max(0, start), start + int64(payload)}
	if s.end <= r.have || slices.ContainsFunc(r.beyond,
		func(b span) bool { return b.start <= s.start && s.end <= b.end }) {
		return rxOld
	}
	i := 0
	for i < len(r.beyond) && r.beyond[i].end < s.start {
		i++
	}
	last := i
	for last < len(r.beyond) && r.beyond[last].start <= s.end {
		s = span{min(s.start, r.beyond[last].start), max(s.end, r.beyond[last].end)}
		last++
	}
	if s.start > r.have {
		if len(r.beyond) == 0 {
			r.gap = now
		}
		r.beyond = slices.Replace(r.beyond, i, last, s)
		if !r.owes {
			r.owes, r.ahead = true, now
		}
		return rxAhead
	}
	r.beyond = slices.Delete(r.beyond, i, last)
	if r.have == r.acknowledged {
		r.since = now
	}
	r.have = s.end
	if len(r.beyond) > 0 {
		return rxNextGap
	}
	return rxNext
}

// holds reports whether all of a range has arrived.
func (r *receiver) holds(s span) bool {
	if s.end <= r.have {
		return true
	}
	s.start = max(s.start, r.have)
	return slices.ContainsFunc(r.beyond, func(b span) bool { return b.start <= s.start && s.end <= b.end })
}

// acknowledges judges what a host says of a stream that reaches it.
func (a *Analyzer) acknowledges(s *stream, o *Observation) {
	a.late(s)
	a.prompt(s, o.Number)
	ack := s.place(o.Ack, s.have, &a.cfg)
	if a.overtaken(s, ack) {
		return
	}
	switch {
	case ack > s.have:
		a.says(s, rxBeyond, causeAckBeyond(a.rx(s), ack, s.have), o.Number,
			fmt.Sprintf("at most %d: what has arrived in order", s.have),
			fmt.Sprintf("the receiver acknowledged byte %d; byte %d has not arrived", ack, s.have))
	case ack < s.acknowledged:
		a.says(s, rxBackwards, causeAckBackwards(a.rx(s), ack, s.acknowledged), o.Number,
			fmt.Sprintf("at least %d, as before", s.acknowledged),
			fmt.Sprintf("the receiver acknowledged byte %d after byte %d", ack, s.acknowledged))
	case ack < s.have:
		a.receiver.Step(&s.rx, rxAckPart)
	default:
		a.receiver.Step(&s.rx, rxAck)
	}
	if ack > s.acknowledged {
		s.acknowledged, s.since = ack, a.now
	}
	s.owes = false
	if edge := ack + int64(o.Window); edge < s.edge {
		a.says(s, rxShrinks, causeShrinks(a.rx(s), s.edge, edge), o.Number, fmt.Sprintf("at least %d, as before", s.edge),
			fmt.Sprintf("the receiver moved the end of its window from byte %d back to %d", s.edge, edge))
	} else {
		s.edge = edge
	}
	a.selects(s, o)
}

// overtaken reports whether a later acknowledgement may have overtaken this one before the tap: a kernel sends from
// several processors.
func (a *Analyzer) overtaken(s *stream, ack int64) bool {
	if !a.cfg.UnknownStack {
		return false
	}
	if ack >= s.acknowledged {
		s.told = append(s.told, acked{a.now, ack})
	}
	return ack < s.acknowledged && ack >= s.told.by(a.now.Add(-a.cfg.Hold))
}

// selects judges the SACK block of an acknowledgement.
func (a *Analyzer) selects(s *stream, o *Observation) {
	if o.SACKStart == o.SACKEnd {
		if len(s.beyond) > 0 && s.gap <= a.known(s.key.dst) && a.cfg.Detection != NewReno &&
			!a.precedesGap(s) {
			a.says(s, rxNoSACK, causeNoSACK(a.rx(s), s.have), o.Number,
				fmt.Sprintf("a block of what has arrived after the gap at byte %d", s.have),
				"the acknowledgement has no SACK block")
		}
		return
	}
	block := span{s.place(o.SACKStart, s.have, &a.cfg), s.place(o.SACKEnd, s.have, &a.cfg)}
	if block.start >= block.end || block.start < 0 || !s.holds(block) {
		a.says(s, rxFalseSACK, causeFalseSACK(a.rx(s), block), o.Number, "bytes that have arrived",
			fmt.Sprintf("the receiver SACKed bytes %d to %d, not all of which have arrived", block.start, block.end))
		return
	}
	if !a.recalls(s, block) {
		r := s.latest[len(s.latest)-1].span
		a.says(s, rxNoSACK, causeStaleSACK(a.rx(s), block, r), o.Number,
			fmt.Sprintf("a block of the latest segment, bytes %d to %d", r.start, r.end),
			fmt.Sprintf("the receiver SACKed bytes %d to %d only", block.start, block.end))
	}
}

// late looks for an acknowledgement that is overdue.
func (a *Analyzer) late(s *stream) {
	if a.peerGone(s) {
		return
	}
	now := a.served(s.key.dst)
	if waited := now.Sub(a.waiting(s.key.dst, s.since)); s.have > s.acknowledged && waited > ackLimit+a.cfg.Hold {
		a.says(s, rxNoAck, causeAckLate(a.rx(s), s.have, waited), 0,
			fmt.Sprintf("an acknowledgement of %d bytes within 500 ms", s.have),
			fmt.Sprintf("the receiver did not acknowledge byte %d for %s", s.have, waited.Text()))
		s.since = a.now
	}
	if waited := now.Sub(a.waiting(s.key.dst, s.ahead)); s.owes && waited > slack+a.cfg.Hold {
		a.says(s, rxNoDuplicate, causeDuplicateLate(a.rx(s), s.have, waited), 0,
			fmt.Sprintf("another acknowledgement of byte %d at once", s.have),
			fmt.Sprintf("the receiver did not answer a segment after the gap for %s", waited.Text()))
		s.owes = false
	}
}

// says reports a violation of a receiver.
func (a *Analyzer) says(s *stream, input uint8, c cause.Cause, number uint64, expected, actual string) {
	a.receiver.Step(&s.rx, input)
	a.blame(c, s, number, expected, actual)
}
