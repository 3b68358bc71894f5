package orchestrator_test

import (
	"fmt"
	"testing"

	"candela.dev/candela/orchestrator"
)

// Without expect.completion a test that exhausts the retries passes on a NIC that gives up as required and fails on a
// NIC that does not.
func TestANICThatGivesUpAsItMustPasses(t *testing.T) {
	const lost = `
  rdma-verb: write
  message-size: 512
  min-retransmit-timeout: 8
  max-retransmit-retry: 3
  data-pkt-events: [{qpn: 1, psn: 1, iter: any, type: drop}]
`
	const bidirectional = `
  rdma-verb: write
  bidirectional: true
  message-size: 512
  min-retransmit-timeout: 8
  max-retransmit-retry: 3
  data-pkt-events: [{qpn: 1, psn: 1, iter: any, type: drop}]
`
	const notReady = `
  rdma-verb: send
  num-msgs-per-qp: 2
  message-size: 1024
  min-retransmit-timeout: 16
  tx-depth: 2
  rx-depth: 1
  rx-repost-delay-us: 100000
  min-rnr-timer: 5
  rnr-retry: 2
`
	for _, tc := range []struct {
		name, traffic, bug string
		exit               orchestrator.Exit
	}{
		{"each transmission is lost", lost, "", orchestrator.ExitPass},
		{"the requester gives up early", lost, "gives-up-early", orchestrator.ExitFail},
		{"in both directions", bidirectional, "", orchestrator.ExitPass},
		{"the requester of one direction gives up early", bidirectional, "gives-up-early", orchestrator.ExitFail},
		{"the receiver is never ready", notReady, "", orchestrator.ExitPass},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := fmt.Sprintf("name: exhausted\nrequester: {nic: {profile: spec, bugs: [%s]}}\ntraffic:%s", tc.bug, tc.traffic)
			o := runScenario(t, text, 0)
			if o.Verdict.Exit != tc.exit {
				t.Errorf("exit %d, want %d: %v\n%v", o.Verdict.Exit, tc.exit, o.Verdict.Reasons, complaints(o))
			}
		})
	}
}
