package orchestrator

import (
	"errors"
	"testing"

	"candela.dev/candela/analyzers"
)

func TestVerdictPrecedence(t *testing.T) {
	all := evidence{
		infrastructure: errors.New("agent gone"), integrity: []string{"missing 7"}, violations: 1,
		unfired: []string{"event 1"},
	}
	noInfra, noIntegrity, noViolation := all, all, all
	noInfra.infrastructure = nil
	noIntegrity.infrastructure, noIntegrity.integrity = nil, nil
	noViolation.infrastructure, noViolation.integrity, noViolation.violations = nil, nil, 0
	for _, tc := range []struct {
		name    string
		in      evidence
		verdict analyzers.Verdict
		exit    Exit
	}{
		{"infrastructure failure beats everything", all, analyzers.Invalid, ExitInfrastructure},
		{"a trace without integrity is not judged", noInfra, analyzers.Invalid, ExitInvalid},
		{"a violation beats an event that never fired", noIntegrity, analyzers.Fail, ExitFail},
		{"an event that never fired turns a pass into invalid", noViolation, analyzers.Invalid, ExitInvalid},
		{"a failed expectation fails", evidence{unmet: []string{"cnp"}}, analyzers.Fail, ExitFail},
		{"warnings alone pass", evidence{warnings: 3}, analyzers.Pass, ExitPass},
		{"warnings fail when strict", evidence{warnings: 3, strict: true}, analyzers.Fail, ExitFail},
		{"nothing wrong passes", evidence{}, analyzers.Pass, ExitPass},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := judge(tc.in)
			if got.Verdict != tc.verdict || got.Exit != tc.exit {
				t.Errorf("judge = %s, exit %d; want %s, exit %d", got.Verdict, got.Exit, tc.verdict, tc.exit)
			}
			if (got.Exit == ExitPass) != (len(got.Reasons) == 0) {
				t.Errorf("exit %d with reasons %q", got.Exit, got.Reasons)
			}
		})
	}
}
