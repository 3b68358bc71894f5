package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; rewrite with -update):\n%s", file, diff)
	}
}

func mustPlan(t *testing.T, file, text string) *plan.Plan {
	t.Helper()
	test, err := config.Parse(file, []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func explain(t *testing.T, p *plan.Plan) string {
	t.Helper()
	var b strings.Builder
	if err := p.Explain(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExplainSaysWhatEveryExampleDoes(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../../configs")
	files, err := filepath.Glob("*.yml")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d examples, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if config.IsSwitchTest(data) {
			continue // package switchtest explains those
		}
		t.Run(file, func(t *testing.T) {
			tests, err := config.LoadAll(file, config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.New(tests[len(tests)-1]) // the last point of a sweep
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join(here, "testdata", "explain", strings.TrimSuffix(file, ".yml")+".txt"), explain(t, p))
		})
	}
}
