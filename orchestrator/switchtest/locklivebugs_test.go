package switchtest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/switches/lock"
)

// What the test of liveLocks does not do, and switches with bugs get wrong.
const (
	liveClients   = "locks: {clients: 0..3, servers: 4, threads: 4, locks: 6, shared: 0.5, count: 60, think-us: 1000, "
	liveHosts     = "lease-us: 60000, poll-us: 5000}"
	resending     = liveClients + "on-timeout: resend, "
	twoPriorities = liveClients + "priority: 2, timeout-us: 250000}\n  - " + liveClients + "priority: 1, "
	twoTenants    = liveClients + "tenant: 2, timeout-us: 250000}\n  - " + liveClients + "tenant: 3, "
	liveOutage    = "duration-us: 2000000\nchanges: [{at-us: 90000, state: stopped}, {at-us: 95000, state: running}]"
)

// Tests that have other clients, or another control plane, than that of liveLocks.
const (
	liveNetwork = `
topology: {kind: single-switch, hosts: 5, link: {gbps: 0.1, delay-ns: 20000}}
switch-under-test: {model: netlock, lease-us: 60000, poll-us: 5000, push-timeout-us: %s}
hosts: {transport: netlock, client-ns: 250000, lease-us: 60000, poll-us: 5000%s}
workload:%s
duration-us: %d
taps: {capture: true}
`
	// Holders have a lock for long enough that some do when it moves.
	liveMoves = `
  - locks: {clients: 0..3, servers: 4, threads: 4, locks: 6, shared: 0.5, think-us: 15000, timeout-us: 250000}`
	// Some of what tells the server that a lock moves is lost, while others wait for the lock. So many locks that few
	// have lost a release of a holder to the server before, after which its order is not judged.
	liveLossyMoves = `
  - locks: {clients: 0..3, servers: 4, threads: 8, locks: 60, shared: 0.3, think-us: 1000, timeout-us: 400000}`
	// One dies with the lock. As its lease ends, after 60 ms, another, who came later, has the oldest entry: a third one
	// has come and released. The lease of who came second, and released, ends next, which makes the control plane look
	// again: who wants the lock exclusively then has it beside the other.
	liveUneven = `
  - locks: {clients: 3, servers: 4, locks: 1, shared: 1, count: 1, think-us: 200000, timeout-us: 900000, kill-us: 8000}
  - locks: {clients: 1, servers: 4, locks: 1, shared: 1, count: 1, think-us: 3000, timeout-us: 900000, start-us: 10000}
  - locks: {clients: 0, servers: 4, locks: 1, shared: 1, count: 1, think-us: 54000, timeout-us: 900000, start-us: 30000}
  - locks: {clients: 1, servers: 4, locks: 1, shared: 1, count: 1, think-us: 3000, timeout-us: 900000, start-us: 35000}
  - locks: {clients: 2, servers: 4, locks: 1, shared: 0, count: 1, think-us: 3000, timeout-us: 900000, start-us: 50000}`
)

// liveBugs are seeded bugs, and the test in which they show: that of liveLocks with some swaps, or another.
type liveBugs struct {
	bugs  string
	swaps []string
	test  string
}

// liveLockBugs are all but those of pairs of switches (forgets-backup, keeps-yielded), as the live switch is one, and
// those that show in when servers answer, or what they get.
func liveLockBugs() []liveBugs {
	return []liveBugs{
		{"grants-shared-beside-exclusive grants-twice loses-tail", nil, ""}, // what CI judges: N1, N2, N3
		{"never-expires", nil, ""}, // and N12
		{"forgets-over newest-first overtakes-exclusive overflow-overtakes push-while-busy buffers-early aliases " +
			"expires-early grants-as-shared forwards-twice asks-for-fewer", nil, ""},
		{"chain-stops chain-skips-one", []string{"slots-each: 3", "slots-each: 20", liveClients,
			strings.Replace(liveClients, "locks: 6", "locks: 4", 1)}, ""},
		{"ignores-tid no-dedup",
			[]string{liveHosts, "lease-us: 60000, poll-us: 5000, loss: 0.02, duplicates: 0.1}", liveClients, resending}, ""},
		{"server-no-dedup", []string{"locks: 4, slots-each: 3", "locks: 0",
			liveHosts, "lease-us: 60000, poll-us: 5000, duplicates: 0.1}", liveClients, resending}, ""},
		{"server-counts-copies server-buffers-copies", []string{"slots-each: 3", "slots-each: 2",
			liveHosts, "lease-us: 60000, poll-us: 5000, duplicates: 0.1}", liveClients, resending}, ""},
		{"never-repeats counts-no-losses", []string{liveHosts, "lease-us: 60000, poll-us: 5000, loss: 0.02}", "slots-each: 3",
			"slots-each: 2"}, ""},
		// Less than the RTT, so that the server is asked twice, and pushes back twice.
		{"double-push-back", []string{"push-timeout-us: 20000", "push-timeout-us: 300"}, ""},
		{"lowest-first priority-ignored keeps-exclusive", []string{"locks: 4, slots-each: 3", "locks: 4, slots-each: 40, priorities: 2",
			liveClients, twoPriorities}, ""},
		{"quota-off-by-one quota-shared", []string{"locks: 4,", "locks: 4, quota: 20, quota-us: 50000, tenants: 4,",
			liveClients, twoTenants, "kill-us", "tenant: 1, kill-us"}, ""},
		{"queues-query loses-query answers-both", []string{"hosts: 5,", "hosts: 6,", "locks: 4,", "locks: 4, databases: 5,",
			liveClients, liveClients + "databases: 5, queries: on, ", "kill-us", "databases: 5, queries: on, kill-us"}, ""},
		{"other-database", []string{"hosts: 5,", "hosts: 7,", "locks: 4,", "locks: 4, databases: 5..6,",
			liveClients, liveClients + "databases: 5..6, queries: on, ", "kill-us", "databases: 5..6, queries: on, kill-us"}, ""},
		// A lease that is longer than timeouts: those who ask have got no answer and wait.
		{"grants-before-lease", []string{"duration-us: 2000000", liveOutage, "lease-us: 60000", "lease-us: 400000",
			"lease-us: 60000", "lease-us: 400000"}, ""},
		{"keeps-buffer", []string{"duration-us: 2000000", liveOutage, "slots-each: 3", "slots-each: 2"}, ""},
		{"server-grants-early", []string{"locks: 4, slots-each: 3", "locks: 0", "poll-us: 5000}",
			"poll-us: 5000, server-not-before-us: 100000}"}, ""},
		{"expires-another", nil, fmt.Sprintf(liveNetwork, "20000, locks: 1, slots-each: 64", "", liveUneven, 300_000)},
		{"allocates-by-rate", nil, fmt.Sprintf(liveNetwork,
			"20000, slots: 12, allocation: knapsack, allocation-us: 100000", "",
			strings.Replace(liveMoves, "locks: 6", "locks: 6, sets: zipf", 1), 2_000_000)},
		{"grants-while-taking forgets-owner leaves-holders keeps-serving keeps-granting forgets-waiting " +
			"keeps-releases", nil,
			fmt.Sprintf(liveNetwork, "20000, slots: 12, allocation: random, allocation-us: 100000", "", liveMoves, 2_000_000)},
		{"moves-silently tells-once", nil, fmt.Sprintf(liveNetwork,
			"200000, slots: 30, allocation: random, allocation-us: 30000, contention: 1, moves: 100", ", loss: 0.05",
			liveLossyMoves, 3_000_000)},
	}
}

