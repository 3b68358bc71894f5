package rank

import (
	"slices"
	"strings"
	"testing"

	judge "candela.dev/candela/analyzers/rank"
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
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

// The authors' testbed: C = 25,000 cells, a multiplier of 2^10, 20 ranks. q 2^10 + c <= 25,000, so k is
// 1 - 20,480 / 25,000 = 0.1808: 4520 cells.
func TestThePipelineMultipliesOnce(t *testing.T) {
	for _, c := range []struct {
		below, most int64 // the greatest c that is admitted
	}{{0, 25_000}, {1, 23_976}, {10, 14_760}, {19, 5544}, {20, 4520}} {
		set := judge.Admission{Target: 25_000, Window: 20, Cell: 80, Multiplier: 1024, Stale: true}
		m := newAIFO(set, nil, nil)
		if !m.admits(c.most, c.below, 20) || m.admits(c.most+1, c.below, 20) {
			t.Errorf("%d are smaller: %d cells %v, %d cells %v", c.below, c.most, m.admits(c.most, c.below, 20), c.most+1,
				m.admits(c.most+1, c.below, 20))
		}
		set.Below = true
		if m := newAIFO(set, nil, nil); !m.admits(c.most-1, c.below, 20) || m.admits(c.most, c.below, 20) {
			t.Errorf("%d are smaller, compared strictly: %d cells", c.below, c.most)
		}
		if m := newAIFO(set, nil, []string{roundsMultiplier}); c.below > 0 && m.admits(25_001-2048*c.below, c.below, 20) {
			t.Errorf("rounded up, %d are smaller: %d cells", c.below, 25_001-2048*c.below)
		}
	}
}

// Cells of 80 bytes: 1500 bytes take 18.75 of them.
func TestPacketsTakeWholeCells(t *testing.T) {
	m := newAIFO(judge.Admission{Target: 25_000, Cell: 80}, nil, nil)
	for size, want := range map[int32]int64{64: 1, 80: 1, 81: 2, 160: 2, 1500: 19} {
		p := new(fabric.Packet)
		if p.Size = size; m.takes(p) != want {
			t.Errorf("%d bytes take %d cells, want %d", size, m.takes(p), want)
		}
	}
	if got := newAIFO(judge.Admission{}, nil, nil).takes(new(fabric.Packet)); got != 1 {
		t.Errorf("a packet takes %d", got)
	}
}

// At 10 million packets a second a loop of 200 ns is two packets late; before the first length arrives the ingress
// sees none.
func TestTheIngressSeesTheQueueALoopAgo(t *testing.T) {
	at := func(ns int) clock.Time { return clock.Time(0).Add(clock.Duration(ns) * clock.Nanosecond) }
	w := &window{}
	for i := range 8 { // 7 wait after the first has left, and so on
		w.reports = append(w.reports, report{at(1000 + 100*i), int64(7 - i)})
	}
	for _, c := range []struct{ ns, want int }{{1000, 0}, {1199, 0}, {1200, 7}, {1299, 7}, {1300, 6}, {1700, 2},
		{1900, 0}} {
		if got := w.seen(at(c.ns), 200*clock.Nanosecond); got != int64(c.want) {
			t.Errorf("at %d ns the ingress sees %d, want %d", c.ns, got, c.want)
		}
	}
}

// What the pipeline cannot do is refused, by name.
func TestSettingsThatThePipelineLacksAreRefused(t *testing.T) {
	m := aifo()
	for _, c := range []struct {
		settings []string
		want     string // key
	}{
		{[]string{"mode=dataplane"}, ""},
		{[]string{"mode=dataplane", "window=18"}, "window"},
		{[]string{"mode=dataplane", "window=18", "registers-per-stage=6"}, ""},
		{[]string{"window=18"}, ""},
		{[]string{"multiplier=2"}, "multiplier"},
		{[]string{"mode=dataplane", "target-cells=25000", "multiplier=1024"}, ""},
		{[]string{"mode=dataplane", "target-cells=25000", "multiplier=1250"}, ""}, // k = 0
		{[]string{"mode=dataplane", "target-cells=25000", "multiplier=1251"}, "multiplier"},
		{[]string{"target-cells=25000", "room-packets=90"}, "room-packets"},
		{[]string{"target-cells=25000", "room-cells=30000"}, ""},
		{[]string{"room-cells=30000"}, "room-cells"},
	} {
		v, err := m.Parameters.Values(c.settings...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range m.Check(v, 4, nil) {
			got = append(got, p.Key)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: refused are %v, want %q", c.settings, got, c.want)
		}
	}
}
