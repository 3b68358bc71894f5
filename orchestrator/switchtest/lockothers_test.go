package switchtest_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// otherDraw draws a network of lock switches in which more varies than in lockNetwork and lockPair.
type otherDraw struct {
	networkDraw
	pair, plain, moves, quota                           bool
	clients, servers, databases, lease                  int
	locks, first, priorities, outages, reroute, tenants int
	shared                                              string // what the switch needs; "": any share
	of                                                  string // servers and databases of clients
}

// otherLocks draws a correct lock switch, or a pair, and what its clients do.
func (d networkDraw) otherLocks() string {
	o := otherDraw{networkDraw: d, clients: d.between(1, 10), servers: d.between(1, 4), databases: max(0, d.between(-3, 3)),
		locks: int(d.magnitude(1, 500)), first: d.number(1, 1, 0, 1000), lease: int(d.magnitude(30, 10_000)),
		reroute: int(d.magnitude(1, 1000)), tenants: d.between(1, 6), pair: d.one(4), quota: d.one(5)}
	o.plain, o.moves = !o.pair && d.one(6), !o.pair && d.one(3)
	if o.plain {
		o.lease = 0
	}
	model, leases := o.model()
	hosts := o.hosts(leases)
	if o.outages = 0; !o.plain && d.one(3) || o.pair {
		o.outages = d.between(1, 3)
	}
	faulty := false
	for _, fault := range []string{"loss", "duplicates"} {
		if d.one(3) && !o.plain {
			hosts += fmt.Sprintf(", %s: %.4f", fault, d.magnitude(0.0005, 0.2))
			faulty = true
		}
	}
	if !faulty && !o.moves && o.outages == 0 && d.one(4) { // a question that is not lost need not be repeated
		model = regexp.MustCompile(`push-timeout-us: \d+`).ReplaceAllString(model, "push-timeout-us: 0")
	}
	text := fmt.Sprintf("%s\nswitch-under-test: {model: netlock, %s, %s}\nhosts: {transport: netlock, %s}\nworkload:\n",
		o.topology(), model, leases, hosts)
	if d.one(4) {
		o.of += "ip: 6, "
	}
	for range d.between(1, 5) {
		each := d.between(1, min(8, o.locks))
		text += "  - locks: {" + o.locksOf(each) + o.clientsOf(each) + "}\n"
	}
	if d.one(6) && o.shared == "" {
		text += fmt.Sprintf("  - tpcc: {warehouses: %d, %s}\n", d.between(1, 3), o.clientsOf(0))
	}
	for range max(0, d.between(-4, 3)) {
		text += "  - " + o.background()
	}
	ends := latestBegin(text) + 1
	return limited(text, o.tenants) + o.changes(ends) + fmt.Sprintf("seed: %d\n", d.IntN(1<<30))
}

// model draws the switch, and how long leases last.
func (d *otherDraw) model() (model, leases string) {
	model, d.priorities, d.shared = d.lockModel(d.plain, d.moves, d.locks)
	model += fmt.Sprintf(", first-lock: %d", d.first)
	if d.moves {
		model += fmt.Sprintf(", contention: %d, moves: %d", max(0, d.between(-8, 8)), int(d.magnitude(1, 512)))
		if d.one(2) { // of those that there are, or some more or less
			model += fmt.Sprintf(", lock-ids: %d", max(0, d.first+d.locks-d.between(-4, 4)))
		}
	}
	if d.quota {
		model += fmt.Sprintf(", quota: %d, quota-us: %d, tenants: %d", d.between(1, 200), d.between(50, 3000),
			d.tenants)
	}
	// The last hosts are those on the right of a pair, as the servers have to be.
	server, database := d.clients, d.clients+d.servers
	if d.pair && d.one(2) {
		server, database = d.clients+d.databases, d.clients
	}
	d.of = fmt.Sprintf("servers: %d..%d, ", server, server+d.servers-1)
	if d.databases > 0 {
		of := fmt.Sprintf("databases: %d..%d", database, database+d.databases-1)
		d.of += of + ", "
		model += ", " + of
		if d.one(2) {
			d.of += "queries: on, "
			model += ", one-round-trip: " + d.networkDraw.of("on", "off")
		}
	}
	return model, fmt.Sprintf("lease-us: %d, poll-us: %d", d.lease, int(d.magnitude(3, 1000)))
}

