package tcp

import (
	"fmt"
	"slices"
	"sort"

	"candela.dev/candela/clock"
)

// segment is a range of the stream as it was sent first.
type segment struct {
	span
	sent    clock.Time // last
	ordinal uint64     // of the last transmission
	times   int        // sent
	sacked  bool
	lost    bool // it may be taken for lost, and was not sent again since
	flying  bool
}

// transmission is one that was a retransmission.
type transmission struct {
	start   int64
	ordinal uint64
}

// sender is what one end has sent, what it was told, and the greatest window that the rules leave it.
type sender struct {
	una, next int64
	segments  []segment // from una on
	limit     int64     // of the receiver's window; 0: not known yet

	ordinal   uint64 // transmissions
	delivered uint64 // ordinal of the latest one that is known to have arrived
	again     []transmission
	judged    int64 // everything below that is not SACKed may be taken for lost
	amnesty   int64 // everything below may be sent again: a timeout may have come since it was

	window  float64 // bytes, at most
	before  float64 // what it was before it shrank last
	shrunk  clock.Time
	waiting float64 // bytes, at most, that waited at the NIC then
	flight  int64   // bytes that are on their way for certain
	recover int64   // where a recovery ends
	force   bool    // one retransmission may go whatever is on its way

	timer    clock.Time // when the retransmission timer was started last, at the latest
	armed    clock.Time // and at the earliest: the packet may have waited at its NIC
	timeouts int        // since the latest new acknowledgement
	repeats  int        // transmissions of the first segment since then, beyond the first
	longest  clock.Duration
	stalled  bool // reported
}

const threshold = 3 // RFC 6675, DupThresh

// sends judges a packet with data that leaves a host.
func (a *Analyzer) sends(s *stream, o *Observation) {
	start := s.place(o.Seq, s.next, &a.cfg)
	end := start + int64(o.Payload)
	a.overdue(s)
	s.waiting -= float64(o.Payload)
	if s.limit > 0 && end > s.limit {
		a.blame(ruleReceive, s, o.Number, fmt.Sprintf("nothing beyond byte %d, the end of the receiver's window", s.limit), fmt.Sprintf("byte %d is sent", end))
	}
	switch {
	case start > s.next:
		a.blame(ruleSkip, s, o.Number, fmt.Sprintf("byte %d, which follows", s.next), fmt.Sprintf("byte %d is sent", start))
		a.fresh(s, span{s.next, end})
	case start == s.next:
		a.fresh(s, span{start, end})
	case end <= s.una:
		a.blame(ruleSpurious, s, o.Number, fmt.Sprintf("nothing below byte %d, which is acknowledged", s.una), fmt.Sprintf("bytes %d to %d are sent again", start, end))
		return
	default:
		a.resends(s, span{start, end}, o.Number)
		if s.force { // the first retransmission of a recovery (RFC 6675, 5, step 4.3)
			s.force = false
			return
		}
	}
	if most := a.room(s) + float64(a.cfg.MSS); float64(s.flight) > most {
		a.blame(ruleWindow, s, o.Number, fmt.Sprintf("at most %.0f bytes on their way, one segment of them sent without regard to the window", most),
			fmt.Sprintf("%d bytes", s.flight))
		s.window = float64(s.flight) // once for each excess
	}
}

// room returns the window by which a packet that leaves now was sent: if it may have waited at its NIC since, the one before it
// shrank. No more than that window had room for can have waited.
func (a *Analyzer) room(s *stream) float64 {
	if a.decided(s.key.src) < s.shrunk && s.waiting >= 0 {
		return max(s.window, s.before)
	}
	return s.window
}

// shrink makes the window smaller.
func (a *Analyzer) shrink(s *stream, to float64) {
	s.before = a.room(s)
	s.waiting = s.before + float64(a.cfg.MSS) - float64(s.flight)
	s.shrunk, s.window = a.now, to
}

