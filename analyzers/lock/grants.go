package lock

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// granted follows a grant that leaves.
func (j *Judge) granted(d *device, p *Packet, k key, since clock.Time) {
	h := &p.Header
	if j.crossingLeaves(k, h.Op) {
		return
	}
	r := j.find(k)
	if h.Op == netlock.GrantFromServer && (r == nil || r.answers >= r.asks) { // asked by way of another switch
		if o := j.elsewhere(k, func(o *request) bool { return o.answers < o.asks }); o != nil {
			r = o
		}
	}
	if r == nil {
		r = j.request(k)
		r.mode, r.class, r.tenant, r.phase = h.Mode, classOf(d, h), h.Tenant, answered
		j.of(r).copies++
	}
	l := j.of(r)
	l.latest = max(l.latest, p.Time)
	server := h.Op == netlock.GrantFromServer
	if server {
		j.moves(l)
		r.handed = max(r.handed, 1) - 1
		j.servesTwice(d, l, r, p)
		r.onWay = false
		if n := &l.serving.passing[r.mode&1]; *n > 0 {
			*n--
		}
	}
	j.measures.grant(server, r.tenant)
	unasked := r.answers >= r.asks
	if unasked {
		j.twice(d, l, r, p)
	}
	r.answers++
	j.unchanged(d, l, r, p)
	j.misplaced(d, l, p, server)
	if !server {
		j.grantsOwn(d, l, p, since)
	}
	if server && (r.answers > 1 || r.early) {
		j.mayHoldAgain(d, l, r, p)
	}
	if r.linked {
		j.holdsUntil(r, p.Time, server)
		return // it holds already
	}
	if r.asks == 0 && l.doubt && (server || since == unknown ||
		since.Add(-d.PipelineMost-j.facts.Uncertainty) <= j.gap) {
		j.remove(r) // a second answer to whoever may have released the lock before, unseen
		return
	}
	if !unasked && j.mayBeOver(d, r, server, since) {
		if l.given, l.steps = l.given+1, l.steps+1; r.mode == netlock.Shared { // perhaps of a chain
			l.chain++
		}
		if r.answers >= r.asks { // a second answer that was on its way as the first was released
			j.remove(r)
		}
		return
	}
	wasWaiting := r.phase == waiting && !unasked
	was := r.phase
	j.serial++
	r.serial = j.serial
	j.unpark(l, r, j.place(r))
	r.grant, r.at, r.since, r.server, r.expired = p.ID, p.Time, since, server, false
	r.vague, r.until = l.doubt, unknown
	j.exclusive(d, l, r, p)
	j.takenOver(d, l, r, p)
	j.oneTrip(d, l, r, p, wasWaiting)
	if !server && !unasked {
		j.passed(d, l, r, p)
		j.resync(d, l, r)
		if wasWaiting && r.asks == 1 && !l.tainted && !l.doubt {
			j.early(d, l, r, p)
			j.late(d, l, r, p)
			j.overfull(d, l, r, p)
			j.preferred(d, l, r, p)
			j.askedFor(d, l, r, p)
		} else if r.mode == netlock.Shared {
			l.chain++
		}
	}
	// Which of several switches brought a request to the server first is not known once one has stopped. A server that
	// knows no leases may answer whoever still holds there again.
	if !unasked && was != gone && !(server && (l.lapsed || j.failed && len(j.switches) > 1)) {
		j.inOrder(d, l, r, p)
	}
	l.steps++
	if !server {
		l.given++
	}
	if server {
		l.ownedSince = unknown
	} else if l.ownedSince == unknown {
		l.ownedSince = p.Time
		if d.takeover != clock.Never || d.Moves { // a chain grants what has waited until the switch owned the lock
			l.exclusive, l.exclusiveLeased = max(l.exclusive, p.Time), false
			l.chain, l.chained, l.runs = 0, 0, true
			l.stirs(d, p.Time)
		}
	}
	if r.asks > 0 {
		j.measures.latency(server, r, d)
	}
	l.class(r).grants++
	r.phase = holding
	j.link(l, r)
	j.holdsUntil(r, p.Time, server)
	r.lapses, _ = j.lapses(r)
	if lease, _ := j.lease(r.sw, server); lease > 0 {
		if r.lapses <= j.now { // it may have left the queue, before it was known to be in it
			l.tainted = true
			j.mayLapse(r)
		} else {
			j.leases.push(leased{at: r.lapses, request: j.place(r), key: r.key, serial: r.serial})
		}
	}
}

