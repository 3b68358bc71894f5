package switchtest_test

import (
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// What switches, servers and clients of a lock manager cannot do together is refused where it is written. Each mistake
// is beside the test without it, which is allowed.
func TestLockManagersThatCannotWorkAreRefused(t *testing.T) {
	const (
		star   = "topology: {kind: single-switch, hosts: 8}\nhosts: {transport: netlock}\nduration-us: 4000\n"
		leaves = "topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4}\n" +
			"hosts: {transport: netlock}\nduration-us: 4000\n"
		pair = "topology: {kind: standby, hosts: 8, right-hosts: 2}\n" +
			"hosts: {transport: netlock}\nduration-us: 4000\n"
		outage   = "changes: [{at-us: 100, state: stopped}, {at-us: 900, state: running}]\n"
		returned = "changes: [{at-us: 1000, switch: 0, state: stopped}, {at-us: 3000, switch: 0, state: running}]\n"
	)
	for _, c := range []struct {
		name, text, old, new string
		want                 []string
	}{
		{"a lease that never ends and a switch that returns", star + `switch-under-test: {model: netlock, locks: 5,
  lease-us: 600}
workload: [{locks: {clients: 0..3, servers: 4}}]
` + outage, "lease-us: 600", "lease-us: 0", []string{"f.yml:6:13: switch-under-test.lease-us: is 0", "running at 900 us",
			"give a lease"}},
		{"a lease that never ends and NetChain that returns", star + `switch-under-test: {model: netchain, lease-us: 600}
workload: [{locks: {clients: 0..3, servers: 4}}]
` + outage, "lease-us: 600", "lease-us: 0", []string{"f.yml:5:48: switch-under-test.lease-us: is 0"}},
		{"a lease that never ends and a switch that only stops", star + `switch-under-test: {model: netlock, lease-us: 0}
workload: [{locks: {clients: 0..3, servers: 4}}]
changes: [{at-us: 100, state: stopped}]
`, "", "", nil},
		{"a lease that never ends and a backup", pair + `switch-under-test: {model: netlock, locks: 5, lease-us: 600}
workload: [{locks: {clients: 0..3, servers: 7}}]
changes: [{at-us: 100, switch: 0, state: stopped}]
`, "lease-us: 600", "lease-us: 0", []string{"switch-under-test.lease-us: is 0", "stopped at 100 us"}},
		{"NetChain whose clients are at two leaves", leaves + `switch-under-test: {model: netchain}
workload: [{locks: {clients: 0..3, servers: 7}}]
`, "0..3", "0..4", []string{"f.yml:6:30: workload[0].locks.clients: host 4 is at switch leaf-1 and host 0 at leaf-0",
			"attach all clients to one"}},
		{"NetChain whose items have clients at two leaves", leaves + `switch-under-test: {model: netchain}
workload: [{locks: {clients: 0, servers: 7}}, {locks: {clients: 3, servers: 7}}]
`, "clients: 3", "clients: 5", []string{"workload[1].locks.clients: host 5 is at switch leaf-1"}},
		{"a lock switch that is not that of the servers", leaves + `switch-under-test: {model: netlock, locks: 5}
workload: [{locks: {clients: 0..2, servers: 3}}]
`, "servers: 3", "servers: 4", []string{"workload[0].locks.servers: host 4 is at switch leaf-1 and the clients at leaf-0"}},
		{"a client beside the servers of a pair", pair + `switch-under-test: {model: netlock, locks: 5}
workload: [{locks: {clients: 0..5, servers: 7}}]
` + returned, "0..5", "0..6", []string{"workload[0].locks.clients: host 6 is at switch right", "on one side"}},
		{"a server beside the clients of a pair", pair + `switch-under-test: {model: netlock, locks: 5}
workload: [{locks: {clients: 0..4, servers: 6..7}}]
` + returned, "6..7", "5..7", []string{"workload[0].locks.servers: host 5 is at switch left",
			"do not pass the lock switch"}},
		{"two servers for a lock", star + `switch-under-test: {model: droptail}
workload: [{locks: {clients: 0..2, servers: 4..5, locks: 9}}, {locks: {clients: 3, servers: 4, locks: 9, first: 10}}]
`, "first: 10", "first: 9", []string{"f.yml:6:93: workload[1].locks.servers: lock 9 is that of host 4, and in " +
			"workload[0] that of host 5", "take locks 9 to 9"}},
		{"two servers for a row", star + `switch-under-test: {model: netlock}
workload: [{tpcc: {clients: 0..2, servers: 4..5}}, {locks: {clients: 3, servers: 4..5, locks: 9}}]
`, "servers: 4..5, locks", "servers: 5, locks", []string{"workload[1].locks.servers: lock 2 is"}},
		{"a database that another item has as a server", star + `switch-under-test: {model: droptail}
workload: [{locks: {clients: 0..2, servers: 4, databases: 6}}, {locks: {clients: 3, servers: 5, first: 5000}}]
`, "servers: 5", "servers: 6", []string{"workload[1].locks.servers: host 6 is a database of workload[0]"}},
		{"a database that the switch does not know", star + `switch-under-test: {model: netlock, databases: 6}
workload: [{locks: {clients: 0..2, servers: 4, databases: 6}}]
`, "databases: 6}}]", "databases: 7}}]", []string{"f.yml:6:59: workload[0].locks.databases: are [7], and those of the " +
			"switch are [6]"}},
		{"a database that only the switch knows", star + `switch-under-test: {model: netlock, databases: 6}
workload: [{locks: {clients: 0..2, servers: 4, databases: 6}}]
`, ", databases: 6}}]", "}}]", []string{"workload[0].locks.databases: are none"}},
		{"a quota for tenants that nobody is", star + `switch-under-test: {model: netlock, quota: 5, tenants: 2}
workload: [{locks: {clients: 0..2, servers: 4, tenant: 2}}, {locks: {clients: 3, servers: 4}}]
`, "tenant: 2", "tenant: 3", []string{"f.yml:5:44: switch-under-test.quota: limits nobody", "from 1 to 2"}},
		{"a priority beyond those of the switch", star + `switch-under-test: {model: netlock, priorities: 2}
workload: [{locks: {clients: 0..2, servers: 4, priority: 2}}]
`, "priority: 2", "priority: 3", []string{"f.yml:6:58: workload[0].locks.priority: is 3 of 2", "priorities are 1 to 2"}},
		{"clients that die after the test", star + `switch-under-test: {model: netlock}
workload: [{locks: {clients: 0..2, servers: 4, start-us: 1000, kill-us: 2999}}]
`, "kill-us: 2999", "kill-us: 3000", []string{"f.yml:6:73: workload[0].locks.kill-us: no client dies before the end"}},
		{"servers that grant nothing", strings.Replace(star, "netlock}", "netlock, server-not-before-us: 3999}", 1) +
			`switch-under-test: {model: netlock}
workload: [{locks: {clients: 0..2, servers: 4}}]
`, "us: 3999", "us: 4000", []string{"hosts.server-not-before-us: is past the end of the test"}},
		{"a control plane that never allocates", star + `switch-under-test: {model: netlock, allocation: knapsack,
  allocation-us: 3999}
workload: [{locks: {clients: 0..2, servers: 4}}]
`, "us: 3999", "us: 4000", []string{"f.yml:6:18: switch-under-test.allocation-us: is 4 ms: the control plane gives no " +
			"slots"}},
		{"a control plane that never allocates by default", star + `switch-under-test: {model: netlock, allocation: knapsack,
  allocation-us: 10}
workload: [{locks: {clients: 0..2, servers: 4}}]
`, ",\n  allocation-us: 10", "", []string{"switch-under-test.allocation-us: is 1 s"}},
		{"more threads than packets tell apart", star + `switch-under-test: {model: netlock}
workload: [{locks: {clients: 0..2, servers: 4, threads: 200}}, {locks: {clients: 2..3, servers: 4, threads: 56}}]
`, "threads: 56", "threads: 57", []string{"workload[1].locks.threads: host 2 has 257 threads", "at most 256"}},
		{"requests of several locks that are repeated", star + `switch-under-test: {model: netlock}
workload: [{tpcc: {clients: 0..2, servers: 4, on-timeout: await}}]
`, "await", "resend", []string{"f.yml:6:59: workload[0].tpcc.on-timeout: is resend", "restart or await"}},
		{"locks that are larger than the switch", star + `switch-under-test: {model: netlock, locks: 3, slots: 9,
  slots-each: 9}
workload: [{locks: {clients: 0..2, servers: 4}}]
`, "slots-each: 9", "slots-each: 10", []string{"switch-under-test.slots-each: is 10 of 9 slots"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := planned(c.text); err != nil {
				t.Fatalf("without the mistake: %v", err)
			}
			if c.old == "" {
				return
			}
			err := planned(strings.Replace(c.text, c.old, c.new, 1))
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}

// planned returns what is wrong with a test.
func planned(text string) error {
	tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
	if err == nil {
		_, err = switchtest.New(tests[0])
	}
	return err
}
