package lock

import (
	"testing"

	"pgregory.net/rapid"
)

// The tree finds the same holes as a look at every slot.
func TestHolesAreThoseOfEverySlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 700).Draw(t, "slots")
		r := newRegions(slots)
		cover := make([]int, slots)
		owner := make([]uint32, slots)
		var list []Region
		first := func(n int) int {
			for left := 0; left+n <= slots; left++ {
				fits := true
				for _, c := range cover[left : left+n] {
					fits = fits && c == 0
				}
				if fits {
					return left
				}
			}
			return -1
		}
		for step := range uint32(rapid.IntRange(1, 60).Draw(t, "steps")) {
			if len(list) > 0 && rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
				for k := list[i].Left; k <= list[i].Right; k++ {
					cover[k]--
				}
				r.remove(list[i])
				list = append(list[:i], list[i+1:]...)
			} else if n := rapid.IntRange(1, 150).Draw(t, "size"); first(n) >= 0 {
				g := Region{step, first(n), first(n) + n - 1}
				for copies := rapid.IntRange(1, 2).Draw(t, "copies"); copies > 0; copies-- { // about to be placed
					for k := g.Left; k <= g.Right; k++ {
						cover[k]++
						owner[k] = g.Lock
					}
					r.add(g)
					list = append(list, g)
					g.Right = rapid.IntRange(g.Left, g.Right).Draw(t, "right")
				}
			}
			free := 0
			for _, c := range cover {
				if c == 0 {
					free++
				}
			}
			if r.slots-r.used != free {
				t.Fatalf("%d slots are free, want %d", r.slots-r.used, free)
			}
			most := int(r.tree[1].most)
			for _, n := range []int{1, 2, rapid.IntRange(1, slots+1).Draw(t, "hole"), most, most + 1} {
				if got := r.first(n); n > 0 && got != first(n) {
					t.Fatalf("the first hole of %d slots is %d, want %d", n, got, first(n))
				}
			}
			if hole := first(1); hole >= 0 {
				at := hole
				for at < slots && cover[at] == 0 {
					at++
				}
				lock, ok := r.after(hole)
				if ok != (at < slots) || ok && lock != owner[at] {
					t.Fatalf("after the hole at %d is lock %d (%v), want that at %d", hole, lock, ok, at)
				}
			}
		}
	})
}
