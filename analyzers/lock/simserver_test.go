package lock

import (
	"slices"

	"candela.dev/candela/packet/netlock"
)

// serve is the lock server.
func (m *sim) serve(b *box, f *frame) {
	m.server = max(m.now, m.server).Add(444 * ns)
	m.after(m.server.Sub(m.now), func() { m.served(b, f) })
}

func (m *sim) served(b *box, f *frame) {
	id := f.h.Lock
	reply := func(h netlock.Header, to int) {
		m.enter(b, m.clients, m.wire, m.pushLoss, m.frame(serverAddress, address(to), netlock.ReplyPort, h))
	}
	kept := m.buffers[shelf{b.number, id}]
	if kept == nil {
		kept = &buffer{}
		m.buffers[shelf{b.number, id}] = kept
	}
	switch {
	case f.h.Op == netlock.PushRequest:
		list := kept.list
		for len(list) > 0 && list[0].index <= f.h.Index {
			list = list[1:]
		}
		if m.faulty("server-reorders") && len(list) >= 2 {
			list[0].entry, list[1].entry = list[1].entry, list[0].entry
		}
		kept.list = list
		n := min(int(f.h.Avail), len(list))
		for i := range n {
			e := list[i]
			reply(netlock.Header{Op: netlock.PushBack, Mode: e.mode, Lock: id, Transaction: e.tid, Tenant: e.tenant,
				Priority: e.priority, Last: i == n-1, Received: kept.received, Index: e.index, Address: address(e.client)},
				e.client)
		}
		if n == 0 {
			m.enter(b, m.clients, m.wire, m.pushLoss, m.frame(serverAddress, serverAddress, netlock.Port,
				netlock.Header{Op: netlock.PushEmpty, Lock: id, Received: kept.received}))
		}
	case f.h.Mark == netlock.BufferOnly:
		kept.index++
		kept.received++
		kept.list = append(kept.list, parkedEntry{entry{who: m.whoOf(f), mode: f.h.Mode, priority: f.h.Priority,
			tenant: f.h.Tenant}, kept.index})
	case f.h.Mark == netlock.Owned:
		q := m.owned[id]
		if q == nil {
			q = &queue{id: id, lists: make([][]entry, 1)}
			m.owned[id] = q
		}
		grants := func() {
			for {
				e := q.next(false)
				if e == nil {
					return
				}
				e.granted = true
				m.history = append(m.history, event{m.now, 'g', e.who, e.mode, len(m.history)})
				reply(netlock.Header{Op: netlock.GrantFromServer, Mode: e.mode, Lock: id, Transaction: e.tid,
					Tenant: e.tenant}, e.client)
			}
		}
		w := m.whoOf(f)
		if f.h.Op == netlock.Acquire {
			if at := q.find(w); at != nil {
				if at.granted {
					reply(netlock.Header{Op: netlock.GrantFromServer, Mode: at.mode, Lock: id, Transaction: at.tid,
						Tenant: at.tenant}, at.client)
				}
				return
			}
			e := entry{who: w, mode: f.h.Mode, tenant: f.h.Tenant}
			if m.faulty("server-shares") && len(q.lists[0]) > 0 {
				e.granted = true
				reply(netlock.Header{Op: netlock.GrantFromServer, Mode: e.mode, Lock: id, Transaction: e.tid}, e.client)
			}
			q.lists[0] = append(q.lists[0], e)
			grants()
			return
		}
		for i, e := range q.lists[0] {
			if e.who == w && e.granted {
				q.lists[0] = slices.Delete(q.lists[0], i, i+1)
				break
			}
		}
		grants()
	}
}
