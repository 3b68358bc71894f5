package lock

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// early judges that the shared requests that waited for an exclusive one are granted a pass each (N7). With priorities
// a pass that is under way may find another request than the one for which it began.
func (j *Judge) early(d *device, l *state, r *request, p *Packet) {
	from := l.exclusive
	if r.mode != netlock.Shared || from == unknown || from <= r.inserted.Add(j.facts.Uncertainty) {
		return
	}
	if may, _ := j.lapses(r); may <= p.Time { // it may have been granted, and lost the lock, before the exclusive one
		return
	}
	passes := int64(d.Passes) + l.chained
	if l.runs { // its next pass is this chain's first
		passes = l.chained
	}
	l.chained++
	if d.tookOver(l, r) || l.exclusiveLeased || d.Recirculation == 0 || d.Priorities > 1 {
		return
	}
	took := clock.Duration(passes)*d.Recirculation + d.Pipeline
	if p.Time < from.Add(took-j.facts.Uncertainty) {
		j.tell(l, tooEarly(d.place(l, p), cause.Times(passes), cause.Span(p.Time.Sub(from)), cause.Span(took)), p.Time, p.ID,
			r.id)
	}
}

// running returns until when the chain that began with the last exclusive release may have run: each of its passes but
// the last one was for a grant.
func (l *state) running(d *device) clock.Time {
	return l.exclusive.Add(clock.Duration(int64(d.Passes)+l.chain+1) * d.RecirculationMost)
}

// stirs notes that a pass may begin, or go on.
func (l *state) stirs(d *device, at clock.Time) {
	switch {
	case d.Priorities <= 1:
	case l.stirred != unknown && at <= l.calm(d):
		l.steps += int64(d.Passes)
	default:
		l.stirred, l.steps = at, 0
	}
}

// calm returns when the passes have ended: each but the first ones was for a grant.
func (l *state) calm(d *device) clock.Time {
	return l.stirred.Add(clock.Duration(int64(d.Passes)+l.steps) * d.RecirculationMost)
}

// due returns by when the switch has to have decided to grant a request, if nobody else holds the lock.
func (j *Judge) due(d *device, l *state, r *request) (by clock.Time, passes int64, leased bool) {
	by = r.inserted
	if l.stirred != unknown && l.calm(d) > by {
		by, passes = l.calm(d), int64(d.Passes)
	}
	if l.lapses(d, r) { // a pass had begun, and granted others before
		by = max(by, r.inserted.Add(clock.Duration(int64(d.Passes)+l.given-r.given)*d.RecirculationMost))
		passes = int64(d.Passes)
	}
	from, lease, n := l.ended, l.endedLeased, int64(d.Passes)
	if r.mode == netlock.Shared {
		from, lease, n = l.exclusive, l.exclusiveLeased, int64(d.Passes)+l.chain
	}
	if from == unknown {
		return by, passes, false
	}
	if at := from.Add(clock.Duration(n) * d.RecirculationMost); at >= r.inserted-clock.Time(j.facts.Uncertainty) {
		return max(by, at), n, lease
	}
	return by, passes, false
}

// lapses reports whether a pass may run as a request comes because a lease has ended.
func (l *state) lapses(d *device, r *request) bool {
	return d.Priorities > 1 && l.lapsing != unknown &&
		r.inserted <= l.lapsing.Add(clock.Duration(d.Passes)*d.RecirculationMost)
}

// tookOver reports whether a request may have waited until the switch owned the lock, which another switch, or a
// server, had before.
func (d *device) tookOver(l *state, r *request) bool {
	return (d.takeover != clock.Never || d.Moves) && (l.ownedSince == unknown || r.inserted <= l.ownedSince)
}

// outranked reports whether the server has, or had while a request waited, requests of a queue that others wait behind:
// whether those come first the switch cannot know before they are back, and an exclusive request of any priority is
// granted at once only if nobody waits.
func (l *state) outranked(r *request) bool {
	for i := range max(0, len(l.all)-1) {
		if c := &l.all[i]; c.parks[0] != none || max(c.parkedAt, c.back, c.settled) >= r.inserted {
			return true
		}
	}
	return false
}

// late judges N8, and of chains and leases N7 and N12.
func (j *Judge) late(d *device, l *state, r *request, p *Packet) {
	by, passes, leased := j.due(d, l, r)
	before := l.chain
	if r.mode == netlock.Shared && (passes > 0 || j.chains(d, l, r)) {
		l.chain++
	}
	if r.since == unknown || d.tookOver(l, r) || l.outranked(r) || r.mode == netlock.Exclusive && l.held > 0 ||
		r.mode == netlock.Shared && l.xs > 0 {
		return
	}
	j.measures.delays++
	if l.lapses(d, r) && r.since > r.inserted.Add(d.PipelineMost+j.facts.Uncertainty) {
		l.lapsing = max(l.lapsing, r.since) // after a grant the passes go on
	}
	most := by.Add(d.PipelineMost + j.facts.Uncertainty)
	if r.since <= most {
		return
	}
	if most = most.Add(j.unseen(d, r)); r.since <= most {
		if len(j.requests) > mostScanned {
			j.note("how late some grants are", fmt.Sprintf("more than %d requests were outstanding", mostScanned))
		}
		return
	}
	if r.mode == netlock.Shared && l.exclusive != unknown { // a chain that found others first, whose grants wait at ports
		chain := l.exclusive.Add(clock.Duration(int64(d.Passes)+before)*d.RecirculationMost + j.unseen(d, r))
		if r.since <= chain.Add(d.PipelineMost+j.facts.Uncertainty) {
			return
		}
	}
	over := cause.Span(r.since.Sub(most))
	switch {
	case leased:
		j.tell(l, heldOn(d.place(l, p), over), p.Time, p.ID, r.id)
	case r.mode == netlock.Shared && passes > int64(d.Passes):
		j.tell(l, lateInBatch(d.place(l, p), cause.Times(passes), over), p.Time, p.ID, r.id)
	default:
		j.tell(l, tooLate(d.place(l, p), cause.Span(p.Time.Sub(r.inserted)), over), p.Time, p.ID, r.id)
	}
}

// chains reports whether the chain after the last exclusive release may have granted a shared request that came after
// the grants that are known: others of it wait at ports.
func (j *Judge) chains(d *device, l *state, r *request) bool {
	if l.exclusive == unknown {
		return false
	}
	ends := l.exclusive.Add(clock.Duration(int64(d.Passes)+l.chain)*d.RecirculationMost + j.facts.Uncertainty)
	return r.inserted <= ends.Add(clock.Duration(l.live)*d.RecirculationMost) && r.inserted <= ends.Add(j.unseen(d, r))
}

// unseen bounds for how long a lock may have been passed on among requests whose grants wait at ports.
func (j *Judge) unseen(d *device, r *request) (passes clock.Duration) {
	if len(j.requests) > mostScanned {
		return j.now.Sub(min(r.earliest(), j.now)) // all the time
	}
	for i := range j.requests {
		if o := &j.requests[i]; o != r && o.asks > 0 && o.lock == r.lock && o.phase == waiting &&
			(o.precedes(r) || o.first < r.first) && j.answeredBy(d, o) != j.now {
			passes += d.RecirculationMost
			if exclusive := r.mode == netlock.Exclusive || o.mode == netlock.Exclusive; exclusive && d.Lease > 0 &&
				o.earliest().Add(d.Lease-j.facts.Uncertainty) <= j.now {
				passes += j.now.Sub(o.earliest()) // its lease has ended, too
			}
		}
	}
	return passes
}
