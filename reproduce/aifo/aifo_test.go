package aifo

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/clock"
	configs "candela.dev/candela/configs/rank"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

func testConfig(set ...string) experiments.Config {
	fixed := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	return experiments.Config{Workers: 2, Version: "test", Set: set, Wall: func() time.Time { return fixed }}
}

// misses lists the rows out of tolerance.
func misses(r *comparison.Results) (list []string) {
	for i := range r.Rows {
		if row := &r.Rows[i]; !row.Informative && !row.Pass {
			list = append(list, row.ID+": "+row.What)
		}
	}
	return list
}

// TestExactlyTheDocumentedRowsAreOutOfTolerance measures what takes seconds. A row that improves fails too, as the
// documents must then change.
func TestExactlyTheDocumentedRowsAreOutOfTolerance(t *testing.T) {
	if os.Getenv("CANDELA_TEST_REPRODUCE") == "" {
		t.Skip("SKIP-slow: seconds of simulation; make test-reproduce runs it")
	}
	documented, err := os.ReadFile("testdata/results.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range publication().List {
		if e.Slow {
			continue
		}
		results, err := publication().Run(t.Context(), testConfig(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for missed := range strings.Lines(string(documented)) {
			if strings.HasPrefix(missed, e.ID+": ") {
				want = append(want, strings.TrimSpace(missed))
			}
		}
		if got := misses(results); !slices.Equal(got, want) {
			t.Errorf("%s: out of tolerance are\n%s\ntestdata/results.md has\n%s", e.ID, strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
		if want := "| " + e.ID + " | " + results.Headline(); !strings.Contains(string(documented), want) {
			t.Errorf("testdata/results.md does not say %q", want)
		}
	}
}

// Four packets of flow 3, one of them twice, between two of flow 1.
func TestTheLogOfF6IsReadAsTheSourceReadsIt(t *testing.T) {
	a := &arrivals{list: []arrival{{3, 40}, {1, 90}, {3, 20}, {3, 30}, {3, 20}, {3, 10}, {1, 80}, {3, 20}},
		again: []bool{7: true}}
	if got := a.done(flow10MB); got != 6 {
		t.Errorf("flow 3 is done after %d packets, want 6", got)
	}
	if got := a.count(flow100MB, 6); got != 1 {
		t.Errorf("%d packets of flow 1 before, want 1", got)
	}
	for first, want := range map[int]int{3: 1, 5: 1, 6: 2, 300: 2} {
		if got, fresh := a.late(flow10MB, first); got != want || fresh != 1 {
			t.Errorf("%d of the first %d packets are late, %d for the first time, want %d, 1", got, first, fresh, want)
		}
	}
	b := &arrivals{list: []arrival{{3, 40}, {3, 20}, {3, 30}, {3, 10}}}
	if got := a.gap(b, 4); got != 0.25 { // {1, 90} and {3, 10} of 8
		t.Errorf("gap %g, want 0.25", got)
	}
	if got := a.gap(a, 100); got != 0 {
		t.Errorf("gap of a log to itself: %g", got)
	}
}

func TestPointsAreKeptForTheSameBuildTestAndSettings(t *testing.T) {
	cfg := testConfig()
	cfg.Out, cfg.Quick = t.TempDir(), true
	once := func(version string, duration clock.Duration, set ...string) (was float64) {
		cfg.Version, cfg.Set = version, set
		l, base, err := publication().Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		tests, err := l.Tests("f4-c10.yml")
		if err != nil {
			t.Fatal(err)
		}
		tests[0].Deadline, tests[0].Duration = 1, duration // a run in which nothing ends
		run := experiments.NewRun(tests[0], 1)
		known, err := l.Recall("f4-c10.yml", &run, &was)
		if err != nil {
			t.Fatal(err)
		}
		if known {
			return was
		}
		if err := l.Keep("f4-c10.yml", &run, 3); err != nil {
			t.Fatal(err)
		}
		return 0
	}
	for _, test := range []struct {
		version  string
		duration clock.Duration
		set      []string
		want     float64
	}{
		{"abc", 0, nil, 0}, {"abc", 0, nil, 3}, {"abc", 5, nil, 0}, {"abc", 5, nil, 3}, {"abd", 0, nil, 0},
		{"abd", 0, nil, 3}, {"abd", 0, []string{"aifo.headroom=0.2"}, 0}, {"abd", 0, []string{"aifo.headroom=0.2"}, 3},
		{"abd+changes", 0, nil, 0}, {"abd+changes", 0, nil, 0}, {"unknown", 0, nil, 0}, {"unknown", 0, nil, 0},
	} {
		if got := once(test.version, test.duration, test.set...); got != test.want {
			t.Errorf("version %s, %q: %g, want %g", test.version, test.set, got, test.want)
		}
	}
}

// The figures and rows of F1 and F2, of values that are given instead of measured.
func TestFigure48HasFIFOAndPIFO(t *testing.T) {
	l, base, err := publication().Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for i, file := range []string{"f1-pifo.yml", "f1-sp-pifo.yml", "f1-dctcp.yml", "f1-aifo.yml", "f2-k03.yml",
		"f2-k07.yml", "f2-k09.yml", "f1-tcp.yml"} {
		var cells []*cell
		for j := range labels() {
			cells = append(cells, &cell{Mean: float64(10 + i + j), P99: 1, Large: 1, Ended: 1})
		}
		l.loads.Set(file, cells)
	}
	for _, do := range []func(context.Context, *lab) error{f1, f2} {
		if err := do(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	drawn := make(map[string]string)
	for _, p := range base.Results.Plots {
		for _, s := range p.Series {
			drawn[p.Name] += s.Name + fmt.Sprint(len(s.X)) + " "
		}
	}
	const want = "k = 0.17 k = 0.37 k = 0.77 k = 0.97 FIFO7 PIFO7 "
	if got := drawn["fig-4-8-small-mean"]; got != want {
		t.Errorf("figure 4-8 has %q, want %q", got, want)
	}
	orders := make(map[string]bool)
	for _, r := range base.Results.Rows {
		orders[r.What] = r.Pass
	}
	for what, want := range map[string]bool{
		"load 0.2, AIFO beside PIFO, order: flows below 100 KB, mean":                    true,
		"load 0.2, TCP beside AIFO, order: flows below 100 KB, mean":                     true,
		"load 0.8, TCP beside AIFO, order: flows below 100 KB, mean":                     false, // not eight times
		"AIFO beside PIFO at load 0.2, beside the same at 0.8: flows below 100 KB, mean": true,
	} {
		if got, ok := orders[what]; got != want || !ok {
			t.Errorf("%s: passes %v (is there: %v), want %v", what, got, ok, want)
		}
	}
}

func TestEveryTestFileIsSound(t *testing.T) {
	_, base, err := publication().Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	files, err := configs.FS.ReadDir(".")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		tests, err := base.Tests(f.Name())
		if err != nil || len(tests) == 0 {
			t.Errorf("%s: %d tests, %v", f.Name(), len(tests), err)
			continue
		}
		if want := strings.TrimSuffix(f.Name(), ".yml"); tests[0].Name != want {
			t.Errorf("%s is named %s", f.Name(), tests[0].Name)
		}
		if strings.Contains("f1-f2-f3-f4-f5-f8-", f.Name()[:3]) {
			if len(tests) != len(labels()) {
				t.Errorf("%s has %d points, want one for each of the %d loads", f.Name(), len(tests), len(labels()))
			}
		}
	}
}

// A machine without namespaces says so in every row of T2; the rows of one that has them are judged.
func TestConnectionsThatWereNotMeasuredAreSkipped(t *testing.T) {
	_, base, err := publication().Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	nan := math.NaN()
	fair := ratesOfPhases{{.02}, {.01, .01}, {.007, .006, .007}, {.005, .005, .005, .005}}
	newest := ratesOfPhases{{.02}, {0, .02}, {0, 0, .02}, {0, 0, .001, .019}}
	missing := ratesOfPhases{{nan}, {nan, nan}, {nan, nan, nan}, {nan, nan, nan, nan}}
	for _, c := range []struct {
		scheme  string
		rates   ratesOfPhases
		skipped string
		missed  int
	}{
		{"FIFO", fair, "", 0}, {"FIFO", newest, "", 3}, {"AIFO", newest, "", 0}, {"AIFO", fair, "", 3},
		{"AIFO", missing, "no root", 0}, {"FIFO", missing, "no root", 0},
	} {
		base.Results = comparison.Results{}
		(&lab{Lab: base}).connections(scheme{Name: c.scheme}, &connected{ratesOfPhases: c.rates, skipped: c.skipped})
		if got := misses(&base.Results); len(got) != c.missed {
			t.Errorf("%s, %v: missed are %q, want %d", c.scheme, c.rates, got, c.missed)
		}
		for i := range base.Results.Rows {
			if r := &base.Results.Rows[i]; strings.Contains(r.Why, "SKIP: no root") != (c.skipped != "") {
				t.Errorf("%s: %s: %s", c.scheme, r.What, r.Why)
			}
		}
	}
}

func TestResultsThatDoNotExistAreRefused(t *testing.T) {
	cfg := testConfig()
	if err := publication().Check(&cfg, []string{"F99"}); err == nil || !strings.Contains(fmt.Sprint(err), "there are S5") {
		t.Errorf("error is %v", err)
	}
}

func TestLoadsThatDoNotExistAreRefused(t *testing.T) {
	cfg := testConfig()
	cfg.Loads = []float64{0.2, 0.25}
	if err := publication().Check(&cfg, nil); err == nil || !strings.Contains(err.Error(), "0.25: there are 0.2 0.3") {
		t.Errorf("error is %v", err)
	}
}

// Rows, orders and plots are of the loads that are measured, whichever these are.
func TestOnlyLoadsThatWereAskedForAreCompared(t *testing.T) {
	for _, loads := range [][]float64{{0.2}, {0.5}, {0.8}, {0.3, 0.8}} {
		cfg := testConfig()
		cfg.Loads = loads
		l, base, err := publication().Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		files, err := configs.FS.ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			cells := make([]*cell, len(labels()))
			for i := range cells {
				if l.Measures(i) {
					cells[i] = &cell{Mean: 1, P99: 1, Large: 1, Ended: 1}
				}
			}
			l.loads.Set(f.Name(), cells)
		}
		for _, do := range []func(context.Context, *lab) error{f1, f2, f3, f4, f5, f8} {
			if err := do(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		for i := range base.Results.Rows {
			what := base.Results.Rows[i].What
			if !slices.ContainsFunc(loads, func(load float64) bool { return strings.HasPrefix(what, at(load)) }) {
				t.Errorf("loads %v: there is a row %q", loads, what)
			}
		}
		if len(base.Results.Rows) < 50*len(loads) {
			t.Errorf("loads %v: only %d rows", loads, len(base.Results.Rows))
		}
	}
}
