package switchtest_test

import (
	"fmt"
	"strconv"
	"testing"

	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/switches/lock"
)

// chainRun runs a test of NetChain and returns the violated rules with the first message of each, and what the judge
// has seen.
func chainRun(t *testing.T, text string) (rules map[string]string, coverage map[string]int64) {
	t.Helper()
	o := judge(t, parse(t, text)[0])
	return violatedRules(o), o.Analysis.Coverage["netchain"]
}

// chainBugs is a network in which seeded bugs of NetChain show. Four neighbouring ids share a lock, but for fresh.
const chainBugs = `
topology: {kind: single-switch, hosts: 9, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netchain, lease-us: 600, poll-us: 50, %s%s}
hosts: {transport: netlock, host-delay-ns: 1000, host-jitter-ns: 1500, duplicates: 0.02, loss: 0.005}
workload:
  - locks: {clients: 0..3, servers: 8, threads: 3, locks: %d, locks-each: 2, shared: 0.7, think-us: 3, timeout-us: 300,
      on-reject: restart, on-timeout: restart}
  - locks: {clients: 4..6, servers: 8, threads: 3, locks: %[3]d, shared: 0.7, think-us: 30, timeout-us: 300,
      on-timeout: resend}
  - locks: {clients: 7, servers: 8, threads: 3, locks: %[3]d, kill-us: 500, think-us: 200, timeout-us: 1000,
      on-timeout: restart}
changes: [{at-us: 3000, state: stopped}, {at-us: 3100, state: running}]
duration-us: 6000
`

// chainNetworks are settings of the switch, and the number of locks that clients use, by bug; others use the first.
var chainNetworks = map[string]struct {
	model string
	locks int
}{
	"":             {"slots: 5, lock-ids: 20", 19},
	"rejects-free": {"slots: 1000, lock-ids: 1000", 999},
	"aliases":      {"slots: 3, lock-ids: 10", 15},
}

// A seeded bug of NetChain violates the rule that it declares; without it nobody is blamed in the same network.
func TestSeededBugsOfNetChainAreCaughtByTheirRule(t *testing.T) {
	runtimetest.SkipRace(t)
	for bug, n := range chainNetworks {
		if rules, coverage := chainRun(t, fmt.Sprintf(chainBugs, n.model, "", n.locks)); len(rules) > 0 ||
			coverage["grants"] < 300 || coverage["withdrawn"] == 0 || bug == "" && coverage["rejects"] < 300 {
			t.Errorf("without %s: %v, %v", bug, rules, coverage)
		}
	}
	for _, b := range lock.ChainTable() {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			n, ok := chainNetworks[b.Name]
			if !ok {
				n = chainNetworks[""]
			}
			rules, coverage := chainRun(t, fmt.Sprintf(chainBugs, n.model, ", bugs: ["+b.Name+"]", n.locks))
			if t.Log(rules); rules[b.Rule] == "" {
				t.Errorf("violated are %v, want %s; %v", rules, b.Rule, coverage)
			}
		})
	}
}

// Without leases a lock stays with a client that is dead.
func TestNetChainWithoutLeasesNeverTakesALockAway(t *testing.T) {
	rules, coverage := chainRun(t, `
topology: {kind: single-switch, hosts: 4, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netchain, slots: 1, lock-ids: 2, lease-us: 0}
hosts: {transport: netlock, host-delay-ns: 1000}
workload:
  - locks: {clients: 0, servers: 3, locks: 1, think-us: 1000, kill-us: 100, timeout-us: 3000}
  - locks: {clients: 1..2, servers: 3, locks: 1, start-us: 50, timeout-us: 300}
duration-us: 2000
`)
	if len(rules) > 0 || coverage["grants"] != 1 || coverage["rejects"] < 100 {
		t.Errorf("%v, %v", rules, coverage)
	}
}

