package lock

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// A lock with priorities (section 8.2) has a queue for each, which has its own part of the lock's region and its own
// buffer at the server. In a queue holders come first. What the server buffers, of whatever mode, keeps requests of
// lower priorities waiting as an exclusive request in the switch would: the switch cannot see its mode. Only while a
// lock moves away, what is in the switch comes first.

// admits reports whether a request that comes now has the lock at once.
func (l *entry) admits(q *ring, mode netlock.Mode) bool {
	for i := range l.rings[:q.class] {
		if l.phase != draining && l.rings[i].over() > 0 {
			return false
		}
	}
	if l.count() == 0 {
		return true
	}
	if mode == netlock.Exclusive || l.exclusive || l.busy {
		return false
	}
	for i := range l.rings[:q.class+1] {
		if l.rings[i].exclusives > 0 {
			return false
		}
	}
	return q.next == q.tail
}

// left notes that the oldest entry of a queue has gone.
func (d *DataPlane) left(l *entry, q *ring, granted bool) {
	q.next = max(q.next, q.head)
	if granted {
		if l.holders--; l.holders == 0 && !(d.cfg.Bugs.Has(KeepsExclusive) && q.count() == 0) {
			l.exclusive = false
		}
	}
}

// kick sends a packet through the switch again if a request may be granted.
func (d *DataPlane) kick(l *entry) {
	if l.busy || l.exclusive || l.phase > draining {
		return
	}
	for i := range l.rings {
		if q := &l.rings[i]; q.next < q.tail {
			l.busy = true
			d.emit(Output{Kind: Recirculate, Pass: Pass{lock: l}})
			return
		}
	}
}

// step grants the first request that waits in the highest queue, and goes on if it is shared.
func (d *DataPlane) step(now clock.Time, l *entry) {
	l.busy = false
	if l.phase > draining {
		return
	}
	for i := range l.rings {
		if d.cfg.Bugs.Has(LowestFirst) {
			i = len(l.rings) - 1 - i
		}
		q := &l.rings[i]
		if q.next == q.tail {
			if q.over() > 0 && l.phase == serving {
				return
			}
			continue
		}
		mode := q.at(q.next).Mode
		if l.exclusive || mode == netlock.Exclusive && l.holders > 0 {
			return
		}
		d.grant(now, l, q, q.next)
		if mode == netlock.Shared {
			l.busy = true
			d.emit(Output{Kind: Recirculate, Pass: Pass{lock: l}})
		}
		return
	}
}
