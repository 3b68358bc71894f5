package orchestrator

import (
	"testing"

	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/orchestrator/config"
)

func TestEveryPacingModeOfTheConfigurationIsOneOfTheAnalyzer(t *testing.T) {
	for _, p := range []config.CNPPacing{config.PerPort, config.PerDestinationIP, config.PerIPPair, config.PerQP} {
		if got := notificationPoint(&config.Test{Responder: config.Host{RoCE: config.RoCE{Pacing: p}}}, config.Responder,
			nil).Mode; got == cnp.ModeUnknown {
			t.Errorf("%s is unknown to the analyzer", p)
		}
	}
}

// A device that declares no notification point owes no CNPs, even if the test enables it. A device that declares
// nothing owes them.
func TestWhatADeviceDeclaresNotToHaveIsNotAskedOfIt(t *testing.T) {
	const on = "{roce-parameters: {dcqcn-np-enable: true, dcqcn-rp-enable: true}}"
	test, err := config.Parse("test.yml",
		[]byte("name: declared\nrequester: "+on+"\nresponder: "+on+"\ntraffic: {rdma-verb: write}\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	soft := &Counters{Input: counters.Input{Hosts: []counters.Host{{}, {NPAbsent: true, RPAbsent: true}}}}
	if np := notificationPoint(test, config.Responder, soft); !np.Absent || np.Enabled || !np.Known {
		t.Errorf("soft-RoCE: %+v", np)
	}
	if np := notificationPoint(test, config.Requester, soft); np.Absent || !np.Enabled {
		t.Errorf("the device beside it: %+v", np)
	}
	if rp := rpConfig(test, soft); rp.Responder.Enabled || !rp.Requester.Enabled {
		t.Errorf("reaction points: %+v", rp)
	}
	if np := notificationPoint(test, config.Responder, nil); np.Absent || !np.Enabled {
		t.Errorf("a device that declares nothing: %+v", np)
	}
}
