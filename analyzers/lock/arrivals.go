package lock

import (
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
		r.present, r.over = l.copies, l.parked > 0 || l.lost > 0 || l.guesses()
		r.first, r.asks, r.id, r.came, r.stamp = j.order, 1, p.ID, p.Time, h.Timestamp
		r.priority = h.Priority
		j.targets(r, p)
		l.copies++
		j.comes(d, l, r, p)
		return
	}
	l := j.of(r)
	if r.asks == 0 { // it holds, or did, and what it asked before was missed
		r.asks, r.first, r.came = r.answers+1, j.order, p.Time
		l.copies += int32(r.answers) // it counted as one
	} else {
		j.askedAgain(l, r)
		r.asks++
		l.copies++
		if !d.Dedup || r.parks > 0 || r.expired {
			l.tainted = true
		}
	}
	j.targets(r, p)
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
	r.phase, r.last, r.port, r.sealed = waiting, j.order, int32(p.Port), false
	r.arrived, r.inserted, r.before = p.Time, p.Time, r.inserted
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
			r.inserted = min(r.inserted, r.before)
		}
	} else if !r.linked {
		j.remove(r)
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
