package lock

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// releases follows a RELEASE that enters.
func (j *Judge) releases(d *device, p *Packet) {
	j.measures.released++
	h := &p.Header
	k := j.keyOf(d, h, p.Src)
	r := j.find(k)
	if r != nil && !r.linked && r.phase == waiting { // what it is granted may wait at its port
		r.freed = p.Time
	}
	if r == nil || !r.linked {
		if other := j.elsewhere(k, func(o *request) bool { return o.linked }); other != nil {
			r = other
		}
	}
	if r == nil || !r.linked {
		if r != nil {
			r.early = true
		}
		if l := j.lockOf(d.number, h.Lock); l != nil && !d.TIDCheck && !d.out {
			l.tainted = true // whoever is first in the queue has lost its place
		}
		if r != nil && j.of(r).doubt { // it held the lock before packets were missed, and may yet be answered again
			j.unpark(j.of(r), r, j.place(r))
			r.phase, r.freed = answered, p.Time
		}
		return
	}
	j.released(d, r, p)
	// The transaction is over: what other switches have granted to it is not held either.
	for o := j.elsewhere(k, func(o *request) bool { return o.linked }); o != nil; {
		j.released(d, o, p)
		o = j.elsewhere(k, func(o *request) bool { return o.linked })
	}
}

// releasedBack follows a RELEASE that comes from the other switch of a pair, which does not have the lock: by the time
// it was first seen this one had not granted it.
func (j *Judge) releasedBack(d *device, p *Packet) {
	switch r := j.find(j.keyOf(d, &p.Header, p.Src)); {
	case r == nil:
	case r.linked:
		j.released(d, r, p)
	case r.phase == waiting:
		r.freed = p.Time
	}
}

// released ends the hold of a request.
func (j *Judge) released(d *device, r *request, p *Packet) {
	l, own := j.of(r), j.switches[r.sw]
	if r.expired && !own.TIDCheck || int(r.sw) != d.number && !r.server {
		l.tainted = true
	}
	if d.out { // it does not know: others wait until the lease ends, if its registers come back at all
		l.tainted = true
	}
	if r.server {
		j.departs(d, l, r, p)
		j.seals(r)
	}
	j.ends(l, r, p.Time, r.expired)
	if r.server {
		// A server that was asked by way of another switch, too, may answer that again before it knows of the release.
		if o := j.elsewhere(r.key, func(o *request) bool { return o.answers < o.asks && !o.linked }); o != nil {
			j.unpark(j.of(o), o, j.place(o))
			o.phase, o.freed = answered, p.Time
		}
	}
	if r.asks > r.answers {
		r.phase, r.freed = answered, p.Time
		if own.started > r.at && r.arrived >= own.started && !r.server { // its registers have only what came since
			r.phase, r.inserted = waiting, r.arrived
		} else if may, _ := j.lapses(r); own == d && own.Dedup && !r.server && r.arrived < may { // later it was queued again
			j.ghosts.push(leased{at: p.Time.Add(own.PipelineMost + j.facts.Uncertainty), request: j.place(r), key: r.key,
				serial: r.serial})
		}
		return
	}
	j.remove(r)
}

// exorcise forgets requests that have been released and asked again before, as far as nothing of them can be on its way
// to a port, that of the client or of a server: the switch decided about it before the release.
func (j *Judge) exorcise() {
	for e := j.ghosts.front(); e != nil && e.at < j.now; e = j.ghosts.front() {
		due := *e
		j.ghosts.pop()
		r := &j.requests[due.request]
		if r.key != due.key || r.serial != due.serial || r.phase != answered || r.parks+r.handed > 0 {
			continue
		}
		d := j.switches[r.sw]
		decided := r.freed.Add(d.PipelineMost + j.facts.Uncertainty)
		if from := j.allQuietSince(d); from == unknown {
			continue
		} else if from <= decided {
			due.at = j.now.Add(d.PipelineMost)
			j.ghosts.push(due)
			continue
		}
		j.remove(r)
	}
}

// ends says that a request no longer holds from a time on, at the latest.
func (j *Judge) ends(l *state, r *request, at clock.Time, leased bool) {
	j.unlink(l, r, j.place(r))
	may, _ := j.lapses(r)
	l.serving.frees(r.mode, at, may)
	if !r.expired {
		l.class(r).dequeues++
		j.dequeued(l, r, at)
	}
	if at >= l.ended {
		l.ended, l.endedLeased = at, leased
		if l.held == 0 { // beside other holders nobody else may have it
			l.stirs(j.switches[l.sw], at)
		}
	}
	if r.mode == netlock.Exclusive && at >= l.exclusive {
		l.runs = l.exclusive != unknown && at <= l.running(j.switches[l.sw]).Add(j.facts.Uncertainty)
		l.exclusive, l.exclusiveLeased = at, leased
		l.chain, l.chained = 0, 0
	}
}

// dequeued counts a release for the requests that may have come after it.
func (j *Judge) dequeued(l *state, r *request, at clock.Time) {
	if j.facts.Uncertainty == 0 {
		return
	}
	for k := range min(int(l.turn), len(l.recent)) {
		if i := l.recent[k]; int(i) < len(j.requests) {
			if o := &j.requests[i]; o.asks > 0 && o.lock == r.lock && o.class == r.class &&
				o.inserted >= at.Add(-j.facts.Uncertainty) {
				o.dequeues++
			}
		}
	}
}
