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
