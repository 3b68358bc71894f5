package lock

import (
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
)

// process is the data plane.
func (m *sim) process(b *box, f *frame) {
	switch f.h.Op {
	case netlock.Acquire:
		m.acquire(b, f)
	case netlock.Release:
		m.release(b, f)
	case netlock.PushBack:
		m.takeBack(b, f)
	case netlock.PushEmpty:
		if q := b.queues[f.h.Lock]; q != nil {
			m.pushed(b, q, f.h.Received)
		}
	case netlock.GrantFromServer:
		m.send(b, m.portOf(f.dst), f, 0)
	}
}

func (m *sim) portOf(a netip.Addr) int { return int(a.As4()[2])<<8 + int(a.As4()[3]) - 1 }

func (m *sim) whoOf(f *frame) who {
	client := f.src
	if f.h.Address.IsValid() {
		client = f.h.Address
	}
	return who{f.h.Lock, f.h.Transaction, m.portOf(client)}
}

func (m *sim) forward(b *box, f *frame, mark netlock.Mark) {
	out := *f
	out.h.Mark = mark
	m.ids++
	out.id = m.ids
	m.send(b, m.clients, &out, 0)
}

func (m *sim) acquire(b *box, f *frame) {
	if m.overQuota(b, f) {
		return
	}
	q := b.queues[f.h.Lock]
	if q == nil {
		switch {
		case m.faulty("drops-foreign"):
		case m.faulty("grants-foreign"):
			m.grant(b, nil, entry{who: m.whoOf(f), mode: f.h.Mode}, 0)
		default:
			m.forward(b, f, netlock.Owned)
		}
		return
	}
	e := entry{who: m.whoOf(f), mode: f.h.Mode, priority: f.h.Priority, tenant: f.h.Tenant}
	if m.facts.Dedup {
		if at := q.find(e.who); at != nil {
			if at.granted && m.answers {
				m.grant(b, q, *at, 0)
			}
			return
		}
	}
	full := q.count() >= q.slots
	if m.faulty("too-full") {
		full = full && q.count() > q.slots
		if q.lists == nil && q.count() == len(q.ring) { // make room for one more
			q.grow()
		}
	}
	over := q.over > 0
	if over && m.faulty("overtakes-buffer") {
		over = false
	}
	switch {
	case m.faulty("sends-away"):
		m.forward(b, f, netlock.Owned)
	case full || over || q.count()+1 < q.slots && m.faulty("buffers-early"):
		q.over++
		q.sent++
		m.forward(b, f, netlock.BufferOnly)
	case m.faulty("forgets"):
	default:
		m.insert(b, q, e)
	}
}

func (q *queue) grow() {
	ring := make([]entry, len(q.ring)+1)
	for s := q.head; s < q.tail; s++ {
		ring[s%uint64(len(ring))] = q.ring[s%uint64(len(q.ring))]
	}
	q.ring = ring
}

func (q *queue) at(s uint64) *entry { return &q.ring[s%uint64(len(q.ring))] }

func (q *queue) find(w who) *entry {
	for s := q.head; s < q.tail; s++ {
		if e := q.at(s); e.who == w {
			return e
		}
	}
	for _, list := range q.lists {
		for i := range list {
			if list[i].who == w {
				return &list[i]
			}
		}
	}
	return nil
}

func (m *sim) overQuota(b *box, f *frame) bool {
	limit, ok := m.facts.Quota[f.h.Tenant]
	if m.facts.Period == 0 || !ok {
		return false
	}
	if n := floor(m.now.Sub(m.facts.Reset), m.facts.Period); n != b.period {
		b.period = n
		clear(b.quota)
	}
	if b.quota[f.h.Tenant]++; b.quota[f.h.Tenant] <= limit && !m.faulty("rejects-early") || m.fault == "ignores-quota" {
		m.happened++
		return false
	}
	h := f.h
	h.Op = netlock.Reject
	m.send(b, m.portOf(f.src), m.frame(serverAddress, f.src, netlock.ReplyPort, h), 0)
	return true
}

