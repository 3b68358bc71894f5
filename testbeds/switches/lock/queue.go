package lock

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// slot is a request in a queue.
type slot struct {
	Request
	granted   bool
	grantedAt clock.Time
}

// ring is a queue of a lock. Positions are sequence numbers that never wrap: with wrapped ones a full ring looks as an
// empty one (section 4).
type ring struct {
	class      uint8
	priority   uint8 // 0: the only queue
	slots      []slot
	head, tail uint64
	next       uint64 // with priorities: the first one that waits
	exclusives int    // with priorities: exclusive ones that wait
	sent       uint64 // requests ever forwarded to be buffered
	back       uint64 // of them, those that the server has pushed back
	lost       uint64 // and those that it has not received
	pushing    bool   // a push request has no answer yet
	asked      uint64 // value of sent in the latest push request
	repeat     clock.Time
	unanswered uint32 // times that the latest push request has been due again
	handed     bool   // the server owns it
}

func (q *ring) count() int        { return int(q.tail - q.head) }
func (q *ring) free() int         { return len(q.slots) - q.count() }
func (q *ring) at(n uint64) *slot { return &q.slots[n%uint64(len(q.slots))] }

// over returns how many requests the server buffers or are on the way to it.
func (q *ring) over() int { return int(q.sent - q.back - q.lost) }

// answered notes that nothing is asked any more.
func (q *ring) answered() { q.pushing, q.repeat, q.unanswered = false, clock.Never, 0 }

// miss notes what the server had received when it answered. Links are first in, first out: what was sent before the
// push request and has not been received is lost. A server that replaces another one may not know what that has pushed
// back at last.
//
// What a former owner had sent before it failed may come to the server once this switch has taken over, and is counted
// with what this one has sent: it is returned, too, and until then nothing may pass it.
func (q *ring) miss(received uint64, bugs Bugs) {
	if received > q.sent && received-q.sent <= mostOfOthers {
		q.sent = received
	}
	if received <= q.asked && q.back <= q.asked && !bugs.Has(CountsNoLosses) {
		q.lost = min(max(q.lost, q.asked-received), q.asked-q.back)
	}
}

// mostOfOthers bounds what a former owner may have had on the way.
const mostOfOthers = 1 << 16

// entry is an installed lock.
type entry struct {
	id      uint32
	rings   []ring // by priority
	queued  [2]int // entries by mode, holders included
	busy    bool   // a chain is recirculating; with priorities, any pass
	where   *index // nil: nothing looks for entries
	removed bool

	left, size int // its region of the pool
	reserve    Region
	reserved   bool // it gets that region as soon as it is drained

	holders   int  // with priorities
	exclusive bool // with priorities: of the holders

	phase     phase
	leaving   bool       // of draining: for the server; otherwise for another region
	from      Source     // of taking: who is asked
	base      uint64     // of taking: what sent and back began with
	cleared   bool       // of taking: the former owner's queue is empty
	notBefore clock.Time // of taking
	wanted    bool       // the other switch has asked for it
	wantedBy  uint64     // its base

	polled clock.Time // when leases of its holders were looked at last

	requests, most int // counters for the allocation: requests, and most entries and buffered requests at a time
}

func (l *entry) count() int { return l.queued[0] + l.queued[1] }

// over returns how many requests the server buffers.
func (l *entry) over() (n int) {
	for i := range l.rings {
		n += l.rings[i].over()
	}
	return n
}

// ring returns the queue of a request.
func (l *entry) ring(r *Request) *ring {
	last := len(l.rings) - 1
	if n := int(r.Priority); n >= 1 && n <= last {
		return &l.rings[n-1]
	}
	return &l.rings[last]
}

// divide gives each queue its part of a region: equal ones, and of what remains one slot each to the highest.
func (l *entry) divide(slots []slot) {
	l.size = len(slots)
	for i := range l.rings {
		n := len(slots) / (len(l.rings) - i)
		if len(slots)%(len(l.rings)-i) > 0 {
			n++
		}
		l.rings[i].slots, slots = slots[:n:n], slots[n:]
	}
}

// exchange exchanges the oldest entry of a queue with another one.
func (l *entry) exchange(q *ring, n uint64) {
	first, own := q.at(q.head), q.at(n)
	*first, *own = *own, *first
	l.where.put(first.key(), place{q.head, q.class})
	l.where.put(own.key(), place{n, q.class})
}

// push asks the server for what it buffers. Avail slots are for packets after the one numbered back. While a lock
// moves, it says so instead.
func (d *DataPlane) push(now clock.Time, l *entry, q *ring) {
	o := Output{Kind: PushRequest, Request: Request{Lock: l.id, Priority: q.priority}, Avail: uint32(q.free()),
		Sent: q.sent, Index: q.back}
	if d.cfg.Bugs.Has(AsksForFewer) && q.free() > 1 {
		o.Avail--
	}
	switch {
	case l.phase == taking:
		o = Output{Kind: PushRequest, Request: Request{Lock: l.id}, Sent: l.base, Index: l.base, Mark: netlock.Failover,
			Peer: l.from == FromBackup}
		q.asked = l.base
	case l.phase == handing && q.pushing: // the same again
		o.Avail, o.Sent, o.Mark = 0, q.asked, netlock.Owned
	case l.phase == handing:
		o.Avail, o.Mark, q.asked = 0, netlock.Owned, q.sent
	case q.pushing: // the same question, so that a late answer to the first one ends it
		o.Sent = q.asked
	default:
		q.asked = q.sent
	}
	q.pushing = true
	d.remind(now, l, q)
	d.touch(regPushing)
	d.emit(o)
}

