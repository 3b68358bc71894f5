package orchestrator

import (
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/orchestrator/config"
)

func TestPacingModesMustExplainTheCNPs(t *testing.T) {
	note := analyzers.Finding{Rule: cnp.RuleMode, Actual: "port, qp",
		Message: "the responder's CNPs fit pacing by port, qp"}
	for _, tt := range []struct {
		name     string
		want     []config.CNPPacing
		findings []analyzers.Finding
		unmet    string
	}{
		{"nothing is said", nil, nil, ""},
		{"one fits", []config.CNPPacing{config.PerPort}, []analyzers.Finding{note}, ""},
		{"all fit", []config.CNPPacing{config.PerPort, config.PerQP}, []analyzers.Finding{note}, ""},
		{"one does not", []config.CNPPacing{config.PerPort, config.PerIPPair}, []analyzers.Finding{note},
			"expect.cnp.modes[1]: per-ip-pair does not explain the CNPs; the responder's CNPs fit pacing by port, qp"},
		{"there is nothing to explain", []config.CNPPacing{config.PerPort}, nil,
			"expect.cnp.modes: there were no CNPs to explain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(cnpModes(tt.want, &analyzers.Analysis{Findings: tt.findings}), "\n"); got != tt.unmet {
				t.Errorf("got %q, want %q", got, tt.unmet)
			}
		})
	}
}
