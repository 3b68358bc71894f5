package lock

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// standsStill judges the first that waits for a lock of which the server has, or had, requests of queues that may come
// first: a switch that waits for those has asked for them, and asks again until it has an answer (N3, N12).
func (j *Judge) standsStill(d *device, l *state, r *request) {
	if l.held > 0 || d.PushRetry == 0 {
		return
	}
	by, _, _ := j.due(d, l, r)
	by = max(by, l.ended)
	l.classes(func(c *class) {
		by = max(by, c.requested, c.settled, c.back)
		if c.pending() {
			by = max(by, c.requested.Add(d.PushRetry))
		}
	})
	by = by.Add(d.PipelineMost + clock.Duration(d.Passes+1)*d.RecirculationMost + j.facts.Uncertainty + j.unseen(d, r))
	switch {
	case by >= j.allQuietSince(d):
	case l.endedLeased:
		j.tell(l, neverExpired(place{d.who, l.id, r.id}), j.now, r.id)
	default:
		j.tell(l, forgotten(place{d.who, l.id, r.id}, cause.Span(j.now.Sub(by))), j.now, r.id)
	}
}

// owes returns, of a lock that moves and that the switch has, which request the server has buffered first in a queue,
// if nobody else has the lock or waits for it in the switch, and by when the switch is to have asked for it: its
// control plane has done by then what it has to do. nil: it is not certain.
func (j *Judge) owes(d *device, l *state, c *class) (first *request, by clock.Time) {
	h := &l.home
	switch {
	case !d.Moves || d.Reaction == 0 || !j.follows(d) || !j.facts.Lossless || j.replaced || l.doubt || d.out,
		d.restarted || !h.known || !h.away() || h.taken == unknown || l.held > 0 || c.parks[0] == none,
		c.restarted || l.lost > 0,
		len(d.ports) == 0 || d.Pauses || l.guesses():
		return nil, 0
	}
	first = &j.requests[c.parks[0]]
	from := max(l.ended, l.latest, h.taken, first.at)
	l.classes(func(c *class) {
		from = max(from, c.settled, c.back)
		if c.pending() {
			from = max(from, c.requested.Add(d.PushRetry))
		}
	})
	return first, from.Add(d.PipelineMost + clock.Duration(d.Passes)*d.RecirculationMost + 2*d.Reaction +
		j.facts.Uncertainty)
}

// alone reports whether all requests of a lock that wait are at the server.
func (j *Judge) alone(l *state) bool {
	for i := range j.requests {
		if r := &j.requests[i]; r.asks > 0 && j.of(r) == l && r.phase != parked {
			return false
		}
	}
	return true
}

// strandedAsItMoves judges that a switch that has a lock asks for what the server buffers, or gives the lock away, soon
// after its own queue is empty (N3).
func (j *Judge) strandedAsItMoves(d *device, l *state, c *class) {
	first, by := j.owes(d, l, c)
	if first == nil || d.PushRetry == 0 && c.pending() || by >= j.allQuietSince(d) || !j.alone(l) {
		return
	}
	if l.endedLeased { // the switch may still have that entry
		j.tell(l, neverExpired(place{d.who, l.id, first.id}), j.now, first.id)
		return
	}
	j.tell(l, strandedAt(place{d.who, l.id, first.id}, cause.Span(j.now.Sub(by))), j.now, first.id)
}

// asksLate judges the same as the switch asks, or gives the lock away.
func (j *Judge) asksLate(d *device, l *state, c *class, p *Packet) {
	if c.pending() || l.endedLeased || len(j.requests) > mostScanned {
		return
	}
	first, by := j.owes(d, l, c)
	if first == nil || d.decided(j, p) <= by || !j.alone(l) {
		return
	}
	j.tell(l, askedLate(d.place(l, p), first.id, cause.Span(d.decided(j, p).Sub(by))), p.Time, p.ID, first.id)
}
