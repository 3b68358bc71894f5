package switchtest

import (
	"fmt"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// The maximum time in queues is derived from the queues of a model, whatever the names of its parameters. A packet that
// waits for 50 ms is neither lost nor duplicated; one without buffer space is lost.
func TestHowLongAPacketMayWaitFollowsFromTheQueuesOfAModel(t *testing.T) {
	for _, c := range []struct {
		name   string
		queues []fabric.QueueSpec
		lost   bool
	}{
		{"a deep queue", []fabric.QueueSpec{{MaxPackets: 2000}}, false},
		{"a deep queue in bytes", []fabric.QueueSpec{{MaxBytes: 20_000_000}}, false},
		{"an endless queue", []fabric.QueueSpec{{}}, false},
		{"two queues", []fabric.QueueSpec{{MaxPackets: 2000}, {MaxPackets: 2000}}, false},
		{"a shallow queue", []fabric.QueueSpec{{MaxPackets: 200}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			register(t, family{Family: switches.Family{Name: "deep", Models: []switches.Model{{
				Model:     parameter.Model{Name: "deep", Doc: "Of a test."},
				Configure: func(_ parameter.Values, s *fabric.SwitchSpec) error { s.Queues = c.queues; return nil },
				New: func(*fabric.Switch, parameter.Values, []string) (fabric.Mechanism, error) {
					return fabric.TailDrop{}, nil
				},
			}}}})
			tests, err := config.ParseSwitchTests("f.yml", []byte(`
name: deep
topology: {kind: single-switch, hosts: 21, link: {gbps: 1}}
switch-under-test: {model: deep}
hosts: {transport: ndp, packet-size: 9000, initial-window: 40, rto-us: 500000}
workload: [incast: {senders: 20, packets: 40}]
deadline-us: 3000000
`), Options())
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(tests[0])
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, f := range execute(t, p).Analysis.Findings {
				if f.Severity == analyzers.Violation {
					found = append(found, fmt.Sprintf("%s: %s", f.Rule, f.Message))
				}
			}
			lost := slices.ContainsFunc(found, func(s string) bool { return s[:len("ndp.silent")] == "ndp.silent" })
			if lost != c.lost || !c.lost && len(found) > 0 {
				t.Errorf("found %q", found)
			}
		})
	}
}
