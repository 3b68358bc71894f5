package lock_test

import (
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// faults is what a history at the switch shows, counted by rule (section 10).
type faults struct{ overlaps, duplicates, ungranted, inversions int }

func (f faults) String() string {
	return fmt.Sprintf("%d overlaps, %d duplicate grants, %d ungranted, %d inversions",
		f.overlaps, f.duplicates, f.ungranted, f.inversions)
}

type holder struct {
	mode  netlock.Mode
	since clock.Time
}

// judge reads a history without knowing how the switch works. With leases a hold ends after its lease, which a server
// counts from before its grant passes the switch. inOrder: grants have the order of arrivals.
func (n *network) judge(inOrder bool) (f faults) {
	holders := make(map[uint32]map[uint32]holder)
	waiting := make(map[uint32][]uint32)
	asked, granted := make(map[uint32]int), make(map[uint32]int)
	for _, s := range n.history {
		r := s.request
		if s.reset || s.buffer {
			continue
		}
		held := holders[r.Lock]
		if held == nil {
			held = make(map[uint32]holder)
			holders[r.Lock] = held
		}
		for id, h := range held {
			if n.lease > 0 && s.at.Sub(h.since) > n.lease-n.late {
				delete(held, id)
			}
		}
		switch {
		case s.reject:
			waiting[r.Lock] = slices.DeleteFunc(waiting[r.Lock], func(id uint32) bool { return id == r.Transaction })
		case s.release:
			delete(held, r.Transaction)
		case !s.grant:
			asked[r.Transaction]++
			waiting[r.Lock] = append(waiting[r.Lock], r.Transaction)
		default:
			if granted[r.Transaction]++; granted[r.Transaction] > asked[r.Transaction] {
				f.duplicates++
			}
			for id, h := range held {
				if id != r.Transaction && (h.mode == netlock.Exclusive || r.Mode == netlock.Exclusive) {
					f.overlaps++
				}
			}
			held[r.Transaction] = holder{r.Mode, s.at}
			queue := waiting[r.Lock]
			if i := slices.Index(queue, r.Transaction); i >= 0 {
				waiting[r.Lock] = slices.Delete(queue, i, i+1)
				if i > 0 && inOrder {
					f.inversions++
				}
			}
		}
	}
	for _, c := range n.state {
		if c.waiting && !c.dead {
			f.ungranted++
		}
	}
	return f
}
