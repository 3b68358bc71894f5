package rank

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Keep takes the findings of tests of this package into the book of its causes.
var Keep = func(list []analyzers.Finding) []analyzers.Finding { return list }

// single is a switch with one port, to host 9.
type single struct {
	analyzers.SwitchView
	set Settings
}

func (single) Switches() int                  { return 1 }
func (s single) Settings(int) (any, error)    { return s.set, nil }
func (single) SwitchName(int) string          { return "s" }
func (single) FlowOf(*trace.SwitchTap) int    { return 1 }
func (single) Ports(int) int                  { return 1 }
func (single) HostAt(int, int) (uint32, bool) { return 9, true }
func (single) Reason(_ int, code uint8) analyzers.DropReason {
	return analyzers.DropReason{Name: [...]string{"quantile", "tail"}[code]}
}

// pattern is what a test offers to a port: Poisson packets at a load, unless it says otherwise.
type pattern struct {
	load  float64
	rates []float64 // of ranks
	burst int       // packets of one rank in a row; 0: 1
	shift bool      // the ranks become others half way
}

// taps shows a judge 60,000 packets at a queue that decides by settings of its own, and returns what it reports.
func taps(t *testing.T, seed uint64, p pattern, judged, own Admission, inverted bool) analyzers.Result {
	t.Helper()
	j, err := NewJudge(single{set: Settings{Scheme: AIFO, Admission: judged}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	total := 0.0
	for _, r := range p.rates {
		total += r
	}
	w := newWindow(&own)
	var queue []*trace.SwitchTap
	now, free := 0.0, 0.0 // in service times of 1 us
	at := func(x float64) clock.Time { return clock.Time(0).Add(clock.Duration(x * float64(clock.Microsecond))) }
	serve := func(until float64) {
		for free <= until && len(queue) > 0 {
			out := *queue[0]
			queue = queue[1:]
			out.Stage, out.Time, out.Port = trace.Left, at(free), 0
			j.Observe(&out)
			free++
		}
	}
	rank, packets := uint64(0), max(60_000, 300*own.Room)
	for n := range packets {
		now += rng.ExpFloat64() / p.load
		serve(now)
		if n%max(p.burst, 1) == 0 {
			rank = 0
			for u := rng.Float64()*total - p.rates[0]; u > 0 && int(rank) < len(p.rates)-1; u -= p.rates[rank] {
				rank++
			}
			if p.shift && n > packets/2 {
				rank = uint64(len(p.rates)) - rank - min(rank, 3)
			}
		}
		tap := trace.SwitchTap{Time: at(now), Stage: trace.Entered, ID: uint64(n), Rank: rank, Flow: uint32(rank), Dst: 9, Size: 1500}
		j.Observe(&tap)
		decided := rank
		if inverted {
			decided = 100 - rank
		}
		if _, _, admits := w.arrive(decided, int64(len(queue))); admits && len(queue) < own.Room {
			queue = append(queue, &tap)
		} else {
			out := tap
			if out.Stage = trace.Dropped; admits {
				out.Reason = 1
			}
			j.Observe(&out)
		}
		if free < now {
			free = now
			serve(now)
		}
	}
	result, err := j.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func rulesOf(r analyzers.Result) map[string]string {
	found := make(map[string]string)
	for _, f := range Keep(r.Findings) {
		found[f.Rule] = f.Headline
	}
	return found
}

func rates(slope float64) []float64 {
	list := make([]float64, 10)
	for i := range list {
		list[i] = math.Exp(slope * float64(i) / 10)
	}
	return list
}

func plainAdmission(c int) Admission {
	return Admission{Target: int64(c), HeadroomPPM: 100_000, Window: c, Sample: 1, Room: c}
}

// A correct port is judged and not accused, whatever its load and shares.
func TestTheorem3HoldsOfCorrectPorts(t *testing.T) {
	judged := 0
	for seed := range uint64(14) {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := pattern{load: 1.2 + 2*rng.Float64(), rates: rates(6*rng.Float64() - 3)[:2+rng.IntN(9)]}
		set := plainAdmission(100 + rng.IntN(60))
		set.UpdateFirst, set.Below = rng.IntN(2) == 0, rng.IntN(2) == 0
		r := taps(t, seed, p, set, set, false)
		judged += int(r.Coverage["ports judged by theorem 3"])
		for rule, what := range rulesOf(r) {
			if rule != ruleNotJudged {
				t.Errorf("seed %d, %+v, C %d: %s: %s", seed, p, set.Target, rule, what)
			}
		}
	}
	if judged < 10 {
		t.Errorf("%d of 14 ports were judged", judged)
	}
}

// Traffic about which the theorem says nothing is not judged, and the report says why.
func TestTheorem3IsNotJudgedOfOtherTraffic(t *testing.T) {
	for _, c := range []struct {
		p    pattern
		want string
	}{
		{pattern{load: 0.9, rates: rates(0)}, "load is below"},
		{pattern{load: 2, rates: rates(0), burst: 40}, "not stationary"},
		{pattern{load: 2, rates: rates(2), shift: true}, "not stationary"},
		{pattern{load: 2, rates: make([]float64, 100)}, "too many ranks"},
	} {
		if len(c.p.rates) == 100 {
			for i := range c.p.rates {
				c.p.rates[i] = 1
			}
		}
		set := plainAdmission(100)
		got := rulesOf(taps(t, 1, c.p, set, set, false))
		if len(got) != 1 || !strings.Contains(got[ruleNotJudged], c.want) {
			t.Errorf("%+v: %v, want %q", c.p, got, c.want)
		}
	}
	small := plainAdmission(99)
	if got := rulesOf(taps(t, 1, pattern{load: 2, rates: rates(0)}, small, small, false)); len(got) > 0 {
		t.Errorf("of a small queue: %v", got)
	}
}

// A port that scales the threshold wrongly settles elsewhere, and one that compares inversely serves other ranks; taps
// show it without records.
func TestTheorem3AccusesWrongPorts(t *testing.T) {
	p := pattern{load: 2, rates: rates(0)}
	set := plainAdmission(400)
	scaled := set
	scaled.Target, scaled.Room = 220, 400
	got := rulesOf(taps(t, 1, p, set, scaled, false))
	if got[ruleLevel] == "" || got[ruleAdmission] == "" || got[ruleRate] != "" {
		t.Errorf("scaled: %v", got)
	}
	if got := rulesOf(taps(t, 1, p, set, set, true)); got[ruleRate] == "" || got[ruleAdmission] == "" {
		t.Errorf("inverted: %v", got)
	}
}

// The curve of the gap has at most 256 points, ends near the gap of the run, and repeats to the bit.
func TestTheCourseOfTheGapIsBounded(t *testing.T) {
	set := plainAdmission(100)
	p := pattern{load: 2, rates: rates(0)}
	a, b := taps(t, 1, p, set, set, false), taps(t, 1, p, set, set, false)
	if len(a.Curves) != 3 {
		t.Fatalf("%d curves", len(a.Curves))
	}
	c := a.Curves[0]
	if n := len(c.Values); n < 128 || n > 256 || n != len(c.Times) {
		t.Errorf("%d points", n)
	}
	if last := c.Values[len(c.Values)-1]; math.Abs(last-0.056) > 0.15*0.056 {
		t.Errorf("Δ ends at %f", last)
	}
	for i, v := range c.Values {
		if v != b.Curves[0].Values[i] || i > 0 && c.Times[i] <= c.Times[i-1] {
			t.Fatalf("point %d differs or is early", i)
		}
	}
	so := a.Curves[1]
	if n := len(so.Values); n != len(c.Values) || !slices.IsSorted(so.Values) || so.Values[n-1] == 0 {
		t.Errorf("inversions: %v", so.Values)
	}
	for _, v := range a.Curves[2].Values { // ranks 4 and 5 are admitted in turn
		if v < 2 || v > 7 {
			t.Errorf("the threshold is %f", v)
		}
	}
}

// The judge has the same rule from other code: 2^10 for each smaller rank, 25,000 cells, 20 ranks.
func TestTheJudgeMultipliesOnce(t *testing.T) {
	set := Admission{Target: 25_000, Window: 20, Cell: 80, Multiplier: 1024, Stale: true}
	for below, most := range map[int64]int64{0: 25_000, 1: 23_976, 10: 14_760, 19: 5544, 20: 4520} {
		strict := set
		strict.Below = true
		if !set.admits(most, below, 20) || set.admits(most+1, below, 20) || strict.admits(most, below, 20) ||
			!strict.admits(most-1, below, 20) {
			t.Errorf("%d are smaller: not %d cells at most", below, most)
		}
	}
	for size, want := range map[int64]int64{64: 1, 80: 1, 81: 2, 160: 2, 1500: 19} {
		if got := set.takes(size); got != want {
			t.Errorf("%d bytes take %d cells, want %d", size, got, want)
		}
	}
}

// Ten packets: three of rank 0, of which the shares 0, of rank 7 0.3, of rank 9 0.4, and of 5000 0.9 are smaller.
func TestTenthsOfArrivalsAreByRank(t *testing.T) {
	all := make(tallies)
	for rank, n := range map[uint64]*tally{0: {arrived: 3, left: 3}, 7: {arrived: 1, left: 1, inversions: 2},
		9: {arrived: 5, dropped: 4, left: 1, inversions: 6}, 5000: {arrived: 1, dropped: 1}} {
		*all.of(rank) = *n
	}
	metrics, tables := all.results()
	want := []string{"1 0 0 3 0 0.00 3 0", "4 7 7 1 0 0.00 1 2", "5 9 9 5 4 80.00 1 6", "10 5000 5007 1 1 100.00 0 0"}
	var got []string
	for _, row := range tables[1].Rows {
		got = append(got, strings.Join(row, " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("tenths are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if row := strings.Join(tables[0].Rows[3], " "); row != "5000 5007 10 1 1 0 0" || len(tables[0].Rows) != 4 {
		t.Errorf("%d ranks, the last %s", len(tables[0].Rows), row)
	}
	if v := metrics[0].Metric().Values; !slices.Equal(v, []int64{0, 2, 6, 0}) {
		t.Errorf("inversions by rank are %v", v)
	}
	if v := metrics[1].Metric().Values; !slices.Equal(v, []int64{0, 0, 800_000, 1_000_000}) {
		t.Errorf("drops by tenth are %v", v)
	}
}

func TestRanksThatTalliesTakeTogetherDifferByAThousandth(t *testing.T) {
	for _, rank := range []uint64{0, 1, 1023, 1024, 1025, 2047, 1 << 20, 1<<40 + 12345, math.MaxUint64} {
		all := make(tallies)
		all.of(rank)
		for least := range all {
			most := greatest(least)
			if rank < least || rank > most || rank < 1024 && most > least || float64(most-least) > float64(least)/500 {
				t.Errorf("rank %d is taken for %d to %d", rank, least, most)
			}
		}
	}
}
