package lock

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// begin begins a transaction of a thread.
func (m *sim) begin(t *thread) {
	if m.now >= clock.Time(m.lasts) || t.dead {
		return
	}
	t.tid++
	t.wants, t.have = map[uint32]netlock.Mode{}, map[uint32]int{}
	for range 1 + m.random.IntN(m.most) {
		mode := netlock.Exclusive
		if m.random.Float64() < m.shared {
			mode = netlock.Shared
		}
		t.wants[uint32(m.random.IntN(m.locks))] = mode
	}
	m.asks(t)
}

func (t *thread) list() (ids []uint32) {
	for id := range t.wants {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// asks sends what a transaction still needs.
func (m *sim) asks(t *thread) {
	t.round++
	round := t.round
	for _, id := range t.list() {
		if _, ok := t.have[id]; ok {
			continue
		}
		m.toSwitch(t, m.active, netlock.Header{Op: netlock.Acquire, Mode: t.wants[id], Lock: id, Transaction: t.tid,
			Tenant: t.tenant, Priority: t.prio})
	}
	if m.random.Float64() < m.noise {
		m.ids++
		b := m.boxes[m.active]
		m.enter(b, t.number, t.delay, 0, &frame{id: m.ids, size: 1500, other: true, flow: uint64(t.number + 1),
			digest: m.random.Uint64() | 1})
	}
	m.after(m.timeout, func() {
		if t.dead || t.round != round {
			return
		}
		if m.patient {
			return
		}
		if len(t.wants) == 1 || m.loss > 0 && m.random.IntN(2) == 0 {
			m.asks(t) // again, as the same transaction
			return
		}
		m.finish(t)
		m.after(clock.Duration(m.random.Int64N(10))*30*us, func() { m.begin(t) })
	})
}

func (m *sim) toSwitch(t *thread, sw int, h netlock.Header) {
	m.enter(m.boxes[sw], t.number, t.delay, m.loss, m.frame(address(t.number), serverAddress, netlock.Port, h))
}

// finish releases what a thread has.
func (m *sim) finish(t *thread) {
	t.round++
	for _, id := range t.list() {
		if sw, ok := t.have[id]; ok {
			m.toSwitch(t, sw, netlock.Header{Op: netlock.Release, Mode: t.wants[id], Lock: id, Transaction: t.tid,
				Tenant: t.tenant, Priority: t.prio})
		}
	}
	t.wants, t.have = nil, nil
}

// answered is a packet that reaches a client.
func (m *sim) answered(t *thread, b *box, f *frame) {
	h := f.h
	if t.dead {
		return
	}
	if h.Op == netlock.Reject {
		if h.Transaction == t.tid && t.wants != nil {
			m.finish(t)
			m.after(10*us, func() { m.begin(t) })
		}
		return
	}
	if _, ok := t.wants[h.Lock]; !ok || h.Transaction != t.tid {
		m.toSwitch(t, b.number, netlock.Header{Op: netlock.Release, Mode: h.Mode, Lock: h.Lock,
			Transaction: h.Transaction, Tenant: t.tenant, Priority: t.prio}) // too late: nobody needs it
		return
	}
	if _, ok := t.have[h.Lock]; ok {
		return
	}
	if t.have[h.Lock] = b.number; len(t.have) < len(t.wants) {
		return
	}
	t.round++
	if m.random.Float64() < m.kill {
		t.dead = true
		return
	}
	think := m.think
	if think > 0 {
		think = clock.Duration(m.random.Int64N(int64(2 * m.think)))
	}
	round := t.round
	m.after(think, func() {
		if t.round == round && !t.dead {
			m.finish(t)
			m.after(clock.Duration(m.random.Int64N(int64(us))), func() { m.begin(t) })
		}
	})
}
