package orchestrator

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
)

var update = flag.Bool("update", false, "rewrite generated documents")

func TestRulesDocumentIsUpToDate(t *testing.T) {
	var want bytes.Buffer
	if err := WriteRules(&want); err != nil {
		t.Fatal(err)
	}
	const path = "../docs/reference/rules.md"
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf(
			"docs/reference/rules.md differs from the tables; go test ./orchestrator -run Rules -update rewrites it:\n%s", diff)
	}
}

func TestEveryRuleSaysWhatItIsAbout(t *testing.T) {
	id := regexp.MustCompile(`^[a-z]+\.[a-z0-9-]+$`)
	seen := map[string]bool{}
	for _, r := range append(Rules(), SwitchRules()...) {
		if !id.MatchString(r.ID) || seen[r.ID] {
			t.Errorf("rule id %q is malformed or appears twice", r.ID)
		}
		seen[r.ID] = true
		if r.Severity == "" || r.Clause == "" || r.Statement == "" {
			t.Errorf("rule %s lacks severity, clause or statement: %+v", r.ID, r)
		}
	}
}

func TestEveryRuleOfSwitchTestsSaysWhatItNeeds(t *testing.T) {
	for _, r := range SwitchRules() {
		switch r.Needs {
		case analyzers.NeedsFlow, analyzers.NeedsHost, analyzers.NeedsSwitch:
		default:
			t.Errorf("rule %s needs %q", r.ID, r.Needs)
		}
	}
}

func TestEveryRuleOfEveryAnalyzerHasACause(t *testing.T) {
	causetest.Table(t, append(Rules(), SwitchRules()...), Causes())
}
