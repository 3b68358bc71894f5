package deflect

import (
	"candela.dev/candela/deflect"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// selective is Vertigo (§3.4): queues are PIFOs, and if one is full for the packet at hand, less important packets make
// room for it and are deflected. Queues are seen as they are.
func (m *Mechanism) selective(k *packet, v fabric.Verdict) fabric.Verdict {
	if k.Flags&fabric.Ranked == 0 {
		k.SetRank(deflect.Mark{Control: true}.Pack())
	}
	out := k.sw.Port(k.egress)
	q := out.Queue(0)
	v = v.To(out, 0)
	if q.Bytes()+k.size < m.set.Queue {
		m.fate(k, k.Packet, deflect.Queued, k.egress, false)
		return v
	}
	if !m.chooseVictims(k, q) {
		if dropped, at := m.deflectVictim(k, k.Packet); dropped {
			return v.To(k.sw.Port(at.port), 0).Drop(at.why)
		}
		return v.Consumed()
	}
	for _, victim := range m.victims {
		k.sw.Extract(k.now, out, 0, victim)
		m.counts[k.egress].Extracted++
		m.fate(k, victim, deflect.Extracted, k.egress, false)
	}
	m.fate(k, k.Packet, deflect.Queued, k.egress, false)
	k.sw.Place(k.now, k.Packet, v)
	for _, victim := range m.victims {
		if dropped, at := m.deflectVictim(k, victim); dropped {
			k.sw.Discard(k.now, victim, v.To(k.sw.Port(at.port), 0).Drop(at.why))
		}
	}
	clear(m.victims)
	return v.Consumed()
}

// chooseVictims lists the packets that make room for the packet at hand: from the largest priority value down, of equal
// ones the newest first; false: there is not enough that is less important.
func (m *Mechanism) chooseVictims(k *packet, q *fabric.Queue) bool {
	m.victims = m.victims[:0]
	free := m.set.Queue - q.Bytes()
	least := deflect.Priority(k.Rank)
	next := q.Before
	first := q.Tail()
	if m.faults.smallestVictim {
		first, next = q.Head(), q.After
	}
	for p := first; p != nil; p = next(p) {
		if of := deflect.Priority(p.Rank); of < least || of == least && !m.faults.equalVictims {
			if m.faults.smallestVictim {
				continue
			}
			return false
		}
		m.victims = append(m.victims, p)
		if free += int(p.Size); free >= k.size {
			return true
		}
	}
	return false
}

// place is where, and why, a packet is dropped.
type place struct {
	port int
	why  fabric.Reason
}

// deflectVictim deflects a packet, which is in no queue, to the shorter queue of two neighbour ports, where it may
// displace less important ones. dropped: the caller has to discard it there.
func (m *Mechanism) deflectVictim(k *packet, p *fabric.Packet) (dropped bool, at place) {
	list := m.eligible(k, p.Ingress)
	by := picked{to: -1, first: -1, second: -1, cause: deflect.PickChosen}
	m.order = append(m.order[:0], list...)
	best := 0
	for i := range min(2, len(list)) {
		to := draw(k.pipe.picks, m.order, i)
		by.note(i, to)
		by.draw++
		bytes := k.sw.Port(to).Queue(0).Bytes()
		switch {
		case by.to < 0 || (bytes < best) != m.faults.longest && bytes != best:
			by.to, best = to, bytes
		case bytes == best:
			if by.cause = deflect.PickTie; k.pipe.picks.Uint64()&1 == 1 {
				by.to = to
			}
		}
	}
	m.picked(k, p, list, &by)
	if by.to < 0 {
		m.counts[k.egress].NoPort++
		m.fate(k, p, deflect.NoPort, k.egress, false)
		return true, place{k.egress, NoPort}
	}
	out := k.sw.Port(by.to)
	q := out.Queue(0)
	for q.Bytes()+int(p.Size) > m.set.Queue {
		last := q.Tail()
		if last == nil || deflect.Priority(last.Rank) <= deflect.Priority(p.Rank) || m.faults.dropsVictim {
			m.counts[by.to].Displaced++
			m.fate(k, p, deflect.Displaced, by.to, false)
			return true, place{by.to, Evicted}
		}
		k.sw.Extract(k.now, out, 0, last)
		m.counts[by.to].Displaced++
		m.fate(k, last, deflect.Displaced, by.to, false)
		k.sw.Discard(k.now, last, fabric.Verdict{}.To(out, 0).Drop(Evicted))
	}
	m.deflect(k, p, by.to)
	m.fate(k, p, deflect.Deflected, by.to, false)
	k.sw.Place(k.now, p, fabric.Verdict{}.To(out, 0))
	return false, place{}
}
