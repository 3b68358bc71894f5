package netlock

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/clock"
	configs "candela.dev/candela/configs/lock"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

func testConfig() experiments.Config {
	fixed := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	return experiments.Config{Workers: 2, Version: "test", Quick: true, Wall: func() time.Time { return fixed }}
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

// TestExactlyTheDocumentedRowsAreOutOfTolerance measures what takes seconds; with CANDELA_TEST_REPRODUCE=locks all. A
// row that improves fails too, as the documents must then change.
func TestExactlyTheDocumentedRowsAreOutOfTolerance(t *testing.T) {
	which := os.Getenv("CANDELA_TEST_REPRODUCE")
	if which == "" {
		t.Skip("SKIP-slow: seconds of simulation; make test-reproduce runs it")
	}
	documented, err := os.ReadFile("testdata/results.md")
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig()
	cfg.Quick = false
	for _, e := range publication().List {
		if e.Slow && which != "locks" {
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
		if want := "lock-" + strings.TrimSuffix(f.Name(), ".yml"); f.Name() != "first.yml" && tests[0].Name != want {
			t.Errorf("%s is named %s", f.Name(), tests[0].Name)
		}
	}
}

func TestResultsThatDoNotExistAreRefused(t *testing.T) {
	cfg := testConfig()
	err := publication().Check(&cfg, []string{"E99"})
	if err == nil || !strings.Contains(fmt.Sprint(err), "there are LAW") {
		t.Errorf("error is %v", err)
	}
}

// The numbers of section 12, and what follows from them.
func TestLawsGiveTheNumbersOfTheModel(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("R17, 20 us", Capacity(100_000, 20*clock.Microsecond), 5e9)
	near("R17, 1 ms", Capacity(1_000_000, clock.Millisecond), 1e9)
	c := Cycle{Host: 5 * clock.Microsecond, Link: clock.Microsecond, Switch: clock.Microsecond,
		Holding: 3 * clock.Microsecond}
	near("a lock", c.MostOfLock(), 1e5)
	near("few locks", Throughput(1e9, 7, c), 7e5)
	near("many locks", Throughput(1e6, 1000, c), 1e6)
}

// Rows and plots are drawn, and each is there once.
func TestResultsAreNamedOnce(t *testing.T) {
	cfg := testConfig()
	results, err := publication().Run(t.Context(), cfg, "LAW")
	if err != nil {
		t.Fatal(err)
	}
	if got := misses(results); len(got) > 0 || len(results.Rows) != 4 {
		t.Errorf("%d rows, out of tolerance are %q", len(results.Rows), got)
	}
	seen := make(map[string]bool)
	for _, r := range results.Rows {
		if seen[r.ID+r.What] {
			t.Errorf("%s: %s is there twice", r.ID, r.What)
		}
		seen[r.ID+r.What] = true
	}
	for i := range results.Plots {
		if err := results.Plots[i].WriteSVG(io.Discard); err != nil {
			t.Error(err)
		}
	}
}
