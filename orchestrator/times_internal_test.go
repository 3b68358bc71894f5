package orchestrator

import (
	"testing"

	"candela.dev/candela/analyzers"
)

func TestReportedTimesLeaveNoViolationInTheAnalysis(t *testing.T) {
	for _, tt := range []struct {
		rule     string
		severity analyzers.Severity
		verdict  analyzers.Verdict
	}{
		{"retrans.timeout-early", analyzers.Warning, analyzers.Pass},
		{"gbn.retry-exceeded", analyzers.Violation, analyzers.Fail},
	} {
		a := &analyzers.Analysis{}
		a.Add("", analyzers.Result{Findings: []analyzers.Finding{{Rule: tt.rule, Severity: analyzers.Violation}}})
		reportTimes(a, nil)
		if f := a.Findings[0]; f.Severity != tt.severity || a.Verdict != tt.verdict {
			t.Errorf("%s: %v, the analysis %s; want %v, %s", tt.rule, f.Severity, a.Verdict, tt.severity, tt.verdict)
		}
	}
}

func TestReportedTimesDoNotFailAStrictRunOfSoftwareHosts(t *testing.T) {
	a := &analyzers.Analysis{}
	a.Add("", analyzers.Result{Findings: []analyzers.Finding{
		{Rule: "gbn.timeout-early", Severity: analyzers.Violation},
		{Rule: "retrans.timeout-late", Severity: analyzers.Warning},
		{Rule: "gbn.replay-opcode", Severity: analyzers.Warning},
	}})
	reportTimes(a, nil)
	if soft, hard := warnings(a, true), warnings(a, false); soft != 1 || hard != 3 {
		t.Errorf("%d warnings of software hosts, %d of others; want 1, the one that is no time, and 3", soft, hard)
	}
}
