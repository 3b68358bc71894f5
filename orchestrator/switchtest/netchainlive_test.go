package switchtest_test

import (
	"fmt"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/switches/lock"
)

// liveChain is a test of NetChain on real frames.
const liveChain = `
topology: {kind: single-switch, hosts: 5, link: {gbps: 0.1, delay-ns: 20000}}
switch-under-test: {model: netchain, slots: 2, lock-ids: 8, lease-us: 60000, poll-us: 5000%s}
hosts: {transport: netlock, client-ns: 250000, duplicates: 0.03, loss: 0.01}
workload:
  - locks: {clients: 0..3, servers: 4, threads: 3, locks: 9, locks-each: 2, shared: 0.5, count: 60, think-us: 1000,
      timeout-us: 250000, on-reject: restart}
  - locks: {clients: 0..3, servers: 4, threads: 1, locks: 3, kill-us: 100000, think-us: 30000, timeout-us: 250000}
duration-us: 500000
`

// Clients with UDP sockets of their kernels are never a reason to blame a correct NetChain switch, and its seeded bugs
// are found from their packets, too.
func TestNetChainIsJudgedOnRealFrames(t *testing.T) {
	runs, bugs := uint64(10), lock.ChainTable()
	if needsRealFrames(t) {
		runs, bugs = 1, bugs[:1]
	}
	for seed := range runs {
		out := runsLive(t, parse(t, fmt.Sprintf(liveChain, ""))[0].WithSeed(seed+1))
		n := out.Analysis.Coverage["netchain"]
		if out.Verdict.Exit != orchestrator.ExitPass || n["grants"] < 100 || n["rejects"] < 100 || n["lapsed"] == 0 {
			t.Errorf("seed %d: %v; %v", seed+1, out.Verdict, n)
		}
	}
	for _, b := range bugs {
		if b.Set == lock.ChainGrantsBeforeLease {
			continue // the switch is not restarted
		}
		out := runsLive(t, parse(t, fmt.Sprintf(liveChain, ", bugs: ["+b.Name+"]"))[0])
		if rules := violatedRules(out); rules[b.Rule] == "" {
			t.Errorf("%s: violated are %v, want %s", b.Name, rules, b.Rule)
		}
	}
}