// chainNetwork draws a network of correct NetChain switches and what their clients do.
func (d networkDraw) chainNetwork() string {
	clients, servers, databases := d.between(1, 8), d.between(1, 3), max(0, d.between(-3, 2))
	used := int(d.magnitude(1, 200))
	ids := used + 1 + d.number(0, 0, d.IntN(50), -used/2) // some locks may not exist
	lease, poll := int(d.magnitude(50, 5000)), int(d.magnitude(1, 1000))
	if d.one(5) {
		lease = 0
	}
	hosts := fmt.Sprintf("host-delay-ns: %d, host-jitter-ns: %d, client-ns: %d", d.IntN(5000), d.IntN(5000), d.IntN(200))
	for _, fault := range []string{"loss", "duplicates"} {
		if d.one(3) {
			hosts += fmt.Sprintf(", %s: %.4f", fault, d.magnitude(0.0005, 0.1))
		}
	}
	link := fmt.Sprintf("link: {gbps: %s, delay-ns: %d, framing-bytes: 24}", d.of("10", "40", "100", "1", "0.1"),
		int(d.magnitude(1, 5000)))
	topology, server := fmt.Sprintf("kind: single-switch, hosts: %d", clients+servers+databases), clients
	far := d.one(6)
	if far { // all clients are at one leaf, whose locks they take, and servers at the other
		server = max(clients, servers+databases)
		topology = fmt.Sprintf("kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: %d", server)
	}
	answers := ""
	if databases > 0 {
		answers = fmt.Sprintf("databases: %d..%d, queries: on, ", server+servers, server+servers+databases-1)
	}
	model := fmt.Sprintf("slots: %d, lock-ids: %d, lease-us: %d, poll-us: %d, latency-ns: %s%s",
		d.number(0, 1, int(d.magnitude(1, 50)), 1000), max(1, ids), lease, poll, d.of("600", "0", "100", "2000"),
		d.of("", "", ", queues: 2", ", buffer-bytes: 500"))
	text := fmt.Sprintf("topology: {%s, %s}\nswitch-under-test: {model: netchain, %s}\n"+
		"hosts: {transport: netlock, %s}\nworkload:\n", topology, link, model, hosts)
	class, version := d.number(0, 0, 1), d.number(4, 4, 6)
	for i := range d.between(1, 3) {
		each := d.number(1, d.between(1, min(6, used)))
		patience := []string{"restart", "await"}[i%2] // without a draw: networks stay as they were otherwise
		if each == 1 {
			patience = d.of("restart", "resend")
		}
		text += fmt.Sprintf("  - locks: {clients: 0..%d, servers: %d..%d, %sthreads: %d, locks: %d, locks-each: %d, "+
			"shared: %s, sets: %s, think-us: %s, timeout-us: %d, outstanding: %d, start-us: %d, on-reject: %s, "+
			"on-timeout: %s, tc: %d, ip: %d, ", clients-1, server, server+servers-1, answers, d.between(1, 6), used,
			each, d.of("0", "0.5", "1"), d.of("all", "zipf"), d.of("0", "0", "5", "50", "500"),
			d.between(50, 1000), d.between(1, 3), i*d.IntN(300), d.of("retry", "restart"), patience, class, version)
		if d.one(4) {
			text += fmt.Sprintf("kill-us: %d, ", d.between(100, 4000))
		}
		if d.one(4) {
			text += fmt.Sprintf("interval-us: %d, ", int(d.magnitude(1, 200)))
		}
		text += fmt.Sprintf("count: %d}\n", int(d.magnitude(5, 100)))
	}
	if d.one(5) && clients > 1 { // of which no packet is for the lock manager
		text += fmt.Sprintf("  - incast: {senders: %d, packets: %d, transport: raw, start-us: %d}\n", clients-1,
			int(d.magnitude(1, 300)), int(d.magnitude(1, 1900)))
	}
	ends, changes := max(d.between(2000, 8000), latestBegin(text)+1), ""
	at := 0
	for range max(0, d.between(-3, 2)) {
		if far || lease == 0 { // what a switch has lost would never be free
			break
		}
		stops := at + d.between(100, 2000)
		at = stops + int(d.magnitude(1, 2000))
		changes += fmt.Sprintf("{at-us: %d, state: stopped}, {at-us: %d, state: running}, ", stops, at)
		ends = max(ends, at+2000)
	}
	return text + fmt.Sprintf("changes: [%s]\nduration-us: %d\nseed: %d\n", changes, ends, d.IntN(1<<30))
}

// Correct NetChain switches are not blamed, whatever their settings, whichever clients die, and whenever the switch
// stops. CANDELA_TEST_WIDE says how many networks to draw.
func TestCompliantNetChainSwitchesAreNotBlamed(t *testing.T) {
	runtimetest.SkipRace(t)
	first, count := wideNetworks(t, 24)
	const parts = 4
	sums := make([]map[string]int64, parts)
	t.Run("parts", func(t *testing.T) {
		for part := range parts {
			sums[part] = make(map[string]int64)
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+count; seed += parts {
					text := fmt.Sprintf("# %d\n", seed) + newNetworkDraw(uint64(seed), 2227).chainNetwork()
					rules, coverage := chainRun(t, text)
					if len(rules) > 0 {
						t.Errorf("%v, %v\n%s", rules, coverage, text)
					}
					for what, n := range coverage {
						sums[part][what] += n
					}
				}
			})
		}
	})
	total := make(map[string]int64)
	for _, sum := range sums {
		for what, n := range sum {
			total[what] += n
		}
	}
	t.Logf("%d networks: %v", count, total)
	for _, what := range []string{"requests", "grants", "rejects", "releases"} {
		if total[what] < int64(20*count) {
			t.Errorf("%d %s in %d networks", total[what], what, count)
		}
	}
	for _, what := range []string{"lapsed", "withdrawn", "others"} {
		if total[what] < int64(count) {
			t.Errorf("%d %s in %d networks", total[what], what, count)
		}
	}
}
