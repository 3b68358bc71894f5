package switchtest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

// counters returns what a run has counted.
func counters(t *testing.T, o *orchestrator.Outcome) map[string]int64 {
	t.Helper()
	var doc struct{ Counters map[string]int64 }
	data, err := os.ReadFile(filepath.Join(o.Dir, "switch-counters.json"))
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc.Counters
}

// What a core of a lock server answers in an interval leaves together; 32 answers leave at once.
func TestLockServersSendTogetherWhatTheyAnswer(t *testing.T) {
	for _, c := range []struct {
		drain, threads int
		least, most    int64 // of the mean time of a transaction, in ns
	}{
		{0, 1, 9500, 10_000},
		{100, 1, 95_000, 105_000}, // the answer to the next request leaves an interval later
		{100, 256, 20_000, 60_000},
	} {
		t.Run(fmt.Sprintf("%d us, %d threads", c.drain, c.threads), func(t *testing.T) {
			t.Parallel()
			test := parse(t, fmt.Sprintf(`
topology: {kind: single-switch, hosts: 2, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
hosts: {transport: netlock, host-delay-ns: 2000, server-cores: 1, server-ns: 50, server-drain-us: %d}
switch-under-test: {model: netlock}
workload: [{locks: {clients: 0, servers: 1, threads: %d, locks: 5000, sets: own, count: 30, timeout-us: 100000}}]
`, c.drain, c.threads))[0]
			o := run(t, test)
			if o.Verdict.Exit != orchestrator.ExitPass {
				t.Fatal(o.Verdict)
			}
			for _, m := range o.Analysis.Metrics {
				if m.Name != "flows.rtt" {
					continue
				}
				if mean := m.Sum / m.Count; mean < c.least || mean > c.most {
					t.Errorf("a transaction takes %d ns on average, want %d to %d", mean, c.least, c.most)
				}
				return
			}
			t.Error("nothing was measured")
		})
	}
}

const lockStar = `
topology: {kind: single-switch, hosts: 6, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
hosts: {transport: netlock, host-delay-ns: 2000, host-jitter-ns: 500}
`

// Locks in the switch are granted by it, the others by their server; requests that find no slot wait at the server and
// come back. Every transaction ends, and every client gets each lock once.
func TestLocksAreGrantedBySwitchOrServer(t *testing.T) {
	for _, c := range []struct {
		what, model                 string
		bySwitch, byServer, buffers bool
	}{
		{"all in the switch", "locks: 20", true, false, false},
		{"none", "locks: 0", false, true, false},
		{"half", "locks: 10", true, true, false},
		{"one slot each", "locks: 20, slots-each: 1", true, false, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			test := parse(t, lockStar+"switch-under-test: {model: netlock, "+c.model+`}
workload: [{locks: {clients: 0..4, servers: 5, threads: 4, locks: 20, shared: 0.5, count: 50, timeout-us: 100000}}]
taps: {capture: true}
`)[0]
			o := run(t, test)
			if o.Verdict.Exit != orchestrator.ExitPass {
				t.Fatal(o.Verdict)
			}
			n := counters(t, o)
			sum := func(name string) (total int64) {
				for host := range 5 {
					total += n[fmt.Sprintf("host-%d.locks.%s", host, name)]
				}
				return total
			}
			const want = 5 * 4 * 50
			switched, served := sum("granted-by-switch"), sum("granted-by-server")
			if switched+served != want || sum("transactions") != want || sum("expired") != 0 {
				t.Errorf("%d + %d grants, %d transactions, %d expired; want %d grants and transactions", switched, served,
					sum("transactions"), sum("expired"), want)
			}
			if (switched > 0) != c.bySwitch || (served > 0) != c.byServer ||
				(n["switch.lock-buffered"] > 0) != c.buffers || n["switch.lock-buffered"] != n["switch.lock-pushed-back"] {
				t.Errorf("%d grants by the switch, %d by the server, %d requests buffered, %d pushed back", switched, served,
					n["switch.lock-buffered"], n["switch.lock-pushed-back"])
			}
		})
	}
}

