package ndp

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/packet/ndp"
)

// Transmissions numbered one by one, out of order, twice, and around the end of 32 bits are found as in a map.
func TestFlightsAreAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, first := range []uint32{0, 1<<32 - 40} {
		var f flights
		want := make(map[uint32]uint64)
		next := first
		for number := range uint64(4_000) {
			counter := next
			switch random.IntN(4) {
			case 0: // anyone's
				counter = first + uint32(random.IntN(int(next-first)+20))
			case 1:
				v := f.find(counter - uint32(random.IntN(60)))
				if v != nil {
					delete(want, v.header.Counter)
					f.end(v)
				}
				continue
			default:
				next++
			}
			f.start(0, number, &ndp.Header{Counter: counter})
			want[counter] = number
			for near := counter - 70; near != counter+30; near++ {
				v := f.find(near)
				if n, ok := want[near]; (v != nil) != ok || ok && v.number != n {
					t.Fatalf("from %d, after %d steps: transmission %d is %+v, want %d, %t", first, number, near, v, n, ok)
				}
			}
		}
	}
}

// A full queue removes what is over from its front, and nothing else; after a burst its ring is small.
func TestAQueueLosesOnlyWhatIsOver(t *testing.T) {
	var f fifo[int]
	next, limit := 0, 0
	over := func(n *int) bool { return *n < limit }
	push := func(count int) {
		for range count {
			f.pushAfter(next, over)
			next++
		}
	}
	push(1000)
	if f.len() != 1000 {
		t.Fatalf("%d entries, want 1000", f.len())
	}
	for range 3000 {
		limit = next - 5
		push(1)
	}
	if len(f.ring) > 2*smallestRing {
		t.Errorf("a ring of %d for 5 entries", len(f.ring))
	}
	first := *f.front()
	if first > limit {
		t.Errorf("the oldest entry is %d, want at most %d", first, limit)
	}
	for want := first; f.len() > 0; want++ {
		if got := f.pop(); got != want {
			t.Fatalf("entry %d, want %d", got, want)
		}
	}
}
