package exploration_test

import (
	"slices"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/exploration"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

// explored is what a short exploration of a test comes to.
func explored(t testing.TB, text string, runs int) exploration.Report {
	t.Helper()
	base, err := config.Parse("base.yml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rack virtual.Rack
	s := orchestrator.NewScratch(func(spec testbeds.Spec) (orchestrator.Testbed, error) { return rack.Build(spec) })
	defer func() {
		s.Close()
		if err := rack.Close(); err != nil {
			t.Error(err)
		}
	}()
	e := exploration.New(base, exploration.Options{Seed: 5, Runs: runs, Runners: []reduction.Runner{s.Run}})
	if err := e.Explore(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e.Report()
}

const sound = "name: sound\ntraffic:\n  message-size: 10240\n"

// TestASoundNICIsNotBlamedAndNothingOutOfReachIsReached holds rules and obstacles against random tests.
func TestASoundNICIsNotBlamedAndNothingOutOfReachIsReached(t *testing.T) {
	runs := 800
	if testing.Short() {
		runs = 200
	}
	r := explored(t, sound, runs)
	if len(r.Rules) > 0 {
		t.Errorf("a NIC without faults violates %v", r.Rules)
	}
	if len(r.Contradicted) > 0 {
		t.Errorf("out of reach, and taken: %v", r.Contradicted)
	}
	if !slices.IsSorted(r.Missing) || r.Covered+len(r.Missing) != r.Reachable || r.Reachable > r.Declared {
		t.Errorf("%d covered, %d missing, %d reachable, %d declared", r.Covered, len(r.Missing), r.Reachable, r.Declared)
	}
	if r.Covered < 40 {
		t.Errorf("only %d transitions covered in %d runs", r.Covered, r.Runs)
	}
}

// TestTheStartsAloneTakeEveryReachableTransition makes sure that a fuzzer has them in its first second.
func TestTheStartsAloneTakeEveryReachableTransition(t *testing.T) {
	r := explored(t, sound, 1)
	if len(r.Missing) > 0 {
		t.Errorf("no start takes %v", r.Missing)
	}
	if len(r.Contradicted) > 0 {
		t.Errorf("out of reach, and taken: %v", r.Contradicted)
	}
	t.Logf("%d runs: %d of %d reachable transitions", r.Runs, r.Covered, r.Reachable)
}

// TestABrokenNICIsBlamedWhateverIsRewritten explores broken NICs from a test that rewrites what packets mean, and keeps doing so.
func TestABrokenNICIsBlamedWhateverIsRewritten(t *testing.T) {
	for bug, rule := range map[string]string{"nack-psn-plus-one": "gbn.nak-psn"} {
		r := explored(t, "name: broken\nresponder: {nic: {bugs: ["+bug+"]}}\ntraffic:\n  message-size: 10240\n", 300)
		if len(r.Rules) == 0 {
			t.Errorf("%s: nothing is violated, want %s", bug, rule)
		}
	}
}

// BenchmarkExplore is a fuzzed run: a random change, the run itself, and its judgement.
func BenchmarkExplore(b *testing.B) {
	b.ReportAllocs()
	r := explored(b, sound, b.N)
	b.ReportMetric(float64(r.Runs)/b.Elapsed().Seconds(), "runs/s")
}
