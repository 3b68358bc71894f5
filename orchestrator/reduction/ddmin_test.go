package reduction

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDdminIsOneMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := make([]int, rapid.IntRange(0, 24).Draw(t, "items"))
		for i := range items {
			items[i] = i
		}
		// A failure needs all of some sets, any one of which is enough; monotonic or not.
		var causes [][]int
		for range rapid.IntRange(1, 4).Draw(t, "causes") {
			causes = append(causes, rapid.SliceOfNDistinct(rapid.IntRange(0, 23), 0, 5, rapid.ID[int]).Draw(t, "cause"))
		}
		spoiler := rapid.IntRange(-1, 23).Draw(t, "spoiler")
		fails := func(list []int) bool {
			if slices.Contains(list, spoiler) && len(list)%3 == 1 {
				return false
			}
			return slices.ContainsFunc(causes, func(cause []int) bool {
				return !slices.ContainsFunc(cause, func(c int) bool { return !slices.Contains(list, c) })
			})
		}
		if !fails(items) {
			t.Skip("does not fail")
		}
		got := ddmin(items, fails)
		if !fails(got) {
			t.Fatalf("%v does not fail", got)
		}
		if !slices.IsSorted(got) {
			t.Fatalf("%v is not in the order of the input", got)
		}
		for i := range got {
			if fails(slices.Delete(slices.Clone(got), i, i+1)) {
				t.Fatalf("%v fails without %d, too", got, got[i])
			}
		}
		if second := ddmin(items, fails); !slices.Equal(got, second) {
			t.Fatalf("%v and then %v", got, second)
		}
	})
}
