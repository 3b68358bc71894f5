package exploration_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/exploration"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

// Use more than the default on an idle machine: go test -run Sound -args -sound-runs 20000 -sound-seeds 5.
var (
	soundRuns  = flag.Int("sound-runs", 0, "runs of each profile and seed; 0: a quick sample")
	soundSeeds = flag.Int("sound-seeds", 1, "seeds")
	soundFirst = flag.Int("sound-first", 11, "the first of them")
)

// TestSoundNICsAreNotBlamed explores every profile: whatever the injector does to their packets, NICs without faults
// must get no finding.
func TestSoundNICsAreNotBlamed(t *testing.T) {
	runs := *soundRuns
	if runs == 0 {
		runs = 150
		if runtimetest.Race {
			runs = 20
		}
	}
	for _, profile := range []string{"spec", "cx4-lx", "cx5", "cx6-dx", "e810"} {
		for i := range *soundSeeds {
			seed := uint64(*soundFirst + i)
			t.Run(fmt.Sprintf("%s, seed %d", profile, seed), func(t *testing.T) { explore(t, profile, seed, runs) })
		}
	}
}

func explore(t *testing.T, profile string, seed uint64, runs int) {
	t.Parallel()
	nic := fmt.Sprintf("{nic: {profile: %s}}", profile)
	text := fmt.Sprintf("name: sound\nrequester: %s\nresponder: %s\ntraffic:\n  message-size: 10240\n", nic, nic)
	base, err := config.Parse("base.yml", []byte(text), models())
	if err != nil {
		t.Fatal(err)
	}
	s := newScratch(t)
	e := exploration.New(base, exploration.Options{
		Seed: seed, Runs: runs, Runners: []reduction.Runner{s.Run},
		Failed: func(failed *config.Test, f analyzers.Finding) error {
			t.Errorf("%s psn %d packets %v: expected %s, actual %s\n%s", f.Rule, f.PSN, f.Packets, f.Expected, f.Actual,
				failed.YAML())
			return nil
		},
	})
	if err := e.Explore(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestTestsThatOnceBlamedSoundNICs runs what explorations found: each of these was a false alarm.
func TestTestsThatOnceBlamedSoundNICs(t *testing.T) {
	files, err := filepath.Glob("testdata/sound/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal("no tests", err)
	}
	s := newScratch(t)
	for i, file := range files {
		if !runtimetest.Sampled(i) {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yml"), func(t *testing.T) {
			test, err := config.Load(file, models())
			if err != nil {
				t.Fatal(err)
			}
			o, err := s.Run(t.Context(), test)
			if err != nil {
				t.Fatal(err)
			}
			if o.Analysis == nil {
				t.Fatalf("nothing was analysed: %v", o.Verdict.Reasons)
			}
			for _, f := range o.Analysis.Findings {
				if f.Severity == analyzers.Violation {
					t.Errorf("%s psn %d packets %v: expected %s, actual %s", f.Rule, f.PSN, f.Packets, f.Expected, f.Actual)
				}
			}
		})
	}
}

// newScratch returns a Scratch on a virtual rack, closed when the test ends.
func newScratch(t testing.TB) *orchestrator.Scratch {
	t.Helper()
	var rack virtual.Rack
	s := orchestrator.NewScratch(func(spec testbeds.Spec) (orchestrator.Testbed, error) { return rack.Build(spec) })
	t.Cleanup(func() {
		s.Close()
		if err := rack.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// models is what the configuration knows of profiles and bugs.
func models() config.Options {
	var o config.Options
	for _, p := range rdma.Profiles() {
		o.Profiles = append(o.Profiles,
			config.Profile{Name: p.Name, Adaptive: len(p.AdaptiveSchedule) > 0, Defaults: config.RoCE{
				DCQCNRP: true, DCQCNNP: true, TrimReaction: p.TrimReaction, TrimDSCP: p.TrimDSCP,
				MinTimeBetween: 4 * clock.Microsecond,
			}})
	}
	for _, b := range rdma.Catalogue() {
		o.Bugs = append(o.Bugs, b.Name)
	}
	return o
}

// TestAMiscountBesideARestartForAnImpliedNAK: what a restart counts is open there, but seven timeouts are not sequence
// NAKs.
func TestAMiscountBesideARestartForAnImpliedNAK(t *testing.T) {
	test, err := config.Load("testdata/sound/nak-during-a-restart-for-an-implied-nak.yml", models())
	if err != nil {
		t.Fatal(err)
	}
	test.Requester.NIC.Bugs = []string{"timeout-counted-as-nak"}
	o, err := newScratch(t).Run(t.Context(), test)
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]bool{}
	for _, f := range o.Analysis.Findings {
		if f.Severity == analyzers.Violation {
			rules[f.Rule] = true
		}
	}
	if !rules["counters.packet-seq-err"] || !rules["counters.local-ack-timeout"] {
		t.Errorf("violations %v, want those of both counters", rules)
	}
}
