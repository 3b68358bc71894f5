package forwarding

import (
	"slices"
	"testing"
)

// A retransmission meets the header of a segment that another switch cut: they differ only in size, and either may
// leave first.
func TestPacketsThatLookAlikeAreDistinguishedByTheirSizes(t *testing.T) {
	for _, c := range []struct {
		name       string
		in, out    []int32
		unexpected int // that leave with a size with which none came in
	}{
		{"in order", []int32{64, 1500}, []int32{64, 1500}, 0},
		{"the whole one first", []int32{64, 1500}, []int32{1500, 64}, 0},
		{"the whole one is cut here", []int32{64, 1500}, []int32{64, 64}, 1}, // a header, which is allowed to be shorter
		{"the whole one grew", []int32{64, 1500}, []int32{64, 1514}, 1},
		{"the whole one shrank", []int32{1500, 64}, []int32{1400, 64}, 1},
	} {
		v := visit{sizes: slices.Clone(c.in)}
		unexpected := 0
		for _, size := range c.out {
			if !v.take(size) {
				unexpected++
			}
		}
		if unexpected != c.unexpected || len(v.sizes) > 0 {
			t.Errorf("%s: %d of another size, want %d; %v are left", c.name, unexpected, c.unexpected, v.sizes)
		}
	}
}
