package trace_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/trace"
)

func TestHeldPacketsLeaveInTheirOrder(t *testing.T) {
	var h trace.Holder[string]
	if h.Next() != math.MaxInt64 {
		t.Errorf("an empty holder has something due at %d", h.Next())
	}
	h.Hold(50, 2, 0, "1")
	h.Hold(10, 2, 0, "2")
	h.Hold(1000, 2, 2, "3")
	h.Hold(1000, 2, 1, "4")
	h.Hold(10, 2, 0, "5")
	h.Hold(1000, 2, 9, "6")
	var order []string
	for _, flow := range []trace.FlowID{3, trace.NoFlow, 2, 2} {
		order = append(order, h.Overtaken(flow)...)
	}
	for h.Next() != math.MaxInt64 {
		order = append(order, h.Due(h.Next())...)
	}
	if got := strings.Join(order, " "); got != "4 3 2 5 1 6" {
		t.Errorf("order %s, want 4 3 (overtaken), 2 5 1 (by time), 6 (by the limit)", got)
	}
}

// waiting is a packet in the model of a Holder: a list that is searched.
type waiting struct {
	id     int
	due    int64
	flow   trace.FlowID
	behind int
}

func TestAHolderIsAListThatIsSearched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h trace.Holder[int]
		var model []waiting
		take := func(leaves func(*waiting) bool) (ids []int) {
			model = slices.DeleteFunc(model, func(w waiting) bool {
				out := leaves(&w)
				if out {
					ids = append(ids, w.id)
				}
				return out
			})
			return ids
		}
		for id := range rapid.IntRange(1, 40).Draw(t, "steps") {
			flow := trace.FlowID(rapid.IntRange(0, 2).Draw(t, "flow"))
			at := rapid.Int64Range(0, 20).Draw(t, "at")
			var want, got []int
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				for i := range model {
					if w := &model[i]; w.flow == flow && w.behind > 0 {
						if w.behind--; w.behind == 0 {
							w.behind = -1
						}
					}
				}
				want, got = take(func(w *waiting) bool { return w.behind == -1 }), h.Overtaken(flow)
			case 1:
				want, got = take(func(w *waiting) bool { return w.due <= at }), h.Due(at)
			default:
				w := waiting{id, at, flow, rapid.IntRange(0, 3).Draw(t, "behind")}
				model = append(model, w)
				slices.SortStableFunc(model, func(a, b waiting) int { return int(a.due - b.due) })
				h.Hold(w.due, w.flow, w.behind, w.id)
			}
			if !slices.Equal(want, got) {
				t.Fatalf("step %d: %v left, want %v", id, got, want)
			}
			next := int64(math.MaxInt64)
			if len(model) > 0 {
				next = model[0].due
			}
			if h.Next() != next {
				t.Fatalf("step %d: next is due at %d, want %d", id, h.Next(), next)
			}
		}
	})
}