// text returns the test.
func (b *liveBugs) text(t *testing.T) string {
	t.Helper()
	if b.test != "" {
		return b.test
	}
	text, err := os.ReadFile(liveLocks)
	if err != nil {
		t.Fatal(err)
	}
	swapped := strings.Replace(string(text), "name: lock-live\n", "", 1)
	for i := 0; i < len(b.swaps); i += 2 {
		if !strings.Contains(swapped, b.swaps[i]) {
			t.Fatalf("%s has no %q", liveLocks, b.swaps[i])
		}
		swapped = strings.Replace(swapped, b.swaps[i], b.swaps[i+1], 1)
	}
	return swapped
}

// sow gives the switch, or the server, a bug, and returns the rule that it violates.
func sow(t *testing.T, test *config.SwitchTest, bug string) (rule string) {
	t.Helper()
	for _, m := range configOptions().Switches {
		for _, b := range m.Bugs {
			if m.Name == "netlock" && b.Name == bug {
				test.Switch.Bugs = []string{bug}
				return b.Rule
			}
		}
	}
	for _, tr := range configOptions().Transports {
		for _, b := range tr.Bugs {
			if tr.Name == "netlock" && b.Name == bug {
				test.Hosts.Bugs = []string{bug}
				return b.Rule
			}
		}
	}
	t.Fatalf("there is no bug %s", bug)
	return ""
}

// Seeded bugs are found by their rule from the packets of real sockets. CI has the first four, and one drawn by SEED.
func TestLockSwitchesWithBugsAreConvictedOnRealFrames(t *testing.T) {
	sampled := needsRealFrames(t)
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 32) // none: 0
	list := liveLockBugs()
	rest := 0
	for _, of := range list[2:] {
		rest += len(strings.Fields(of.bugs))
	}
	drawn := rand.New(rand.NewPCG(seed, 0)).IntN(rest)
	for i, of := range list {
		checked := i < 3 // with the test as it is: see the other test
		for bug := range strings.FieldsSeq(of.bugs) {
			if i > 1 {
				if drawn--; sampled && drawn != -1 {
					continue
				}
			}
			t.Run(bug, func(t *testing.T) {
				if !checked {
					checked = true
					passesLive(t, parse(t, of.text(t))[0])
				}
				convictsLive(t, parse(t, of.text(t))[0], bug)
			})
		}
	}
}

// convictsLive runs a test of a switch, or server, with a bug on real frames, which is to violate the bug's rule.
func convictsLive(t *testing.T, test *config.SwitchTest, bug string) {
	t.Helper()
	rule := sow(t, test, bug)
	out := runsLive(t, test)
	if out.Verdict.Exit != orchestrator.ExitFail || !slices.ContainsFunc(out.Analysis.Findings,
		func(f analyzers.Finding) bool { return f.Rule == rule }) {
		t.Errorf("verdict %v, want a violation of %s", out.Verdict, rule)
	}
}

// No bug is forgotten.
func TestEveryBugOfLockSwitchesIsTriedOnRealFrames(t *testing.T) {
	tried := []string{"forgets-backup", "keeps-yielded", // of pairs
		"uses-removed",                              // a lock is late only if servers get all that is sent to them, which nobody vouches for
		"server-forgets-queue", "server-one-by-one"} // when servers answer is not judged on real frames
	for _, of := range liveLockBugs() {
		tried = append(tried, strings.Fields(of.bugs)...)
	}
	for _, b := range lock.Table() {
		if !slices.Contains(tried, b.Name) {
			t.Errorf("%s is not tried", b.Name)
		}
	}
}
