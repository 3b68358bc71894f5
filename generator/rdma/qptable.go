package rdma

import "candela.dev/candela/packet"

// qpTable is a hash table of queue pairs by number, with open addressing and linear probing. QPNs are random, so their
// low bits are a sufficient hash. It is used for every packet and is twice as fast as a map.
type qpTable struct {
	slots []qpSlot // length is a power of two, at most half full
	n     int
}

type qpSlot struct {
	qpn packet.QPN
	qp  *QP // nil: free
}

// find returns the queue pair with this number, or nil.
func (t *qpTable) find(qpn packet.QPN) *QP {
	for i := int(qpn); len(t.slots) > 0; i++ {
		s := &t.slots[i&(len(t.slots)-1)]
		if s.qpn == qpn || s.qp == nil {
			return s.qp
		}
	}
	return nil
}

// add adds a queue pair whose number is not in the table yet.
func (t *qpTable) add(q *QP) {
	if 2*(t.n+1) > len(t.slots) {
		old := t.slots
		t.slots = make([]qpSlot, max(16, 2*len(old)))
		for _, s := range old {
			if s.qp != nil {
				t.place(s)
			}
		}
	}
	t.n++
	t.place(qpSlot{q.qpn, q})
}

func (t *qpTable) place(s qpSlot) {
	i := int(s.qpn)
	for t.slots[i&(len(t.slots)-1)].qp != nil {
		i++
	}
	t.slots[i&(len(t.slots)-1)] = s
}
