package reproduce

import (
	"slices"
	"testing"

	"candela.dev/candela/clock"
)

// pair runs a test of two points: a profile and its variant.
func pair(t *testing.T, file string) (usual, variant *result) {
	t.Helper()
	l, err := newLab(quick(t, nil), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	results, err := l.runAll(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 {
		t.Fatalf("%d points", len(results))
	}
	return results[0], results[1]
}

func TestANoisyNeighbourSlowsEveryRepair(t *testing.T) {
	usual, noisy := pair(t, "noisy-neighbour.yml")
	if !usual.passed || noisy.passed {
		t.Errorf("passed: usual %t, noisy %t", usual.passed, noisy.passed)
	}
	alone, last := slices.Max(usual.micros(reaction)), slices.Max(noisy.micros(reaction))
	if last < 10*alone {
		t.Errorf("the slowest of 16 repairs takes %g us, side by side %g us", last, alone)
	}
}

func TestAReceiverThatDiscardsAnotherVendorsPacketsIsSeen(t *testing.T) {
	usual, strange := pair(t, "interoperability.yml")
	if !usual.passed || strange.passed {
		t.Errorf("passed: usual %t, strange %t", usual.passed, strange.passed)
	}
	if n := strange.count(retransmission); usual.count(retransmission) != 0 || n == 0 {
		t.Errorf("%d retransmissions without any injected loss", n)
	}
}

func TestASchedulerThatIsNotWorkConservingHalvesTheGoodput(t *testing.T) {
	usual, half := pair(t, "ets.yml")
	if ratio := half.meanMCT() / usual.meanMCT(); ratio < 1.9 || ratio > 2.1 {
		t.Errorf("half the port takes %g times as long", ratio)
	}
	rate := clock.BitRate(half.report.GoodputBPS)
	if rate > 50*clock.Gbps {
		t.Errorf("goodput %d bit/s", rate)
	}
}
