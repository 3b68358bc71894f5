package lock

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// asks follows an ACQUIRE that enters.
func (j *Judge) asks(d *device, p *Packet, trunk bool) {
	if d.out {
		return
	}
	h := &p.Header
	k := j.keyOf(d, h, p.Src)
	j.order++
	r := j.find(k)
	if !trunk {
		j.measures.requests++
	}
	if r == nil {
		r = j.request(k)
		l := j.of(r)
		r.mode, r.class, r.tenant = h.Mode, classOf(d, h), h.Tenant
		r.present, r.over = l.copies, l.parked > 0 || l.lost > 0
		r.first, r.asks, r.id, r.came, r.stamp = j.order, 1, p.ID, p.Time, h.Timestamp
		l.copies++
		j.comes(d, l, r, p)
		return
	}
	l := j.of(r)
	if r.asks == 0 { // it holds, or did, and what it asked before was missed
		r.asks, r.first, r.came = r.answers+1, j.order, p.Time
	} else {
		j.askedAgain(l, r)
		r.asks++
		l.copies++
		if !d.Dedup || r.parks > 0 || r.expired {
			l.tainted = true
		}
	}
	if r.linked {
		r.comesBack()
		r.last = j.order
		r.arrived = p.Time
		j.counts(d, r, p)
		return
	}
	if r.was = r.phase; r.phase != waiting {
		j.unpark(l, r, j.place(r))
		r.mode, r.class = h.Mode, classOf(d, h)
	}
	j.comes(d, l, r, p)
}

func (j *Judge) comes(d *device, l *state, r *request, p *Packet) {
	r.phase, r.last, r.port = waiting, j.order, int32(p.Port)
	r.arrived, r.inserted = p.Time, p.Time
	r.dequeues, r.given = l.class(r).dequeues, l.given
	j.recent(l, r)
	j.comesBehind(l, r, p)
	j.counts(d, r, p)
}

func classOf(d *device, h *netlock.Header) uint8 {
	if d.Priorities <= 1 {
		return 0
	}
	if h.Priority == 0 || int(h.Priority) > d.Priorities {
		return uint8(d.Priorities - 1)
	}
	return h.Priority - 1
}

// withdrawn follows an ACQUIRE that the switch dropped as it came.
func (j *Judge) withdrawn(d *device, p *Packet) {
	if d.out { // it was not counted
		return
	}
	r := j.find(j.keyOf(d, &p.Header, p.Src))
	if r == nil {
		return
	}
	j.uncount(r)
	r.over = true // of the copy that the switch has
	if r.asks > 1 {
		l := j.of(r)
		r.asks--
		l.copies--
		if r.phase == waiting && !r.linked {
			if r.phase = r.was; r.was == parked {
				j.park(l, r)
			}
		}
	} else if !r.linked {
		j.remove(r)
	}
}

