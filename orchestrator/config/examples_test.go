package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/runtimetest"
)

// examples returns the example configurations that come with Candela.
func examples(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../../configs/*.yml", "../../configs/*/*.yml"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, matches...)
	}
	if len(files) < 30 {
		t.Fatalf("found only %d example configurations", len(files))
	}
	return files
}

// isSwitchTest reports whether an example is a switch test. Package switchtest tests those.
func isSwitchTest(t *testing.T, file string) bool {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return config.IsSwitchTest(data)
}

// warned are the examples that demonstrate a warning.
var warned = map[string]string{"trim-runt.yml": "passes whole", "timer-never-off.yml": "there is no timer",
	"timer-off.yml": "there is no timer"}

func TestEveryExampleLoadsAndPlansWithoutWarning(t *testing.T) {
	for _, file := range examples(t) {
		if isSwitchTest(t, file) {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			tests, err := config.LoadAll(file, orchestrator.Models())
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range tests {
				p, err := plan.New(test)
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range p.Warnings {
					if expected := warned[filepath.Base(file)]; expected == "" || !strings.Contains(fmt.Sprint(w), expected) {
						t.Error(w)
					}
				}
			}
		})
	}
}

func TestEveryExampleSaysWhatItTeaches(t *testing.T) {
	for _, file := range examples(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		heading, _, _ := strings.Cut(string(data), "\nname: ")
		least := 1
		if suite := filepath.Base(filepath.Dir(file)); suite == "sai-trimming" || suite == "trimming" ||
			suite == "rank" {
			least = 0 // the title names the case or figure, which is sufficient
		}
		if lines := strings.Count(heading, "\n# "); !strings.HasPrefix(heading, "# ") || lines < least {
			t.Errorf("%s has no comment that explains it", file)
		}
		for i, line := range strings.Split(string(data), "\n") {
			if len([]rune(line)) > 130 {
				t.Errorf("%s:%d is longer than a line should be", file, i+1)
			}
		}
	}
}

func TestExamplesAreNamedLikeTheirFiles(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, file := range examples(t) {
		if isSwitchTest(t, file) {
			continue
		}
		tests, err := config.LoadAll(file, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		test := tests[0]
		want := strings.TrimSuffix(filepath.Base(file), ".yml")
		if filepath.Base(filepath.Dir(file)) == "detect" {
			want = "detect-" + want
		}
		if test.Name != want {
			t.Errorf("%s is called %q, want %q", file, test.Name, want)
		}
	}
}

func TestTheIndexOfExamplesListsEachOnce(t *testing.T) {
	data, err := os.ReadFile("../../configs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range examples(t) {
		name, err := filepath.Rel("../../configs", file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(name) != "." && isSwitchTest(t, file) {
			continue // a suite, which the index lists as one entry
		}
		if n := len(regexp.MustCompile(regexp.QuoteMeta("]("+name+")")).FindAll(data, -1)); n != 1 {
			t.Errorf("configs/README.md lists %s %d times", name, n)
		}
	}
}
