package switchtest_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
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

// lockPair draws a pair of correct lock switches, of which the original stops once or twice, and what clients do.
func (d networkDraw) lockPair() string {
	clients, servers, locks := d.between(1, 8), d.between(1, 3), int(d.magnitude(1, 100))
	model, priorities, _ := d.lockModel(false, false, locks)
	quota := d.one(5)
	if quota {
		model += fmt.Sprintf(", quota: %d, quota-us: %d, tenants: 4", d.between(5, 200), d.between(200, 2000))
	}
	lease := int(d.magnitude(100, 3000))
	leases := fmt.Sprintf("lease-us: %d, poll-us: %d", lease, int(d.magnitude(10, 500)))
	hosts := fmt.Sprintf("%s, host-delay-ns: %d, host-jitter-ns: %d, server-ns: %d, server-cores: %d", leases, d.IntN(5000),
		d.IntN(5000), int(d.magnitude(10, 2000)), d.between(1, 8))
	for _, fault := range []string{"loss", "duplicates"} {
		if d.one(4) {
			hosts += fmt.Sprintf(", %s: %.4f", fault, d.magnitude(0.0005, 0.05))
		}
	}
	reroute := int(d.magnitude(1, 1000))
	text := fmt.Sprintf(`
topology: {kind: standby, hosts: %d, right-hosts: %d, reroute-us: %d, link: {gbps: %s, delay-ns: %d, framing-bytes: 24},
  trunk: {gbps: %s, delay-ns: %d, framing-bytes: 24}}
switch-under-test: {model: netlock, %s, %s}
hosts: {transport: netlock, %s}
workload:
`, clients+servers, servers, reroute, d.of("10", "40", "100", "1"), int(d.magnitude(1, 5000)), d.of("10", "40", "100"),
		int(d.magnitude(1, 20_000)), model, leases, hosts)
	for i := range d.between(1, 3) {
		each := d.between(1, min(4, locks))
		text += fmt.Sprintf("  - locks: {clients: 0..%d, servers: %d..%d, threads: %d, locks: %d, locks-each: %d, "+
			"shared: %s, sets: %s, think-us: %s, timeout-us: %d, outstanding: %d, priority: %d, start-us: %d, ",
			clients-1, clients, clients+servers-1, d.between(1, 6), locks, each, d.of("0", "0.1", "0.5", "0.9", "0.98", "1"),
			d.of("all", "zipf"), d.of("0", "0", "5", "50", "500"), d.between(100, 1000), d.between(1, 3),
			d.IntN(priorities+1), i*d.IntN(300))
		if quota {
			text += fmt.Sprintf("tenant: %d, ", d.between(1, 5))
		}
		if d.one(4) {
			text += fmt.Sprintf("kill-us: %d, ", d.between(100, 4000))
		}
		if each == 1 && d.one(3) {
			text += "on-timeout: resend, "
		}
		text += fmt.Sprintf("interval-us: %d}\n", int(d.magnitude(5, 300)))
	}
	at, changes := d.between(100, 2000), ""
	for range 1 + d.between(0, 1) {
		returns := at + reroute + int(d.magnitude(1, 4*float64(lease)))
		changes += fmt.Sprintf("{at-us: %d, switch: 0, state: stopped}, {at-us: %d, switch: 0, state: running}, ", at, returns)
		at = returns + reroute + int(d.magnitude(1, 4*float64(lease)))
	}
	return text + fmt.Sprintf("changes: [%s]\nduration-us: %d\nseed: %d\n", changes, at+2*lease+1000, d.IntN(1<<30))
}

// Correct pairs of lock switches are not blamed, whatever their settings, whenever the original stops and returns, and
// whichever clients die. CANDELA_TEST_WIDE says how many to draw.
func TestCompliantPairsOfLockSwitchesAreNotBlamed(t *testing.T) {
	runtimetest.SkipRace(t)
	first, count := wideNetworks(t, 20)
	const parts = 4
	var requests, grants atomic.Int64
	t.Run("parts", func(t *testing.T) {
		for part := range parts {
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+count; seed += parts {
					text := fmt.Sprintf("# %d\n", seed) + newNetworkDraw(uint64(seed), 2213).lockPair()
					rules, coverage := lockRun(t, text)
					requests.Add(coverage["requests"])
					grants.Add(coverage["grants-switch"] + coverage["grants-server"])
					if len(rules) > 0 {
						t.Errorf("%v, %v\n%s", rules, coverage, text)
					}
				}
			})
		}
	})
	t.Logf("%d pairs, %d requests, %d grants", count, requests.Load(), grants.Load())
	if requests.Load() < int64(100*count) || grants.Load() < int64(20*count) {
		t.Errorf("%d requests and %d grants of %d pairs", requests.Load(), grants.Load(), count)
	}
}
