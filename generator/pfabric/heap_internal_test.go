package pfabric

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
)

// A heap has its least sender first, whatever is added, moved and removed, and senders know their places.
func TestHeapsHaveTheLeastSenderFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := heap{less: earlier, place: func(s *sender) *int { return &s.inTimers }}
		senders := make([]sender, 12)
		for i := range senders {
			senders[i].connection = uint32(i)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s := &senders[rapid.IntRange(0, len(senders)-1).Draw(t, "sender")]
			if rapid.Bool().Draw(t, "put") {
				s.expires = clock.Time(rapid.IntRange(0, 9).Draw(t, "expires"))
				h.put(s)
			} else {
				h.remove(s)
			}
			for i, s := range h.list {
				if s.inTimers != i+1 || earlier(s, h.list[0]) {
					t.Fatalf("at %d is a sender of place %d that expires at %v, before the first, %v", i, s.inTimers, s.expires,
						h.list[0].expires)
				}
			}
			for i := range senders {
				if s := &senders[i]; (s.inTimers > 0) != slices.Contains(h.list, s) {
					t.Fatalf("sender %d has place %d", i, s.inTimers)
				}
			}
		}
	})
}