// remind sets when a push request is due again.
func (d *DataPlane) remind(now clock.Time, l *entry, q *ring) {
	if d.cfg.PushTimeout > 0 && !d.cfg.Bugs.Has(NeverRepeats) {
		q.repeat = now.Add(d.cfg.PushTimeout)
		d.repeats.push(repeat{l, q, q.repeat})
	}
}

// patient reports whether a push request that is due again waits longer: the answer about a lock that moves may have to
// wait for its holders, so that each repetition comes after twice the time. It counts how often it was due.
func (q *ring) patient(l *entry) bool {
	q.unanswered++
	return l.phase > draining && q.unanswered&(q.unanswered-1) != 0
}

// refill asks for buffered requests if a queue has none left.
func (d *DataPlane) refill(now clock.Time, l *entry, q *ring) {
	idle := q.count() == 0 || d.cfg.Bugs.Has(PushWhileBusy) && q.free() > 0
	if l.phase == serving && idle && q.over() > 0 && !q.pushing {
		d.push(now, l, q)
	}
}

// Answer is what a lock server says when it pushes requests back, or has none.
type Answer struct {
	Last     bool         // of the requests that one push request gets; an answer without a request is the only one
	Received uint64       // requests that it ever received to be buffered
	Index    uint64       // number of the request among those ever pushed back for the lock, from 1
	Sent     uint64       // as in the push request that it answers
	Queue    uint8        // priority of the queue that it is about; 0: the only one
	Mark     netlock.Mark // of PUSH_EMPTY: as in the push request that it answers
}

// PushBack takes a request that the server has buffered. Requests come in order: after a gap, and again, they are
// dropped, and the next push request says which one was the last. The outputs are valid until the next call.
func (d *DataPlane) PushBack(now clock.Time, r Request, a Answer) []Output {
	d.out = d.out[:0]
	l := d.locks[r.Lock]
	d.touch(regPhase)
	d.touch(regBack)
	if l == nil || l.phase > draining {
		d.emit(Output{Kind: Dropped, Request: r})
		return d.out
	}
	q := l.ring(&r)
	d.touch(regRoom)
	again := d.cfg.Bugs.Has(DoublePushBack) && a.Index <= q.back && q.free() > 0
	switch {
	case !again && (q.over() == 0 || q.free() == 0 || a.Index != q.back+1):
		d.emit(Output{Kind: Dropped, Request: r})
		if a.Index > q.back {
			return d.out // the next push request says what is missing
		}
	case again:
		d.insert(now, l, q, &r)
	default:
		q.back++
		if _, queued := l.where.get(r.key()); queued && d.cfg.Dedup && !d.cfg.Bugs.Has(NoDedup) {
			d.emit(Output{Kind: Dropped, Request: r}) // it was asked for again
			break
		}
		d.insert(now, l, q, &r)
	}
	if a.Last && q.pushing && a.Sent == q.asked {
		q.answered()
		q.miss(a.Received, d.cfg.Bugs)
		d.refill(now, l, q)
		if l.count() == 0 {
			d.settle(now, l)
		}
		if !q.pushing {
			d.touch(regPushing) // otherwise it stays
		}
	}
	if len(l.rings) > 1 {
		d.kick(l)
	}
	return d.out
}

// PushEmpty takes the answer of a server that buffers nothing, or that was asked for nothing as the queue was full.
// With a mark it ends the move of a lock. The outputs are valid until the next call.
func (d *DataPlane) PushEmpty(now clock.Time, lock uint32, a Answer) []Output {
	d.out = d.out[:0]
	l := d.locks[lock]
	if l == nil {
		return d.out
	}
	q := l.ring(&Request{Priority: a.Queue})
	d.touch(regPhase)
	d.touch(regBack)
	switch {
	case a.Mark == netlock.Failover:
		if l.phase == taking && a.Sent == l.base && !l.cleared {
			d.took(now, l)
		}
	case a.Mark == netlock.Owned:
		if l.phase == handing && a.Sent == q.asked {
			d.handedOver(now, l, q)
		}
	case l.phase > draining || !q.pushing || a.Sent != q.asked || a.Index != q.back:
		// an answer to a push request that was repeated
	default:
		d.touch(regRoom)
		q.answered()
		q.miss(a.Received, d.cfg.Bugs)
		if d.refill(now, l, q); !q.pushing {
			d.touch(regPushing) // otherwise it stays
		}
		if len(l.rings) > 1 {
			d.kick(l)
		}
		if l.count() == 0 {
			d.settle(now, l)
		}
	}
	return d.out
}

// repeat is when a push request without an answer is repeated. They are in order of time.
type repeat struct {
	lock *entry
	ring *ring
	at   clock.Time
}

// NextTimer returns when Timer is due; clock.Never: not before the next packet.
func (d *DataPlane) NextTimer() clock.Time {
	next := clock.Never
	for r := d.repeats.front(); r != nil; r = d.repeats.front() {
		if r.ring.repeat == r.at {
			next = r.at
			break
		}
		d.repeats.pop()
	}
	for _, l := range d.starts {
		next = min(next, l.notBefore)
	}
	return next
}

// Timer repeats push requests, and begins to serve locks whose former holders' leases have ended. The outputs are valid
// until the next call.
func (d *DataPlane) Timer(now clock.Time) []Output {
	d.out = d.out[:0]
	d.begin(now)
	for d.NextTimer() <= now {
		r := *d.repeats.front()
		d.repeats.pop()
		if r.lock.phase <= draining && r.ring.count() > 0 {
			r.ring.answered() // in part; what else there is, is asked for when the queue is empty again
			continue
		}
		if r.ring.patient(r.lock) || r.lock.phase > draining && d.cfg.Bugs.Has(TellsOnce) {
			d.remind(now, r.lock, r.ring)
			continue
		}
		d.push(now, r.lock, r.ring)
	}
	return d.out
}