// mayGrant reports whether the switch may grant at all (failover).
func (m *sim) mayGrant(b *box, q *queue) bool {
	if m.now < b.waits && !m.faulty("takes-over-early") {
		return false
	}
	if m.backup && b.number == 0 && m.back > 0 && m.now >= clock.Time(m.back) {
		if o := m.boxes[1].queues[q.id]; (o.count() > 0 || o.over > 0) && m.fault != "bypasses-backup" {
			return false
		}
		if m.fault == "bypasses-backup" {
			m.happened++
		}
	}
	return true
}

func (m *sim) insert(b *box, q *queue, e entry) {
	mode := m.facts.Processing
	grants := e.mode == netlock.Shared && q.nX == 0 && (mode != lock.ChainLock || !q.busy) ||
		e.mode == netlock.Exclusive && q.count() == 0
	if q.lists != nil {
		blocked := false
		for i := range int(e.priority) {
			for _, other := range q.lists[i] {
				blocked = blocked || other.mode == netlock.Exclusive
			}
		}
		for _, list := range q.lists {
			for _, other := range list {
				blocked = blocked || other.granted && other.mode == netlock.Exclusive
			}
		}
		grants = q.count() == 0 || e.mode == netlock.Shared && !blocked && !q.busy
	}
	if e.mode == netlock.Exclusive && q.count() > 0 && q.nX == 0 && m.faulty("shares-exclusive") {
		grants = true
	}
	if e.mode == netlock.Shared && q.nX > 0 && m.faulty("admits-shared") {
		grants = true
	}
	if m.backup || b.waits > 0 {
		m.unlock(b, q)
		grants = grants && !q.withheld
		if grants && !m.mayGrant(b, q) {
			grants, q.withheld = false, true
		}
	}
	if grants {
		e.granted, e.at = true, m.now
	}
	if q.lists != nil {
		q.lists[e.priority-1] = append(q.lists[e.priority-1], e)
	} else {
		*q.at(q.tail) = e
		q.tail++
	}
	if e.mode == netlock.Exclusive {
		q.nX++
	} else {
		q.nS++
	}
	if grants {
		delay := clock.Duration(0)
		if m.faulty("grants-late") {
			delay = 2 * us
		}
		m.grant(b, q, e, delay)
	}
}

func (m *sim) grant(b *box, q *queue, e entry, delay clock.Duration) {
	h := netlock.Header{Op: netlock.Acquire, Mode: e.mode, Lock: e.lock, Transaction: e.tid, Tenant: e.tenant}
	if e.pushed {
		h.Op = netlock.PushBack
	}
	m.history = append(m.history, event{m.now.Add(m.facts.Pipeline), 'g', e.who, e.mode, len(m.history)})
	if m.faulty("loses-grant") {
		return
	}
	m.send(b, e.client, m.frame(serverAddress, address(e.client), netlock.ReplyPort, h), delay)
	if m.faulty("grants-twice") {
		m.send(b, e.client, m.frame(serverAddress, address(e.client), netlock.ReplyPort, h), delay+40*ns)
	}
}

func (m *sim) release(b *box, f *frame) {
	w := m.whoOf(f)
	q := b.queues[f.h.Lock]
	if q == nil {
		m.forward(b, f, netlock.Owned)
		return
	}
	if q.count() == 0 || m.faulty("ignores-release") {
		return
	}
	m.drop(b, q, w, m.facts.TIDCheck && !m.faulty("checks-nothing"))
}

// drop removes the entry of a holder, or whatever is first, and goes on with the release.
func (m *sim) drop(b *box, q *queue, w who, exactly bool) {
	if q.lists != nil {
		m.dropOf(b, q, w)
		return
	}
	if exactly {
		found := false
		for s := q.head; s < q.tail; s++ {
			if e := q.at(s); e.who == w && e.granted {
				*e, found = *q.at(q.head), true
				break
			}
		}
		if !found {
			return
		}
	}
	mode := q.at(q.head).mode
	m.history = append(m.history, event{m.now, 'r', w, mode, len(m.history)})
	q.at(q.head).free = true
	q.head++
	q.less(mode)
	if q.count() == 0 {
		m.empty(b, q)
		return
	}
	if q.over > 0 && !q.out && m.faulty("asks-early") {
		m.ask(b, q)
	}
	m.resubmit(b, q, mode)
}

func (q *queue) less(mode netlock.Mode) {
	if mode == netlock.Exclusive {
		q.nX--
	} else {
		q.nS--
	}
}

func (m *sim) empty(b *box, q *queue) {
	if q.over > 0 && !q.out && !m.faulty("never-asks") {
		m.ask(b, q)
	}
}

