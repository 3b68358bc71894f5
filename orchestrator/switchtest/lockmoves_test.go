package switchtest_test

import (
	"fmt"
	"testing"

	"candela.dev/candela/runtimetest"
)

// movesAndLosses is a network whose locks move all the time while packets are lost.
func movesAndLosses(model string, seed int) string {
	return fmt.Sprintf(`
topology: {kind: single-switch, hosts: 9, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netlock, slots: 30, allocation: random, allocation-us: 500, lease-us: 300, poll-us: 20,
  push-timeout-us: 200, %s}
hosts: {transport: netlock, host-delay-ns: 1000, host-jitter-ns: 1500, lease-us: 300, poll-us: 20, loss: 0.02}
workload:
  - locks: {clients: 0..7, servers: 8, threads: 6, locks: 20, shared: 0.3, timeout-us: 1500}
duration-us: 20000
seed: %d
`, model, seed)
}

// While a lock moves to the switch, a push request that is lost is no reason to grant out of order; a server that only
// push requests tell that it no longer owns the lock is found.
func TestMovesKeepTheOrderWhilePacketsAreLost(t *testing.T) {
	runtimetest.SkipRace(t)
	guilty := 0
	const seeds = 6
	for seed := range seeds {
		if rules, n := lockRun(t, movesAndLosses("moves: 10", seed)); len(rules) > 0 || n["pushed-back"] == 0 {
			t.Errorf("seed %d: %v, %v", seed, rules, n)
		}
		if rules, _ := lockRun(t, movesAndLosses("bugs: [moves-silently]", seed)); rules["lock.order"] != "" {
			guilty++
		}
	}
	if guilty == 0 {
		t.Errorf("moves-silently is not found in %d networks", seeds)
	}
}
