package tcp

import (
	"fmt"
	"slices"

	"candela.dev/candela/clock"
)

// span is a range of the stream, end excluded.
type span struct{ start, end int64 }

// receiver is what one end has received, and what it said of it.
type receiver struct {
	have   int64      // in order
	beyond []span     // behind a gap, sorted, apart from each other
	told   int64      // highest acknowledgement
	since  clock.Time // when the oldest byte arrived that is in order and not acknowledged
}

// known reports whether any data has arrived.
func (r *receiver) known() bool { return r.have > 0 || len(r.beyond) > 0 }

// arrive enters a segment.
func (r *receiver) arrive(now clock.Time, start int64, payload int) {
	s := span{max(0, start), start + int64(payload)}
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
		r.beyond = slices.Replace(r.beyond, i, last, s)
		return
	}
	r.beyond = slices.Delete(r.beyond, i, last)
	if s.end > r.have {
		if r.have == r.told {
			r.since = now
		}
		r.have = s.end
	}
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
	ack := s.place(o.Ack, s.have, &a.cfg)
	switch {
	case ack > s.have:
		a.blame(ruleAckBeyond, s, o.Number, fmt.Sprintf("at most %d: what has arrived in order", s.have), fmt.Sprintf("byte %d is acknowledged", ack))
	case ack < s.told:
		a.blame(ruleAckBackwards, s, o.Number, fmt.Sprintf("at least %d, as said before", s.told), fmt.Sprintf("byte %d is acknowledged", ack))
	}
	if ack > s.told {
		s.told, s.since = ack, a.now
	}
	if o.SACKStart == o.SACKEnd {
		return
	}
	block := span{s.place(o.SACKStart, s.have, &a.cfg), s.place(o.SACKEnd, s.have, &a.cfg)}
	if block.start >= block.end || block.start < 0 || !s.holds(block) {
		a.blame(ruleSackFalse, s, o.Number, "bytes that have arrived", fmt.Sprintf("bytes %d to %d are SACKed", block.start, block.end))
	}
}

// late looks for an acknowledgement that is overdue.
func (a *Analyzer) late(s *stream) {
	if s.have > s.told && a.now.Sub(s.since) > ackLimit {
		a.blame(ruleAckMissing, s, 0, fmt.Sprintf("an acknowledgement of %d bytes within 500 ms", s.have), fmt.Sprintf("none for %v", a.now.Sub(s.since)))
		s.since = a.now
	}
}