func (m *sim) ask(b *box, q *queue) {
	q.out = true
	q.turn++
	turn := q.turn
	if m.facts.PushRetry > 0 {
		m.inside(b, m.facts.PushRetry, func() {
			if q.out && q.turn == turn {
				m.ask(b, q)
			}
		})
	}
	if q.count() >= q.slots {
		return
	}
	q.asked = q.sent
	h := netlock.Header{Op: netlock.PushRequest, Lock: q.id, Avail: uint32(q.slots - q.count()), Sent: q.sent,
		Index: q.taken}
	m.send(b, m.clients, m.frame(serverAddress, serverAddress, netlock.Port, h), 0)
}

// resubmit is what follows pass 0 of a release of that mode.
func (m *sim) resubmit(b *box, q *queue, mode netlock.Mode) {
	h, tail := q.head, q.tail
	first := *q.at(h)
	chain := mode == netlock.Exclusive && first.mode == netlock.Shared
	if chain {
		q.busy = true
		q.chains++
	}
	// With a long recirculation a pass may come when its slot has another request, or another chain has begun. The
	// published text has no guard against it; chainlock needs both.
	guarded, mine := m.facts.Processing == lock.ChainLock, q.chains
	passes := m.facts.Passes // to the first grant
	pass := func(then func()) {
		d := m.facts.Recirculation
		if m.faulty("skips-pass") {
			d /= 2
		}
		d *= clock.Duration(max(passes, 1))
		passes = 1
		if m.faulty("slows-chain") {
			d += 3 * us
		}
		m.inside(b, d, then)
	}
	pass(func() {
		switch e := q.at(h); {
		case guarded && (chain && q.chains != mine || !chain && h != q.head):
		case e.mode == netlock.Exclusive:
			if m.faulty("grants-next") && h+1 < q.tail {
				e = q.at(h + 1)
			}
			if !e.granted || m.facts.Processing != lock.ChainLock {
				m.grantSlot(b, q, e)
			}
		case mode == netlock.Exclusive:
			n := 0
			var on func()
			on = func() {
				end := q.tail
				if m.facts.Processing == lock.Snapshot {
					end = tail
				}
				if guarded && q.chains != mine {
					return
				}
				if guarded {
					h = max(h, q.head) // an exclusive one may have come and gone since the chain's last grant
				}
				if n > 0 && m.faulty("stops-chain") {
					q.busy = false
					return
				}
				if h >= end || q.at(h).mode != netlock.Shared {
					q.busy = false
					return
				}
				m.grantSlot(b, q, q.at(h))
				n++
				h++
				if m.faulty("chain-at-once") && h < q.tail && q.at(h).mode == netlock.Shared {
					m.grantSlot(b, q, q.at(h))
					h++
				}
				pass(on)
			}
			if m.faulty("reverses-run") && q.tail-h >= 2 && q.at(h+1).mode == netlock.Shared {
				*q.at(h), *q.at(h + 1) = *q.at(h + 1), *q.at(h)
			}
			on()
		case !e.granted && m.facts.Processing == lock.ChainLock:
		}
	})
}

func (m *sim) grantSlot(b *box, q *queue, e *entry) {
	e.granted, e.at = true, m.now
	m.grant(b, q, *e, 0)
}

// takeBack is a PUSH_BACK that enters.
func (m *sim) takeBack(b *box, f *frame) {
	q := b.queues[f.h.Lock]
	if q == nil || f.h.Index != q.taken+1 {
		return
	}
	q.taken++
	q.over--
	e := entry{who: m.whoOf(f), mode: f.h.Mode, priority: max(f.h.Priority, 1), tenant: f.h.Tenant, pushed: true}
	if at := q.find(e.who); !m.facts.Dedup || at == nil {
		m.insert(b, q, e)
	}
	if f.h.Last {
		m.pushed(b, q, f.h.Received)
	}
}

// pushed ends a hand-over.
func (m *sim) pushed(b *box, q *queue, received uint64) {
	q.out = false
	loss := q.asked - received - q.lossSeen
	if int64(loss) > 0 {
		q.over -= int(loss)
		q.lossSeen += loss
	}
	if q.over > 0 && q.count() == 0 {
		m.ask(b, q)
	}
}
