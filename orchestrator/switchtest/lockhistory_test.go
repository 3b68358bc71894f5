package switchtest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/netlock"
	"candela.dev/candela/orchestrator/switchtest"
	packet "candela.dev/candela/packet/netlock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// lockRequest names a request of a client.
type lockRequest struct {
	lock, tid uint32
	host      fabric.HostID
	thread    uint8
}

// lockUse is what the taps of a switch show of a request.
type lockUse struct {
	mode          packet.Mode
	first         clock.Time // ACQUIRE
	asks, answers int
	released      bool // once
	since         int  // place of its hold in holds plus 1; 0: it holds nothing
}

// lockHold is a grant of a request until its release. A lease ends it after earliest at the earliest, and after latest
// if it began as the grant left. Doubtful: an answer to a copy that may have been on its way when the lock was
// released.
type lockHold struct {
	request                  lockRequest
	mode                     packet.Mode
	asked, granted, released clock.Time
	earliest, latest         clock.Time
	doubtful                 bool
}

// lockTaps makes histories of locks from what enters and leaves a switch.
type lockTaps struct {
	lease   clock.Duration
	uses    map[lockRequest]*lockUse
	holds   []lockHold
	unasked int // answers without a request
}

func (h *lockTaps) packet(t *trace.SwitchTap, p *packet.Header) {
	answers := t.Flags&trace.Returned != 0
	client := t.Src
	if answers {
		client = t.Dst
	}
	k := lockRequest{p.Lock, p.Transaction, fabric.HostID(client), p.Client}
	u := h.uses[k]
	switch {
	case t.Internal:
	case t.Stage == trace.Entered && p.Op == packet.Acquire && !answers:
		if u == nil {
			u = &lockUse{mode: p.Mode, first: t.Time}
			h.uses[k] = u
		}
		u.asks++
	case t.Stage == trace.Entered && p.Op == packet.Release:
		if u != nil && u.since > 0 {
			h.holds[u.since-1].released = t.Time
			u.since, u.released = 0, true
		}
	case t.Stage != trace.Left || !answers:
	case p.Op == packet.Reject && u != nil:
		u.answers++
	case p.Op == packet.Acquire, p.Op == packet.PushBack, p.Op == packet.GrantFromServer:
		h.granted(t.Time, k, u)
	}
}

func (h *lockTaps) granted(now clock.Time, k lockRequest, u *lockUse) {
	if u == nil || u.answers >= u.asks {
		h.unasked++
		return
	}
	u.answers++
	if u.since > 0 && (h.lease == 0 || now <= h.holds[u.since-1].latest) {
		return // it holds already
	}
	hold := lockHold{request: k, mode: u.mode, asked: u.first, granted: now, released: clock.Never, earliest: clock.Never,
		latest: clock.Never, doubtful: u.answers > 1}
	if h.lease > 0 {
		hold.earliest, hold.latest = u.first.Add(h.lease), now.Add(h.lease)
	}
	h.holds = append(h.holds, hold)
	u.since = len(h.holds)
}

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

// watchLocks runs a test and returns the history that the taps show beside what the judge has found.
func watchLocks(t *testing.T, text string) (h *lockTaps, rules map[string]string) {
	t.Helper()
	test := parse(t, text)[0]
	plan, err := switchtest.New(test)
	if err != nil {
		t.Fatal(err)
	}
	h = &lockTaps{lease: test.Switch.Values.Duration("lease-us"), uses: make(map[lockRequest]*lockUse)}
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
	return h, violatedRules(o)
}

// brokenLocks are seeded bugs that let two have a lock, or answer twice, and networks in which they show.
var brokenLocks = []struct{ bug, model, hosts string }{
	{"grants-shared-beside-exclusive", "locks: 6, slots-each: 8", ", loss: 0.01"},
	{"ignores-tid", "locks: 6, slots-each: 40", ", duplicates: 0.02"},
	{"grants-twice", "locks: 6, slots-each: 8", ", loss: 0.01"},
	{"expires-early", "locks: 6, slots-each: 8", ""},
	{"forgets-owner", "slots: 30, allocation: knapsack, allocation-us: 300", ", loss: 0.002"},
	{"grants-while-taking", "slots: 30, allocation: knapsack, allocation-us: 300", ""},
	{"leaves-holders", "slots: 30, allocation: knapsack, allocation-us: 300", ", loss: 0.002"},
	{"keeps-serving", "slots: 30, allocation: knapsack, allocation-us: 300", ""},
	{"no-dedup", "locks: 6, slots-each: 40", ", duplicates: 0.02"},
}

const brokenNetwork = `
topology: {kind: single-switch, hosts: 9, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netlock, lease-us: 600, poll-us: 100, %s, bugs: [%s]}
hosts: {transport: netlock, host-delay-ns: 1000, host-jitter-ns: 1500, lease-us: 600, poll-us: 100%s}
workload:
  - locks: {clients: 0..3, servers: 8, threads: 4, locks: 8, shared: 0.6, think-us: 3, timeout-us: 300,
      on-timeout: resend}
  - locks: {clients: 4..6, servers: 8, threads: 4, locks: 8, shared: 0.4, think-us: 3, timeout-us: 300}
  - locks: {clients: 7, servers: 8, threads: 4, locks: 8, kill-us: 500, think-us: 200, timeout-us: 1000}
duration-us: 2000
seed: %d
`

// What the judge finds of mutual exclusion (N1) is what a checker that knows neither locks nor switches finds in the
// taps of the fabric: with leases, losses, dead clients, moves and outages, and with seeded bugs. It finds all answers
// without a request, too (N2).
// CANDELA_TEST_WIDE says how many networks to draw.
func TestHistoriesOfTheFabricAreLinearizableIfTheJudgeSaysSo(t *testing.T) {
	runtimetest.SkipRace(t)
	first, count := wideNetworks(t, 24)
	legal, illegal, twice, open := 0, 0, 0, 0
	for seed := first; seed < first+count; seed++ {
		bug, text := "", newNetworkDraw(uint64(seed), 2204).lockNetwork()
		if c := brokenLocks[seed/2%len(brokenLocks)]; seed%2 == 1 {
			bug, text = c.bug, fmt.Sprintf(brokenNetwork, c.model, c.bug, c.hosts, seed)
		} else if strings.Contains(text, "databases") {
			continue
		}
		h, rules := watchLocks(t, text)
		certain, most := h.legal(true), h.legal(false)
		judged := rules["lock.mutual-exclusion"] != ""
		switch {
		case certain == porcupine.Illegal && !judged, most == porcupine.Ok && judged:
			t.Errorf("seed %d, bug %q: the judge says %v, the checker %v to %v\n%s", seed, bug, rules, certain, most, text)
		case certain != most:
			open++
		case judged:
			illegal++
		default:
			legal++
		}
		// That a request was absorbed, or was lost, and can have no answer more, only the judge knows.
		if once := rules["lock.exactly-once"] != ""; once && bug == "" || !once && h.unasked > 0 {
			t.Errorf("seed %d, bug %q: %d answers without a request; the judge says %v\n%s", seed, bug, h.unasked, rules, text)
		} else if h.unasked > 0 {
			twice++
		}
	}
	t.Logf("%d histories are linearizable, %d are not, %d may be; %d have answers without a request", legal, illegal, open,
		twice)
	if legal < count/8 || illegal < count/20 || twice == 0 || open > count/8 {
		t.Errorf("%d histories are linearizable, %d are not, %d may be; %d have answers without a request", legal, illegal,
			open, twice)
	}
}
