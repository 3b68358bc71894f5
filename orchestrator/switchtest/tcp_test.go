package switchtest_test

import (
	"testing"

	"candela.dev/candela/orchestrator"
)

func TestTCPHostsFinishThroughSwitchesThatDropOrTrim(t *testing.T) {
	const tcp = "}\nhosts: {transport: tcp, min-rto-us: 5000"
	for name, model := range map[string]string{
		"tail drop, CUBIC":  "{model: droptail, data-queue-packets: 20" + tcp + "}",
		"tail drop, Reno":   "{model: droptail, data-queue-packets: 20" + tcp + ", congestion-control: reno}",
		"trimming is loss":  "{model: ndp-ideal" + tcp + ", delayed-ack-us: 0}",
		"a Tofino, jumbo":   "{model: tofino, data-queue-bytes: 180000" + tcp + ", packet-size: 9000}",
		"early ones return": "{model: sfc" + tcp + "}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bytes := "1000000"
			if testing.Short() {
				bytes = "300000"
			}
			test := parse(t, "topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5, link: {gbps: 25, "+
				"delay-ns: 500}}\nswitch-under-test: "+model+`
workload:
  - incast: {senders: 5, first-sender: 5, bytes: `+bytes+`}
  - requests: {clients: [1..2], server: 0, count: 20, response-bytes: 30000, service-us: 10}
  - ping: {src: 3, dst: 4, count: 3}
  - flow: {src: 1, dst: 9}
deadline-us: 20000000
expect: {unfinished: 0}
`)[0]
			if o := judge(t, test); o.Verdict.Exit != orchestrator.ExitPass {
				t.Errorf("%s: %v", o.Verdict.Verdict, o.Verdict.Reasons)
			}
		})
	}
}
