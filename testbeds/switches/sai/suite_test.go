package sai_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// suite loads every test of configs/sai-trimming.
func suite(t *testing.T) []*config.SwitchTest {
	t.Helper()
	return load(t, "../../../configs/sai-trimming/*.yml")
}

// load loads every test of the files that match a pattern.
func load(t *testing.T, pattern string) []*config.SwitchTest {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no suite: %v", err)
	}
	var all []*config.SwitchTest
	for _, file := range files {
		tests, err := config.LoadSwitchTests(file, switchtest.Options())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tests...)
	}
	return all
}

func play(t *testing.T, test *config.SwitchTest) *orchestrator.Outcome {
	t.Helper()
	plan, err := switchtest.New(test)
	if err != nil {
		t.Fatal(err)
	}
	out, err := switchtest.Run(t.Context(), plan, orchestrator.Options{
		Out: t.TempDir(), NoReports: true, Wall: func() time.Time { return time.Unix(0, 0) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheCorrectSwitchPassesTheSuite(t *testing.T) {
	for _, test := range suite(t) {
		t.Run(test.Title(), func(t *testing.T) {
			out := play(t, test)
			if out.Verdict.Verdict != analyzers.Pass {
				t.Errorf("verdict %v", out.Verdict)
				for _, line := range out.Verdict.Reasons {
					t.Log(line)
				}
				for _, f := range out.Analysis.Findings {
					t.Logf("%s: want %s, got %s (%s)", f.Rule, f.Expected, f.Actual, f.Message)
				}
			}
		})
	}
}

func TestTheSuiteCatchesEverySeededBugByItsRule(t *testing.T) {
	tests := suite(t)
	for _, bug := range seeded {
		t.Run(bug.bug, func(t *testing.T) {
			caught := slices.IndexFunc(tests, func(test *config.SwitchTest) bool {
				buggy := *test
				buggy.Switch.Bugs = []string{bug.bug}
				out := play(t, &buggy)
				return out.Verdict.Verdict == analyzers.Fail &&
					slices.ContainsFunc(out.Analysis.Findings, func(f analyzers.Finding) bool { return f.Rule == bug.rules[0] })
			})
			if caught < 0 {
				t.Fatalf("no test of the suite fails by %s", bug.rules[0])
			}
			by := tests[caught]
			t.Logf("caught by %s", by.Title())
			// Similar bugs are neighbours in the list: what caught one is tried first for the next.
			tests = slices.Insert(slices.Delete(tests, caught, caught+1), 0, by)
		})
	}
}
