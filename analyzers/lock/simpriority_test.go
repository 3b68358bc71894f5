package lock

import (
	"slices"

	"candela.dev/candela/packet/netlock"
)

// dropOf is drop with priorities.
func (m *sim) dropOf(b *box, q *queue, w who) {
	for i, list := range q.lists {
		for k := range list {
			if list[k].who != w || !list[k].granted {
				continue
			}
			mode := list[k].mode
			m.history = append(m.history, event{m.now, 'r', w, mode, len(m.history)})
			q.lists[i] = slices.Delete(list, k, k+1)
			q.less(mode)
			if q.count() == 0 {
				m.empty(b, q)
			} else {
				m.resubmitOf(b, q, mode)
			}
			return
		}
	}
}

// next returns whoever is to be granted next; nil: nobody.
func (q *queue) next(wrong bool) *entry {
	var shared, exclusive bool
	for _, list := range q.lists {
		for _, e := range list {
			shared = shared || e.granted && e.mode == netlock.Shared
			exclusive = exclusive || e.granted && e.mode == netlock.Exclusive
		}
	}
	if exclusive {
		return nil
	}
	order := slices.Clone(q.lists)
	if wrong {
		slices.Reverse(order)
	}
	for _, list := range order {
		for i := range list {
			if list[i].granted {
				continue
			}
			if list[i].mode == netlock.Exclusive && shared {
				return nil
			}
			return &list[i]
		}
	}
	return nil
}

func (m *sim) resubmitOf(b *box, q *queue, mode netlock.Mode) {
	e := q.next(false)
	chain := mode == netlock.Exclusive && e != nil && e.mode == netlock.Shared
	if e == nil || e.mode == netlock.Shared && !chain {
		return
	}
	if chain {
		q.busy = true
		q.chains++
	}
	mine := q.chains
	var on func()
	on = func() {
		if chain && q.chains != mine {
			return
		}
		e := q.next(m.faulty("lowest-first"))
		if e == nil {
			if chain {
				q.busy = false
			}
			return
		}
		if !chain && q.busy {
			return
		}
		m.grantSlot(b, q, e)
		if chain && e.mode == netlock.Exclusive { // it came meanwhile, with a higher priority
			q.busy = false
		} else if chain {
			m.inside(b, m.facts.Recirculation, on)
		}
	}
	m.inside(b, m.facts.Recirculation, on)
}
