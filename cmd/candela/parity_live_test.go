//go:build linux

package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/conformance"
	"candela.dev/candela/orchestrator/detection"
)

// needNamespaces is needLive for steps that are judged: a container may forbid what root may do elsewhere.
func needNamespaces(t *testing.T) {
	t.Helper()
	needLive(t)
	if out, err := exec.Command("unshare", "--net", "true").CombinedOutput(); err != nil {
		t.Skipf("SKIP-live: no network namespace can be made: %v: %s", err, out)
	}
}

// statusesOn qualifies the model spec and returns the status of each rule.
func statusesOn(t *testing.T, args ...string) map[string]conformance.Status {
	t.Helper()
	_, stdout, stderr := candela(t, append([]string{"conform", "--format", "json", "--out", t.TempDir()}, args...)...)
	if strings.Contains(stderr, waiting) {
		t.Skipf("SKIP-busy: %s", stderr)
	}
	var r conformance.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	for _, b := range r.Outside {
		t.Errorf("%v: outside the catalogue: %s: %s", args, b.Judge, b.Text)
	}
	list := make(map[string]conformance.Status)
	for i := range r.Results {
		list[r.Results[i].ID] = r.Results[i].Status
	}
	return list
}

// onHardwareOnly are the rules of which software hosts show nothing: bounds of latencies, and rates.
var onHardwareOnly = []string{"nak-latency", "nak-reaction-latency"}

func TestParityOfConformance(t *testing.T) {
	needNamespaces(t)
	for _, args := range [][]string{nil, {"--bugs", "invalidate-ignored"}} {
		start := time.Now()
		live := statusesOn(t, append([]string{"--testbed", "netns"}, args...)...)
		t.Logf("FIGURE conformance of model spec %v on netns: %v (target 3m)", args, time.Since(start).Round(time.Second))
		for id, want := range statusesOn(t, args...) {
			got := live[id]
			if slices.Contains(onHardwareOnly, id) && got == conformance.NotExercised {
				continue
			}
			if got != want {
				t.Errorf("%v: rule %s: %s on netns, %s on virtual", args, id, got, want)
			}
		}
	}
}

// TestParityOfDetection gives the model each seeded bug on real packets.
func TestParityOfDetection(t *testing.T) {
	needNamespaces(t)
	start := time.Now()
	_, stdout, stderr := candela(t, "detect", "--testbed", "netns", "--profiles", "spec", "--configs", "../../configs", "--format", "json")
	if strings.Contains(stderr, waiting) {
		t.Skipf("SKIP-busy: %s", stderr)
	}
	var r detection.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	caught := 0
	for i := range r.Bugs {
		if r.Bugs[i].Catch == detection.Right {
			caught++
		}
	}
	t.Logf("FIGURE %d of %d seeded bugs caught by their rules on netns in %v", caught, len(r.Bugs), time.Since(start).Round(time.Second))
	for _, fault := range r.Faults() {
		t.Error(fault)
	}
	if caught < 100 {
		t.Errorf("only %d of %d bugs were caught", caught, len(r.Bugs))
	}
}

// TestParityOfExamples runs every example on real packets: it passes, or is refused by name.
func TestParityOfExamples(t *testing.T) {
	needNamespaces(t)
	status, stdout, stderr := candela(t, "run", "--testbed", "netns", "--out", t.TempDir(), "../../configs")
	if strings.Contains(stdout, waiting) {
		t.Skipf("SKIP-busy: %s", stdout)
	}
	if status != orchestrator.ExitPass {
		t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
	}
	if !strings.Contains(stdout, "REFUSED  software-events") {
		t.Errorf("software-events is not refused, and the switch has none of its events:\n%s", stdout)
	}
}