// releases follows a RELEASE that enters.
func (j *Judge) releases(d *device, p *Packet) {
	j.measures.released++
	h := &p.Header
	k := j.keyOf(d, h, p.Src)
	r := j.find(k)
	if r == nil || !r.linked {
		if other := j.elsewhere(k, func(o *request) bool { return o.linked }); other != nil {
			r = other
		}
	}
	if r == nil || !r.linked {
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

// released ends the hold of a request.
func (j *Judge) released(d *device, r *request, p *Packet) {
	l, own := j.of(r), j.switches[r.sw]
	if r.expired && !own.TIDCheck || int(r.sw) != d.number && !r.server {
		l.tainted = true
	}
	if d.out { // it does not know: others wait until the lease ends, if its registers come back at all
		l.tainted = true
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
		} else if own == d && own.Dedup && !r.server {
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
	if !r.expired {
		l.class(r).dequeues++
		j.dequeued(l, r, at)
	}
	if at >= l.ended {
		l.ended, l.endedLeased = at, leased
		l.stirs(j.switches[l.sw], at)
	}
	if r.mode == netlock.Exclusive && at >= l.exclusive {
		l.runs = l.exclusive != unknown && at <= l.running(j.switches[l.sw]).Add(j.facts.Uncertainty)
		l.exclusive, l.exclusiveLeased = at, leased
		l.chain, l.chained = 0, 0
	}
}

// recent remembers a request that has come to the queue: as long as time stamps may be wrong by, a release that is seen
// later may have come before it.
func (j *Judge) recent(l *state, r *request) {
	if j.facts.Uncertainty == 0 {
		return
	}
	r.crowded = false
	at := l.turn % uint8(len(l.recent))
	l.turn++
	if i := l.recent[at]; l.turn > uint8(len(l.recent)) && int(i) < len(j.requests) {
		if o := &j.requests[i]; o.lock == r.lock && o.inserted >= r.inserted.Add(-j.facts.Uncertainty) {
			o.crowded = true
		}
	}
	if l.turn == 0 { // so that it counts as full
		l.turn = uint8(len(l.recent)) * 2
	}
	l.recent[at] = j.place(r)
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

// lease returns for how long whoever granted a request lets it be held, 0: for ever, and how often it looks.
func (j *Judge) lease(r *request) (lease, poll clock.Duration) {
	if r.server && j.facts.ServersLease {
		return j.facts.ServerLease, j.facts.ServerPoll
	}
	d := j.switches[r.sw]
	return d.Lease, d.Poll
}

// lapses returns from when on the lease of a holder may have ended, and when it has; clock.Never: it does not end.
func (j *Judge) lapses(r *request) (may, has clock.Time) {
	d := j.switches[r.sw]
	lease, poll := j.lease(r)
	if lease == 0 {
		return clock.Never, clock.Never
	}
	may = r.earliest()
	if r.since != unknown && !r.server { // when a server decided is not known: its lease began then
		may = max(may, r.since.Add(-d.PipelineMost))
	}
	if may == unknown {
		may = r.at
	}
	if r.vague {
		may = unknown
	}
	return may.Add(lease - j.facts.Uncertainty), r.at.Add(lease + poll)
}

// expire ends leases.
func (j *Judge) expire() {
	for e := j.leases.front(); e != nil && e.at <= j.now; e = j.leases.front() {
		if r := &j.requests[e.request]; r.linked && !r.expired && r.key == e.key && r.serial == e.serial {
			j.mayLapse(r)
		}
		j.leases.pop()
	}
	for e := j.clears.front(); e != nil && e.at < j.now; e = j.clears.front() {
		if r := &j.requests[e.request]; r.linked && r.key == e.key && r.serial == e.serial {
			j.lapsed(r)
		}
		j.clears.pop()
	}
}

// mayLapse notes that the lease of a holder may have ended.
func (j *Judge) mayLapse(r *request) {
	r.expired = true
	l := j.of(r)
	l.class(r).dequeues++
	if _, has := j.lapses(r); !r.server {
		l.lapsing = max(l.lapsing, has)
	}
}

// lapsed ends a hold by its lease.
func (j *Judge) lapsed(r *request) {
	l := j.of(r)
	_, at := j.lapses(r)
	j.ends(l, r, at, true)
	l.lapsed = l.lapsed || r.server
	if r.asks > r.answers {
		r.phase, r.freed = answered, at
		return
	}
	j.remove(r)
}

// forwarded follows an ACQUIRE that leaves for a server, or for another switch.
func (j *Judge) forwarded(d *device, p *Packet) {
	h := &p.Header
	r := j.find(j.keyOf(d, h, p.Src))
	if h.Mark == netlock.BufferOnly {
		j.measures.buffered++
		if l := j.lockOf(d.number, h.Lock); l != nil {
			c := l.classAt(classOf(d, h))
			c.parkings++
			c.sentAhead(p)
		}
	}
	if r == nil {
		return
	}
	l := j.of(r)
	j.unchanged(d, l, r, p)
	switch h.Mark {
	case netlock.BufferOnly:
		r.leavesOne()
		j.justified(d, l, r, p)
		r.parks++
		l.parked++
		r.move = h.Sent
		l.class(r).parkedAt = p.Time
		if r.phase == waiting && r.parks >= r.asks-min(r.asks, r.answers) {
			r.phase, r.at = parked, p.Time
			j.park(l, r)
		}
	case netlock.Owned:
		r.leavesOne()
		r.handed++
		if r.phase == waiting {
			r.phase = owned
			l.server = p.Dst
			j.misplaced(d, l, p, true)
			j.sendsOwn(d, l, r, p)
		}
	case netlock.Unmarked, netlock.Failover:
		if r.linked || r.asks > 1 {
			return
		}
		j.remove(r)
	}
}

// pushedBack follows a request that a server returns.
func (j *Judge) pushedBack(d *device, p *Packet) {
	h := &p.Header
	if d.out {
		return
	}
	j.measures.pushed++
	l := j.lockOf(d.number, h.Lock)
	if l == nil {
		l = &j.locks[j.lock(h.Lock, uint8(d.number))]
	}
	c := l.classAt(classOf(d, h))
	j.tells(l, c, p)
	if !c.restarted && h.Sent == c.sent {
		j.counted(d, l, c, p)
	}
	if h.Index > 0 {
		if c.restarted { // it answers what was asked before: the switch, which has asked nothing since, ignores it
			l.tainted = true
			return
		}
		if h.Index <= c.index {
			if h.Last {
				j.settles(l, c, p)
			}
			return // the switch has it
		}
		if h.Index > c.index+1 { // some have been lost, and whether the switch takes this one is not known
			l.tainted = true
			if r := j.find(j.keyOf(d, h, p.Dst)); r != nil {
				r.returned = true
				r.comesBack()
			}
			return
		}
		c.index = h.Index
	}
	c.back = p.Time
	l.stirs(d, p.Time)
	k := j.keyOf(d, h, p.Dst)
	r := j.find(k)
	if r == nil {
		if l.lost == 0 {
			l.tainted = true
			return
		}
		l.lost--
		r = j.request(k)
		l = j.of(r)
		j.order++
		r.mode, r.class, r.tenant, r.asks, r.id = h.Mode, classOf(d, h), h.Tenant, 1, p.ID
		r.stamp = h.Timestamp
		// When it came first is not known any more: it has overtaken nobody.
		r.first, r.last, r.port, r.phase, r.arrived = 0, j.order, int32(p.Port), parked, p.Time
		r.came = p.Time
		l.copies++
	} else if r.parks > 0 {
		r.parks--
		l.parked--
	}
	r.returned = true
	r.comesBack()
	if r.phase == parked || r.phase == waiting || r.phase == answered && r.asks > r.answers {
		j.unpark(l, r, j.place(r))
		r.phase, r.inserted = waiting, p.Time
		r.dequeues, r.given = l.class(r).dequeues, l.given
		j.recent(l, r)
	}
	if h.Last {
		j.settles(l, c, p)
	}
}

// returnsAgain follows a request that a server returned and the switch dropped as it came: it has yet to come.
func (j *Judge) returnsAgain(d *device, p *Packet) {
	h := &p.Header
	l := j.lockOf(d.number, h.Lock)
	if l == nil {
		return
	}
	c := l.classAt(classOf(d, h))
	if h.Index != c.index {
		return
	}
	if h.Index > 0 {
		c.index--
	}
	if h.Last {
		c.settled = c.settledBefore
	}
	if r := j.find(j.keyOf(d, h, p.Dst)); r != nil && r.phase == waiting {
		r.parks++
		l.parked++
		if r.parks >= r.asks-min(r.asks, r.answers) {
			r.phase = parked
			j.park(l, r)
		}
	}
}

// pushAnswered follows a server that has nothing.
func (j *Judge) pushAnswered(d *device, p *Packet) {
	l := j.lockOf(d.number, p.Header.Lock)
	if l == nil || d.out {
		return
	}
	if c := l.classAt(classOf(d, &p.Header)); p.Header.Mark == netlock.Unmarked {
		j.tells(l, c, p)
	} else {
		j.moves(l)
	}
	switch p.Header.Mark {
	case netlock.Owned:
		j.handedOver(l, l.classAt(classOf(d, &p.Header)), p)
	case netlock.Failover:
		j.given(l, p)
		l.classes(func(c *class) { j.settles(l, c, p) })
	default:
		j.settles(l, l.classAt(classOf(d, &p.Header)), p)
	}
}

// handedOver follows a server that has taken a lock: it owns what it had buffered, and grants it (section 6.4).
func (j *Judge) handedOver(l *state, c *class, p *Packet) {
	if l.tainted = true; p.Header.Sent != c.sent { // the lock moves again since
		return
	}
	c.settled, c.settledBefore, c.remain = p.Time, c.settled, false
	c.handed = handover{p.Header.Sent, p.Time}
	for i := c.parks[0]; i != none; {
		r := &j.requests[i]
		i = r.next
		j.owns(l, r)
	}
	l.server = p.Src
}

// owns notes that a server owns the lock of a request that it was to buffer.
func (j *Judge) owns(l *state, r *request) {
	j.unpark(l, r, j.place(r))
	l.parked -= int32(r.parks)
	r.handed += r.parks
	r.parks, r.phase = 0, owned
}

// settles ends a hand-over. If the server has nothing left, what was sent to it before it was asked is lost.
func (j *Judge) settles(l *state, c *class, p *Packet) {
	h := &p.Header
	if h.Sent != 0 && h.Sent != c.sent { // the switch has asked again since
		return
	}
	c.settled, c.settledBefore = p.Time, c.settled
	l.stirs(j.switches[l.sw], p.Time)
	c.remain = h.Op == netlock.PushBack && h.Received != h.Index
	if c.remain || h.Op == netlock.PushBack && h.Index == 0 {
		return
	}
	for i := c.parks[0]; i != none; {
		r := &j.requests[i]
		i = r.next
		if r.at >= c.began {
			break
		}
		l.lost += int32(r.parks)
		if r.answers > 0 || r.asks > r.parks { // something else of it is under way
			j.unpark(l, r, j.place(r))
			l.parked -= int32(r.parks)
			r.parks, r.phase = 0, answered
			continue
		}
		j.remove(r)
	}
}

// pushRequested follows a switch that asks for what is parked.
func (j *Judge) pushRequested(d *device, p *Packet) {
	h := &p.Header
	l := j.lockOf(d.number, h.Lock)
	switch {
	case l == nil && h.Mark != netlock.Failover:
		return
	case l == nil: // what is sent to the server counts from now on
		l = &j.locks[j.lock(h.Lock, uint8(d.number))]
	}
	// A backup that takes over again goes on to send what it had decided before.
	before := d.Standby && d.decided(j, p) <= d.started
	asks := func(c *class) {
		if h.Sent != c.sent || c.began == unknown {
			c.began = p.Time
		}
		c.requested, c.sent = p.Time, h.Sent
		if c.restarted && !before { // numbers begin anew
			c.restarted, c.index = false, h.Index
		}
		c.index = max(c.index, h.Index)
	}
	of := l.classAt(classOf(d, h))
	if h.Mark == netlock.Failover && h.Sent < of.base {
		return // it waited at its port, that to the other switch, while the lock moved on
	}
	if h.Mark == netlock.Unmarked { // otherwise the lock moves, and requests queue
		j.prematurely(d, l, of, p)
		j.tells(l, of, p)
	} else {
		if h.Mark == netlock.Owned {
			j.handsAgain(d, l, of, p)
		}
		l.tainted = true
		j.moves(l)
		j.told(d, l, p)
	}
	if h.Mark == netlock.Failover {
		l.classes(func(c *class) {
			if c.base != h.Sent {
				c.base, c.parkings = h.Sent, 0
			}
		})
		l.classes(asks)
		return
	}
	asks(of)
}

// granted follows a grant that leaves.
func (j *Judge) granted(d *device, p *Packet, k key, since clock.Time) {
	h := &p.Header
	if r := j.elsewhere(k, func(o *request) bool { return o.transits > 0 }); r != nil {
		r.transits--
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
	server := h.Op == netlock.GrantFromServer
	if server {
		j.moves(l)
		r.handed = max(r.handed, 1) - 1
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
	if r.linked {
		return // it holds already: nothing changes
	}
	if r.asks == 0 && l.doubt && (server || since == unknown ||
		since.Add(-d.PipelineMost-j.facts.Uncertainty) <= j.gap) {
		j.remove(r) // a second answer to whoever may have released the lock before, unseen
		return
	}
	if r.phase == answered && !unasked && (server || since == unknown ||
		since.Add(-d.PipelineMost-j.facts.Uncertainty) <= r.freed) {
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
	r.vague = l.doubt
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
	if lease, _ := j.lease(r); lease > 0 {
		may, has := j.lapses(r)
		i := j.place(r)
		if may <= j.now { // it may have left the queue, before it was known to be in it
			l.tainted = true
			j.mayLapse(r)
		} else {
			j.leases.push(leased{at: may, request: i, key: r.key, serial: r.serial})
		}
		j.clears.push(leased{at: has, request: i, key: r.key, serial: r.serial})
	}
}

// rejected follows a REJECT that leaves.
func (j *Judge) rejected(d *device, p *Packet) {
	j.measures.rejects++
	k := j.keyOf(d, &p.Header, p.Dst)
	if r := j.elsewhere(k, func(o *request) bool { return o.transits > 0 }); r != nil {
		r.transits--
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

// outage forgets what a switch had in its registers.
func (j *Judge) outage(d *device) {
	for i := range j.requests {
		if r := &j.requests[i]; r.asks > 0 && int(r.sw) == d.number && r.phase == waiting {
			r.phase = gone
		}
	}
	for i := range j.locks {
		if l := &j.locks[i]; l.used && int(l.sw) == d.number {
			l.tainted = true
			j.moves(l)
			l.home = home{moved: unknown, taken: unknown, left: unknown, buffers: l.home.buffers}
			l.classes(func(c *class) {
				c.restarted, c.remain, c.sent, c.base, c.handed = true, false, 0, 0, handover{at: unknown}
				c.requested, c.began, c.settled, c.asked = unknown, unknown, unknown, unknown
			})
		}
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
