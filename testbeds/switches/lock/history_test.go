package lock_test

import (
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches/lock"
)

// faults is what a history at the switch shows, counted by rule (section 10).
type faults struct {
	overlaps, duplicates, ungranted, inversions    int // N1 to N5
	priority, buffering, pushes, placement, quotas int // N6, N9, section 6.2, N10, N11
}

func (f faults) String() string {
	return fmt.Sprintf("%d overlaps, %d duplicate grants, %d ungranted, %d inversions, %d priorities inverted, "+
		"%d buffered early, %d pushes early, %d misplaced, %d quotas",
		f.overlaps, f.duplicates, f.ungranted, f.inversions, f.priority, f.buffering, f.pushes, f.placement, f.quotas)
}

type holder struct {
	mode  netlock.Mode
	since clock.Time
}

// past is what a history has shown of a lock.
type past struct {
	holders     map[uint32]holder // by transaction
	waiting     []lock.Request    // in the order of arrival
	outstanding int
	buffered    map[uint32]bool // by transaction, those that wait
}

// historian judges a history without knowing how the switch works.
type historian struct {
	n       *network
	faults  faults
	inOrder bool
	locks   map[uint32]*past
	// asked and granted count by transaction.
	asked, granted map[uint32]int
	accepted       map[uint16]int // of tenants in a period
}

// judge reads a history. With leases a hold ends after its lease, which a server counts from before its grant passes
// the switch. inOrder: grants have the order of arrivals, and no packet is lost.
func (n *network) judge(inOrder bool) faults {
	h := historian{n: n, inOrder: inOrder, locks: make(map[uint32]*past), asked: make(map[uint32]int),
		granted: make(map[uint32]int), accepted: make(map[uint16]int)}
	for i := range n.history {
		h.step(&n.history[i])
	}
	for _, c := range n.state {
		if c.waiting && !c.dead {
			h.faults.ungranted++
		}
	}
	return h.faults
}

// still reports whether locks stay where they are, so that the history tells more.
func (h *historian) still() bool { return h.n.moves == 0 && h.n.control.Lease == 0 && h.n.slots > 0 }

// counts reports whether the history has all periods of quotas.
func (h *historian) counts() bool { return h.n.control.Lease == 0 && !h.n.backup }

func (h *historian) step(s *step) {
	r := s.request
	p := h.locks[r.Lock]
	if p == nil {
		p = &past{holders: make(map[uint32]holder), buffered: make(map[uint32]bool)}
		h.locks[r.Lock] = p
	}
	for id, held := range p.holders {
		if h.n.lease > 0 && s.at.Sub(held.since) > h.n.lease-h.n.late {
			delete(p.holders, id)
		}
	}
	switch {
	case s.restart:
		clear(h.accepted)
		if h.still() { // what came before is forgotten
			for id := range h.asked {
				h.asked[id] = h.granted[id]
			}
		}
	case s.reset:
		clear(h.accepted)
	case s.push > 0:
		if s.push > 1 && h.n.priority == 0 {
			h.faults.pushes++
		}
	case s.buffer:
		if p.outstanding <= h.n.slots && len(p.buffered) == 0 && h.inOrder && h.still() && h.n.priority == 0 {
			h.faults.buffering++
		}
		p.buffered[r.Transaction] = true
	case s.reject:
		h.accepted[r.Tenant]--
		if h.accepted[r.Tenant] < h.n.cfg.Quota && h.counts() {
			h.faults.quotas++
		}
		p.waiting = slices.DeleteFunc(p.waiting, same(r))
		p.outstanding--
	case s.release:
		delete(p.holders, r.Transaction)
		p.outstanding--
	case s.grant:
		h.grant(s, p)
	default:
		h.asked[r.Transaction]++
		p.waiting = append(p.waiting, r)
		p.outstanding++
		h.accepted[r.Tenant]++
		if h.n.cfg.Quota > 0 && h.accepted[r.Tenant] > h.n.cfg.Quota+1 && h.counts() { // one may be rejected in the next step
			h.faults.quotas++
		}
	}
}

func same(r lock.Request) func(lock.Request) bool {
	return func(o lock.Request) bool { return o.Transaction == r.Transaction }
}

func (h *historian) grant(s *step, p *past) {
	r := s.request
	if h.granted[r.Transaction]++; h.granted[r.Transaction] > h.asked[r.Transaction] {
		h.faults.duplicates++
	}
	if h.still() && s.server == (r.Lock < h.n.installed) {
		h.faults.placement++
	}
	if _, holds := p.holders[r.Transaction]; holds && h.still() {
		h.faults.duplicates++
	}
	if h.inOrder && h.still() && h.n.priority > 0 {
		h.priority(&r, p)
	}
	for id, held := range p.holders {
		if id != r.Transaction && (held.mode == netlock.Exclusive || r.Mode == netlock.Exclusive) {
			h.faults.overlaps++
		}
	}
	p.holders[r.Transaction] = holder{r.Mode, s.at}
	delete(p.buffered, r.Transaction)
	if i := slices.IndexFunc(p.waiting, same(r)); i >= 0 {
		if h.inOrder && slices.ContainsFunc(p.waiting[:i], func(o lock.Request) bool { return h.class(o) == h.class(r) }) {
			h.faults.inversions++
		}
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
}

// class returns the priority of a request as the switch has it.
func (h *historian) class(r lock.Request) uint8 {
	if r.Priority == 0 || r.Priority > h.n.priority {
		return h.n.priority
	}
	return r.Priority
}

// priority looks for a request of a higher priority that could have been granted instead.
func (h *historian) priority(r *lock.Request, p *past) {
	exclusive := false
	for _, held := range p.holders {
		exclusive = exclusive || held.mode == netlock.Exclusive
	}
	for _, o := range p.waiting {
		grantable := len(p.holders) == 0 || o.Mode == netlock.Shared && !exclusive
		if h.class(o) < h.class(*r) && grantable {
			h.faults.priority++
			return
		}
	}
}
