package trace

import (
	"slices"

	"candela.dev/candela/packet"
)

// maxStrands bounds how often a queue pair can be used within a capture.
const maxStrands = 16

// apart is how many PSNs separate two strands at least.
const apart = 1 << 10

// A strand is a range of PSNs of a directed flow that is apart from all others.
type strand struct {
	low, high   packet.PSN
	first, last int64 // numbers of records of the capture
	starts      bool  // the request at low starts a message
	positive    bool  // of responses: one of them is not a NAK

	counted           bool // the MSNs of the first and the latest response are known
	firstMSN, lastMSN uint32
}

// count takes in the MSN of a response.
func (s *strand) count(r *Record) {
	if !r.Has(HasAETH) {
		return
	}
	if !s.counted {
		s.firstMSN, s.counted = r.MSN, true
	}
	s.lastMSN = r.MSN
}

// restarted reports whether the responder has counted from the start since the strand before. After frames that the
// capture lacks the count is higher. Duplicates leave it as it is, so that of PSNs nearby, which may have been sent
// before the capture started, it must change.
func (s *strand) restarted(before *strand, far bool) bool {
	if !s.counted || !before.counted {
		return far
	}
	fell := (before.lastMSN - s.firstMSN) & maxUint24
	return fell < 1<<23 && (far || fell > 0 || s.lastMSN != s.firstMSN)
}

// strands are those of a flow in one direction, in order of appearance.
type strands struct {
	list    []strand
	current int
	tooMany bool
}

// distance is how far a PSN is from a strand.
func (s *strand) distance(psn packet.PSN) int {
	switch {
	case psn.Before(s.low):
		return s.low.Sub(psn)
	case s.high.Before(psn):
		return psn.Sub(s.high)
	}
	return 0
}

// extend adds the PSNs from psn to end, which record n has, and returns their strand; nil if there are too many.
func (s *strands) extend(psn, end packet.PSN, n int64) *strand {
	if len(s.list) == 0 || s.list[s.current].distance(psn) > apart {
		s.current = slices.IndexFunc(s.list, func(x strand) bool { return x.distance(psn) <= apart })
	}
	if s.current < 0 {
		if len(s.list) == maxStrands {
			s.current, s.tooMany = 0, true
			return nil
		}
		s.current = len(s.list)
		s.list = append(s.list, strand{low: psn, high: end, first: n})
	}
	x := &s.list[s.current]
	if psn.Before(x.low) {
		x.low, x.starts = psn, false
	}
	if x.high.Before(end) {
		x.high = end
	}
	x.last = n
	return x
}

// uses returns the strands of requests if a queue pair was used several times: one use ended before the next began,
// each began with a message, and requests of each were answered by more than NAKs. The responder counts its messages
// from the start. No single endpoint that breaks a rule looks like that: a compliant responder executes nothing that is
// so far from what it expects, and a compliant requester sends nothing there.
func uses(toward, back *half) []strand {
	list := toward.asks.list
	if len(list) < 2 || toward.asks.tooMany || back.answers.tooMany || back.requests || toward.responses > 0 {
		return nil
	}
	var before *strand // the answers to the strand before
	for i := range list {
		s := &list[i]
		if i > 0 && s.first < list[i-1].last || !s.starts {
			return nil
		}
		k := slices.IndexFunc(back.answers.list, func(a strand) bool {
			return a.positive && a.first > s.first && (s.distance(a.low) <= apart || a.distance(s.low) <= apart)
		})
		if k < 0 {
			return nil
		}
		answers := &back.answers.list[k]
		if i > 0 && !answers.restarted(before, list[i-1].away(s)) {
			return nil
		}
		before = answers
	}
	return list
}

// away reports whether the PSNs of another strand are so far that no packet in flight has them.
func (s *strand) away(o *strand) bool {
	return s.distance(o.low) > midStream && s.distance(o.high) > midStream
}

// use is one of several uses of a queue pair.
type use struct {
	strand
	connection int
}

// reuse makes connections of the later uses of queue pairs. list is that of all first ones.
func (p *pairing) reuse(c *Connections) {
	for i := range p.inf.halves {
		m := p.mate[i]
		if m == noMate || !p.inf.halves[i].requests || p.agreed[i] != nil {
			continue
		}
		toward, back := &p.inf.halves[i], &p.inf.halves[m]
		list := uses(toward, back)
		if list == nil {
			continue
		}
		first := c.flows.find(&toward.key).Connection()
		all := []use{{list[0], first}}
		for _, s := range list[1:] {
			conn := c.all[first-1]
			conn.Index, conn.Requester.IPSN = len(c.all)+1, s.low
			c.all = append(c.all, conn)
			all = append(all, use{s, conn.Index})
			p.note("connection %d: the queue pairs of connection %d were used again, from PSN %d on", conn.Index, first,
				uint32(s.low))
		}
		if c.uses == nil {
			c.uses = make(map[int][]use)
		}
		c.uses[first] = all
	}
}

// reused says which use of a queue pair records belong to, in order of the capture.
type reused struct {
	uses   map[int][]use // by connection
	latest map[int]int   // connection of the latest record of each; CNPs have no PSN
}

func newReused(c *Connections) *reused {
	if c == nil || c.uses == nil {
		return nil
	}
	return &reused{uses: c.uses, latest: make(map[int]int)}
}

// resolve sets the flow of r, which is that of the first use.
func (u *reused) resolve(r *Record) {
	first := r.Flow.Connection()
	list := u.uses[first]
	if list == nil {
		return
	}
	if r.Opcode != packet.CNP {
		nearest := slices.MinFunc(list, func(a, b use) int { return a.distance(r.PSN) - b.distance(r.PSN) })
		u.latest[first] = nearest.connection
	}
	if n, ok := u.latest[first]; ok {
		r.Flow = NewFlowID(n, r.Flow.Reverse())
	}
}
