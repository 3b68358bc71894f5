package comparison_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
)

// TestAgreedTraces judges the traces of testdata/agreed.txt, on which analyzers and oracle once differed, and similar
// ones with a faulty endpoint. A case starts with "## VERDICT VERDICT: NAME": the verdicts of requester and responder.
func TestAgreedTraces(t *testing.T) {
	checkAgreed(t, "testdata/agreed.txt")
}

// TestTracesThatMutantsOfTheObserverMisjudge judges minimised random traces of single captures. Each of them some
// mutant of the observer judges differently from the oracle.
func TestTracesThatMutantsOfTheObserverMisjudge(t *testing.T) { checkAgreed(t, "testdata/mutants.txt") }

func checkAgreed(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	judge := comparison.Analyzers()
	names := map[string]bool{}
	for _, block := range strings.Split("\n"+string(data), "\n## ")[1:] {
		title, text, _ := strings.Cut(block, "\n")
		verdicts, name, ok := strings.Cut(title, ": ")
		if !ok || names[name] {
			t.Fatalf("%q: want a new title VERDICT VERDICT: NAME", title)
		}
		names[name] = true
		t.Run(name, func(t *testing.T) {
			tr, err := oracle.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%v %v", oracle.Decide(tr, oracle.Requester).Verdict, oracle.Decide(tr, oracle.Responder).Verdict)
			if got != verdicts {
				t.Errorf("oracle: %s, want %s", got, verdicts)
			}
			list, err := comparison.Compare(tr, judge)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range list {
				t.Errorf("%s; findings:", d.Class())
				for _, f := range d.Findings {
					t.Errorf("  %s %s %v: expected %s; actual %s", f.Severity, f.Rule, f.Packets, f.Expected, f.Actual)
				}
			}
		})
	}
}