// What waited at the server has lost its query on the way: its grant goes to the client, who releases the lock.
func TestRequestsThatWereBufferedAreNotGrantedToTheDatabase(t *testing.T) {
	o := run(t, parse(t, `
topology: {kind: single-switch, hosts: 7, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
hosts: {transport: netlock, host-delay-ns: 2000, host-jitter-ns: 500}
switch-under-test: {model: netlock, locks: 20, slots-each: 1, databases: 6}
workload: [{locks: {clients: 0..4, servers: 5, databases: 6, threads: 4, locks: 20, count: 50, timeout-us: 100000}}]
`)[0])
	n := counters(t, o)
	committed, back := transactions(n, 0, 4), n["switch.lock-pushed-back"]
	if o.Verdict.Exit != orchestrator.ExitPass || committed != 5*4*50 || back == 0 {
		t.Errorf("%v; %d transactions, %d requests pushed back", o.Verdict, committed, back)
	}
}

// A server that replaces another one may get its first request when it may grant already.
func TestAServerThatIsAskedLateGrants(t *testing.T) {
	o := run(t, parse(t, `
topology: {kind: single-switch, hosts: 2}
hosts: {transport: netlock, host-delay-ns: 2000, server-not-before-us: 100}
switch-under-test: {model: netlock, locks: 0}
workload: [{locks: {clients: 0, servers: 1, locks: 1, count: 10, start-us: 200}}]
`)[0])
	if n := counters(t, o); o.Verdict.Exit != orchestrator.ExitPass || n["host-0.locks.granted-by-server"] != 10 {
		t.Errorf("%v, %v", o.Verdict, n)
	}
}

// A thread whose client dies never ends, and whoever wants its lock waits.
func TestADeadClientKeepsItsLock(t *testing.T) {
	test := parse(t, lockStar+`
switch-under-test: {model: netlock, locks: 1}
workload:
  - locks: {clients: 0, servers: 5, locks: 1, think-us: 100, kill-us: 50, count: 1}
  - locks: {clients: 1, servers: 5, locks: 1, count: 1, start-us: 20, on-timeout: restart}
duration-us: 3000
expect: {unfinished: 2}
`)[0]
	o := run(t, test)
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Fatal(o.Verdict)
	}
	if n := counters(t, o); n["host-1.locks.expired"] < 4 || n["host-1.locks.transactions"] != 0 {
		t.Errorf("%d expired, %d transactions", n["host-1.locks.expired"], n["host-1.locks.transactions"])
	}
}

// transactions returns those that clients of a range committed.
func transactions(n map[string]int64, first, last int) (total int64) {
	for host := first; host <= last; host++ {
		total += n[fmt.Sprintf("host-%d.locks.transactions", host)]
	}
	return total
}

// example runs the points of an example of configs/lock and returns the counters of each.
func example(t *testing.T, name string) (all []map[string]int64) {
	t.Helper()
	tests, err := config.LoadSwitchTests("../../configs/lock/"+name, configOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		o := run(t, test)
		if o.Verdict.Exit != orchestrator.ExitPass {
			t.Fatalf("%s: %v", test.Title(), o.Verdict)
		}
		all = append(all, counters(t, o))
	}
	return all
}