// hosts draws what hosts are like.
func (d *otherDraw) hosts(leases string) string {
	if !d.plain && d.one(3) { // servers end leases of their own
		leases = fmt.Sprintf("lease-us: %d, poll-us: %d", int(d.magnitude(30, 10_000)), int(d.magnitude(3, 1000)))
	}
	hosts := fmt.Sprintf("%s, host-delay-ns: %d, host-jitter-ns: %d, server-ns: %d, server-cores: %d, client-ns: %d",
		leases, d.number(d.IntN(9000), d.IntN(9000), int(d.magnitude(1, 200_000))), d.number(d.IntN(9000), d.IntN(9000),
			int(d.magnitude(1, 200_000))), int(d.magnitude(10, 3000)), d.between(1, 8), d.number(55, 55, 5, 1000))
	if d.one(4) {
		hosts += fmt.Sprintf(", server-drain-us: %d", int(d.magnitude(1, 60)))
	}
	if d.one(8) {
		hosts += fmt.Sprintf(", server-not-before-us: %d", d.between(1, 1500))
	}
	return hosts
}

// trunks of a pair.
var trunks = []string{"left, to: original", "original, to: right", "original, to: backup", "left, to: backup",
	"backup, to: right"}

// topology draws links of several rates and lengths.
func (d *otherDraw) topology() string {
	hosts := d.clients + d.servers + d.databases
	framing := d.networkDraw.of("24", "24", "0", "4")
	link := func(gbps ...string) string {
		return fmt.Sprintf("{gbps: %s, delay-ns: %d, framing-bytes: %s}", d.networkDraw.of(gbps...),
			int(d.magnitude(1, 5000)), framing)
	}
	text := fmt.Sprintf("topology: {kind: single-switch, hosts: %d, link: %s", hosts, link("10", "40", "100", "1"))
	if d.pair {
		right := d.servers
		if !strings.Contains(d.of, fmt.Sprintf("servers: %d..", d.clients+d.databases)) {
			right += d.databases
		}
		text = fmt.Sprintf("topology: {kind: standby, hosts: %d, right-hosts: %d, reroute-us: %d, link: %s, trunk: %s", hosts,
			right, d.reroute, link("10", "40", "100", "1"), link("10", "40", "100", "2.5"))
		var other []string
		for _, of := range trunks {
			if d.one(6) {
				other = append(other, fmt.Sprintf("{from: %s, gbps: %s, delay-ns: %d}", of, d.networkDraw.of("1", "2.5", "40",
					"400"), int(d.magnitude(1, 20_000))))
			}
		}
		if len(other) > 0 {
			text += ", trunks: [" + strings.Join(other, ", ") + "]"
		}
	}
	var links []string
	for host := range hosts {
		if d.one(3) {
			links = append(links, fmt.Sprintf("{host: %d, gbps: %s, delay-ns: %d}", host,
				d.networkDraw.of("0.3", "1", "10", "100", "400"), int(d.magnitude(1, 20_000))))
		}
	}
	if len(links) > 0 {
		text += ", links: [" + strings.Join(links, ", ") + "]"
	}
	return text + "}"
}

// locksOf draws which locks transactions take, with a comma at the end.
func (d *otherDraw) locksOf(each int) string {
	shared := d.shared
	if shared == "" {
		shared = d.networkDraw.of("0", "0.1", "0.5", "0.9", "0.98", "1")
	}
	sets := []string{"all", "zipf"}
	if d.locks >= 2*each {
		sets = append(sets, "halves")
	}
	if d.locks >= d.clients*each {
		sets = append(sets, "own")
	}
	return fmt.Sprintf("locks: %d, first: %d, locks-each: %d, shared: %s, sets: %s, skew: %.2f, ", d.locks, d.first, each,
		shared, d.networkDraw.of(sets...), 2*d.Float64())
}

