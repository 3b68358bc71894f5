package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
)

// evidence is a command of docs/reference/findings.md and its result according to the page.
type evidence struct {
	section string
	args    []string
	verdict string
	rules   []string
}

var (
	findingHeading = regexp.MustCompile(`^### (\d+)\. (.*)$`)
	claimedRules   = regexp.MustCompile("`([a-z]+\\.[a-z-]+)`")
	evidenceLine   = regexp.MustCompile(`^    candela (analyze .*\S)\s+# (pass|fail|invalid): (.*)$`)
	clauseRules    = regexp.MustCompile(`\(rules? ([^)]*)\)`)
)

// readFindings returns the commands of the page, and the rules in the clause line of each numbered finding.
func readFindings(t *testing.T) (commands []evidence, claims map[string][]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	claims = map[string][]string{}
	section := ""
	for line := range strings.Lines(string(page)) {
		line = strings.TrimRight(line, "\n")
		if m := findingHeading.FindStringSubmatch(line); m != nil {
			section = m[1]
		} else if strings.HasPrefix(line, "#") {
			section = ""
		}
		if m := clauseRules.FindStringSubmatch(line); m != nil && section != "" && strings.HasPrefix(line, "Clause:") {
			for _, r := range claimedRules.FindAllStringSubmatch(m[1], -1) {
				claims[section] = append(claims[section], r[1])
			}
		}
		if m := evidenceLine.FindStringSubmatch(line); m != nil {
			commands = append(commands, evidence{section, strings.Fields(m[1]), m[2], strings.Split(m[3], ", ")})
		}
	}
	return commands, claims
}

// TestTheBundlesShowTheFindingsThatThePageClaims runs every command of the page in the root of the repository.
func TestTheBundlesShowTheFindingsThatThePageClaims(t *testing.T) {
	commands, claims := readFindings(t)
	bundles, err := filepath.Glob("../../docs/reference/findings/*.tar*")
	if err != nil || len(bundles) == 0 {
		t.Fatalf("no bundles: %v", err)
	}
	t.Chdir("../..")
	proven := map[string][]string{}
	for _, e := range commands {
		bundles = slices.DeleteFunc(bundles,
			func(b string) bool {
				return slices.Contains(e.args, filepath.Join("docs/reference/findings", filepath.Base(b)))
			})
		t.Run(strings.Join(e.args, " "), func(t *testing.T) {
			status, stdout, stderr := candela(t, append(slices.Clone(e.args), "--format", "json")...)
			want := map[string]orchestrator.Exit{"pass": orchestrator.ExitPass, "fail": orchestrator.ExitFail,
				"invalid": orchestrator.ExitInvalid}[e.verdict]
			if status != want {
				t.Errorf("exit status %d, the page says %s\n%s", status, e.verdict, stderr)
			}
			var a analyzers.Analysis
			if err := json.Unmarshal([]byte(stdout), &a); err != nil {
				t.Fatal(err)
			}
			found := rulesOf(&a, slices.Contains(e.args, "--strict"))
			slices.Sort(e.rules)
			if !slices.Equal(found, e.rules) {
				t.Errorf("found %v, the page says %v", found, e.rules)
			}
		})
		proven[e.section] = append(proven[e.section], e.rules...)
	}
	if len(bundles) > 0 {
		t.Errorf("the page names no command for %v", bundles)
	}
	if len(claims) < 5 {
		t.Errorf("only %d findings with rules were found in the page: its form has changed", len(claims))
	}
	for section, rules := range claims {
		for _, r := range rules {
			if !slices.Contains(proven[section], r) {
				t.Errorf("finding %s claims %s, which none of its commands shows", section, r)
			}
		}
	}
}

// rulesOf returns the rules with findings against a device, each once.
func rulesOf(a *analyzers.Analysis, strict bool) []string {
	var rules []string
	for _, f := range a.Findings {
		if f.Severity == analyzers.Violation || strict && f.Severity == analyzers.Warning {
			rules = append(rules, f.Rule)
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}
