package orchestrator_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/detection"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

// scenarios is the default number of random scenarios; CANDELA_SCENARIOS overrides it.
const scenarios = 150

// TestUnbrokenNICIsNeverBlamed runs random traffic with random losses, marks and corruption of data and control packets
// on the compliant NIC model. No analyzer may report a violation.
func TestUnbrokenNICIsNeverBlamed(t *testing.T) {
	n := scenarios
	if runtimetest.Race {
		n /= 8
	}
	if s := os.Getenv("CANDELA_SCENARIOS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("CANDELA_SCENARIOS: %v", err)
		}
	}
	start := 0
	if s := os.Getenv("CANDELA_SCENARIO"); s != "" { // run one scenario
		var err error
		if start, err = strconv.Atoi(s); err != nil {
			t.Fatalf("CANDELA_SCENARIO: %v", err)
		}
		n = 1
	}
	fired, failures := 0, 0
	for i := start; i < start+n && failures < 5; i++ {
		text := scenario(uint64(i))
		outcome := runScenario(t, text, distances(uint64(i)))
		for _, e := range outcome.Report.Events {
			fired += int(min(e.Hits, 1))
		}
		if problem := blamed(outcome); problem != "" {
			failures++
			t.Errorf("scenario %d: %s\n%s", i, problem, text)
		}
	}
	if n > 10 && fired < n/2 {
		t.Errorf("only %d events fired in %d scenarios: they test nothing", fired, n)
	}
}

// blamed returns the violations that the outcome attributes to the device; "" if none.
func blamed(o *orchestrator.Outcome) string {
	if o.Verdict.Exit != orchestrator.ExitPass && o.Verdict.Exit != orchestrator.ExitInvalid {
		return fmt.Sprintf("exit %d: %v %v", o.Verdict.Exit, o.Verdict.Reasons, complaints(o))
	}
	if o.Analysis == nil {
		return fmt.Sprintf("not analysed: %v", o.Verdict.Reasons)
	}
	if c := complaints(o); len(c) > 0 {
		return fmt.Sprint(c)
	}
	return ""
}

func complaints(o *orchestrator.Outcome) []string {
	var list []string
	if o.Analysis == nil {
		return nil
	}
	for _, f := range o.Analysis.Findings {
		if f.Severity != analyzers.Note {
			list = append(list, fmt.Sprintf("\n%s %s #%v psn %d: want %s, got %s", f.Severity, f.Rule, f.Packets, f.PSN,
				f.Expected, f.Actual))
		}
	}
	return list
}

// distances seeds the propagation delays of both hosts' links.
type distances uint64

// apply sets random delays of up to 10 ms per link in every other scenario, so that packets cross in all ways. The
// local ACK timeout stays above the RTT; a shorter one would exhaust the retries of any NIC.
func (d distances) apply(test *config.Test) {
	if d%2 == 0 {
		return
	}
	r := rand.New(rand.NewPCG(uint64(d), 0xd157))
	const longest = int64(10 * clock.Millisecond)
	bed := *test.Testbed
	bed.Requester.Propagation = clock.Duration(r.Int64N(longest))
	bed.Responder.Propagation = clock.Duration(r.Int64N(longest))
	test.Testbed = &bed
	test.Traffic.AckTimeout = 14
}

func runScenario(t *testing.T, text string, far distances) *orchestrator.Outcome {
	t.Helper()
	test, err := config.Parse("scenario.yml", []byte(text), config.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	far.apply(test)
	p, err := plan.New(test)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	dir := t.TempDir()
	outcome, err := orchestrator.Run(t.Context(), p,
		func(s testbeds.Spec) (orchestrator.Testbed, error) { return virtual.New(s) },
		orchestrator.Options{Out: dir, Wall: func() time.Time { return time.Unix(0, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, test.Name)); err != nil {
		t.Fatal(err)
	}
	return outcome
}

func scenario(i uint64) string { return detection.Scenario(i) }
