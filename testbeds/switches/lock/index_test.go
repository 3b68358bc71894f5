package lock

import (
	"testing"

	"pgregory.net/rapid"
)

// An index does what a map does.
func TestAnIndexIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 40).Draw(t, "most")
		x, want := newIndex(), make(map[key]place)
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			k := key{Client{uint32(rapid.IntRange(0, 3).Draw(t, "host")), uint8(rapid.IntRange(0, 2).Draw(t, "thread"))},
				uint32(rapid.IntRange(0, 5).Draw(t, "transaction"))}
			if _, ok := want[k]; !ok && len(want) == most || rapid.Bool().Draw(t, "remove") {
				x.remove(k)
				delete(want, k)
			} else {
				x.put(k, place{uint64(i), uint8(i % 3)})
				want[k] = place{uint64(i), uint8(i % 3)}
			}
			if _, ok := x.get(k); ok != (want[k].at > 0) && i > 0 {
				t.Fatalf("%+v: found %v after step %d", k, ok, i)
			}
			used := 0
			for _, c := range x.cells {
				if c.used {
					used++
				}
			}
			if used != len(want) {
				t.Fatalf("%d cells for %d entries", used, len(want))
			}
			for k, p := range want {
				if got, ok := x.get(k); !ok || got != p {
					t.Fatalf("%+v is at %+v (%v), want %+v", k, got, ok, p)
				}
			}
		}
	})
}
