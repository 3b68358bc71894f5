package deflection

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	configs "candela.dev/candela/configs/deflection"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

func testConfig() experiments.Config {
	fixed := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	return experiments.Config{Workers: 2, Version: "test", Quick: true, Wall: func() time.Time { return fixed }}
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
	cfg := testConfig()
	cfg.Quick = false
	for _, e := range publication().List {
		if e.Slow {
			continue
		}
		results, err := publication().Run(t.Context(), cfg, e.ID)
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
	}
}

func TestResultsThatDoNotExistAreRefused(t *testing.T) {
	cfg := testConfig()
	err := publication().Check(&cfg, []string{"E99"})
	if err == nil || !strings.Contains(fmt.Sprint(err), "there are E4") {
		t.Errorf("error is %v", err)
	}
}

// small shortens the topology and the workload of E4.
func small() []edit {
	return []edit{{"leaves: 8, spines: 4, hosts-per-leaf: 40", "leaves: 3, spines: 2, hosts-per-leaf: 14"},
		{"load: 0.5", "load: 0.3"}, {"[250, 757, 1250, 1786, 2273]", "[250]"}}
}

// A point of a small network: what was counted in different ways agrees.
func TestAPointCountsDeflectionsPathsAndQueries(t *testing.T) {
	l, base, err := publication().Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for _, file := range []string{"e4-sd.yml", "e4-pd.yml", "e4-ecmp.yml"} {
		s := &series{name: "x", file: file, edits: small(), tag: "small", quick: 20_000_000_000}
		if err := l.measure(t.Context(), s, s); err != nil {
			t.Fatal(err)
		}
		p := l.of(s, 0)
		var heated, to, from, arrived, paths int64
		for _, h := range p.Heat {
			for _, n := range h.Counts {
				heated += n
			}
		}
		for _, c := range p.Ports {
			to, from, arrived = to+c.To, from+c.From, arrived+c.Arrived
		}
		for _, n := range p.Paths {
			paths += n
		}
		if p.Deflected != heated || p.Deflected != to || to != from || (to > 0) != (file != "e4-ecmp.yml") {
			t.Errorf("%s: %d deflections, %d over time, %d to and %d from ports", file, p.Deflected, heated, to, from)
		}
		if len(p.Ports) != 3 || arrived == 0 || paths == 0 || p.Paths[0]+p.Paths[2] > 0 || p.Queries == 0 ||
			p.Completed > p.Queries || p.QCT.Mean < onWireE4 && p.Completed > 0 || p.Data == 0 || p.Data > paths ||
			p.Sent < p.Data/2 || p.Reordered > p.Data {
			t.Errorf("%s: %+v", file, p)
		}
		if base.Results.Runs > 3 {
			t.Error("a point was measured twice")
		}
	}
}

