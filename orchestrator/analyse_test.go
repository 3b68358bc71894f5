package orchestrator

import (
	"testing"

	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/orchestrator/config"
)

func TestEveryPacingModeOfTheConfigurationIsOneOfTheAnalyzer(t *testing.T) {
	for _, p := range []config.CNPPacing{config.PerPort, config.PerDestinationIP, config.PerIPPair, config.PerQP} {
		if got := notificationPoint(&config.Host{RoCE: config.RoCE{Pacing: p}}).Mode; got == cnp.ModeUnknown {
			t.Errorf("%s is unknown to the analyzer", p)
		}
	}
}
