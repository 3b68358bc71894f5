package lock

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// quiescence judges N3 at the end: who waits although nobody holds the lock, and whom later requests have overtaken.
func (j *Judge) quiescence() {
	for _, d := range j.switches {
		j.quiet(d, true)
	}
	for i := range j.locks {
		if l := &j.locks[i]; l.used {
			j.stranded(l)
			l.classes(func(c *class) { j.asksOn(j.switches[l.sw], l, c) })
		}
	}
}

// quiet judges it of a switch, at the end or before it loses what it has. Servers, which lose nothing then, are judged
// at the last.
func (j *Judge) quiet(d *device, last bool) {
	heads := make(map[int32]int32) // the first of each lock that waits in a switch
	for i := range j.requests {
		r := &j.requests[i]
		if r.asks <= r.answers || int(r.sw) != d.number || r.phase != waiting && r.phase != owned {
			continue
		}
		if first, ok := heads[r.lock]; !ok || r.precedes(&j.requests[first]) {
			heads[r.lock] = int32(i)
		}
	}
	for i := range j.requests {
		r := &j.requests[i]
		if r.asks == 0 || int(r.sw) != d.number {
			continue
		}
		l := j.of(r)
		if last && r.answers == 0 && r.phase == owned && !j.lostByServer(d, l, r) && heads[r.lock] == int32(i) {
			j.neglected(d, l, r)
		}
		if r.answers > 0 || r.parks > 0 && r.back == unknown || r.phase != waiting {
			continue
		}
		if !d.out && (r.parks > 0 || !j.passedOver(d, l, r)) && heads[r.lock] == int32(i) {
			j.stuck(d, l, r)
		}
	}
}

// passedOver judges whether a request was skipped for good.
func (j *Judge) passedOver(d *device, l *state, r *request) bool {
	c := l.class(r)
	if c.before.order <= r.last || !d.exactly(j) {
		return false
	}
	if j.quietSince(d, int(r.port)) <= max(r.inserted, c.before.at).Add(d.PipelineMost) {
		return false // its grant may wait at the port
	}
	if (d.Period > 0 || d.OneRTT) && j.answeredBy(d, r) <= r.inserted.Add(d.PipelineMost) {
		return false // its rejection, or grant, may wait at the port
	}
	j.leftOut(d, l, r)
	j.tell(l, skipped(place{d.who, l.id, r.id}, c.before.id), j.now, r.id, c.before.id)
	return true
}

// leftOut judges that a shared request that is never granted was none of those that led the queue after an exclusive
// release and of which some were granted (N7).
func (j *Judge) leftOut(d *device, l *state, r *request) {
	if r.mode == netlock.Shared && l.exclusive != unknown && !l.exclusiveLeased && l.chained > 0 && !l.runs &&
		r.inserted.Add(j.facts.Uncertainty) < l.exclusive && d.Priorities <= 1 {
		j.tell(l, leftOfBatch(place{d.who, l.id, r.id}, l.chained), j.now, r.id)
	}
}

// askedAgain judges, before it counts that a client asks again, that its request was not lost (N3).
func (j *Judge) askedAgain(l *state, r *request) {
	d := j.switches[r.sw]
	if r.asks != 1 || r.answers > 0 || r.phase != waiting || d.out {
		return
	}
	if !j.passedOver(d, l, r) && j.unblocked(d, l, r) && j.heads(l, r) {
		j.stuck(d, l, r)
	}
}

// unblocked reports whether nobody holds a lock that a request waits for, and that for so long that it is overdue.
func (j *Judge) unblocked(d *device, l *state, r *request) bool {
	if l.xs > 0 || r.mode == netlock.Exclusive && l.held > 0 || len(j.requests) > mostScanned {
		return false
	}
	by, _, _ := j.due(d, l, r)
	return by.Add(d.PipelineMost+j.facts.Uncertainty) < j.now
}

// mostScanned is up to how many requests are looked through for one that is asked again; of more, the end of the
// observation shows what was lost.
const mostScanned = 1 << 14

// precedes reports whether a request is to be granted before another.
func (r *request) precedes(o *request) bool {
	return r.class < o.class || r.class == o.class && r.first < o.first
}

// heads reports whether no other request of a lock that waits is to be granted before.
func (j *Judge) heads(l *state, r *request) bool {
	for i := range j.requests {
		// Of a copy that was rejected the first may wait.
		if o := &j.requests[i]; o.asks > o.answers && o.lock == r.lock && o != r && o.phase != holding && o.precedes(r) {
			return false
		}
	}
	return true
}

// exactly reports whether the order of arrivals at different ports is certain.
func (d *device) exactly(j *Judge) bool { return j.facts.Uncertainty == 0 }

