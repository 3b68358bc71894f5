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

// needNamespaces is needLive for CI steps that are judged: a container may forbid namespaces even to root.
func needNamespaces(t *testing.T) {
	t.Helper()
	needLive(t)
	if out, err := exec.Command("unshare", "--net", "true").CombinedOutput(); err != nil {
		t.Skipf("SKIP-live: no network namespace can be made: %v: %s", err, out)
	}
}

// statusesOn qualifies the model spec and returns the status of each rule, and the reasons for runs without a
// judgement.
func statusesOn(t *testing.T, args ...string) (list map[string]conformance.Status, busy []string) {
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
	list = make(map[string]conformance.Status)
	for i := range r.Results {
		rule := &r.Results[i]
		list[rule.ID] = rule.Status
		if rule.Status == conformance.NotExercised &&
			(strings.HasPrefix(rule.Reason, "the testbed failed again") ||
				strings.HasPrefix(rule.Reason, "the run cannot be judged")) {
			list[rule.ID] = unjudged
			busy = append(busy, rule.ID+": "+rule.Reason)
		}
	}
	return list, busy
}

// unjudged is the status of a rule if the machine interrupted all its runs.
const unjudged = conformance.Status("unjudged")

// onHardwareOnly are rules that software hosts cannot show: bounds of latencies, and rates.
var onHardwareOnly = []string{"nak-latency", "nak-reaction-latency"}

func TestParityOfConformance(t *testing.T) {
	needNamespaces(t)
	start := time.Now()
	live, busy := statusesOn(t, "--testbed", "netns")
	t.Logf("FIGURE conformance of model spec on netns: %v (target 3m)", time.Since(start).Round(time.Second))
	simulated, _ := statusesOn(t)
	for id, want := range simulated {
		got := live[id]
		if slices.Contains(onHardwareOnly, id) && got == conformance.NotExercised {
			continue
		}
		if got != want && got != unjudged {
			t.Errorf("rule %s: %s on netns, %s on virtual", id, got, want)
		}
	}
	skipIfBusy(t, busy)
}

// skipIfBusy skips a test that found no errors but could not judge everything on a busy machine.
func skipIfBusy(t *testing.T, busy []string) {
	t.Helper()
	if len(busy) > 0 && !t.Failed() {
		t.Skipf("SKIP-busy: %d could not be judged:\n%s", len(busy), strings.Join(busy, "\n"))
	}
}

// mayMiss is the number of seeded bugs that a run may miss: on software hosts, the order of events that a bug needs
// depends on the machine.
const mayMiss = 1

// TestParityOfDetection tests each seeded bug on real packets. Compliant devices must not be blamed.
func TestParityOfDetection(t *testing.T) {
	needNamespaces(t)
	start := time.Now()
	_, stdout, stderr := candela(t, "detect", "--testbed", "netns", "--profiles", "spec", "--configs", "../../configs",
		"--format", "json")
	if strings.Contains(stderr, waiting) {
		t.Skipf("SKIP-busy: %s", stderr)
	}
	var r detection.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	count := map[detection.Catch]int{}
	var busy []string
	for i := range r.Bugs {
		b := &r.Bugs[i]
		if count[b.Catch]++; b.Catch == detection.Unjudged {
			busy = append(busy, b.Name+": "+b.Why)
		}
	}
	t.Logf("FIGURE %d of %d seeded bugs caught by their rules on netns in %v, %d not observable there",
		count[detection.Right], len(r.Bugs),
		time.Since(start).Round(time.Second), count[detection.Unobservable])
	r.Bugs = slices.DeleteFunc(r.Bugs, func(b detection.BugResult) bool { return b.Catch == detection.Unjudged })
	var missed []string
	for _, fault := range r.Faults() {
		if strings.Contains(fault, "false alarm") {
			t.Error(fault)
		} else {
			missed = append(missed, fault)
		}
	}
	t.Logf("FIGURE seeded bugs that were not caught by their rules (at most %d): %q", mayMiss, missed)
	if len(missed) > mayMiss {
		t.Errorf("%d seeded bugs were not caught by their rules, more than %d", len(missed), mayMiss)
	}
	if most := 7; count[detection.Unobservable] > most {
		t.Errorf("%d bugs are not observable, want at most %d", count[detection.Unobservable], most)
	}
	skipIfBusy(t, busy)
}

// TestParityOfExamples runs every example on real packets: each passes or is refused by name.
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
