package switchtest_test

import (
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

const liveLocks = "../../configs/lock/live.yml"

// Clients and a lock server with UDP sockets of their kernels, in real time, are never a reason to blame a correct
// switch, whatever the machine's scheduler does to them.
func TestLocksOnRealFramesAreJudgedWithoutFalseAlarms(t *testing.T) {
	runs := uint64(30)
	if needsRealFrames(t) {
		runs = 3
	}
	for seed := range runs {
		out := runsLive(t, load(t, liveLocks)[0].WithSeed(seed+1))
		if v := out.Verdict; v.Exit != orchestrator.ExitPass {
			t.Errorf("seed %d: exit status %d: %s", seed+1, v.Exit, strings.Join(v.Reasons, "; "))
		}
		for _, what := range []string{"grants-switch", "grants-server", "buffered", "pushed-back", "orders", "delays"} {
			if out.Analysis.Coverage["lock"][what] == 0 {
				t.Errorf("seed %d: nothing was seen of %s: %v", seed+1, what, out.Analysis.Coverage["lock"])
			}
		}
	}
}
