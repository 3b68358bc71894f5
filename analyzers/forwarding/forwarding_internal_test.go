package forwarding

import (
	"maps"
	"math/rand/v2"
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
		var inside visits
		for _, size := range c.in {
			inside.enter(identity{}, size)
		}
		unexpected := 0
		for _, size := range c.out {
			if !inside.leave(inside.find(identity{}), size) {
				unexpected++
			}
		}
		if unexpected != c.unexpected || inside.find(identity{}) != nil {
			t.Errorf("%s: %d of another size, want %d; %d identities are left", c.name, unexpected, c.unexpected, inside.taken)
		}
	}
}

// TestVisitsAreThoseOfAMap compares the hash table with a map, with few identities, so that they collide and return.
func TestVisitsAreThoseOfAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var table visits
	want := make(map[identity][]int32)
	for range 20_000 {
		k := identity{number: rng.Uint64N(40), hosts: rng.Uint64N(3), kind: rng.Uint64N(2)}
		size := int32(rng.IntN(4))
		if v := table.find(k); (v != nil) != (len(want[k]) > 0) {
			t.Fatalf("%+v: found %v, want sizes %v", k, v, want[k])
		}
		if sizes := want[k]; len(sizes) > 0 && rng.IntN(100) < 55 {
			i := slices.Index(sizes, size)
			same := i >= 0
			if !same {
				i = slices.Index(sizes, slices.Max(sizes))
			}
			if want[k] = slices.Delete(sizes, i, i+1); len(want[k]) == 0 {
				delete(want, k)
			}
			if got := table.leave(table.find(k), size); got != same {
				t.Fatalf("%+v: %d bytes came in: %v, want %v", k, size, got, same)
			}
			continue
		}
		table.enter(k, size)
		want[k] = append(want[k], size)
	}
	if table.taken != len(want) {
		t.Errorf("%d identities, want %d", table.taken, len(want))
	}
	for k, sizes := range maps.All(want) {
		if v := table.find(k); v == nil || v.largest() != slices.Max(sizes) || len(v.other) != len(sizes)-1 {
			t.Errorf("%+v: %+v, want sizes %v", k, v, sizes)
		}
	}
}

// A table that a burst has made large becomes small again, and loses nobody.
func TestVisitsAreFewAfterABurst(t *testing.T) {
	var table visits
	const burst = 500
	for n := range uint64(burst) {
		table.enter(identity{number: n}, 64)
	}
	for n := range uint64(burst) {
		table.leave(table.find(identity{number: n}), 64)
	}
	table.enter(identity{number: burst}, 64)
	for n := range uint64(10 * burst) {
		k := identity{number: burst + 1 + n}
		table.enter(k, 64)
		v := table.find(k)
		if v == nil || table.find(identity{number: burst}) == nil {
			t.Fatalf("packet %d: what is inside is not found", n)
		}
		table.leave(v, 64)
	}
	if len(table.places) > 2*fewestPlaces || table.taken != 1 {
		t.Errorf("%d places for %d packets", len(table.places), table.taken)
	}
}
