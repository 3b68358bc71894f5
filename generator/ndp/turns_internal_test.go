package ndp

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Compares the ring with a list searched from the connection served last.
func TestTurnsGoRoundInTheOrderOfSenders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ring turns
		var live []*receiver
		last := receiverKey{} // connection of the latest turn
		fresh := uint32(0)
		for range rapid.IntRange(1, 300).Draw(t, "operations") {
			switch n := len(live); rapid.IntRange(0, 3).Draw(t, "operation") {
			case 0:
				fresh++
				r := &receiver{receiverKey: receiverKey{Endpoint(rapid.IntRange(0, 200).Draw(t, "from")), fresh}}
				live = append(live, r)
				ring.add(r)
			case 1:
				if n > 0 {
					r := live[rapid.IntRange(0, n-1).Draw(t, "credited")]
					r.credits++
					ring.mark(r)
				}
			case 2:
				if n > 0 && rapid.IntRange(0, 3).Draw(t, "complete") == 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "which")
					live[i].credits = 0
					ring.remove(live[i])
					live = slices.Delete(live, i, i+1)
				}
			case 3:
				due := slices.DeleteFunc(slices.Clone(live), func(r *receiver) bool { return r.credits == 0 })
				if len(due) == 0 {
					continue
				}
				slices.SortFunc(due, func(a, b *receiver) int { return a.compare(b.receiverKey) })
				want := due[0]
				if i := slices.IndexFunc(due, func(r *receiver) bool { return last.compare(r.receiverKey) < 0 }); i >= 0 {
					want = due[i]
				}
				got := ring.turn()
				if got != want {
					t.Fatalf("host %d connection %d, want host %d connection %d", got.from, got.connection, want.from, want.connection)
				}
				got.credits--
				if got.credits == 0 {
					ring.unmark(got)
				}
				ring.took(got)
				last = got.receiverKey
			}
		}
	})
}