// The results of the chapter that do not depend on hardware (reference model netlock.md, section 12: R4, R14 to R16).
func TestExamplesOfLocksGiveTheResultsOfTheModel(t *testing.T) {
	runtimetest.SkipRace(t)
	t.Run("R4, switch beside server", func(t *testing.T) {
		t.Parallel()
		n := example(t, "e4.yml") // 1, 2, 4, 8 cores, then the same with all locks in the switch
		server, both := transactions(n[3], 0, 9), transactions(n[7], 0, 9)
		if ratio := float64(both) / float64(server); ratio < 6.3 || ratio > 7.7 {
			t.Errorf("the switch has %.2f times the transactions of 8 cores, want 7", ratio)
		}
		if perCore := float64(server) / float64(transactions(n[0], 0, 9)); perCore < 6 || perCore > 8.5 {
			t.Errorf("8 cores have %.2f times the transactions of one", perCore)
		}
	})
	t.Run("R14, priorities", func(t *testing.T) {
		t.Parallel()
		n := example(t, "e7-priorities.yml")
		before := transactions(n[0], 0, 4) - transactions(n[0], 5, 9) // the first tenant alone, in half of the time
		high, low := transactions(n[1], 5, 9), transactions(n[1], 0, 4)-before
		if high < 2*low {
			t.Errorf("with priorities %d transactions of the high tenant, about %d of the low one", high, low)
		}
	})
	t.Run("R15, quotas", func(t *testing.T) {
		t.Parallel()
		for i, want := range []float64{0.7, 0.5} {
			n := example(t, "e7-quota.yml")[i]
			share := float64(transactions(n, 0, 6)) / float64(transactions(n, 0, 9))
			if share < want-0.03 || share > want+0.03 {
				t.Errorf("point %d: tenant 1 has a share of %.3f, want %.2f", i+1, share, want)
			}
		}
	})
	t.Run("6.1, coarse locks", func(t *testing.T) {
		t.Parallel()
		var shares []float64 // of the switch's grants
		var all []int64
		for _, n := range example(t, "merge.yml") {
			bySwitch, byServer := int64(0), int64(0)
			for host := range 4 {
				bySwitch += n[fmt.Sprintf("host-%d.locks.granted-by-switch", host)]
				byServer += n[fmt.Sprintf("host-%d.locks.granted-by-server", host)]
			}
			shares, all = append(shares, float64(bySwitch)/float64(bySwitch+byServer)), append(all, bySwitch+byServer)
		}
		const slots, locks = 200, 2000 // a lock needs a slot at least
		if shares[0] > 1.0*slots/locks || shares[1] <= 1.0*slots/locks || shares[2] <= shares[1] {
			t.Errorf("the switch grants shares of %.3f with 1, 10, 100 and 1000 locks in a coarse one", shares)
		}
		if all[1] <= all[0] || all[3] >= all[0] {
			t.Errorf("%v grants: the coarse locks gain nothing, or the coarsest lose nothing", all)
		}
	})
}

// BenchmarkLockRequests measures what a lock request costs with all that belongs to it: 12 clients with locks of their
// own at one switch.
func BenchmarkLockRequests(b *testing.B) {
	const threads = 12 * 16
	tests, err := config.ParseSwitchTests("f.yml", fmt.Appendf(nil, `
name: locks
topology: {kind: single-switch, hosts: 13, link: {gbps: 40, delay-ns: 1000, framing-bytes: 24}}
switch-under-test: {model: netlock, locks: 55000}
hosts: {transport: netlock}
workload: [{locks: {clients: 0..11, servers: 12, threads: 16, locks: 55000, sets: own, count: %d}}]
judge: off
queue-statistics: off
expect: {unfinished: 0}
`, max(1, b.N/threads)), configOptions())
	if err != nil {
		b.Fatal(err)
	}
	p, err := switchtest.New(tests[0])
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	o, err := switchtest.Run(b.Context(), p, unwritten())
	if err != nil || o.Verdict.Exit != orchestrator.ExitPass {
		b.Fatal(o.Verdict, err)
	}
}

// lockRun runs a test of lock switches and returns the violated rules with the first message of each, and what the
// judge has seen.
func lockRun(t *testing.T, text string) (rules map[string]string, coverage map[string]int64) {
	t.Helper()
	o := judge(t, parse(t, text)[0])
	if o.Analysis == nil {
		t.Fatalf("%v\n%s", o.Verdict, text)
	}
	return violatedRules(o), o.Analysis.Coverage["lock"]
}

// violatedRules returns the rules that a run violates, with the first message of each.
func violatedRules(o *orchestrator.Outcome) map[string]string {
	rules := map[string]string{}
	for _, f := range o.Analysis.Findings {
		if f.Severity == analyzers.Violation && rules[f.Rule] == "" {
			rules[f.Rule] = f.Message
		}
	}
	return rules
}

