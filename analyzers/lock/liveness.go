package lock

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
)

// stalled judges, of a lock whose queue is not exactly known, that somebody is granted it while a request waits in the
// switch: whoever had it last, seen or not, has lost it after a lease (N3, N12). It reports whether it found a fault.
func (j *Judge) stalled(d *device, l *state, r *request) bool {
	if r.asks > 1 && !d.Dedup || r.inserted == unknown || len(d.ports) == 0 || d.Pauses || l.outranked(r) {
		return false
	}
	came := r.inserted
	switch { // since then one of its copies waits in the switch
	case r.back != unknown:
		came = r.back
	case !r.returned:
		came = r.earliest()
	}
	from, lease := max(came, l.latest), d.Lease
	switch {
	case d.takeover != clock.Never && !d.Moves && lease > 0 && len(j.switches) == 1:
		// Holders of whom it knows nothing lose the lock, too. Of a pair, who knows of whom is not followed so far.
		if l.cleared == unknown || d.started == unknown {
			return false
		}
		from = max(from, l.cleared, d.takeover, d.started)
	case d.takeover != clock.Never || d.Moves:
		h := &l.home
		if !h.known || !h.away() || h.taken == unknown {
			return false
		}
		if from = max(from, h.taken); l.latest <= h.taken && l.held == 0 {
			lease = 0 // the server has said that nobody has it
		}
	case lease == 0:
		return false
	}
	by := from.Add(d.PipelineMost + j.facts.Uncertainty + clock.Duration(d.Passes+1)*d.RecirculationMost + j.unseen(d, r))
	if lease > 0 {
		by = by.Add(lease + d.Poll)
	} else if d.Lease == 0 && (l.held > 0 || l.latest > l.home.taken) {
		return false
	}
	if by >= j.answeredBy(d, r) {
		return false
	}
	if lease > 0 && l.endedLeased {
		j.tell(l, neverExpired(place{d.who, l.id, r.id}), j.now, r.id)
	} else {
		j.tell(l, forgotten(place{d.who, l.id, r.id}, cause.Span(j.now.Sub(by))), j.now, r.id)
	}
	return true
}

// lostByServer judges that a server, which is sent all that leaves for it, has granted a request if it has granted one
// that came later (N3). It reports whether it found a fault.
func (j *Judge) lostByServer(d *device, l *state, r *request) bool {
	c := l.class(r)
	by := c.before
	if d.Processing == lock.ChainLock {
		by = latest(by, c.within)
	}
	quiet := j.quietSince(d, int(r.port))
	if d.OneRTT { // the grant may wait at the port of a database
		quiet = j.allQuietSince(d)
	}
	if !j.facts.Lossless || len(j.switches) > 1 || d.takeover != clock.Never || j.replaced || r.asks != 1 ||
		!d.exactly(j) || l.lapsed || by.order <= r.last || by.at.Add(d.PipelineMost) >= quiet {
		return false
	}
	j.tell(l, skippedByServer(place{d.who, l.id, r.id}, by.id), j.now, r.id, by.id)
	return true
}

// asksOn judges that a switch asks a server again, which does not answer, that is to have a lock, or to give it (N3).
// An answer may have to wait for holders: that the switch waits longer each time is its choice.
func (j *Judge) asksOn(d *device, l *state, c *class) {
	h := &l.home
	taking := h.away() && h.taken == unknown
	handing := !h.away() && h.left != unknown && c.handed.number != c.sent
	began := c.began
	if handing { // the number is that of the move to the switch if nothing was to be buffered meanwhile
		began = max(began, h.left)
	}
	if !h.known || !taking && !handing || d.PushRetry == 0 || d.out || d.takeover != clock.Never || l.live == 0 ||
		c.began == unknown || c.requested < began || len(d.ports) == 0 || d.Pauses {
		return
	}
	waited := j.allQuietSince(d).Sub(c.requested)
	if most := patience * (c.requested.Sub(began) + d.PushRetry); waited > most+d.PipelineMost+j.facts.Uncertainty {
		j.tell(l, notAskedAgain(place{d.who, l.id, c.requestedBy}, cause.Span(waited)), j.now, c.requestedBy)
	}
}

// patience is how many times as long as it has asked a switch may wait before it asks again.
const patience = 4
