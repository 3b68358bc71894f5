package switchtest_test

import (
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// usage runs a plan and returns how many packets each trunk carried, by direction.
func usage(t *testing.T, p *switchtest.Plan) map[string]uint64 {
	t.Helper()
	var net *fabric.Network
	p.Watch = func(n *fabric.Network) { net = n }
	o, err := switchtest.Run(t.Context(), p, options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("%v", o.Verdict.Reasons)
	}
	used := make(map[string]uint64)
	for i := range net.Switches() {
		sw := net.Switch(i)
		for j := range sw.Ports() {
			if peer := sw.Port(j).Peer(); peer != nil {
				used[sw.Name()+" to "+peer.Name()] = sw.Port(j).Counters().Sent
			}
		}
	}
	return used
}

func TestWrongTrunksAreRefused(t *testing.T) {
	const rest = "\nswitch-under-test: {model: droptail}\nhosts: {transport: raw}\n" +
		"workload: [flow: {src: 0, dst: 1, packets: 1}]\n"
	for _, c := range []struct{ name, topology, want string }{
		{"no such trunk", "kind: leaf-spine, leaves: 2, spines: 2, trunks: [{from: leaf-0, to: leaf-1, failed: true}]",
			"there is no trunk between leaf-0 and leaf-1"},
		{"no trunks at all", "kind: single-switch, trunks: [{from: leaf-0, to: leaf-1, gbps: 1}]", "has no trunks"},
		{"given twice, in the other order",
			"kind: dumbbell, trunks: [{from: left, to: right, gbps: 1}, {from: right, to: left, gbps: 2}]", "is given twice"},
		{"nothing changed", "kind: dumbbell, trunks: [{from: left, to: right}]", "changes nothing"},
		{"failed and slow", "kind: dumbbell, trunks: [{from: left, to: right, gbps: 1, failed: true}]",
			"a failed trunk carries nothing"},
		{"the only way", "kind: dumbbell, trunks: [{from: left, to: right, failed: true}]",
			"hosts 0 and 8 have no path between them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\ntopology: {"+c.topology+"}"+rest),
				configOptions())
			if err == nil {
				_, err = switchtest.New(tests[0])
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "f.yml:2:") {
				t.Errorf("error is %v, want %q at line 2", err, c.want)
			}
		})
	}
}
