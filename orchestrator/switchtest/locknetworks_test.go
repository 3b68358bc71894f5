package switchtest_test

import (
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"

	"candela.dev/candela/runtimetest"
)

// Correct lock switches are not blamed, whatever their settings, and whichever clients die. CANDELA_TEST_WIDE says how
// many networks to draw.
func TestCompliantLockSwitchesAreNotBlamed(t *testing.T) {
	blamesNoLockSwitch(t, 32, 2201, networkDraw.lockNetwork)
}

// Correct pairs of lock switches are not blamed, whatever their settings, whenever the original stops and returns, and
// whichever clients die.
func TestCompliantPairsOfLockSwitchesAreNotBlamed(t *testing.T) {
	blamesNoLockSwitch(t, 16, 2213, networkDraw.lockPair)
}

// Nor are those of networks in which more varies: links, clients that differ, transactions, outages in a row.
func TestCompliantLockSwitchesOfOtherNetworksAreNotBlamed(t *testing.T) {
	blamesNoLockSwitch(t, 16, 2217, networkDraw.otherLocks)
}

// blamesNoLockSwitch judges networks of correct lock switches: usually so many.
func blamesNoLockSwitch(t *testing.T, usually int, stream uint64, draw func(networkDraw) string) {
	runtimetest.SkipRace(t)
	first, count := wideNetworks(t, usually)
	const parts = 4
	var requests, grants atomic.Int64
	t.Run("parts", func(t *testing.T) {
		for part := range parts {
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+count; seed += parts {
					text := fmt.Sprintf("# %d\n", seed) + draw(newNetworkDraw(uint64(seed), stream))
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
	t.Logf("%d networks, %d requests, %d grants", count, requests.Load(), grants.Load())
	if requests.Load() < int64(100*count) || grants.Load() < int64(20*count) {
		t.Errorf("%d requests and %d grants in %d networks", requests.Load(), grants.Load(), count)
	}
}

// lockNetwork draws a network of correct lock switches and what their clients do.
func (d networkDraw) lockNetwork() string {
	clients, servers, databases := d.between(1, 8), d.between(1, 3), max(0, d.between(-4, 2))
	// What is no chainlock, or does not look whose request or release comes, is correct as long as no packet comes twice
	// or in vain; the ways of the source also need that all requests are shared, or none is.
	plain := d.one(6)
	moves := d.one(4)
	locks := int(d.magnitude(1, 200))
	model, priorities, shared := d.lockModel(plain, moves, locks)
	quota := d.one(5)
	if quota {
		model += fmt.Sprintf(", quota: %d, quota-us: %d, tenants: 4", d.between(5, 200), d.between(200, 2000))
	}
	answers := ""
	if databases > 0 {
		answers = fmt.Sprintf("databases: %d..%d", clients+servers, clients+servers+databases-1)
		model += ", " + answers
		if answers += ", "; d.one(3) {
			answers += "queries: on, "
			model += ", one-round-trip: " + d.of("on", "off")
		}
	}
	lease, poll := int(d.magnitude(100, 10_000)), int(d.magnitude(10, 1000))
	if plain {
		lease = 0
	}
	leases := fmt.Sprintf("lease-us: %d, poll-us: %d", lease, poll)
	delay, jitter, takes, cores := d.IntN(5000), d.IntN(5000), int(d.magnitude(10, 2000)), d.between(1, 8)
	hosts := fmt.Sprintf("%s, host-delay-ns: %d, host-jitter-ns: %d, server-ns: %d, server-cores: %d", leases, delay, jitter,
		takes, cores)
	if cores > 4 { // without a draw of its own: networks stay as they were otherwise
		hosts += fmt.Sprintf(", server-drain-us: %d", 1+delay%20)
	}
	rare, busy := 4, 1.0
	if moves { // what goes wrong only if a packet of a move is lost needs many moves
		rare, busy = 2, 10
	}
	for _, fault := range []string{"loss", "duplicates"} {
		if d.one(rare) && !plain {
			hosts += fmt.Sprintf(", %s: %.4f", fault, d.magnitude(0.0005, 0.05))
		}
	}
	text := fmt.Sprintf(`
topology: {kind: single-switch, hosts: %d, link: {gbps: %s, delay-ns: %d, framing-bytes: 24}}
switch-under-test: {model: netlock, %s, %s}
hosts: {transport: netlock, %s}
workload:
`, clients+servers+databases, d.of("10", "40", "100", "1"), int(d.magnitude(1, 5000)), model, leases, hosts)
	for i := range d.between(1, 3) {
		each := d.between(1, min(4, locks))
		of := shared
		if of == "" {
			of = d.of("0", "0.1", "0.5", "0.9", "0.98", "1")
		}
		text += fmt.Sprintf("  - locks: {clients: 0..%d, servers: %d..%d, %sthreads: %d, locks: %d, locks-each: %d, "+
			"shared: %s, sets: %s, think-us: %s, timeout-us: %d, outstanding: %d, priority: %d, start-us: %d, ",
			clients-1, clients, clients+servers-1, answers, d.between(1, 6), locks, each, of,
			d.of("all", "zipf"), d.of("0", "0", "5", "50", "500"), d.between(100, 1000), d.between(1, 3),
			d.IntN(priorities+1), i*d.IntN(300))
		if quota {
			text += fmt.Sprintf("tenant: %d, ", d.between(1, 5))
		}
		if d.one(4) {
			text += fmt.Sprintf("kill-us: %d, ", d.between(100, 4000))
		}
		if each == 1 && d.one(4) && !plain {
			text += "on-timeout: resend, "
		} else if cores%2 != 0 { // as above
			text += "on-timeout: restart, "
		}
		if d.one(4) {
			text += fmt.Sprintf("interval-us: %d, ", int(d.magnitude(1, 200)))
		}
		text += fmt.Sprintf("count: %d}\n", int(d.magnitude(5*busy, 100*busy)))
	}
	if d.one(6) && clients > 1 { // of which no packet is for the lock manager
		text += fmt.Sprintf("  - incast: {senders: %d, packets: %d, transport: raw, start-us: %d}\n", clients-1,
			int(d.magnitude(1, 300)), int(d.magnitude(1, 3000)))
	}
	ends := d.between(5000, 20_000)
	if d.one(4) && !plain {
		stops := d.between(100, 3000)
		returns := stops + int(d.magnitude(10, 4000))
		ends = max(ends, returns+2000)
		text += fmt.Sprintf("changes: [{at-us: %d, state: stopped}, {at-us: %d, state: running}]\n", stops, returns)
	}
	ends = max(ends, latestBegin(text)+1)
	return limited(text, 4) + fmt.Sprintf("duration-us: %d\nseed: %d\n", ends, d.IntN(1<<30))
}

// firstTenant matches the tenant of the first item that has one.
var firstTenant = regexp.MustCompile(`(?s)^(.*?, tenant: )(\d+)`)

// limited returns a network in which a quota of so many tenants, if there is one, is that of some item.
func limited(text string, tenants int) string {
	return firstTenant.ReplaceAllStringFunc(text, func(found string) string {
		m := firstTenant.FindStringSubmatch(found)
		tenant, _ := strconv.Atoi(m[2])
		return m[1] + strconv.Itoa(min(tenant, tenants))
	})
}

// killed matches when the clients of an item start, and how long after that they die.
var killed = regexp.MustCompile(`start-us: (\d+),.*kill-us: (\d+)`)

// allocated matches when locks move for the first time.
var allocated = regexp.MustCompile(`allocation-us: (\d+)`)

// latestBegin returns when the last clients of a network die, or the first locks move: the test ends later.
func latestBegin(text string) (at int) {
	if m := allocated.FindStringSubmatch(text); m != nil {
		at, _ = strconv.Atoi(m[1])
	}
	for _, m := range killed.FindAllStringSubmatch(text, -1) {
		start, _ := strconv.Atoi(m[1])
		kill, _ := strconv.Atoi(m[2])
		at = max(at, start+kill)
	}
	return at
}

// lockModel draws a correct lock switch. If it is correct only for requests of one mode, shared says what share of
// requests are shared.
func (d networkDraw) lockModel(plain, moves bool, locks int) (text string, priorities int, shared string) {
	priorities = max(1, d.between(-4, 4))
	patience := 100
	if moves {
		patience = 500
	}
	text = fmt.Sprintf("recirculation-ns: %d, push-timeout-us: %d, latency-ns: %s",
		d.number(0, int(d.magnitude(10, 5000)), int(d.magnitude(10, 50_000))), d.between(20, patience), d.of("600", "0", "100", "2000"))
	if plain {
		way := d.of("chainlock", "listing", "snapshot")
		if moves { // the listing may grant twice what has waited for a lock to move
			way = "chainlock"
		}
		if way != "chainlock" {
			priorities, shared = 1, d.of("0", "1")
		}
		text += fmt.Sprintf(", processing: %s, tid-check: %s, dedup: %s", way, d.of("on", "off"), d.of("on", "off"))
	}
	if priorities > 1 {
		text += fmt.Sprintf(", priorities: %d", priorities)
	}
	switch {
	case moves:
		text += fmt.Sprintf(", slots: %d, allocation: %s, allocation-us: %d",
			int(d.magnitude(float64(priorities), float64(priorities+8*locks))), d.of("knapsack", "random"),
			int(d.magnitude(50, 5000)))
	case d.one(3):
		text += fmt.Sprintf(", locks: %d, slots-each: %d", d.between(0, locks), priorities-1+d.between(1, 6))
	case d.one(4): // the pool has no room for all
		text += fmt.Sprintf(", locks: %d, slots: %d", locks, int(d.magnitude(1, float64(10*locks))))
	default:
		text += fmt.Sprintf(", locks: %d, slots-each: %d", locks, priorities-1+d.between(1, 40))
	}
	return text, priorities, shared
}

// number draws one of numbers.
func (d networkDraw) number(numbers ...int) int { return numbers[d.IntN(len(numbers))] }

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
		} else if reroute%2 == 0 { // without a draw: networks stay as they were otherwise
			text += "on-timeout: restart, "
		}
		text += fmt.Sprintf("interval-us: %d}\n", int(d.magnitude(5, 300)))
	}
	at, changes := d.between(100, 2000), ""
	for range 1 + d.between(0, 1) {
		returns := at + reroute + int(d.magnitude(1, 4*float64(lease)))
		changes += fmt.Sprintf("{at-us: %d, switch: 0, state: stopped}, {at-us: %d, switch: 0, state: running}, ", at, returns)
		at = returns + reroute + int(d.magnitude(1, 4*float64(lease)))
	}
	ends := max(at+2*lease+1000, latestBegin(text)+1)
	return limited(text, 4) + fmt.Sprintf("changes: [%s]\nduration-us: %d\nseed: %d\n", changes, ends, d.IntN(1<<30))
}
