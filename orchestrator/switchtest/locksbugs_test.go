package switchtest_test

import (
	"fmt"
	"testing"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/runtimetest"
)

// Workloads of locks in which seeded bugs show.
const (
	contendedLocks = `
  - locks: {clients: 0..3, servers: 8, threads: 4, locks: 8, shared: 0.6, think-us: 3, timeout-us: 300, sets: zipf}
  - locks: {clients: 4..7, servers: 8, threads: 4, locks: 8, shared: 0.4, think-us: 3, timeout-us: 300,
      on-timeout: resend}
`
	patientClients = `
  - locks: {clients: 0..6, servers: 8, threads: 4, locks: 4, shared: 0.6, timeout-us: 2000}
`
	preferredClients = `
  - locks: {clients: 0..3, servers: 8, threads: 3, locks: 4, shared: 0.5, priority: 1, timeout-us: 2000}
  - locks: {clients: 4..7, servers: 8, threads: 3, locks: 4, shared: 0.5, priority: 3, timeout-us: 2000}
`
	twoDatabases = `
  - locks: {clients: 0..5, servers: 8, databases: 6..7, queries: on, locks: 8, timeout-us: 2000}
`
	// Holders release in another order than that of their grants, and the leases of some end.
	uneven = `
  - locks: {clients: 0..2, servers: 8, threads: 2, locks: 1, shared: 1, think-us: 40, timeout-us: 3000, outstanding: 2}
  - locks: {clients: 3..5, servers: 8, threads: 2, locks: 1, shared: 1, think-us: 450, timeout-us: 3000, outstanding: 2}
  - locks: {clients: 6, servers: 8, threads: 2, locks: 1, shared: 1, think-us: 900, timeout-us: 4000, kill-us: 400}
  - locks: {clients: 7, servers: 8, locks: 1, think-us: 3, timeout-us: 9000, start-us: 550, count: 1}
`
)

// Each of these bugs needs a workload of its own; in the same one without it nobody is blamed.
func TestSeededBugsThatNeedAWorkloadOfTheirOwnAreCaughtByTheirRule(t *testing.T) {
	runtimetest.SkipRace(t)
	rules := map[string]string{}
	add := func(list []parameter.Bug) {
		for _, b := range list {
			rules[b.Name] = b.Rule
		}
	}
	for _, m := range configOptions().Switches {
		if m.Name == "netlock" {
			add(m.Bugs)
		}
	}
	for _, tr := range configOptions().Transports {
		if tr.Name == "netlock" {
			add(tr.Bugs)
		}
	}
	const restart = "changes: [{at-us: 1000, state: stopped}, {at-us: 1100, state: running}]"
	for _, c := range []struct {
		bug, model, hosts, workload, more string
		ofServer                          bool
	}{
		{"double-push-back", "locks: 4, slots-each: 3, push-timeout-us: 3", "", patientClients, "", false},
		{"never-repeats", "locks: 4, slots-each: 2", ", loss: 0.02", patientClients, "", false},
		{"expires-another", "locks: 1, slots-each: 64", "", uneven, "", false},
		{"chain-stops", "locks: 4, slots-each: 20", "", contendedLocks, "", false},
		{"allocates-by-rate", "slots: 9, allocation: knapsack, allocation-us: 300", "", contendedLocks, "", false},
		{"keeps-buffer", "locks: 4, slots-each: 2", "", contendedLocks, restart, true},
		{"keeps-granting", "slots: 30, allocation: random, allocation-us: 300", "", contendedLocks, "", true},
		// The server's queues never empty: it never gives a lock to the switch.
		{"keeps-granting", "slots: 9, allocation: random, allocation-us: 300", "", contendedLocks, "", true},
		{"grants-as-shared", "locks: 4, slots-each: 3", "", contendedLocks, "", false},
		{"forgets-waiting", "slots: 30, allocation: random, allocation-us: 300", "", contendedLocks, "", false},
		{"tells-once", "slots: 30, allocation: random, allocation-us: 300", ", loss: 0.01", contendedLocks, "", false},
		{"keeps-serving", "slots: 30, allocation: random, allocation-us: 300", "", contendedLocks, "", false},
		{"keeps-releases", "slots: 30, allocation: random, allocation-us: 300", "", contendedLocks, "", false},
		{"counts-no-losses", "locks: 4, slots-each: 2", ", loss: 0.02", patientClients, "", false},
		{"server-forgets-queue", "locks: 0", "", contendedLocks, "", true},
		{"server-one-by-one", "locks: 0", "", contendedLocks, "", true},
		{"server-no-dedup", "locks: 0", ", duplicates: 0.05", contendedLocks, "", true},
		{"server-counts-copies", "locks: 4, slots-each: 2", ", duplicates: 0.05", contendedLocks, "", true},
		{"uses-removed", "slots: 30, allocation: random, allocation-us: 300", "", contendedLocks, "", false},
		{"keeps-exclusive", "locks: 4, slots-each: 9, priorities: 3", "", preferredClients, "", false},
		{"forwards-twice", "locks: 4, slots-each: 2", "", contendedLocks, "", false},
		{"other-database", "locks: 4, databases: 6..7", "", twoDatabases, "", false},
		{"asks-for-fewer", "locks: 4, slots-each: 3", "", contendedLocks, "", false},
		{"server-buffers-copies", "locks: 4, slots-each: 2", ", duplicates: 0.05", contendedLocks, "", true},
		{"server-grants-early", "locks: 0", ", server-not-before-us: 600", contendedLocks, "", true},
	} {
		for _, bug := range []string{"", "bugs: [" + c.bug + "]"} {
			sw, host := ", "+bug, ""
			if c.ofServer {
				sw, host = "", ", "+bug
			}
			if bug == "" {
				sw, host = "", ""
			}
			found, n := lockRun(t, fmt.Sprintf(`
topology: {kind: single-switch, hosts: 9, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netlock, lease-us: 600, poll-us: 5, %s%s}
hosts: {transport: netlock, host-delay-ns: 1000, host-jitter-ns: 1500, lease-us: 600, poll-us: 5%s%s}
workload:%sduration-us: 6000
%s
`, c.model, sw, c.hosts, host, c.workload, c.more))
			switch {
			case bug == "" && (len(found) > 0 || n["requests"] < 300):
				t.Errorf("without %s: %v, %v", c.bug, found, n)
			case bug != "" && (rules[c.bug] == "" || found[rules[c.bug]] == ""):
				t.Errorf("%s: violated are %v, want %q; %v", c.bug, found, rules[c.bug], n)
			}
		}
	}
}