// The chapter's most valuable negative test (reference model netlock.md, section 5.2): the listing grants twice, what
// the artefact does loses requests if recirculation is slow, chainlock is clean.
func TestWaysOfProcessingReleasesAreFoundGuiltyAsTheModelSays(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, c := range []struct {
		processing string
		ns         int
		want       []string
	}{
		{"listing", 1000, []string{"lock.exactly-once", "lock.mutual-exclusion"}},
		{"snapshot", 1000, nil}, {"snapshot", 20_000, []string{"lock.lost"}},
		{"chainlock", 1000, nil}, {"chainlock", 20_000, nil},
	} {
		rules, coverage := lockRun(t, fmt.Sprintf(`
topology: {kind: single-switch, hosts: 13, link: {gbps: 40, delay-ns: 500, framing-bytes: 24}}
switch-under-test: {model: netlock, locks: 1, slots-each: 64, processing: %s, recirculation-ns: %d}
hosts: {transport: netlock, host-jitter-ns: 2500}
workload: [{locks: {clients: 0..11, servers: 12, locks: 1, shared: 0.9, count: 500, timeout-us: 100000, on-timeout: resend}}]
duration-us: 200000
`, c.processing, c.ns))
		if coverage["requests"] < 1000 || c.want == nil && len(rules) > 0 {
			t.Errorf("%s with %d ns: %v, want none; %v", c.processing, c.ns, rules, coverage)
		}
		for _, rule := range c.want {
			if rules[rule] == "" {
				t.Errorf("%s with %d ns: %v, want %s", c.processing, c.ns, rules, rule)
			}
		}
	}
}

// bugsOfLocks are those that one scenario of overflow, shared and exclusive locks and a client that dies shows, with
// what each needs beside it. The others need losses, or another scenario.
var bugsOfLocks = map[string]string{
	"grants-shared-beside-exclusive": "", "grants-twice": "", "loses-tail": "", "chain-skips-one": "", "newest-first": "",
	"overtakes-exclusive": "", "overflow-overtakes": "", "push-while-busy": "", "buffers-early": "", "aliases": "",
	"expires-early": "", "priority-ignored": ", priorities: 2", "lowest-first": ", priorities: 2",
	"quota-off-by-one": ", quota: 60, quota-us: 500, tenants: 4",
}

const lockBugs = `
topology: {kind: single-switch, hosts: 9, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netlock, locks: 6, slots-each: 8, lease-us: 600, poll-us: 100%s}
hosts: {transport: netlock, host-delay-ns: 1000, host-jitter-ns: 1500, lease-us: 600, poll-us: 100}
workload:
  - locks: {clients: 0..3, servers: 8, threads: 4, locks: 8, shared: 0.6, think-us: 3, timeout-us: 300, tenant: 1,
      priority: 1, on-timeout: resend}
  - locks: {clients: 4..6, servers: 8, threads: 4, locks: 8, shared: 0.4, think-us: 3, timeout-us: 300, tenant: 2,
      priority: 2}
  - locks: {clients: 7, servers: 8, threads: 4, locks: 8, kill-us: 500, think-us: 200, timeout-us: 1000, tenant: 2}
duration-us: 5000
`

// A seeded bug of the switch violates the rule that it declares.
func TestSeededBugsOfLockSwitchesAreCaughtByTheirRule(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, m := range configOptions().Switches {
		for _, b := range m.Bugs {
			more, ok := bugsOfLocks[b.Name]
			if m.Name != "netlock" || !ok {
				continue
			}
			t.Run(b.Name, func(t *testing.T) {
				t.Parallel()
				if rules, coverage := lockRun(t, fmt.Sprintf(lockBugs, more+", bugs: ["+b.Name+"]")); rules[b.Rule] == "" {
					t.Errorf("violated are %v, want %s; %v", rules, b.Rule, coverage)
				}
			})
		}
	}
	for _, more := range []string{"", bugsOfLocks["quota-off-by-one"]} {
		if rules, coverage := lockRun(t, fmt.Sprintf(lockBugs, more)); len(rules) > 0 || coverage["requests"] < 1000 {
			t.Errorf("without a bug%s: %v, %v", more, rules, coverage)
		}
	}
	const holder = `
topology: {kind: single-switch, hosts: 9, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netlock, locks: 1, slots-each: 40, lease-us: 600, poll-us: 100%s}
hosts: {transport: netlock, host-delay-ns: 1000, host-jitter-ns: 1500, lease-us: 600, poll-us: 100}
workload:
  - locks: {clients: 0..3, servers: 8, threads: 2, locks: 1, think-us: 3, timeout-us: 5000, start-us: 50}
  - locks: {clients: 7, servers: 8, locks: 1, kill-us: 100, think-us: 1000, timeout-us: 5000}
duration-us: 5000
`
	for more, want := range map[string]bool{"": false, ", bugs: [never-expires]": true} {
		if rules, _ := lockRun(t, fmt.Sprintf(holder, more)); rules["lock.lease"] != "" != want {
			t.Errorf("a dead holder%s: %v", more, rules)
		}
	}
}

