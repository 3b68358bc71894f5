package hcsfq

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/clock"
	configs "candela.dev/candela/configs/fair"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

func testConfig() experiments.Config {
	fixed := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	return experiments.Config{Workers: 2, Version: "test", Wall: func() time.Time { return fixed }}
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

// TestExactlyTheDocumentedRowsAreOutOfTolerance measures what takes seconds, or with "loads" the rest. A row that
// improves fails too, as the documents must then change.
func TestExactlyTheDocumentedRowsAreOutOfTolerance(t *testing.T) {
	wanted := os.Getenv("CANDELA_TEST_REPRODUCE")
	if wanted == "" {
		t.Skip("SKIP-slow: seconds of simulation; make test-reproduce runs it")
	}
	documented, err := os.ReadFile("testdata/results.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range publication().List {
		if e.Slow != (wanted == "loads") || e.ID == idLive || strings.HasPrefix(e.ID, "S") ||
			e.ID == "K" || strings.HasPrefix(e.ID, "E") || slices.Contains([]string{"Q9", "Q10", "Q11"}, e.ID) {
			// no two runs on real frames are equal; S1 to S5 take a quarter of an hour and more; of E1 to E12, K and Q9 to Q11
			// the document has one seed
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

// A flow of 8 Gb/s for two milliseconds, and one of 4 in the second.
func TestACourseIsReadBetweenTwoInstants(t *testing.T) {
	c := course{flows: [][]float64{nil, {8e6, 8e6}, {0, 4e6}}}
	for _, test := range []struct {
		flow int
		want float64
	}{{1, 8}, {2, 2}, {3, 0}} {
		if got := c.rate(test.flow, 0, 2*ms); got != test.want {
			t.Errorf("flow %d: %g Gb/s, want %g", test.flow, got, test.want)
		}
	}
	p := &point{course: c}
	if got := jain(p, ms, 2*ms, share{flows{1, 1}, 8}, share{flows{2, 2}, 4}); got != 1 {
		t.Errorf("Jain's index of what each is to get: %g", got)
	}
	if got := jain(p, 0, ms, share{flows{1, 1}, 8}, share{flows{2, 2}, 4}); got != 0.5 {
		t.Errorf("Jain's index if one of two has everything: %g", got)
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
		if want := "fair-" + strings.TrimSuffix(f.Name(), ".yml"); tests[0].Name != want {
			t.Errorf("%s is named %s", f.Name(), tests[0].Name)
		}
	}
}

// The results of figure 3-2 take seconds: they are measured with one seed.
func TestAResultThatIsMeasuredQuicklyHasAllItsRows(t *testing.T) {
	cfg := testConfig()
	cfg.Quick = true
	results, err := publication().Run(t.Context(), cfg, "Q8", "TEXT")
	if err != nil {
		t.Fatal(err)
	}
	if got := misses(results); len(got) > 0 || results.Runs != 1 {
		t.Errorf("%d runs, out of tolerance are %q", results.Runs, got)
	}
	seen := make(map[string]int)
	for _, r := range results.Rows {
		seen[r.ID]++
	}
	if seen["Q8"] != 9 || seen["TEXT"] == 0 {
		t.Errorf("rows of each result: %v", seen)
	}
}

func TestResultsThatDoNotExistAreRefused(t *testing.T) {
	cfg := testConfig()
	err := publication().Check(&cfg, []string{"Q99"})
	if err == nil || !strings.Contains(fmt.Sprint(err), "there are Q1") {
		t.Errorf("error is %v", err)
	}
}

// A test with another queue is the same test but for the switch, what its hosts do, its name and its expectations.
func TestQueuesReplaceHCSFQ(t *testing.T) {
	l, base, err := publication().Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for _, q := range []queue{fifo(), csfq(", bypass-bytes: 125"), hpifo(), afq(), spPIFO(), dctcp()} {
		for _, file := range []string{"e1.yml", "e5.yml", "e6.yml", "e7.yml", "e8.yml", "e9.yml", "e10.yml", "e11.yml",
			"e12.yml"} {
			if q.hosts != "" && strings.Contains("e1.yml e5.yml e6.yml", file) { // nothing slows their flows down
				continue
			}
			tests, err := l.TestsOf(replaced{l.files, &q}, file)
			if err != nil {
				t.Errorf("%s, %s: %v", q.name, file, err)
				continue
			}
			was, err := l.Tests(file)
			if err != nil {
				t.Fatal(err)
			}
			test := tests[0]
			if test.Name != was[0].Name+"-"+strings.ToLower(q.name) || len(test.Workload) != len(was[0].Workload) ||
				test.Duration != was[0].Duration || test.Switch.Model == "hcsfq" {
				t.Errorf("%s, %s is %s with %s", q.name, file, test.Name, test.Switch.Model)
			}
		}
	}
	q := fifo()
	if _, err := l.TestsOf(replaced{l.files, &q}, "e99.yml"); err == nil {
		t.Error("a test that does not exist is not refused")
	}
}

// The settings of the published simulator are those of every test of HCSFQ on a network, with a name of its own.
func TestTestsOfTheArtefactHaveItsSettings(t *testing.T) {
	for _, setup := range []string{"s1", "s2", "s3", "s4", "s5"} {
		was, now := testsOf(t, specified().file(setup)), testsOf(t, published().file(setup))
		set := now[0].Switch.Values
		if len(was) != len(now) || now[0].Name != was[0].Name+"-artefact" || set.Duration("k-us") != 100*clock.Microsecond ||
			set.Duration("k-alpha-us") != 100*clock.Microsecond || set.Duration("k-c-us") != 20*clock.Microsecond ||
			set.Number("alpha-floor") != 0.1 || set.Int("bypass-bytes") != 125 ||
			len(set.List("tree")) != len(was[0].Switch.Values.List("tree")) {
			t.Errorf("%s: %s with %v", setup, now[0].Name, set)
		}
	}
}

// Rows with the settings of the published simulator say that they are a choice.
func TestSettingsOfTheArtefactAreAChoice(t *testing.T) {
	if got := specified().because("own"); got != "own" {
		t.Errorf("the specification's: %q", got)
	}
	if got := published().because(""); got == "" || strings.HasSuffix(got, "; ") {
		t.Errorf("the artefact's: %q", got)
	}
	if got := published().because("own"); !strings.HasSuffix(got, "no floor; own") {
		t.Errorf("both: %q", got)
	}
}

// K is set where the test says that small packets bypass, in both forms of a mapping.
func TestKIsChanged(t *testing.T) {
	l, base, err := publication().Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for _, file := range []string{"e9.yml", "e11.yml", "e12.yml"} {
		tests, err := l.TestsOf(averaged{l.files, 300}, file)
		if err != nil {
			t.Fatal(err)
		}
		if got := tests[0].Switch.Values.Duration("k-us"); got != 300*clock.Microsecond {
			t.Errorf("%s: K is %v", file, got)
		}
	}
	if _, err := l.TestsOf(averaged{l.files, 300}, "e1.yml"); err == nil {
		t.Error("a test without bypass-bytes is not refused")
	}
}
