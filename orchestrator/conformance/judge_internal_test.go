package conformance

import (
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report"
)

func TestWrongDataSpeaksAgainstADevice(t *testing.T) {
	const reason = "data of qpn 1 at the responder: 1 differences in 10 messages, the first: byte 7 of 9 is 0x01, want " +
		"0x02"
	for _, tt := range []struct {
		name    string
		reasons []string
		judge   string // empty: none
	}{
		{"nothing is wrong", nil, ""},
		{"a request ended as it should not", []string{"completion of qpn 1: retry-exceeded"}, "expect.completion"},
		{"other bytes arrived than were sent", []string{reason}, "expect.data"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := outcome{name: "write", run: &orchestrator.Outcome{
				Dir: "run", Report: &report.Report{}, Analysis: &analyzers.Analysis{},
				Verdict: orchestrator.Verdict{Reasons: tt.reasons},
			}}
			found := outside(nil, []outcome{o}, &Device{Emulated: true})
			if tt.judge == "" {
				if len(found) > 0 {
					t.Errorf("%v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Judge != tt.judge || found[0].Text != tt.reasons[0] {
				t.Errorf("%v, want one breach by %s", found, tt.judge)
			}
		})
	}
}

// TestOnlyRunsInWhichNobodySpokeAreRepeated: on real packets a run that did not exercise a rule is repeated, a few
// times; one with a finding against the device never is.
func TestOnlyRunsInWhichNobodySpokeAreRepeated(t *testing.T) {
	rules := []Rule{{Test: "write", Evidence: []Evidence{transition("responder: nacked + discarded -> nacked")}},
		{Test: "read", Evidence: []Evidence{seen("x")}}}
	finding := func(s analyzers.Severity, wanted bool) []report.Finding {
		return []report.Finding{{Finding: analyzers.Finding{Rule: "gbn.nak-repeat", Severity: s}, Wanted: wanted}}
	}
	for _, tt := range []struct {
		name      string
		suite     Suite
		exercised int64
		findings  []report.Finding
		exit      orchestrator.Exit
		tries     int
		want      bool
	}{
		{"a rule was not exercised", Suite{Real: true}, 0, nil, orchestrator.ExitPass, 1, true},
		{"often enough", Suite{Real: true}, 0, nil, orchestrator.ExitPass, realTries, false},
		{"all were", Suite{Real: true}, 1, nil, orchestrator.ExitPass, 1, false},
		{"a violation", Suite{Real: true}, 0, finding(analyzers.Violation, false), orchestrator.ExitFail, 1, false},
		{"a warning", Suite{Real: true}, 0, finding(analyzers.Warning, false), orchestrator.ExitPass, 1, false},
		{"a note", Suite{Real: true}, 0, finding(analyzers.Note, false), orchestrator.ExitPass, 1, true},
		{"a violation that the test wants", Suite{Real: true}, 0, finding(analyzers.Violation, true), orchestrator.ExitPass,
			1, true},
		{"an expectation that was not met", Suite{Real: true}, 0, nil, orchestrator.ExitFail, 1, false},
		{"an event that never fired", Suite{Real: true}, 0, nil, orchestrator.ExitInvalid, 1, true},
		{"the virtual testbed", Suite{}, 0, nil, orchestrator.ExitPass, 1, false},
	} {
		o := outcome{name: "write", tries: tt.tries, run: &orchestrator.Outcome{
			Report:   &report.Report{Packets: 1, Findings: tt.findings},
			Analysis: &analyzers.Analysis{Coverage: map[string]map[string]int64{"gbn": {"responder: nacked + discarded -> nacked": tt.exercised}}},
			Verdict:  orchestrator.Verdict{Exit: tt.exit},
		}}
		if got := tt.suite.retry(&o, rules); got != tt.want {
			t.Errorf("%s: tried again: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPacingThatIsNotJudgedIsNotExercised(t *testing.T) {
	rule := Rule{Test: "ecn-write", Judges: []string{cnp.RuleInterval}}
	for _, noted := range []bool{false, true} {
		o := outcome{name: "ecn-write", tries: 1,
			run: &orchestrator.Outcome{Report: &report.Report{Packets: 1}, Analysis: &analyzers.Analysis{}}}
		want := Pass
		if noted {
			o.run.Report.Findings, want = []report.Finding{{Finding: analyzers.Finding{Rule: cnp.RuleNotJudged,
				Severity: analyzers.Note, Message: "m"}}}, NotExercised
		}
		if r := judge(&rule, &o, nil); r.Status != want {
			t.Errorf("noted %v: %v (%s), want %v", noted, r.Status, r.Reason, want)
		}
	}
}
