package switchtest_test

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

// failover is a test of a lock switch that stops, with a backup, and returns while that has holders and who waits.
const failover = `
topology: {kind: standby, hosts: 9, right-hosts: 1, reroute-us: 100, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netlock, locks: 6, slots-each: %d, lease-us: 600, poll-us: 50%s}
hosts: {transport: netlock, host-delay-ns: 1000, host-jitter-ns: 1500, lease-us: 600, poll-us: 50}
workload:
  - locks: {clients: 0..3, servers: 8, threads: 4, locks: 8, shared: 0.8, think-us: 20, timeout-us: 300}
  - locks: {clients: 4..7, servers: 8, threads: 4, locks: 8, shared: 0.5, think-us: 5, timeout-us: 300,
      on-timeout: resend}
changes: [{at-us: 1000, switch: 0, state: stopped}, {at-us: 2500, switch: 0, state: running}]
duration-us: 4000
`

// While the original is out of service the backup grants its locks, from when all leases have ended on; a little after
// the original has returned, it grants them again.
func TestABackupGrantsWhileTheOriginalIsOutOfService(t *testing.T) {
	test := parse(t, fmt.Sprintf(failover, 3, "")+"taps: {capture: true}\n")[0]
	n := counters(t, run(t, test))
	if n["original.lock-grants"] < 300 || n["backup.lock-grants"] < 300 || n["original.lock-push-requests"] < 12 ||
		n["backup.lock-buffered"] == 0 || n["backup.lock-pushed-back"] == 0 {
		t.Errorf("%v", n)
	}
}

// While the trunk to a backup that serves is out of service, packets have no path, also if it failed before.
func TestPacketsThatCannotPassABackupAreLost(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(failover, 20, ""), "changes: [",
		"changes: [{at-us: 700, trunk: {from: left, to: backup, failed: true}}, "+
			"{at-us: 1800, trunk: {from: left, to: backup, failed: false}}, ", 1)
	if found, n := lockRun(t, text); len(found) > 0 || n["grants-switch"] < 500 {
		t.Errorf("%v, %v", found, n)
	}
}

// What a pair of lock switches may do wrong violates N13: a backup grants too early, or both grant.
func TestPairsOfLockSwitchesWithBugsAreConvicted(t *testing.T) {
	runtimetest.SkipRace(t)
	rules := map[string]string{}
	for _, m := range configOptions().Switches {
		for _, b := range m.Bugs {
			if m.Name == "netlock" {
				rules[b.Name] = b.Rule
			}
		}
	}
	if found, n := lockRun(t, fmt.Sprintf(failover, 20, "")); len(found) > 0 || n["grants-switch"] < 500 {
		t.Errorf("without a bug: %v, %v", found, n)
	}
	for _, bug := range []string{"grants-before-lease", "forgets-backup", "keeps-yielded", "forgets-owner",
		"grants-while-taking"} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			found, n := lockRun(t, fmt.Sprintf(failover, 20, ", bugs: ["+bug+"]"))
			if want := rules[bug]; want == "" || found[want] == "" {
				t.Errorf("violated are %v, want %q; %v", found, want, n)
			}
		})
	}
}

// What a pair of switches cannot do is refused where it is written.
func TestTestsThatAPairOfSwitchesCannotPassAreRefused(t *testing.T) {
	text := fmt.Sprintf(failover, 3, "")
	for _, c := range []struct{ old, new, want string }{
		{"netlock, locks: 6, slots-each: 3,", "netchain,", "take over from no other"},
		{"locks: 6, slots-each: 3", "allocation: knapsack", "take fixed"},
		{"at-us: 1000, switch: 0", "at-us: 1000, switch: 1", "only the original"},
		{"at-us: 2500, switch: 0", "at-us: 1050, switch: 0", "topology.reroute-us"},
		{"right-hosts: 1", "right-hosts: 9", "at least one host is on the left"},
		{"changes: [", "changes: [{at-us: 9, trunk: {from: left, to: original, failed: true}}, ",
			"f.yml:10:64: changes[0].trunk.failed"},
		{"reroute-us: 100", "trunks: [{from: right, to: original, failed: true}]", "topology.trunks[0].failed"},
		{"reroute-us: 100", "trunks: [{from: backup, to: right, failed: true}]", "asks lock servers"},
	} {
		tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+strings.Replace(text, c.old, c.new, 1)),
			configOptions())
		if err == nil {
			_, err = switchtest.New(tests[0])
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
}