// clientsOf draws some of the clients and what they do, with transactions of so many locks; 0: it varies.
func (d *otherDraw) clientsOf(each int) string {
	low := d.IntN(d.clients)
	high := d.between(low, d.clients-1)
	threads := int(d.magnitude(1, 12))
	think := d.networkDraw.of("0", "0", "5", "50", "500", strconv.Itoa(d.lease*3/2),
		strconv.Itoa(int(d.magnitude(1, 3000))))
	text := fmt.Sprintf("clients: %d..%d, %sthreads: %d, think-us: %s, timeout-us: %d, outstanding: %d, priority: %d, "+
		"start-us: %d, count: %d", low, high, d.of, threads, think, int(d.magnitude(30, 5000)), int(d.magnitude(1, 12)),
		d.IntN(d.priorities+1), int(d.magnitude(1, 2000)), max(1, int(d.magnitude(100, 4000))/threads/(high-low+1)))
	if d.one(5) {
		text += fmt.Sprintf(", merge: %d", d.number(d.between(2, 10), d.between(2, 10), 1000))
	}
	if d.one(3) {
		text += fmt.Sprintf(", kill-us: %d", int(d.magnitude(20, 6000)))
	}
	switch {
	case each == 1 && !d.plain && d.one(3):
		text += ", on-timeout: resend"
	case !d.one(4):
		text += ", on-timeout: restart"
	}
	if d.one(3) {
		text += fmt.Sprintf(", interval-us: %d", int(d.magnitude(1, 300)))
	}
	if d.quota {
		text += fmt.Sprintf(", tenant: %d, on-reject: %s", d.between(1, 8), d.networkDraw.of("retry", "restart"))
	}
	return text
}

// background draws packets that are not for the lock manager, among any hosts.
func (d *otherDraw) background() string {
	hosts := d.clients + d.servers + d.databases
	senders := d.between(1, hosts-1)
	to := d.IntN(hosts)
	from := (to + 1) % hosts
	return fmt.Sprintf("incast: {senders: %d, first-sender: %d, first-receiver: %d, packets: %d, packet-size: %d, "+
		"transport: raw, start-us: %d}\n", max(1, min(senders, hosts-from, d.between(1, hosts))), from, to,
		int(d.magnitude(1, 1000)), d.number(1500, 1500, 64, 9000), int(d.magnitude(1, 2000)))
}

// changes draws when the switch, or the original of a pair, stops and returns, and when the test ends: not before an
// instant.
func (d *otherDraw) changes(ends int) (text string) {
	at, of := int(d.magnitude(5, 3000)), ""
	if d.pair {
		of = "switch: 0, "
	}
	var changes []string
	for range d.outages {
		back := at + int(d.magnitude(5, 3000))
		if d.pair {
			back = at + d.reroute + int(d.magnitude(1, 4*float64(d.lease)))
		}
		changes = append(changes, fmt.Sprintf("{at-us: %d, %sstate: stopped}, {at-us: %d, %sstate: running}", at, of, back, of))
		at = back + int(d.magnitude(1, 3*float64(max(d.lease, 100))))
		if d.pair {
			at += d.reroute
		}
	}
	if d.pair {
		changes = append(changes, d.trunkChanges(float64(at+1000))...)
	}
	if len(changes) > 0 {
		text = "changes: [" + strings.Join(changes, ", ") + "]\n"
	}
	return text + fmt.Sprintf("duration-us: %d\n", max(ends, at+d.between(2100, 10_000)))
}

// trunkChanges draws what becomes of the trunks of a pair until an instant: they degrade, or get better, or one fails
// for a while: others than those to left and right that a pair needs.
func (d *otherDraw) trunkChanges(until float64) (changes []string) {
	steady := trunks
	if d.one(4) {
		i, at := d.between(2, 3), int(d.magnitude(5, until))
		changes = append(changes, fmt.Sprintf("{at-us: %d, trunk: {from: %s, failed: true}}, {at-us: %d, trunk: {from: %s, "+
			"failed: false}}", at, trunks[i], at+int(d.magnitude(5, 1500)), trunks[i]))
		steady = slices.Delete(slices.Clone(trunks), i, i+1)
	}
	used := make(map[int]bool)
	for range max(0, d.between(-2, 3)) {
		at := int(d.magnitude(5, until))
		for used[at] {
			at++
		}
		used[at] = true
		changes = append(changes, fmt.Sprintf("{at-us: %d, trunk: {from: %s, gbps: %s, delay-ns: %d}}", at,
			d.networkDraw.of(steady...), d.networkDraw.of("0.5", "2.5", "40", "400"), int(d.magnitude(1, 20_000))))
	}
	return changes
}
