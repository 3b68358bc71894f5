package deflect

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// A table is a map, whatever is entered and forgotten in which order; IDs of one node lie close together.
func TestATableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got table[int]
		want := map[uint64]*int{}
		for range rapid.IntRange(1, 600).Draw(t, "turns") {
			id := rapid.Uint64Range(0, 3).Draw(t, "node")*1_000_000_000 + rapid.Uint64Range(0, 90).Draw(t, "number")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				of := new(int)
				got.put(id, of)
				want[id] = of
			case 1:
				got.remove(id)
				delete(want, id)
			}
			if got.get(id) != want[id] {
				t.Fatalf("%d has another value", id)
			}
		}
		for id, of := range want {
			if got.get(id) != of {
				t.Fatalf("%d has another value at the end", id)
			}
		}
		if all := maps.Collect(got.all); !maps.Equal(all, want) {
			t.Fatalf("%d are in the table, want %d", len(all), len(want))
		}
	})
}