// stuck judges the first that waits for a lock.
func (j *Judge) stuck(d *device, l *state, r *request) {
	slots, known := d.Locks[l.id], d.Placed
	pending := r.inserted.Add(d.PipelineMost + j.facts.Uncertainty)
	if known && slots == 0 {
		if p := j.allQuietSince(d); pending < p && !d.Moves && pending > d.changed.Add(d.Settled) {
			j.tell(l, notForwarded(place{d.who, l.id, r.id}, cause.Span(j.now.Sub(r.inserted))), j.now, r.id)
		}
		return
	}
	if l.tainted || d.tookOver(l, r) || r.parks > 0 { // of its copies one came back, and waits here
		j.stalled(d, l, r)
		return
	}
	if len(d.ports) == 0 || d.Pauses {
		return
	}
	if l.outranked(r) {
		j.standsStill(d, l, r)
		return
	}
	if r.mode == netlock.Exclusive && l.held > 0 || l.xs > 0 {
		for i := l.holders; i != none; i = j.requests[i].next {
			if h := &j.requests[i]; r.mode == netlock.Exclusive || h.mode == netlock.Exclusive {
				if _, has := j.lapses(h); has == clock.Never || has.Add(d.PipelineMost+
					clock.Duration(d.Passes)*d.RecirculationMost) >= j.now {
					return
				}
			}
		}
		if by := j.answeredBy(d, r); by >= j.now {
			j.tell(l, neverExpired(place{d.who, l.id, r.id}), j.now, r.id)
		}
		return
	}
	by, _, leased := j.due(d, l, r)
	by = by.Add(d.PipelineMost + j.facts.Uncertainty + j.unseen(d, r))
	if by >= j.answeredBy(d, r) {
		return
	}
	if leased || l.endedLeased && r.mode == netlock.Exclusive || l.exclusiveLeased && r.mode == netlock.Shared {
		j.tell(l, neverExpired(place{d.who, l.id, r.id}), j.now, r.id)
		return
	}
	j.leftOut(d, l, r)
	j.tell(l, forgotten(place{d.who, l.id, r.id}, cause.Span(j.now.Sub(by))), j.now, r.id)
}

// answeredBy returns until when what was decided about a request has left: it may go to the server, or its grant to the
// database, whose ports are not known.
func (j *Judge) answeredBy(d *device, r *request) clock.Time {
	at := j.quietSince(d, int(r.port))
	if d.OneRTT || d.Moves || !r.returned {
		at = min(at, j.allQuietSince(d))
	}
	return at
}

// quietSince returns until when what a port had to send has been sent: the end, unless it is busy.
func (j *Judge) quietSince(d *device, at int) clock.Time {
	if at < 0 || at >= len(d.ports) {
		return unknown
	}
	return d.ports[at].QuietSince(j.now)
}

// allQuietSince returns until when what each of the ports had to send has been sent.
func (j *Judge) allQuietSince(d *device) clock.Time {
	at := j.now
	for i := range d.ports {
		at = min(at, j.quietSince(d, i))
	}
	return at
}

// stranded judges that a switch whose queue is empty asks for what the server buffers.
func (j *Judge) stranded(l *state) {
	d := j.switches[l.sw]
	if d.Moves {
		l.classes(func(c *class) { j.strandedAsItMoves(d, l, c) })
	}
	if l.parked == 0 || l.live == 0 || l.held > 0 || l.tainted || l.doubt || d.out || d.restarted || d.Moves {
		return
	}
	for i := range j.requests {
		if r := &j.requests[i]; r.asks > 0 && j.of(r) == l && r.phase != parked {
			return
		}
	}
	l.classes(func(c *class) { j.strandedIn(d, l, c) })
}

// strandedIn judges it of a queue.
func (j *Judge) strandedIn(d *device, l *state, c *class) {
	if c.parks[0] == none {
		return
	}
	first := j.requests[c.parks[0]].id
	if c.settled != unknown && !c.remain && j.requests[c.parks[1]].at <= c.began {
		return // what the server had has come back; the rest was lost on its way, as the switch knows
	}
	from := max(l.ended, c.settled, c.parkedAt)
	if c.pending() { // it has asked, also if requests have come back and gone since
		if d.PushRetry == 0 {
			return
		}
		from = max(from, c.requested.Add(d.PushRetry))
	}
	if from == unknown {
		return
	}
	if by := from.Add(d.PipelineMost + clock.Duration(d.Passes)*d.RecirculationMost + j.facts.Uncertainty); by <
		j.allQuietSince(d) {
		j.tell(l, strandedAt(place{d.who, l.id, first}, cause.Span(j.now.Sub(from))), j.now, first)
	}
}
