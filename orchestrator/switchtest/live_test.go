package switchtest_test

import (
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/switchtest"
)

func TestWhatOnlyASimulationHasIsRefusedLive(t *testing.T) {
	const fine = `
topology: {kind: single-switch, hosts: 3, link: {gbps: 0.02, delay-ns: 100000}}
switch-under-test: {model: droptail}
hosts: {transport: raw}
workload: [flow: {src: 0, dst: 1, packets: 20}]
`
	const outage = "changes: [{at-us: 60, state: stopped}, {at-us: 160, state: running}]\n"
	for text, want := range map[string]string{
		fine: "",
		strings.Replace(fine, "single-switch, hosts: 3", "dumbbell, hosts: 4",
			1): "has 2 switches; a live run has one",
		strings.Replace(fine, "droptail", "droptail, pfc-classes: [0], pfc-xoff-bytes: 20000", 1): "no flow control",
		fine + outage: "",
	} {
		test := parse(t, text)[0]
		switch _, err := switchtest.NewLive(test); {
		case want == "" && err != nil:
			t.Errorf("refused: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %q", err, want)
		}
	}
}
