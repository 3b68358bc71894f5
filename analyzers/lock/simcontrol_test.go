package lock

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// poll is the control plane that ends leases.
func (m *sim) poll() {
	for _, b := range m.boxes {
		for _, id := range slices.Sorted(func(yield func(uint32) bool) {
			for id := range b.queues {
				if !yield(id) {
					return
				}
			}
		}) {
			m.pollOf(b, b.queues[id])
		}
	}
	m.after(m.facts.Poll, m.poll)
}

func (m *sim) pollOf(b *box, q *queue) {
	if b.down {
		return
	}
	if m.fault == "never-expires" {
		m.happened++
		return
	}
	lease := m.facts.Lease
	if m.fault == "expires-early" {
		lease /= 2
	}
	var old []who
	all := func(e *entry) {
		if e.granted && m.now.Sub(e.at) >= lease {
			old = append(old, e.who)
		}
	}
	for s := q.head; s < q.tail; s++ {
		all(q.at(s))
	}
	for _, list := range q.lists {
		for i := range list {
			all(&list[i])
		}
	}
	for _, w := range old {
		m.drop(b, q, w, true)
	}
	m.happened += len(old)
}

// fail stops the switch, and lets the backup take over.
func (m *sim) fail() {
	b := m.boxes[0]
	b.down = true
	b.life++
	m.judge.Stopping(m.now, 0)
	if m.backup {
		m.active = 1
		m.boxes[1].waits = m.now.Add(m.facts.Lease)
		m.after(m.facts.Lease, func() { m.kick(m.boxes[1]) })
	}
}

func (m *sim) restart() {
	down := m.boxes[0]
	fresh := m.newBox(0)
	for k := range m.buffers {
		if k.box == 0 { // the server clears what it has of a switch that has lost its registers
			delete(m.buffers, k)
		}
	}
	down.queues, down.quota = fresh.queues, fresh.quota
	down.down, m.active = false, 0
	m.judge.Started(m.now, 0)
	if m.backup {
		down.waits = clock.Time(m.stop + m.facts.Lease)
		m.handOver()
		return
	}
	down.waits = m.now.Add(m.facts.Lease)
	m.judge.TakesOver(m.now, 0)
	m.after(m.facts.Lease, func() { m.kick(down) })
}

// handOver lets the switch that has returned go on with locks that the backup is done with.
func (m *sim) handOver() {
	m.kick(m.boxes[0])
	if m.now < clock.Time(m.lasts)+clock.Time(20*ms) {
		m.after(5*us, m.handOver)
	}
}

// kick grants what a switch was not to grant when it came.
func (m *sim) kick(b *box) {
	ids := make([]uint32, 0, len(b.queues))
	for id := range b.queues {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		m.unlock(b, b.queues[id])
	}
}

// unlock grants the first requests of a queue that was not to be served, as soon as it is.
func (m *sim) unlock(b *box, q *queue) {
	if !q.withheld || !m.mayGrant(b, q) {
		return
	}
	q.withheld = false
	for s := q.head; s < q.tail; s++ {
		e := q.at(s)
		if e.mode == netlock.Exclusive && s != q.head {
			break
		}
		m.grantSlot(b, q, e)
		if e.mode == netlock.Exclusive {
			break
		}
	}
}
