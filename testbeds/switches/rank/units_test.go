package rank

import (
	"slices"
	"testing"

	judge "candela.dev/candela/analyzers/rank"
)

// Figure 4-4: C = 6, k = 1/6 (here 0.166666), half of the window has smaller ranks.
func TestAIFOAdmitsByTheShareThatIsFree(t *testing.T) {
	for _, c := range []struct {
		name           string
		set            judge.Admission
		c, below, full int64
		want           bool
	}{
		{"2 of 6 wait", judge.Admission{Target: 6, HeadroomPPM: 166_666}, 2, 8, 16, true},
		{"5 of 6 wait", judge.Admission{Target: 6, HeadroomPPM: 166_666}, 5, 8, 16, false},
		{"in the headroom", judge.Admission{Target: 10, HeadroomPPM: 100_000}, 1, 16, 16, true},
		{"just beyond it", judge.Admission{Target: 10, HeadroomPPM: 100_000}, 2, 16, 16, false},
		{"exactly as much is free", judge.Admission{Target: 10, HeadroomPPM: 500_000}, 8, 4, 10, true},
		{"exactly, but it must be below", judge.Admission{Target: 10, HeadroomPPM: 500_000, Below: true}, 8, 4, 10, false},
		{"full, nothing is smaller", judge.Admission{Target: 10}, 10, 0, 16, true},
		{"full, something is", judge.Admission{Target: 10}, 10, 1, 16, false},
		{"beyond the target", judge.Admission{Target: 10}, 11, 0, 16, false},
		{"an empty window", judge.Admission{Target: 10}, 9, 0, 0, true},
		{"an empty window beyond the target", judge.Admission{Target: 10}, 11, 0, 0, false},
	} {
		if got := newAIFO(c.set, nil, nil).admits(c.c, c.below, c.full); got != c.want {
			t.Errorf("%s: admitted %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTheWindowHasTheLatestRanks(t *testing.T) {
	m := newAIFO(judge.Admission{Window: 4, Sample: 1, Target: 10}, nil, nil)
	w := m.port(0)
	for rank := range uint64(6) {
		w.insert(rank)
	}
	for rank, want := range []int64{0, 0, 0, 1, 2, 3, 4, 4} {
		if got := m.below(w, uint64(rank)); got != want {
			t.Errorf("%d ranks of 2, 3, 4, 5 are below %d, want %d", got, rank, want)
		}
	}
}

func TestBoundsFollowTheRanks(t *testing.T) {
	m := &SPPIFO{set: judge.Mapping{Queues: 3, Packets: 10, PushUp: true, PushDown: true}}
	bounds := m.port(0)
	for _, c := range []struct {
		rank   uint64
		queue  int
		bounds []uint64
	}{
		{5, 2, []uint64{0, 0, 5}},
		{3, 1, []uint64{0, 3, 5}},
		{1, 0, []uint64{1, 3, 5}},
		{4, 1, []uint64{1, 4, 5}},
		{0, 0, []uint64{0, 3, 4}}, // an inversion: all fall by 1
		{9, 2, []uint64{0, 3, 9}},
	} {
		i := m.choose(bounds, c.rank)
		m.push(bounds, i, c.rank)
		if i != c.queue || !slices.Equal(bounds, c.bounds) {
			t.Errorf("rank %d joins %d, bounds are %v; want %d, %v", c.rank, i, bounds, c.queue, c.bounds)
		}
	}
}