// fresh books new data.
func (a *Analyzer) fresh(s *stream, r span) {
	if s.una == s.next {
		s.timer, s.armed, s.timeouts, s.repeats, s.stalled = a.now, a.decided(s.key.src), 0, 0, false
	}
	s.ordinal++
	s.segments = append(s.segments, segment{span: r, sent: a.now, ordinal: s.ordinal, times: 1, flying: true})
	s.next = r.end
	s.flight += r.end - r.start
}

// resends judges a retransmission.
func (a *Analyzer) resends(s *stream, r span, number uint64) {
	i := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].end > r.start })
	for ; i < len(s.segments) && s.segments[i].start < r.end; i++ {
		g := &s.segments[i]
		a.justify(s, i, number)
		s.ordinal++
		g.sent, g.ordinal, g.lost = a.now, s.ordinal, false
		g.times++
		if i == 0 {
			s.repeats++
		}
		if !g.flying {
			g.flying = true
			s.flight += g.end - g.start
		}
		s.again = append(s.again, transmission{g.start, s.ordinal})
	}
	s.next = max(s.next, r.end)
}

// justify looks for what lets a segment be sent again.
func (a *Analyzer) justify(s *stream, i int, number uint64) {
	g := &s.segments[i]
	waited := a.now.Sub(s.armed)
	expired := waited >= a.cfg.MinRTO
	switch {
	case g.sacked && g.end > s.amnesty && !expired:
		a.blame(ruleSpurious, s, number, "nothing that is SACKed", fmt.Sprintf("bytes %d to %d are sent again", g.start, g.end))
	case g.lost:
		if expired {
			s.forgive()
		}
	case g.end <= s.amnesty && i > 0:
		// After a timeout everything that was outstanding goes again.
	case i > 0 && s.una >= s.recover && !expired || i > 0 && !s.sackedAbove(i) && !expired:
		a.blame(ruleEarly, s, number, "three later segments SACKed before", fmt.Sprintf("bytes %d to %d are sent again, %v after they were sent", g.start, g.end, a.now.Sub(g.sent)))
	case i > 0:
		// In recovery what lies below a SACK may go when there is nothing better (RFC 6675, NextSeg 3).
		if expired {
			s.forgive()
		}
	default:
		a.timeout(s, waited, number)
	}
}

// sackedAbove reports whether anything behind a segment is SACKed.
func (s *sender) sackedAbove(i int) bool {
	return slices.ContainsFunc(s.segments[i+1:], func(g segment) bool { return g.sacked })
}

// timeout judges a retransmission of the first segment that only a timeout explains.
func (a *Analyzer) timeout(s *stream, waited clock.Duration, number uint64) {
	least := a.cfg.MinRTO
	for range s.timeouts {
		least = min(2*least, maxBackoff)
	}
	what := fmt.Sprintf("bytes %d to %d are sent again after %v", s.segments[0].start, s.segments[0].end, waited)
	switch {
	case s.una < s.recover && s.sackedAbove(0) && waited < a.cfg.MinRTO:
		return // RFC 6675, NextSeg 3
	case s.segments[0].end <= s.amnesty && waited < a.cfg.MinRTO:
		return // a timeout that was not seen as one asked for it
	case waited < a.cfg.MinRTO && s.sackedAbove(0):
		a.blame(ruleEarly, s, number, "three later segments SACKed before", what)
	case waited < a.cfg.MinRTO:
		a.blame(ruleTimeoutEarly, s, number, fmt.Sprintf("the retransmission timer runs for at least %v", a.cfg.MinRTO), what)
	case waited < least:
		a.blame(ruleBackoff, s, number, fmt.Sprintf("timeout %d in a row comes after at least %v", s.timeouts+1, least), what)
	}
	s.timeouts++
	s.timer, s.armed, s.stalled = a.now, a.decided(s.key.src), false
	s.recover = s.next
	a.shrink(s, float64(a.cfg.MSS))
	s.forgive()
}

// forgive follows a timeout, or the time when one may have come: nothing is on its way for certain, and all may be sent again.
func (s *sender) forgive() {
	s.amnesty, s.flight = s.next, 0
	for i := range s.segments {
		s.segments[i].flying, s.segments[i].lost = false, !s.segments[i].sacked
	}
}

