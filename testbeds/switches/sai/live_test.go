package sai_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/testbeds/live"
)

// playLive runs a test on real frames. If the machine is too busy for a verdict, it retries, then skips the test.
func playLive(t *testing.T, test *config.SwitchTest) *orchestrator.Outcome {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: network namespaces need root")
	}
	plan, err := switchtest.NewLive(test)
	if err != nil {
		t.Fatal(err)
	}
	const attempts = 3
	for i := range attempts {
		out, err := switchtest.Run(t.Context(), plan, orchestrator.Options{Out: t.TempDir(), NoReports: true, Wall: time.Now})
		switch {
		case errors.Is(err, live.ErrUnsupported):
			t.Skipf("SKIP: %v", err)
		case err != nil:
			t.Fatal(err)
		case out.Verdict.Exit != orchestrator.ExitInfrastructure:
			return out
		}
		reason := strings.Join(out.Verdict.Reasons, "; ")
		if !strings.Contains(reason, live.ErrBusy.Error()) {
			t.Fatal(reason)
		}
		if i == attempts-1 {
			t.Skipf("SKIP-busy: %s", reason)
		}
	}
	return nil
}

// everything reports whether to run all live tests instead of a few.
func everything() bool { return os.Getenv("CANDELA_TEST_LIVE") != "" }

// liveSuite returns the suite's tests that a live switch can run, and those of configs/sai-live.
func liveSuite(t *testing.T) []*config.SwitchTest {
	t.Helper()
	var tests []*config.SwitchTest
	for _, test := range append(suite(t), load(t, "../../../configs/sai-live/*.yml")...) {
		if test.Topology.SwitchCount() == 1 {
			tests = append(tests, test)
		}
	}
	return tests
}

func explain(t *testing.T, out *orchestrator.Outcome) {
	t.Helper()
	for _, line := range out.Verdict.Reasons {
		t.Log(line)
	}
	if out.Analysis == nil {
		return
	}
	for _, f := range out.Analysis.Findings {
		t.Logf("%s: want %s, got %s (%s)", f.Rule, f.Expected, f.Actual, f.Message)
	}
}

func TestTheCorrectSwitchPassesTheSuiteOnRealFrames(t *testing.T) {
	few := []string{"sonic-02-size", "sonic-13-counters", "sai-ndp", "live-tcp", "live-kernel"}
	for _, test := range liveSuite(t) {
		if !everything() && !slices.Contains(few, test.Name) {
			continue
		}
		t.Run(test.Title(), func(t *testing.T) {
			if out := playLive(t, test); out.Verdict.Verdict != analyzers.Pass {
				t.Errorf("verdict %v", out.Verdict)
				explain(t, out)
			}
		})
	}
}

// Only tests that catch a bug in simulation are run; one that also catches it on real frames is enough.
func TestTheSuiteCatchesEverySeededBugOnRealFrames(t *testing.T) {
	tests := liveSuite(t)
	few := []string{"wrong-size", "wrong-dscp", "drops-headers"}
	for _, bug := range seeded {
		if !everything() && !slices.Contains(few, bug.bug) {
			continue
		}
		t.Run(bug.bug, func(t *testing.T) {
			caught := slices.IndexFunc(tests, func(test *config.SwitchTest) bool {
				buggy := *test
				buggy.Switch.Bugs = []string{bug.bug}
				return simulable(test) && catches(play(t, &buggy), bug.rules[0]) && catches(playLive(t, &buggy), bug.rules[0])
			})
			if caught < 0 {
				t.Fatalf("no test of the suite fails by %s", bug.rules[0])
			}
			t.Logf("caught by %s", tests[caught].Title())
		})
	}
	if !everything() {
		return
	}
	// This bug breaks no rule; expectations of the suite catch it.
	caught := slices.ContainsFunc(tests, func(test *config.SwitchTest) bool {
		buggy := *test
		buggy.Switch.Bugs = []string{"loses-counted"}
		fails := func(o *orchestrator.Outcome) bool { return o.Verdict.Verdict == analyzers.Fail }
		return simulable(test) && fails(play(t, &buggy)) && fails(playLive(t, &buggy))
	})
	if !caught {
		t.Error("no test of the suite fails with loses-counted")
	}
}

// simulable reports whether a test has hosts of our own.
func simulable(test *config.SwitchTest) bool { return test.Hosts.Model != "kernel-tcp" }

func catches(out *orchestrator.Outcome, rule string) bool {
	return out.Verdict.Verdict == analyzers.Fail &&
		slices.ContainsFunc(out.Analysis.Findings, func(f analyzers.Finding) bool { return f.Rule == rule })
}

// kernelBlind are seeded bugs that a plain transfer between kernels cannot show, with the reason.
var kernelBlind = map[string]string{
	"wrong-port-map": "one DSCP for all ports", "trims-lossless": "no lossless class", "trims-always": "trimming is on",
	"ignores-acl": "no ACL", "count-acl-off": "no ACL", "octets-acl-ip": "no ACL", "acl-v4-only": "no ACL",
	"v4-only": "no IPv6", "trims-runts": "no short packets with payload", "drops-short": "no short packets with payload",
	"trims-twice": "the trim queue has room", "count-misses-lost-copies": "the trim queue has room",
	"forgets-toggle": "no change", "count-restarts": "no change", "clears-ecn": "no ECN",
	"reorders-headers": "too few trimmed packets of a flow in a queue",
}

