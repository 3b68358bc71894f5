package rdma

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
)

func TestRingBehavesLikeASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring[int]
		var model []int
		for i := range rapid.IntRange(0, 200).Draw(t, "operations") {
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op == 0 && len(model) > 0:
				if got := r.pop(); got != model[0] {
					t.Fatalf("pop %d, want %d", got, model[0])
				}
				model = model[1:]
			case op == 1 && len(model) > 0:
				at := rapid.IntRange(0, len(model)-1).Draw(t, "at")
				r.remove(at)
				model = slices.Delete(slices.Clone(model), at, at+1)
			default:
				r.push(i)
				model = append(model, i)
			}
			for j, want := range model {
				if r.len() != len(model) || *r.at(j) != want {
					t.Fatalf("element %d of %d is %d, want %d of %d", j, r.len(), *r.at(j), want, len(model))
				}
			}
		}
	})
}

// The heap wakes every queue pair no later than the earliest time set since its last wake-up, and equal times in order
// of creation.
func TestHeapWakesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timerHeap
		qps := make([]*QP, rapid.IntRange(1, 20).Draw(t, "queue pairs"))
		wanted := make([]clock.Time, len(qps)) // earliest time set since the last wake-up
		for i := range qps {
			qps[i] = &QP{index: i, heapIndex: -1, wake: clock.Never}
			wanted[i] = clock.Never
		}
		for range rapid.IntRange(0, 100).Draw(t, "operations") {
			i := rapid.IntRange(0, len(qps)-1).Draw(t, "which")
			at := clock.Time(rapid.IntRange(0, 9).Draw(t, "at"))
			if at == 0 {
				h.set(qps[i], clock.Never)
				wanted[i] = clock.Never
				continue
			}
			h.set(qps[i], at)
			wanted[i] = min(wanted[i], at)
			if h.next() != slices.Min(wanted) {
				t.Fatalf("next %d, want %d", h.next(), slices.Min(wanted))
			}
		}
		for h.next() != clock.Never {
			q := h.pop()
			if first := slices.Index(wanted, slices.Min(wanted)); q != qps[first] {
				t.Fatalf("queue pair %d wakes, want %d", q.index, first)
			}
			wanted[q.index] = clock.Never
		}
	})
}
