package lock

import (
	"candela.dev/candela/packet/netlock"
)

// forwarded follows an ACQUIRE that leaves for a server, or for another switch.
func (j *Judge) forwarded(d *device, p *Packet) {
	h := &p.Header
	r := j.find(j.keyOf(d, h, p.Src))
	if h.Mark == netlock.BufferOnly {
		j.measures.buffered++
		if l := j.lockOf(d.number, h.Lock); l != nil {
			c := l.classAt(classOf(d, h))
			c.parkings++
			c.everSent++
			c.sentAhead(p)
		}
	}
	if r == nil {
		return
	}
	l := j.of(r)
	j.unchanged(d, l, r, p)
	j.forwardsRightly(d, l, r, p)
	switch h.Mark {
	case netlock.BufferOnly:
		r.leavesOne()
		j.justified(d, l, r, p)
		j.homeless(d, l, r, p)
		r.buffers(l.class(r))
		if all := r.parks == 0 || r.buffered == l.home.given+1; all && h.Sent != 0 && j.follows(d) {
			r.buffered = l.home.given + 1
		} else {
			r.buffered = 0
		}
		r.parks++
		l.parked++
		l.class(r).parkedAt = p.Time
		if r.phase == waiting && r.parks >= r.asks-min(r.asks, r.answers) {
			r.phase, r.at = parked, p.Time
			j.park(l, r)
		}
	case netlock.Owned:
		r.leavesOne()
		r.handed++
		if r.out = none; p.Port >= 0 && p.Port < len(d.ports) {
			r.due, r.out = j.dueBy(d, p.Port), int32(p.Port)
		}
		if r.phase == waiting {
			r.phase = owned
			l.server = p.Dst
			j.misplaced(d, l, p, true)
			j.sendsOwn(d, l, r, p)
		}
	case netlock.Unmarked, netlock.Failover:
		if r.sent++; !r.linked && r.sent+r.answers >= r.asks {
			j.remove(r)
		}
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
		switch {
		case l.lost > 0:
			l.lost--
		case j.elsewhere(k, func(o *request) bool { return o.parks > 0 }) != nil:
			j.returnsOthers(d, k, p)
			return
		default:
			l.tainted = true
			return
		}
		r = j.request(k)
		l = j.of(r)
		j.order++
		r.mode, r.class, r.tenant, r.asks, r.id = h.Mode, classOf(d, h), h.Tenant, 1, p.ID
		r.stamp, r.priority = h.Timestamp, h.Priority
		// When it came first is not known any more: it has overtaken nobody.
		r.first, r.last, r.port, r.phase, r.arrived = 0, j.order, int32(p.Port), parked, p.Time
		r.came = p.Time
		l.copies++
	} else {
		j.returnsRightly(d, l, r, p)
		j.returnsCopies(d, l, r, p)
		if r.parks > 0 {
			r.parks--
			l.parked--
		}
	}
	r.returned = true
	r.comesBack()
	if r.phase == parked || r.phase == waiting || r.phase == answered && r.asks > r.answers {
		j.unpark(l, r, j.place(r))
		r.phase, r.inserted, r.back = waiting, p.Time, p.Time
		r.dequeues, r.given = l.class(r).dequeues, l.given
		j.recent(l, r)
	}
	if h.Last {
		j.settles(l, c, p)
	}
}

// returnsOthers follows a request that another switch has sent to be buffered: it came to the server late, and this
// switch takes it, or it was returned to that one, and this one ignores it.
func (j *Judge) returnsOthers(d *device, k key, p *Packet) {
	h := &p.Header
	r := j.request(k)
	j.order++
	r.mode, r.class, r.tenant, r.asks, r.id, r.phase = h.Mode, classOf(d, h), h.Tenant, 1, p.ID, gone
	r.last, r.arrived, r.came, r.stamp, r.priority, r.returned = j.order, p.Time, p.Time, h.Timestamp, h.Priority, true
	l := j.of(r)
	l.tainted = true
	l.copies++
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
		r.back = unknown
		r.stay.returns = max(r.stay.returns, 1) - 1
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
		if p.Header.Sent == l.classAt(classOf(d, &p.Header)).sent && !d.peer(p.Port) {
			l.cleared = p.Time
		}
		j.given(l, p)
		l.classes(func(c *class) { j.settles(l, c, p) })
	default:
		c := l.classAt(classOf(d, &p.Header))
		j.miscounted(d, l, c, p)
		c.emptied.says(p)
		j.settles(l, c, p)
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
	c.guesses, c.everArrived = c.parkings != c.parkingsAsked, c.everAsked
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
	// The switch knows, unless it was to ask again meanwhile, and was answered in part.
	d := j.switches[l.sw]
	knows := h.Op == netlock.PushEmpty && c.back < c.began || c.decided != unknown && d.PushRetry > 0 &&
		p.Time.Add(j.facts.Uncertainty) < c.decided.Add(d.PushRetry)
	if knows && l.counts() && c.parks[0] == none && l.parked == 0 && len(l.all) == 0 && !d.Moves {
		l.lost = 0
	}
}

// counts reports whether a switch knows from what servers say that they have received how much was lost.
func (l *state) counts() bool {
	exact := !l.guesses()
	l.classes(func(c *class) { exact = exact && c.parkings == c.parkingsAsked })
	return exact
}

// guesses reports whether a server may have counted what was sent after it was asked in the place of what was lost
// before. By the formula of section 6.2 the switch then may even take back what it knew to be lost.
func (l *state) guesses() (guesses bool) {
	l.classes(func(c *class) { guesses = guesses || c.guesses })
	return guesses
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
			c.began, c.parkingsAsked, c.everAsked = p.Time, c.parkings, c.everSent
		}
		c.questions++
		c.requested, c.decided, c.requestedBy, c.sent = p.Time, d.decided(j, p), p.ID, h.Sent
		if c.restarted && !before { // numbers begin anew
			c.restarted, c.index = false, h.Index
		}
		c.index = max(c.index, h.Index)
	}
	of := l.classAt(classOf(d, h))
	if h.Mark == netlock.Failover && h.Sent < of.base {
		return // it waited at its port, that to the other switch, while the lock moved on
	}
	if h.Mark != netlock.Failover {
		j.asksLate(d, l, of, p)
	}
	if h.Mark == netlock.Unmarked { // otherwise the lock moves, and requests queue
		j.prematurely(d, l, of, p)
		j.asksInVain(d, l, of, p)
		j.asksForAll(d, l, p)
		of.none = of.none || h.Avail == 0
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
				l.cleared = unknown
				c.base, c.parkings, c.parkingsAsked = h.Sent, 0, 0
			}
		})
		l.classes(asks)
		return
	}
	asks(of)
}
