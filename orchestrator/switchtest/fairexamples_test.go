package switchtest_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/runtimetest"
)

// Experiments E1 to E6 of HCSFQ and its figure 3-2 (Q1 to Q8) pass. By default the short ones run with one seed;
// CANDELA_TEST_FAIR is how many seeds all of them run with.
func TestExperimentsOfFairQueueingPass(t *testing.T) {
	runtimetest.SkipRace(t)
	files, err := filepath.Glob("../../configs/fair/[eq]*.yml") // s1 to s5 run for minutes
	if err != nil || len(files) < 9 {
		t.Fatalf("%d experiments, %v", len(files), err)
	}
	seeds, all := 1, false
	if text := os.Getenv("CANDELA_TEST_FAIR"); text != "" {
		if seeds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		all = true
	}
	ran := 0
	for _, file := range files {
		tests, err := config.LoadSwitchTests(file, configOptions())
		if err != nil {
			t.Fatal(err)
		}
		if !all && tests[0].Duration > 40*clock.Millisecond {
			continue
		}
		for seed := range seeds {
			ran++
			test := *tests[0]
			test.Seed = uint64(seed + 1)
			if o := judge(t, &test); o.Verdict.Exit != orchestrator.ExitPass {
				t.Errorf("%s, seed %d: %v", filepath.Base(file), test.Seed, o.Verdict.Reasons)
			}
		}
	}
	if ran < 3 {
		t.Errorf("%d runs", ran)
	}
}