// TestTheKernelsTCPConvictsABrokenSwitch runs kernel hosts against each seeded bug that a transfer between two kernels
// can show.
func TestTheKernelsTCPConvictsABrokenSwitch(t *testing.T) {
	few := []string{"wrong-size", "wrong-dscp", "drops-headers", "wrong-queue"}
	for _, test := range load(t, "../../../configs/sai-live/live-kernel.yml") {
		if !strings.Contains(test.Title(), "bbr") && !everything() {
			continue
		}
		for _, bug := range seeded {
			// For all bugs, one congestion control is enough; the few run with each.
			if !slices.Contains(few, bug.bug) && (!everything() || !strings.Contains(test.Title(), "cubic")) {
				continue
			}
			t.Run(test.Title()+" "+bug.bug, func(t *testing.T) {
				if why := kernelBlind[bug.bug]; why != "" {
					t.Skip("SKIP: " + why)
				}
				buggy := *test
				buggy.Switch.Bugs = []string{bug.bug}
				if out := playLive(t, &buggy); !catches(out, bug.rules[0]) {
					t.Errorf("verdict %v, want a violation of %s", out.Verdict, bug.rules[0])
					explain(t, out)
				}
			})
		}
	}
}

// TestHostsWithBugsAreConvictedOnRealFrames checks that bounds widened by a run's measurements still catch hosts. It
// tries bugs that a simulation of the same test shows, up to three times, because real runs vary.
func TestHostsWithBugsAreConvictedOnRealFrames(t *testing.T) {
	few := []string{"forgets-nack", "acks-beyond"}
	// An RTO that is early by less than a busy machine's slack looks correct.
	exempt := []string{"early-timeout", "hurried-timeout"}
	suspects := []struct{ judge, file, point string }{
		{"ndp", "../../../configs/sai-trimming/sai-ndp.yml", ""}, {"tcp", "../../../configs/sai-live/live-tcp.yml", "cubic"},
	}
	for _, of := range suspects {
		for _, test := range load(t, of.file) {
			if !strings.Contains(test.Title(), of.point) {
				continue
			}
			for _, bug := range hostBugs(of.judge) {
				if slices.Contains(exempt, bug) || !everything() && !slices.Contains(few, bug) {
					continue
				}
				t.Run(of.judge+" "+bug, func(t *testing.T) { convictHosts(t, test, of.judge, bug) })
			}
		}
	}
}

func convictHosts(t *testing.T, test *config.SwitchTest, judge, bug string) {
	buggy := *test
	buggy.Hosts.Bugs = []string{bug}
	convicted := func(out *orchestrator.Outcome) bool {
		return out.Verdict.Verdict == analyzers.Fail && slices.ContainsFunc(out.Analysis.Findings,
			func(f analyzers.Finding) bool {
				return f.Analyzer == judge && f.Severity == analyzers.Violation
			})
	}
	if !convicted(play(t, &buggy)) {
		t.Skip("the simulation of this test does not show it")
	}
	const attempts = 3
	for range attempts {
		out := playLive(t, &buggy)
		if convicted(out) {
			return
		}
		explain(t, out)
	}
	t.Errorf("no violation of a rule of %s in %d runs", judge, attempts)
}

// hostBugs lists the seeded bugs of the hosts of a transport.
func hostBugs(transport string) []string {
	for _, model := range switchtest.Options().Transports {
		if model.Name == transport {
			var names []string
			for _, b := range model.Bugs {
				names = append(names, b.Name)
			}
			return names
		}
	}
	return nil
}

// outage is a test of %s hosts whose switch is out of service for 100 ms of its traffic.
const outage = `name: outage
topology: {kind: single-switch, hosts: 3, link: {gbps: 0.02, delay-ns: 100000}}
switch-under-test: {model: sai, trim-size: 128, trim-dscp: 48, trim-queue: 6, bugs: [%s],
  profiles: [{queues: [1], action: trim, limit-bytes: 20000}]}
hosts: {transport: %s}
workload: [incast: {senders: 2, bytes: 400000, dscp: 8}]
changes: [{at-us: 100000, state: stopped}, {at-us: 200000, state: running}]
deadline-us: 20000000
taps: {decisions: csv}
expect: {trims: {min: 1}, unfinished: {max: 0}, counters: {switch.dropped-stopped: {min: 1}}}
`

// TestASwitchThatStopsOnRealFramesIsJudgedAsASimulatedOne checks that losses of a stopped switch are blamed on no host,
// and that real bugs are still caught.
func TestASwitchThatStopsOnRealFramesIsJudgedAsASimulatedOne(t *testing.T) {
	for _, tt := range []struct{ hosts, bug, rule string }{
		{"tcp, min-rto-us: 200000", "", ""},
		{"kernel-tcp", "", ""},
		{"kernel-tcp", "wrong-size", "sai.trim-size"},
		{"tcp, min-rto-us: 200000, bugs: [acks-beyond]", "", "tcp.ack-beyond"},
	} {
		if !everything() && tt.hosts != "kernel-tcp" {
			continue
		}
		t.Run(tt.hosts+" "+tt.bug, func(t *testing.T) {
			tests, err := config.ParseSwitchTests("outage.yml", fmt.Appendf(nil, outage, tt.bug, tt.hosts), switchtest.Options())
			if err != nil {
				t.Fatal(err)
			}
			out := playLive(t, tests[0])
			if passes := out.Verdict.Verdict == analyzers.Pass; passes != (tt.rule == "") || !passes && !catches(out, tt.rule) {
				t.Errorf("verdict %v, want a violation of %q", out.Verdict, tt.rule)
				explain(t, out)
			}
		})
	}
}