// mayBeOver reports whether what a grant gives may have been released before the grant leaves.
func (j *Judge) mayBeOver(d *device, r *request, server bool, since clock.Time) bool {
	switch {
	case r.phase == owned:
		return server && r.early
	case r.phase == answered || r.phase == waiting && r.freed > 0:
		return server || since == unknown || since.Add(-d.PipelineMost-j.facts.Uncertainty) <= r.freed
	}
	return false
}

// rejected follows a REJECT that leaves.
func (j *Judge) rejected(d *device, p *Packet) {
	j.measures.rejects++
	k := j.keyOf(d, &p.Header, p.Dst)
	if j.crossingLeaves(k, p.Header.Op) {
		return
	}
	r := j.find(k)
	if r == nil {
		j.unaskedReject(d, p)
		return
	}
	r.leavesOne()
	l := j.of(r)
	j.rejectedRightly(d, l, r, p)
	if r.answers >= r.asks {
		j.twice(d, l, r, p)
		return
	}
	r.answers++
	if r.answers >= r.asks && !r.linked {
		j.remove(r)
	}
}

// resync ends doubts about a lock: it was free for so long that whoever waited had been granted it, and now a
// request for exclusive use is granted at once, so nobody else has it. One that had come before, unseen, would have
// been granted then.
func (j *Judge) resync(d *device, l *state, r *request) {
	if !l.doubt && !l.tainted || r.mode != netlock.Exclusive || r.asks != 1 || l.live != 1 || l.parked > 0 ||
		r.returned || r.phase != waiting || r.since == unknown || l.ended == unknown {
		return
	}
	slack := d.PipelineMost + j.facts.Uncertainty
	if r.since > r.inserted.Add(slack) || r.inserted <= l.ended.Add(slack+clock.Duration(d.Passes)*d.RecirculationMost) {
		return
	}
	l.doubt, l.tainted = false, false
	c := l.class(r)
	c.grants, c.dequeues = 0, 0
	r.dequeues = 0
	l.only.grants, l.only.dequeues = 0, 0
	for i := range l.all {
		l.all[i].grants, l.all[i].dequeues = 0, 0
	}
	l.ended, l.exclusive, l.chain, l.chained = unknown, unknown, 0, 0
}

// grantedByServer follows a grant of a server as it comes.
func (j *Judge) grantedByServer(d *device, p *Packet, k key) {
	r := j.find(k)
	if l := j.lockOf(d.number, p.Header.Lock); l != nil {
		j.servesOwn(d, l, r, p)
		j.servesLate(d, l, r, p)
		if r == nil && l.lost > 0 { // the server had it
			l.lost--
			l.copies++
			r = j.request(k)
			j.order++
			h := &p.Header
			r.mode, r.class, r.tenant, r.asks, r.id, r.phase = h.Mode, classOf(d, h), h.Tenant, 1, p.ID, owned
			r.last, r.arrived, r.came, r.stamp, r.priority = j.order, p.Time, p.Time, h.Timestamp, h.Priority
		}
	}
	if r == nil {
		return
	}
	l := j.of(r)
	if len(j.switches) == 1 { // on the way to one of a pair grants may overtake each other
		l.serving.decides(r, p.Src, l.home.gave)
	}
	if r.phase == parked {
		j.owns(j.of(r), r) // it was sent to be buffered as the lock moved
		r.unclear = true
	}
}
