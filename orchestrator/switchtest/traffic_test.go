package switchtest_test

import (
	"math"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
)

// One receiver at 100 Gb/s, so that every flow has what it offers.
const pacedTest = `
topology: {kind: single-switch, hosts: 5, link: {gbps: 100}}
switch-under-test: {model: droptail}
hosts: {transport: tcp}
duration-us: 4000
workload:
  - cbr: {src: 0, dst: 4, rate-gbps: 4, jitter: 0.5, count: 2}
  - cbr: {src: 1, dst: 4, rate-gbps: 8, on-us: 100, off-us: 300}
  - cbr: {src: 2, dst: 4, stop-us: 3000, rates: [{at-us: 0, gbps: 2}, {at-us: 1000, gbps: 0}, {at-us: 2000, gbps: 6}]}
  - cbr: {src: 2, dst: 4, rate-gbps: 1, packets: 20}
  - flow: {src: 3, dst: 4, start-us: 1000, stop-us: 500}
`

// Flows at constant rates offer what they say, in every mode alike, and the run does not blame a sender that leaves.
func TestFlowsAtConstantRatesOfferThem(t *testing.T) {
	var before []switchtest.FlowResult
	for _, judge := range []string{"judge: full", "judge: off\nexpect: {completed-flows: 1}"} {
		o := outcome(t, pacedTest+judge)
		flows := flowsOf(t, o.Dir).Flows
		if o.Verdict.Exit != orchestrator.ExitPass {
			t.Fatalf("%s: %+v", judge, o.Verdict)
		}
		for i, want := range []float64{4, 4, 2, 8.0 / 3} { // frames; 1458 of 1500 bytes are payload
			if got := float64(flows[i].GoodputBPS) / 1e9 * 1500 / 1458; math.Abs(got/want-1) > 0.02 {
				t.Errorf("%s: flow %d has %.3f Gb/s, want %.3f", judge, i+1, got, want)
			}
		}
		// the TCP flow has 500 us at most at 100 Gb/s, and what it has sent arrives
		if f := flows[5]; f.Payload == 0 || f.Payload > 6_250_000 || f.Sent-f.Retransmissions != f.Whole || f.Finished ||
			flows[4].Finished == false {
			t.Errorf("%s: %+v %+v", judge, flows[5], flows[4])
		}
		for i := range before {
			if a, b := before[i], flows[i]; a.Whole != b.Whole || a.Payload != b.Payload || a.Sent != b.Sent ||
				a.GoodputBPS != b.GoodputBPS {
				t.Errorf("flow %d: %+v in full, %+v off", i+1, a, b)
			}
		}
		before = flows
	}
}
