package orchestrator

import (
	"testing"

	"candela.dev/candela/trace"
)

func TestTracesThatAreNotJudgedSayWhy(t *testing.T) {
	report := &trace.IntegrityReport{Conditions: []trace.Condition{
		{Name: "consecutive", Status: trace.StatusViolated, Message: "2 of 7 mirror copies are missing"},
	}}
	f := incompleteAnalysis(report, trace.PacketIDsMirror).Findings[0]
	want := "The trace is not complete: 2 of 7 mirror copies are missing."
	if f.Headline != want || f.Cause != "not-held" {
		t.Errorf("%s: %q, want %q", f.Cause, f.Headline, want)
	}
	why := &trace.UnjudgedError{Reason: "nothing was judged: the capture holds 3 MADs"}
	f = unjudgedCapture(AnalyzeOptions{}, nil, why).Analysis.Findings[0]
	want = "No rule is about this capture: the capture holds 3 MADs."
	if f.Headline != want || f.Cause != "nothing-judged" {
		t.Errorf("%s: %q, want %q", f.Cause, f.Headline, want)
	}
}