// Other bugs show if clients repeat packets, tenants share a quota, the switch restarts, or locks move.
func TestSeededBugsOfLockSwitchesAreCaughtInOtherNetworks(t *testing.T) {
	runtimetest.SkipRace(t)
	const network = `
topology: {kind: single-switch, hosts: 9, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netlock, lease-us: 600, poll-us: 100, %s, bugs: [%s]}
hosts: {transport: netlock, host-delay-ns: 1000, host-jitter-ns: 1500, lease-us: 600, poll-us: 100%s}
workload:
  - locks: {clients: 0..3, servers: 8, threads: 4, locks: 8, shared: 0.6, think-us: 3, timeout-us: 300, tenant: 2,
      priority: 1, on-timeout: resend}
  - locks: {clients: 4..6, servers: 8, threads: 4, locks: 8, shared: 0.4, think-us: 3, timeout-us: 300, tenant: 3,
      priority: 2, on-timeout: restart}
  - locks: {clients: 7, servers: 8, threads: 4, locks: 8, kill-us: 500, think-us: 200, timeout-us: 1000, tenant: 2,
      on-timeout: restart}
duration-us: 6000
%s
`
	for _, c := range []struct {
		model, hosts, changes string
		bugs                  map[string]string // and the rule that each breaks
	}{
		{"locks: 6, slots-each: 40", ", duplicates: 0.02", "",
			map[string]string{"ignores-tid": "lock.mutual-exclusion", "no-dedup": "lock.exactly-once"}},
		{"locks: 6, slots-each: 8, quota: 60, quota-us: 500, tenants: 4", "", "",
			map[string]string{"quota-shared": "lock.quota"}},
		{"locks: 6, slots-each: 8", "", "changes: [{at-us: 1000, state: stopped}, {at-us: 1100, state: running}]",
			map[string]string{"grants-before-lease": "lock.failover"}},
		{"slots: 30, allocation: knapsack, allocation-us: 300", "", "",
			map[string]string{"grants-while-taking": "lock.mutual-exclusion", "forgets-owner": "lock.mutual-exclusion",
				"leaves-holders": "lock.mutual-exclusion"}},
		{"slots: 30, allocation: knapsack, allocation-us: 250", "", "", // before anybody is hurt
			map[string]string{"grants-while-taking": "lock.placement", "forgets-owner": "lock.placement"}},
	} {
		t.Run(c.model, func(t *testing.T) {
			t.Parallel()
			if rules, n := lockRun(t, fmt.Sprintf(network, c.model, "", c.hosts, c.changes)); len(rules) > 0 ||
				n["requests"] < 1000 {
				t.Errorf("without a bug: %v, %v", rules, n)
			}
			for bug, want := range c.bugs {
				if rules, n := lockRun(t, fmt.Sprintf(network, c.model, bug, c.hosts, c.changes)); rules[want] == "" {
					t.Errorf("%s: violated are %v, want %s; %v", bug, rules, want, n)
				}
			}
		})
	}
	// What is forgotten is passed by what comes later, also while clients give up and ask anew, and packets are lost.
	for _, bug := range []string{"", "forgets-over"} {
		rules, n := lockRun(t, fmt.Sprintf(network, "locks: 6, slots-each: 8", bug, ", loss: 0.01, duplicates: 0.01", ""))
		if bug == "" && len(rules) > 0 || bug != "" && rules["lock.single-queue"] == "" || n["buffered"] < 100 {
			t.Errorf("clients that go on, bug %q: violated are %v; %v", bug, rules, n)
		}
	}
	// It is lost when locks are idle.
	ends := strings.ReplaceAll(network, "timeout-us: 300", "timeout-us: 300, count: 50")
	for bug, want := range map[string]string{"": "", "forgets-over": "lock.lost"} {
		rules, n := lockRun(t, fmt.Sprintf(ends, "locks: 6, slots-each: 8", bug, "", ""))
		if want == "" && len(rules) > 0 || want != "" && rules[want] == "" {
			t.Errorf("clients that end, bug %q: violated are %v, want %q; %v", bug, rules, want, n)
		}
	}
}
