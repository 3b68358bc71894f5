package switchtest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/netlock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
	packet "candela.dev/candela/packet/netlock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// lockMoment is what a checker of linearizability sees of a lock.
type lockMoment struct {
	mode     packet.Mode
	releases bool
}

// lockState is who has a lock.
type lockState struct {
	shared    int
	exclusive bool
}

// lockModel is a lock as if one client at a time did something to it.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(lockMoment)
		switch {
		case in.releases && in.mode == packet.Exclusive:
			s.exclusive = false
		case in.releases:
			s.shared--
		case s.exclusive || in.mode == packet.Exclusive && s.shared > 0:
			return false, s
		case in.mode == packet.Exclusive:
			s.exclusive = true
		default:
			s.shared++
		}
		return true, s
	},
	Equal: func(a, b any) bool { return a == b },
}

// An ACQUIRE takes effect from request to grant. Whoever has the lock has it as the grant leaves, too, so that the last
// nanosecond is enough: longer intervals allow no other histories, and cost the checker exponentially more.

// legal reports whether there is an order in which clients had each lock that a model of a lock allows. certain: leases
// end as early as they may, and doubtful holds are none; otherwise as late as they may.
func (h *lockTaps) legal(certain bool) porcupine.CheckResult {
	of := make(map[uint32][]porcupine.Operation)
	for i := range h.holds {
		u := &h.holds[i]
		ends := u.latest
		if certain {
			ends = u.earliest
		}
		ends = min(ends, u.released)
		if certain && (u.doubtful || ends <= u.granted) {
			continue
		}
		add := func(releases bool, from, to clock.Time) {
			of[u.request.lock] = append(of[u.request.lock], porcupine.Operation{ClientId: i,
				Input: lockMoment{u.mode, releases}, Call: int64(from), Return: int64(to)})
		}
		add(false, max(u.asked, u.granted-clock.Time(clock.Nanosecond)), u.granted)
		if ends != clock.Never {
			add(true, ends, ends)
		}
	}
	result := porcupine.Ok
	for _, id := range slices.Sorted(maps.Keys(of)) {
		switch porcupine.CheckOperationsTimeout(lockModel, of[id], 5*time.Second) {
		case porcupine.Illegal:
			return porcupine.Illegal
		case porcupine.Unknown:
			result = porcupine.Unknown
		}
	}
	return result
}

// lockHistory is what the taps of a test show, beside what the judge has found.
type lockHistory struct {
	*lockTaps
	rules map[string]string
	lost  bool // a request was never granted, says the judge
	lossy bool // packets are lost on the way
	quiet bool // at the end, for so long that nothing was to come any more
}

// watchLocks runs a test.
func watchLocks(t *testing.T, text string) lockHistory {
	t.Helper()
	test := parse(t, text)[0]
	plan, err := switchtest.New(test)
	if err != nil {
		t.Fatal(err)
	}
	v := test.Switch.Values
	h := &lockTaps{lease: v.Duration("lease-us"), uses: make(map[lockRequest]*lockUse)}
	plan.Watch = func(net *fabric.Network) {
		var tap trace.SwitchTap
		net.Switch(0).Watch(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
			if p.Protocol == fabric.NetLock && net.AtSwitch(at, now, p, &tap) {
				header := netlock.FromHeader(&p.Header)
				h.packet(&tap, &header)
			}
		})
	}
	o, err := switchtest.Run(t.Context(), plan, unwritten())
	if err != nil {
		t.Fatal(err)
	}
	of := lockHistory{lockTaps: h, rules: violatedRules(o), lost: losesRequests(o), lossy: test.Hosts.Values.Number("loss") > 0}
	// What was lost is asked for again, and leases end; whether a lock moves, or the switch is out of service, is not
	// seen.
	wait := h.lease + v.Duration("poll-us") + 4*v.Duration("push-timeout-us") + clock.Millisecond/2
	of.quiet = h.last.Add(wait) < clock.Time(0).Add(test.Duration) && len(test.Changes) == 0 &&
		!(of.lossy && v.Word("allocation") != "fixed")
	return of
}

// losesRequests reports whether the judge says that a request was never granted. Grants that are late, and what is lost
// of releases and of counts, are of the same rule.
func losesRequests(o *orchestrator.Outcome) bool {
	return slices.ContainsFunc(o.Analysis.Findings, func(f analyzers.Finding) bool {
		return f.Severity == analyzers.Violation && f.Rule == "lock.lost" &&
			f.Cause != "release-kept" && f.Cause != "server-late" && f.Cause != "server-count"
	})
}

