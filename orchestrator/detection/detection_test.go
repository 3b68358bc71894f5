package detection_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/detection"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

const configs = "../../configs"

func newBench() *detection.Bench {
	return &detection.Bench{
		NewRunner: func() (reduction.Runner, func() error) {
			var rack virtual.Rack
			s := orchestrator.NewScratch(func(spec testbeds.Spec) (orchestrator.Testbed, error) { return rack.Build(spec) })
			return s.Run, func() error {
				s.Close()
				return rack.Close()
			}
		},
		Options: orchestrator.Models(), Configs: configs,
	}
}

func TestEveryBugIsCaughtByItsRuleAndNothingFiresWithoutIt(t *testing.T) {
	bugs, err := newBench().Bugs(t.Context(), "spec")
	if err != nil {
		t.Fatal(err)
	}
	report := detection.Report{Bugs: bugs}
	for _, fault := range report.Faults() {
		t.Error(fault)
	}
}

// One profile with a transmit pipeline and slow firmware; make detection takes all.
func TestNoRuleFiresOnASoundVendorProfile(t *testing.T) {
	silence, err := newBench().Silence(t.Context(), "cx4-lx")
	if err != nil {
		t.Fatal(err)
	}
	report := detection.Report{Silence: silence}
	for _, fault := range report.Faults() {
		t.Error(fault)
	}
}

// A sample; make detection runs ten thousand.
func TestNoRuleFiresInRandomScenarios(t *testing.T) {
	var profiles []string
	for _, p := range rdma.Profiles() {
		profiles = append(profiles, p.Name)
	}
	const n = 100
	result, err := newBench().Scenarios(t.Context(), 0, n, profiles)
	if err != nil {
		t.Fatal(err)
	}
	if result.Scenarios != n || result.Events < n/2 {
		t.Errorf("only %d events fired in %d scenarios: they test nothing", result.Events, result.Scenarios)
	}
	report := detection.Report{Scenarios: result}
	for _, fault := range report.Faults() {
		t.Error(fault)
	}
}

func TestTheCatalogueIsSound(t *testing.T) {
	o := orchestrator.Models()
	names := map[string]bool{}
	for _, bug := range rdma.Catalogue() {
		if names[bug.Name] {
			t.Errorf("there are two bugs %s", bug.Name)
		}
		names[bug.Name] = true
		if !slices.Contains(o.Rules, bug.Rule) && !strings.HasPrefix(bug.Rule, "expect.") {
			t.Errorf("bug %s is to fire %s, which is no rule", bug.Name, bug.Rule)
		}
		test, err := config.Load(filepath.Join(configs, "detect", bug.Name+".yml"), o)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := slices.Concat(test.Requester.NIC.Bugs, test.Responder.NIC.Bugs); !slices.Equal(got, []string{bug.Name}) {
			t.Errorf("the test of bug %s has bugs %v", bug.Name, got)
		}
	}
	if len(names) < 40 {
		t.Errorf("the catalogue has only %d bugs", len(names))
	}
}

func TestScenariosAreTheSameEveryTime(t *testing.T) {
	for i := range uint64(50) {
		if a, b := detection.Scenario(i), detection.Scenario(i); a != b {
			t.Errorf("scenario %d:\n%s\nand then\n%s", i, a, b)
		}
	}
}

func TestTheTableSaysWhichRuleNoticedWhat(t *testing.T) {
	report := detection.Report{Bugs: []detection.BugResult{
		{Name: "a", Rule: "gbn.msn", Profile: "spec", Catch: detection.Right,
			Fired: []detection.Fired{{Rule: "gbn.msn"}, {Rule: "cnp.format"}}},
		{Name: "b", Rule: "gbn.msn", Profile: "spec", Catch: detection.Other, Fired: []detection.Fired{{Rule: "cnp.format"}}},
		{Name: "c", Rule: "gbn.msn", Profile: "spec", Catch: detection.Missed},
	}}
	var b strings.Builder
	if err := report.Text(&b); err != nil {
		t.Fatal(err)
	}
	want := `bug  verdict       right rule  also fired
a    right rule    gbn.msn     cnp.format
b    another rule  gbn.msn     cnp.format
c    missed        gbn.msn

bugs: 3, profiles: 1: 1 caught by the right rule (33.3 %), 1 by another one only, 1 missed; 0 not applicable
! bug b on profile spec: another rule (want gbn.msn, fired cnp.format)
! bug c on profile spec: missed (want gbn.msn, fired nothing)
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestOnlyWhatDidNotHappenIsRetried: on software hosts a test whose events found no packet is repeated, a few times; a
// bug that was provoked and not caught is missed immediately.
func TestOnlyWhatDidNotHappenIsRetried(t *testing.T) {
	const bug, rule, events = "stale-nack-obeyed", "gbn.resend-acknowledged", 7
	silent, caught := &analyzers.Analysis{},
		&analyzers.Analysis{Findings: []analyzers.Finding{{Rule: rule, Severity: analyzers.Violation}}}
	for _, tt := range []struct {
		name     string
		software bool
		broken   []orchestrator.Outcome // of one run after the other
		want     detection.Catch
		runs     int // of the broken device
	}{
		{"caught at once", true, []orchestrator.Outcome{{EventsFired: events, Analysis: caught}}, detection.Right, 1},
		{"caught once its events happen", true,
			[]orchestrator.Outcome{{Analysis: silent}, {EventsFired: events, Analysis: caught}}, detection.Right, 2},
		{"caught although an event did not happen", true, []orchestrator.Outcome{{Analysis: caught}}, detection.Right, 1},
		{"missed", true, []orchestrator.Outcome{{EventsFired: events, Analysis: silent}}, detection.Missed, 1},
		{"its events never happen", true, []orchestrator.Outcome{{Analysis: silent}, {Analysis: silent}, {Analysis: silent}},
			detection.Missed, 3},
		{"simulated hosts", false, []orchestrator.Outcome{{Analysis: silent}}, detection.Missed, 1},
	} {
		runs := 0
		b := newBench()
		b.Only, b.SoftwareHosts, b.Workers = []string{bug}, tt.software, 1
		b.NewRunner = func() (reduction.Runner, func() error) {
			return func(_ context.Context, test *config.Test) (*orchestrator.Outcome, error) {
				if n := len(test.Traffic.DataEvents) + len(test.Traffic.ControlEvents); n != events {
					t.Fatalf("the test of %s has %d events, want %d", bug, n, events)
				}
				if test.Requester.NIC.Bugs == nil {
					return &orchestrator.Outcome{EventsFired: events, Analysis: silent}, nil
				}
				if runs++; runs > len(tt.broken) {
					t.Fatalf("%s: run %d", tt.name, runs)
				}
				return &tt.broken[runs-1], nil
			}, func() error { return nil }
		}
		bugs, err := b.Bugs(t.Context(), "spec")
		if err != nil {
			t.Fatal(err)
		}
		if bugs[0].Catch != tt.want || runs != tt.runs {
			t.Errorf("%s: %v after %d runs, want %v after %d", tt.name, bugs[0].Catch, runs, tt.want, tt.runs)
		}
	}
}
