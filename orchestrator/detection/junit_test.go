package detection_test

import (
	"strings"
	"testing"
	"time"

	"candela.dev/candela/orchestrator/detection"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/report/junitschema"
)

func TestWhatADetectionMeasuredBecomesCases(t *testing.T) {
	r := detection.Report{
		Bugs: []detection.BugResult{
			{Name: "right", Rule: "gbn.msn", Profile: "spec", Catch: detection.Right, Took: 1500 * time.Millisecond},
			{Name: "missed", Rule: "gbn.msn", Profile: "spec", Catch: detection.Missed},
			{Name: "loud", Rule: "gbn.msn", Profile: "spec", Catch: detection.Right, Sound: []string{"cnp.format"}},
			{Name: "hidden", Rule: "gbn.msn", Profile: "spec", Catch: detection.Unobservable, Why: "too slow"},
			{Name: "unjudged", Rule: "gbn.msn", Profile: "spec", Catch: detection.Unjudged, Why: "no run"},
		},
		Silence: []detection.SilenceResult{{Profile: "spec", Test: "quick"},
			{Profile: "spec", Test: "noisy", Violated: []string{"gbn.msn"}}},
		Scenarios: detection.ScenarioResult{Scenarios: 10, Alarms: []detection.FalseAlarm{
			{Scenario: 3, Profile: "spec", Findings: []string{"gbn.msn"}, Config: "name: scenario\n"}}},
	}
	var b strings.Builder
	if err := report.JUnitOfChecks(&b, r.Checks()); err != nil {
		t.Fatal(err)
	}
	if err := junitschema.Check(strings.NewReader(b.String())); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`<testsuites name="candela" tests="9" failures="5" errors="1">`,
		`name="detect bugs" tests="5" failures="2" errors="1" skipped="1" time="1.500"`,
		`missed: the bug violates gbn.msn, and what fired was nothing`,
		`without the bug the test violated cnp.format`, `a compliant NIC violated gbn.msn`, `<skipped message="too slow">`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("JUnit lacks %s:\n%s", want, &b)
		}
	}
}