// The rows and plots of E4, of values that are given instead of measured.
func TestE4ComparesWithWhatWasPublished(t *testing.T) {
	cfg := testConfig()
	cfg.Quick = false
	l, base, err := publication().Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for _, s := range table4() {
		for i := range loads() {
			l.points[s.key(i)] = &point{QCT: spread{s.mean[i], s.p99[i]}, Least: 7, Queries: 10, Completed: 9}
		}
	}
	if err := e4(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if got := misses(&base.Results); len(got) > 0 || base.Results.Runs != 0 {
		t.Errorf("%d runs, out of tolerance are %q", base.Results.Runs, got)
	}
	// PD that is as slow as SD breaks the ranking and a gate.
	base.Results.Rows = nil
	pd := table4()[4]
	l.points[pd.key(4)].QCT.Mean = 91.4
	if err := e4(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(misses(&base.Results), "\n")
	for _, want := range []string{"95 %, PD: QCT, mean", "95 %, pairs of schemes", "PD beside ECMP", "PD beside SD"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not out of tolerance; these are\n%s", want, got)
		}
	}
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

// The points of sweeps are in the order in which sweeps are read, and edits of quick sizes find what they replace.
func TestSeriesNameThePointsThatTheyMean(t *testing.T) {
	l, base, err := publication().Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	tests, err := base.Tests("fig-12-alpha.yml")
	if err != nil {
		t.Fatal(err)
	}
	if got := tests[2].Switch.Values.Step("alpha"); got != 100_000 || loadOf(2, len(tests)) != 55 ||
		loadOf(11, len(tests)) != 95 || tests[11].Switch.Values.Step("alpha") != 100_000 ||
		fmt.Sprint(tests[11].Point.Values[1]) == fmt.Sprint(tests[2].Point.Values[1]) {
		t.Errorf("point 2 has alpha %d, values %v; point 11 %v", got, tests[2].Point.Values, tests[11].Point.Values)
	}
	files, err := configs.FS.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // networks and hosts can be built, too
		small := map[string][]edit{"e1": smallE1(), "e2": smallE2(), "e3": smallE3()}[f.Name()[:2]]
		tests, err := l.TestsOf(edited{l.files, small}, f.Name())
		if err != nil || small != nil && len(tests) != 5 {
			t.Errorf("%s: %d tests, %v", f.Name(), len(tests), err)
			continue
		}
		experiments.Shorten(tests[0], 1)
		run := experiments.NewRun(tests[0], 1)
		if err := l.Do(t.Context(), &run, nil, func(*orchestrator.Outcome) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.TestsOf(edited{l.files, smallE1()}, "e4-pd.yml"); err == nil {
		t.Error("an edit that finds nothing is not refused")
	}
}

// Exponential values are fitted best by an exponential distribution, and equal shares by a uniform one.
func TestFitsTellDistributionsApart(t *testing.T) {
	var exponential, uniform, pareto []float64
	for i := range 20_000 {
		u := (float64(i) + 0.5) / 20_000
		exponential = append(exponential, 1-1000*math.Log(u))
		uniform = append(uniform, 1+1000*u)
		if x := math.Pow(u, -1/1.5); x < 30 {
			pareto = append(pareto, x)
		}
	}
	for best, values := range map[int][]float64{0: uniform, 2: exponential, 3: pareto} {
		errs := fits(values)
		for i := range errs {
			if errs[i] < errs[best] {
				t.Errorf("%s fits better than %s: %v", distributions[i], distributions[best], errs)
			}
		}
	}
}

// Each result adds rows for the points that there are, whatever loads are measured.
func TestResultsCompareWhatWasMeasured(t *testing.T) {
	for _, measured := range [][]float64{nil, {95}} {
		cfg := testConfig()
		cfg.Loads = measured
		l, base, err := publication().Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		l.given = func(w *wanted) point {
			return point{QCT: spread{10 + float64(len(w.s.name)), 30}, FCT: spread{1, 2}, Least: 7, Queries: 10, Completed: 9,
				Sent: 100, Data: 100, Reordered: 3, Dropped: 2, Large: 5, Deflected: 4,
				Heat: []heat{{"leaf-0", []int64{1, 3}}}, BinMS: 5, Paths: []int64{0, 5, 0, 9},
				Ports: []*port{{Kind: "leaf to spine"}}}
		}
		for _, e := range publication().List {
			if e.ID == "F5B" || e.ID == "F5C" || e.ID == "T2" {
				continue
			}
			before := len(base.Results.Rows)
			if err := e.Do(t.Context(), l); err != nil {
				t.Errorf("%s: %v", e.ID, err)
			}
			none := measured != nil && (e.ID == "F11" || e.ID == "F17") // of other loads
			if n := len(base.Results.Rows) - before; n == 0 != none {
				t.Errorf("%s: %d rows with loads %v", e.ID, n, measured)
			}
		}
		seen := make(map[string]bool)
		for _, r := range base.Results.Rows {
			if seen[r.ID+r.What] {
				t.Errorf("%s: %s is there twice", r.ID, r.What)
			}
			seen[r.ID+r.What] = true
		}
		for i := range base.Results.Plots {
			p := &base.Results.Plots[i]
			if err := p.WriteSVG(io.Discard); err != nil || seen[p.Name] {
				t.Errorf("%s: %v", p.Name, err)
			}
			seen[p.Name] = true
		}
	}
}
