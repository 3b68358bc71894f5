package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/runtimetest"
)

// onProfile returns t with another NIC model on both hosts. CNP pacing equal to the old model's default becomes the new
// model's default.
func onProfile(t *config.Test, p rdma.Profile) *config.Test {
	c := *t
	for _, h := range []*config.Host{&c.Requester, &c.Responder} {
		if h.RoCE.Pacing == orchestrator.ModelOf(rdma.Spec()).Defaults.Pacing {
			h.RoCE.Pacing = orchestrator.ModelOf(p).Defaults.Pacing
		}
		h.NIC.Profile = p.Name
	}
	return &c
}

// A NIC model is not a broken NIC: no analyzer may find a violation in any example. Expectations of times and counters
// are ignored, as they hold for one profile.
func TestNoExampleFindsFaultWithAnyProfile(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.yml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for i, p := range rdma.Profiles() {
		if !runtimetest.Sampled(i) {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			out := t.TempDir()
			for _, file := range files {
				if data, err := os.ReadFile(file); err != nil || config.IsSwitchTest(data) {
					continue
				}
				tests, err := config.LoadAll(file, configOptions(""))
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(tests); i += 1 + len(tests)/4 { // a few points of each sweep
					checkSilent(t, out, file, onProfile(tests[i], p))
				}
			}
		})
	}
}

func checkSilent(t *testing.T, out, file string, test *config.Test) {
	t.Helper()
	p, err := plan.New(test)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	o, err := orchestrator.Run(t.Context(), p, buildTestbed, orchestrator.Options{Out: out, ID: test.Name, Wall: time.Now,
		NoReports: true})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if o.Analysis == nil {
		t.Errorf("%s: nothing was analysed: %v", file, o.Verdict.Reasons)
		return
	}
	for _, f := range o.Analysis.Findings {
		if f.Severity == analyzers.Violation {
			t.Errorf("%s: %s: expected %s, actual %s (%s)", file, f.Rule, f.Expected, f.Actual, o.Dir)
		}
	}
}
