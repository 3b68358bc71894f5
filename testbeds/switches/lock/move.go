package lock

import (
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// Locks move (sections 6.4 and 9) in such a way that at most one owner grants, none forgets a request, and requests
// stay in order. What is said may be lost: PUSH_REQ is repeated until its PUSH_EMPTY comes.
//
// To the server: new requests are buffered. When the switch has no entry left, PUSH_REQ with mark OWNED says which of
// the buffered requests it has taken; the server grants the others, in order, and answers with PUSH_EMPTY of the same
// mark. Until then the switch goes on to send requests to be buffered, so that the server sees the order.
//
// To the switch: requests queue there and none is granted; releases go on to the former owner. PUSH_REQ with mark
// FAILOVER makes the server clear what it has buffered. When its own queue is empty it answers with PUSH_EMPTY of the
// same mark, and the switch grants. Until then also requests to be buffered have the number of the move: if PUSH_REQ is
// lost, they tell the server, which otherwise would grant them before those that wait in the switch. A switch that has
// lost its registers does the same, and also waits until the leases of those who may hold its locks have ended. From a
// backup switch locks move in the same way; then the server is asked.
//
// The numbers of buffered requests begin with the time: those of an earlier installation never come again.

// phase is what a lock does while it moves.
type phase uint8

const (
	serving  phase = iota
	draining       // requests are buffered until no entry is left
	handing        // the server is told that it owns the lock
	taking         // requests queue until the former owner's queue is empty
	yielded        // the other switch has it
)

// Source is from whom a switch takes a lock.
type Source uint8

// Sources.
const (
	FromServer Source = iota
	FromBackup        // and then from the server, which has buffered requests for the backup
)

// add installs a lock in a region of the pool, or with memory of its own.
func (d *DataPlane) add(lock uint32, slots int) (*entry, error) {
	switch {
	case slots < d.queues():
		return nil, fmt.Errorf("lock %d: %d slots, want at least %d", lock, slots, d.queues())
	case d.locks[lock] != nil:
		return nil, fmt.Errorf("lock %d is already installed", lock)
	}
	l := &entry{id: lock, rings: make([]ring, d.queues())}
	memory, left := []slot(nil), 0
	if d.pool == nil {
		memory = make([]slot, slots)
	} else {
		if left = d.regions.first(slots); left < 0 {
			return nil, fmt.Errorf("lock %d: no hole of %d slots", lock, slots)
		}
		memory = d.pool[left : left+slots : left+slots]
	}
	l.left = left
	l.divide(memory)
	for i := range l.rings {
		l.rings[i].class, l.rings[i].repeat = uint8(i), clock.Never
		if len(l.rings) > 1 {
			l.rings[i].priority = uint8(i + 1)
		}
	}
	if d.cfg.TIDCheck || d.cfg.Dedup {
		l.where = newIndex()
	}
	l.requests, l.most = d.tracker.take(lock)
	d.locks[lock] = l
	if d.pool != nil {
		d.regions.add(l.region())
	}
	return l, nil
}

// Install gives a lock so many slots, at least one for each priority. Nobody else may have granted it: see Take. A lock
// that is installed keeps what it has.
func (d *DataPlane) Install(lock uint32, slots int) error {
	_, err := d.add(lock, slots)
	return err
}

// Take installs a lock that others own until now. It grants nothing before an instant: when the leases of holders that
// nobody knows have ended. The outputs are valid until the next call.
func (d *DataPlane) Take(now clock.Time, lock uint32, slots int, from Source, notBefore clock.Time) ([]Output, error) {
	d.out = d.out[:0]
	if l := d.locks[lock]; l != nil && l.phase == yielded { // the other switch had it
		d.remove(now, l)
	}
	l, err := d.add(lock, slots)
	if err != nil {
		return nil, err
	}
	if d.cfg.Bugs.Has(ForgetsBackup) {
		from = FromServer
	}
	l.phase, l.from, l.base, l.notBefore = taking, from, uint64(max(0, now)), notBefore
	if d.cfg.Bugs.Has(GrantsBeforeLease) {
		l.notBefore = now
	}
	for i := range l.rings {
		l.rings[i].sent, l.rings[i].back = l.base, l.base
	}
	d.push(now, l, &l.rings[0])
	if d.cfg.Bugs.Has(ForgetsOwner) {
		d.took(now, l)
	}
	return d.out, nil
}

// early reports whether a bug makes a lock grant before its former owner's queue is empty.
func (d *DataPlane) early(l *entry) bool {
	return l.phase == taking && d.cfg.Bugs.Has(GrantsWhileTaking)
}

// took proceeds as the former owner's queue is empty.
func (d *DataPlane) took(now clock.Time, l *entry) {
	if l.from == FromBackup {
		l.from = FromServer
		l.base++ // another question: the backup may answer the first one twice
		for i := range l.rings {
			l.rings[i].sent, l.rings[i].back = l.base, l.base
		}
		d.push(now, l, &l.rings[0])
		return
	}
	l.cleared = true
	l.rings[0].answered()
	d.starts = append(d.starts, l)
	d.begin(now)
}

// begin serves the locks that may be served.
func (d *DataPlane) begin(now clock.Time) {
	for i := 0; i < len(d.starts); {
		l := d.starts[i]
		if l.notBefore > now && !l.removed {
			i++
			continue
		}
		d.starts = slices.Delete(d.starts, i, i+1)
		if l.removed {
			continue
		}
		l.phase = serving
		d.drained = min(d.drained, now)
		switch {
		case l.count() == 0 || d.cfg.Bugs.Has(ForgetsWaiting):
		case len(l.rings) > 1:
			d.kick(l)
		default:
			d.next(l, &l.rings[0], true)
		}
		for i := range l.rings {
			d.refill(now, l, &l.rings[i])
		}
		d.settle(now, l)
	}
}

// Leave begins to move a lock to its server. One that moves already, or is not installed, does not. The outputs are
// valid until the next call.
func (d *DataPlane) Leave(now clock.Time, lock uint32) []Output {
	d.out = d.out[:0]
	if l := d.locks[lock]; l != nil && l.phase == serving && !l.wanted {
		l.phase, l.leaving = draining, true
		if d.cfg.Bugs.Has(LeavesHolders) {
			d.handOver(now, l)
		} else {
			d.settle(now, l)
		}
	}
	return d.out
}

// Drain begins to empty the queue of a lock, which then can be placed. It reports whether the lock does: one that
// moves, or is not installed, does not.
func (d *DataPlane) Drain(lock uint32) bool {
	l := d.locks[lock]
	if l == nil || l.phase != serving || l.wanted {
		return false
	}
	l.phase, l.leaving = draining, false
	d.settle(0, l)
	return true
}

// Drained reports whether a lock can be placed.
func (d *DataPlane) Drained(lock uint32) bool {
	l := d.locks[lock]
	return l != nil && l.phase == draining && !l.leaving && l.count() == 0 && !l.asks()
}

// asks reports whether a push request has no answer yet.
func (l *entry) asks() bool {
	return slices.ContainsFunc(l.rings, func(q ring) bool { return q.pushing })
}

// Place gives a lock that is drained another region, which must be free but for what the lock has, and lets it serve.
// The outputs are valid until the next call.
func (d *DataPlane) Place(now clock.Time, lock uint32, left, slots int) []Output {
	d.out = d.out[:0]
	if !d.Drained(lock) {
		panic(fmt.Sprintf("lock %d is placed before it is drained", lock))
	}
	l := d.locks[lock]
	if d.pool == nil {
		l.divide(make([]slot, slots))
	} else {
		d.regions.remove(l.region())
		l.left = left
		l.divide(d.pool[left : left+slots : left+slots])
		if l.reserved {
			d.regions.remove(l.reserve)
			l.reserved = false
		}
		d.regions.add(l.region())
	}
	if l.where != nil {
		l.where = newIndex()
	}
	l.phase = serving
	for i := range l.rings {
		d.refill(now, l, &l.rings[i])
	}
	d.settle(now, l)
	return d.out
}

// settle proceeds with the move of a lock that has no entry left.
func (d *DataPlane) settle(now clock.Time, l *entry) {
	if l.count() > 0 || l.asks() {
		return
	}
	switch {
	case l.phase == draining && l.leaving:
		d.handOver(now, l)
	case l.phase == draining:
		d.drained = min(d.drained, now)
	case l.wanted && l.phase == serving && l.over() == 0:
		d.yield(l)
	}
}

// handOver tells the server that it owns a lock.
func (d *DataPlane) handOver(now clock.Time, l *entry) {
	l.phase = handing
	for i := range l.rings {
		d.push(now, l, &l.rings[i])
	}
}

// handedOver notes that the server owns a queue of a lock. After the last one the switch forgets the lock.
func (d *DataPlane) handedOver(now clock.Time, l *entry, q *ring) {
	q.answered()
	q.handed = true
	switch {
	case slices.ContainsFunc(l.rings, func(q ring) bool { return !q.handed }):
	case d.cfg.Bugs.Has(KeepsServing):
		l.phase, l.leaving = serving, false
		for i := range l.rings {
			q := &l.rings[i]
			q.back, q.lost, q.handed = q.sent, 0, false
		}
		d.drained = min(d.drained, now)
	default:
		d.remove(now, l)
	}
}

// remove forgets a lock.
func (d *DataPlane) remove(now clock.Time, l *entry) {
	l.removed = true
	for i := range l.rings {
		l.rings[i].answered()
	}
	delete(d.locks, l.id)
	if d.pool != nil {
		d.regions.remove(l.region())
		if l.reserved {
			d.regions.remove(l.reserve)
		}
	}
	d.tracker.put(l)
	d.drained = min(d.drained, now)
}

// Yield takes a PUSH_REQ with mark FAILOVER of the other switch: it wants a lock, and queues all requests from now on.
// The outputs, also of later calls, have Emptied for it when the queue here is empty. They are valid until the next
// call.
func (d *DataPlane) Yield(now clock.Time, lock uint32, a Answer) []Output {
	d.out = d.out[:0]
	l := d.locks[lock]
	if l == nil {
		d.emit(Output{Kind: Emptied, Request: Request{Lock: lock}, Sent: a.Sent, Index: a.Sent, Mark: netlock.Failover,
			Peer: true})
		return d.out
	}
	l.wanted, l.wantedBy = true, a.Sent
	switch {
	case l.phase == yielded:
		d.yield(l)
	case d.cfg.Bugs.Has(KeepsYielded):
		phase := l.phase
		d.yield(l)
		l.phase = phase
	default:
		d.settle(now, l) // a lock that is being taken may have holders that nobody here knows
	}
	return d.out
}

// yield tells the other switch that the queue of a lock is empty.
func (d *DataPlane) yield(l *entry) {
	l.phase = yielded
	for i := range l.rings {
		l.rings[i].answered()
	}
	d.emit(Output{Kind: Emptied, Request: Request{Lock: l.id}, Sent: l.wantedBy, Index: l.wantedBy, Mark: netlock.Failover,
		Peer: true})
}

// Moving reports whether a lock moves, or is about to.
func (d *DataPlane) Moving(lock uint32) bool {
	l := d.locks[lock]
	return l != nil && (l.phase != serving || l.wanted)
}