// brokenLocks are seeded bugs that let two have a lock, answer twice, or lose requests, and networks in which they
// show.
var brokenLocks = []struct{ bug, model, hosts string }{
	{"grants-shared-beside-exclusive", "locks: 6, slots-each: 8", ", loss: 0.01"},
	{"loses-tail", "locks: 6, slots-each: 3", ""},
	{"ignores-tid", "locks: 6, slots-each: 40", ", duplicates: 0.02"},
	{"grants-twice", "locks: 6, slots-each: 8", ", loss: 0.01"},
	{"chain-skips-one", "locks: 6, slots-each: 40", ""},
	{"expires-early", "locks: 6, slots-each: 8", ""},
	{"forgets-owner", "slots: 30, allocation: knapsack, allocation-us: 300", ", loss: 0.002"},
	{"forgets-over", "locks: 6, slots-each: 8", ""},
	{"grants-while-taking", "slots: 30, allocation: knapsack, allocation-us: 300", ""},
	{"leaves-holders", "slots: 30, allocation: knapsack, allocation-us: 300", ", loss: 0.002"},
	{"never-repeats", "locks: 4, slots-each: 2", ", loss: 0.01"},
	{"keeps-serving", "slots: 30, allocation: knapsack, allocation-us: 300", ""},
	{"no-dedup", "locks: 6, slots-each: 40", ", duplicates: 0.02"},
}

const brokenNetwork = `
topology: {kind: single-switch, hosts: 9, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netlock, lease-us: 600, poll-us: 100, %s, bugs: [%s]}
hosts: {transport: netlock, host-delay-ns: 1000, host-jitter-ns: 1500, lease-us: 600, poll-us: 100%s}
workload:
  - locks: {clients: 0..3, servers: 8, threads: 4, locks: 8, shared: 0.6, think-us: 3, timeout-us: 300%s}
  - locks: {clients: 4..6, servers: 8, threads: 4, locks: 8, shared: 0.4, think-us: 3, timeout-us: 300%s}
  - locks: {clients: 7, servers: 8, threads: 4, locks: 8, kill-us: 500, think-us: 200, timeout-us: 1000}
duration-us: %d
seed: %d
`

// brokenLock returns a network of a switch with a bug, or without: clients end, or ask until the test ends.
func brokenLock(seed int, model, hosts, bug string, ends bool) string {
	first, second, lasts := ", on-timeout: resend", "", 2000
	if ends {
		first, second, lasts = ", count: 10", ", count: 10", 6000
	}
	return fmt.Sprintf(brokenNetwork, model, bug, hosts, first, second, lasts, seed)
}

// What the judge finds of mutual exclusion (N1), of answers without a request (N2) and of requests that are lost (N3)
// is what a checker that knows neither locks nor switches, and counting, find in the taps of the fabric: with leases,
// losses, dead clients, moves and outages, and with seeded bugs.
// CANDELA_TEST_WIDE says how many networks to draw.
func TestHistoriesOfTheFabricAreWhatTheJudgeSays(t *testing.T) {
	runtimetest.SkipRace(t)
	first, count := wideNetworks(t, 40)
	var sum struct{ legal, illegal, open, twice, mayBeTwice, quiet, lost int }
	for seed := first; seed < first+count; seed++ {
		bug, text := "", newNetworkDraw(uint64(seed), 2204).lockNetwork()
		c := brokenLocks[seed/4%len(brokenLocks)]
		switch seed % 4 {
		case 1, 3:
			bug, text = c.bug, brokenLock(seed, c.model, c.hosts, c.bug, seed%4 == 3)
		case 2:
			text = brokenLock(seed, c.model, c.hosts, "", true)
		default:
			if strings.Contains(text, "databases") {
				continue
			}
		}
		h := watchLocks(t, text)
		fail := func(rule string, args ...any) {
			t.Errorf("seed %d, bug %q, %s: the judge says %v, the taps %v\n%s", seed, bug, rule, h.rules, args, text)
		}
		certain, most := h.legal(true), h.legal(false)
		judged := h.rules["lock.mutual-exclusion"] != ""
		switch {
		case certain == porcupine.Illegal && !judged, most == porcupine.Ok && judged:
			fail("N1", certain, most)
		case certain != most:
			sum.open++
		case judged:
			sum.illegal++
		default:
			sum.legal++
		}
		// That a copy was absorbed, or was lost, and can have no answer more, only the judge knows.
		switch judged := h.rules["lock.exactly-once"] != ""; {
		case judged && h.unasked+h.suspects == 0, !judged && h.unasked > 0:
			fail("N2", h.unasked, h.suspects)
		case judged:
			sum.twice++
		case h.suspects > 0:
			sum.mayBeTwice++
		}
		switch lost, most := h.waiting(h.lossy); {
		case h.lost && most == 0, !h.lost && h.quiet && lost > 0:
			fail("N3", lost, most, h.quiet)
		case h.quiet && lost > 0:
			sum.lost++
		case h.quiet:
			sum.quiet++
		}
	}
	t.Logf("%+v of %d", sum, count)
	if sum.legal < count/8 || sum.illegal < count/20 || sum.twice < count/40 || sum.open > count/8 ||
		sum.quiet < count/5 || sum.lost < count/40 {
		t.Errorf("%+v of %d histories", sum, count)
	}
}
