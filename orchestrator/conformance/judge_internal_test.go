package conformance

import (
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report"
)

func TestWrongDataSpeaksAgainstADevice(t *testing.T) {
	const reason = "data of qpn 1 at the responder: 1 differences in 10 messages, the first: byte 7 of 9 is 0x01, want 0x02"
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
				Dir: "run", Report: &report.Report{}, Analysis: &analyzers.Analysis{}, Verdict: orchestrator.Verdict{Reasons: tt.reasons},
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
