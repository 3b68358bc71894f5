package orchestrator_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/runtimetest"
)

// notByModels lists the illegal transitions that no broken model takes, with reasons.
var notByModels = []struct{ transitions, reason string }{
	// Impossible transitions. The machines are total, so their tables have them.
	{`responder: failed \+`, "behind a fatal NAK every response violates gbn.after-error, whatever else it is"},
	{`requester: idle \+ (restart-beyond|round-gap) `, "idle is nothing unacknowledged, so there is nothing to go past"},
	{
		`responder: (gap|nacked|rnr) \+ fatal-missing `,
		"a request that deserves a fatal NAK arrives in order, which makes the responder ready; nothing behind it counts",
	},
	{`responder: nacked \+ nack-duplicate `,
		"a NAK that is out names the expected PSN; a second one repeats it or names another"},
	{`responder: rnr \+ nack-missing `,
		"behind an RNR NAK everything is discarded, and no gap opens until the refused request passes"},
	// Devices with two faults at once, or with one within the flight time of a NAK. TestTransitionsThatNoModelTakes in
	// analyzers/gbn has a trace of each.
	{`requester: failed \+ (psn-skip|restart-acknowledged|round-gap) `, "a second fault while a fatal NAK is on its way"},
	{`requester: (idle|resending) \+ psn-skip `, "the model skips PSNs inside messages that it sends for the first time"},
	{`requester: sending \+ (restart-acknowledged|round-gap) `,
		"a restart outside its window without a NAK, or a gap behind a skip"},
	{`requester: resending \+ restart-off `,
		"two restarts, the second at a PSN that was oldest unacknowledged at no time"},
	{`responder: gap \+ nack-duplicate `, "a gap without its NAK, and a NAK for a duplicate"},
	{`responder: nacked \+ nack-missing `, "a late NAK for one gap, and none for the next"},
	{`responder: rnr \+ (nack-wrong-psn|read-out-of-order) `, "an RNR NAK in the middle of another fault"},
}

// TestEveryIllegalTransitionIsTakenBySomeBrokenNIC checks that no rule of gbn's machines is dead: the fault catalogue
// and a few more tests take every illegal transition, except those in notByModels.
func TestEveryIllegalTransitionIsTakenBySomeBrokenNIC(t *testing.T) {
	runtimetest.SkipRace(t)
	taken := make(map[string]int64)
	s := newScratch(t)
	for _, dir := range []string{"../configs/detect", "testdata/illegal"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.yml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests in %s: %v", dir, err)
		}
		for _, file := range files {
			for name, n := range illegal(t, s, file) {
				taken[name] += n
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		reason := ""
		for _, x := range notByModels {
			if regexp.MustCompile(x.transitions).MatchString(name) {
				reason = x.reason
			}
		}
		switch {
		case taken[name] == 0 && reason == "":
			t.Errorf("%s: taken by no broken NIC", name)
		case taken[name] > 0 && reason != "":
			t.Errorf("%s: taken, but listed as %q", name, reason)
		}
	}
	if len(taken) < 50 {
		t.Errorf("%d transitions are violations", len(taken))
	}
}

// illegal returns how often a test takes each illegal transition. It ignores the test's expectations.
func illegal(t *testing.T, s *orchestrator.Scratch, file string) map[string]int64 {
	t.Helper()
	test, err := config.Load(file, orchestrator.Models())
	if err != nil {
		t.Fatal(err)
	}
	c := *test
	c.Expect = config.Expect{}
	o, err := s.Run(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := orchestrator.Illegal(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}