// reduce follows the first sign of loss in a window.
func (a *Analyzer) reduce(s *stream) {
	s.recover, s.force = s.next, true
	a.shrink(s, max(2*float64(a.cfg.MSS), s.window*a.cfg.Beta))
}

// overdue looks for a retransmission that is missing.
func (a *Analyzer) overdue(s *stream) {
	if s.una == s.next || s.stalled {
		return
	}
	most := max(a.cfg.MinRTO, 5*s.longest) // RFC 6298: SRTT and RTTVAR are at most the longest round trip
	for range min(s.repeats, 16) {
		most *= 2
	}
	if waited := a.now.Sub(s.timer); waited > most+slack+s.longest {
		s.stalled = true
		a.blame(ruleTimeoutAbsent, s, 0, fmt.Sprintf("byte %d sent again after at most %v", s.una, most), fmt.Sprintf("nothing was for %v", waited))
	}
}

// learns takes what a host is told of its stream.
func (a *Analyzer) learns(s *stream, o *Observation) {
	ack := s.place(o.Ack, s.una, &a.cfg)
	if ack < 0 || ack > s.next {
		return // the receiver is to blame
	}
	a.overdue(s)
	s.limit = max(s.limit, ack+int64(o.Window))
	if ack > s.una {
		a.advance(s, ack)
	}
	if o.SACKStart != o.SACKEnd {
		s.sack(span{s.place(o.SACKStart, s.una, &a.cfg), s.place(o.SACKEnd, s.una, &a.cfg)})
	}
	if s.presume() && s.una >= s.recover {
		a.reduce(s)
	}
}

// advance follows a new acknowledgement.
func (a *Analyzer) advance(s *stream, ack int64) {
	if a.now.Sub(s.armed) >= a.cfg.MinRTO { // a timeout may have come, and its retransmission may wait at the NIC
		s.forgive()
	}
	n := 0
	for n < len(s.segments) && s.segments[n].end <= ack {
		g := &s.segments[n]
		s.longest = max(s.longest, a.now.Sub(g.sent))
		if g.times == 1 {
			a.rtt.Record(a.now.Sub(g.sent).Nanoseconds())
		}
		s.deliver(g)
		n++
	}
	s.segments = s.segments[n:]
	if ack >= s.recover || s.timeouts > 0 || s.amnesty > s.una {
		s.window += float64(ack - s.una) // slow start; everything else grows less
	}
	s.una = ack
	s.timer, s.armed, s.timeouts, s.repeats, s.stalled = a.now, a.now, 0, 0, false
}

func (s *sender) deliver(g *segment) {
	if g.flying {
		g.flying = false
		s.flight -= g.end - g.start
	}
	s.delivered = max(s.delivered, g.ordinal)
}

// sack marks the segments of a block.
func (s *sender) sack(b span) {
	i := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].start >= b.start })
	for ; i < len(s.segments) && s.segments[i].end <= b.end; i++ {
		if g := &s.segments[i]; !g.sacked {
			g.sacked, g.lost = true, false
			s.deliver(g)
		}
	}
}

// presume finds what may be taken for lost: below three SACKed segments, or a retransmission three of whose successors arrived.
// It reports whether there is anything new.
func (s *sender) presume() (news bool) {
	found, edge := 0, -1
	for i := len(s.segments) - 1; i >= 0 && s.segments[i].end > s.judged; i-- {
		if s.segments[i].sacked {
			if found++; found == threshold {
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
	for len(s.again) > 0 && s.again[0].ordinal+threshold <= s.delivered {
		t := s.again[0]
		s.again = s.again[1:]
		i := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].start >= t.start })
		if i < len(s.segments) && s.segments[i].start == t.start && s.segments[i].ordinal == t.ordinal && !s.segments[i].sacked {
			s.presumeLost(&s.segments[i])
			news = true
		}
	}
	return news
}

func (s *sender) presumeLost(g *segment) {
	g.lost = true
	if g.flying {
		g.flying = false
		s.flight -= g.end - g.start
	}
}
