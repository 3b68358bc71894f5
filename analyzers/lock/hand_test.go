package lock

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

// Missing frames are never held against a switch: whatever part of a workload the capture misses, and whether it says
// so or is known to be incomplete.
func TestWhoMissesPacketsBlamesNobody(t *testing.T) {
	judged := 0
	for seed := range uint64(wide(120)) {
		s := workload(seed)
		s.hide = nil
		r := rand.New(rand.NewPCG(seed, 4))
		kind, missing := seed%3, 0
		if kind == 2 {
			s.incompl = true
		}
		s.gap = func(j *Judge, n int, p *Packet) bool {
			switch {
			case kind == 2: // single packets, of which nobody tells
				return r.IntN(20) == 0
			case missing > 0:
				missing--
				j.Gap(p.Time, p.Switch)
				return true
			case r.IntN(200) == 0:
				missing = 1 + r.IntN(20)
			}
			return false
		}
		res, _ := s.run()
		if v := violated(&res); len(v) > 0 {
			t.Errorf("seed %d: %v\n%v", seed, v, describe(&res))
		}
		if kind < 2 {
			judged += int(res.Coverage["delays"])
		} else if res.Coverage["unsure"] > 0 && !strings.Contains(strings.Join(describe(&res), ""), "withheld") {
			t.Errorf("seed %d does not say that findings are withheld: %v", seed, describe(&res))
		}
	}
	if judged < 1000 && !runtimetest.Race {
		t.Errorf("only %d grants were judged between gaps", judged)
	}
}

// What happens after a gap is judged again as soon as it is certain: faults are still found.
func TestFaultsAreFoundAfterAGap(t *testing.T) {
	for _, m := range []mutant{
		// Of whoever holds a lock after a gap it is not known when the lease began.
		{"shares-exclusive", lock.RuleExclusion, func(s *setup) { one(s); s.shared, s.facts.Lease = 0.8, 0 }},
		{"grants-twice", lock.RuleOnce, exclusive},
		{"grants-next", lock.RuleOrder, func(s *setup) { exclusive(s); s.clients = 3 }},
		{"grants-late", lock.RuleDelay, func(s *setup) { exclusive(s); s.locks = 6; s.clients = 3 }},
	} {
		found := map[string]int{}
		for seed := range uint64(8) {
			s := base(seed)
			s.every, s.fault, s.lasts = 5, m.fault, ms
			m.change(s)
			s.gap = func(j *Judge, n int, p *Packet) bool {
				if n == 100 {
					j.Gap(p.Time, 0)
				}
				return n < 100
			}
			r, _ := s.run()
			for rule, n := range violated(&r) {
				found[rule] += n
			}
		}
		if found[m.rule] == 0 {
			t.Errorf("%s: %v", m.fault, found)
		}
	}
}

// script is a judge that is shown packets by hand.
type script struct {
	*Judge
	t   *testing.T
	now clock.Time
	id  uint64
}

func newScript(t *testing.T, change func(*lock.Network)) *script {
	f := lock.Switch{Pipeline: 500 * ns, Recirculation: 200 * ns, Dedup: true, TIDCheck: true, Placed: true, Slots: 10,
		Locks: map[uint32]int{1: 4}, Lease: ms, Poll: 100 * us}
	for range 4 {
		f.Ports = append(f.Ports, lock.Port{Rate: 40 * clock.Gbps, Framing: 24})
	}
	n := lock.Network{Switches: []lock.Switch{f}, Servers: []netip.Addr{serverAddress}, Complete: true}
	if change != nil {
		change(&n)
	}
	j, err := New(n)
	if err != nil {
		t.Fatal(err)
	}
	return &script{Judge: j, t: t}
}

// at shows a packet some time after the one before.
func (s *script) at(after clock.Duration, sw int, stage trace.SwitchStage, client int, h netlock.Header, answer bool,
	change ...func(*Packet)) {
	s.now = s.now.Add(after)
	s.id++
	p := Packet{Time: s.now, ID: s.id, Switch: sw, Stage: stage, Port: client, Size: 62, Lock: true, Src: address(client),
		Dst: serverAddress, DstPort: netlock.Port, Header: h}
	if answer {
		p.Src, p.Dst, p.DstPort = serverAddress, address(client), netlock.ReplyPort
	}
	for _, c := range change {
		c(&p)
	}
	s.Packet(&p)
}

func (s *script) want(rules ...string) analyzers.Result {
	s.t.Helper()
	r := s.Finish(s.now.Add(100 * us))
	v := violated(&r)
	for _, rule := range rules {
		if v[rule] == 0 {
			s.t.Errorf("%s is not found: %v", rule, describe(&r))
		}
		delete(v, rule)
	}
	if len(v) > 0 {
		s.t.Errorf("violated are %v: %v", v, describe(&r))
	}
	return r
}

func header(op netlock.Op, id, tid uint32) netlock.Header {
	return netlock.Header{Op: op, Mode: netlock.Exclusive, Lock: id, Transaction: tid}
}

func TestOneRTT(t *testing.T) {
	database := netip.MustParseAddr("10.8.8.8")
	s := newScript(t, func(n *lock.Network) {
		n.Switches[0].OneRTT, n.Databases = true, []netip.Addr{database}
	})
	toDatabase := func(p *Packet) { p.Dst, p.Port = database, 3 }
	s.at(0, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
	s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), false, toDatabase)
	s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), true, func(p *Packet) { p.Src = database })
	s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true, func(p *Packet) { p.Src = database })
	s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 7), false)
	s.at(500*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 7), false, toDatabase)
	s.want(lock.RuleExclusion)
}

// An answer of a database that is lost in a switch is not one of the switch.
func TestAnAnswerOfADatabaseThatIsLostIsNotTheSwitchs(t *testing.T) {
	database := netip.MustParseAddr("10.8.8.8")
	for _, from := range []netip.Addr{database, serverAddress} {
		s := newScript(t, func(n *lock.Network) {
			n.Switches[0].OneRTT, n.Databases = true, []netip.Addr{database}
		})
		source := func(p *Packet) { p.Src = from }
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), false, func(p *Packet) { p.Dst, p.Port = database, 3 })
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false) // as if another switch had granted it
		if from == database {
			s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), true, source)
		}
		s.at(500*ns, 0, trace.Dropped, 0, header(netlock.Acquire, 1, 1), true, source)
		if from == database {
			s.want()
		} else {
			s.want(lock.RuleOnce)
		}
	}
}

// A request that crosses one switch on its way to another is one request, and so is its grant.
func TestTransit(t *testing.T) {
	s := newScript(t, func(n *lock.Network) {
		n.Switches = append(n.Switches, n.Switches[0])
		n.Switches[1].Ports = append([]lock.Port{}, n.Switches[0].Ports...)
		n.Switches[0].Placed = false
		n.Switches[0].Ports[3].Trunk, n.Switches[1].Ports[3].Trunk = true, true
	})
	trunk := func(p *Packet) { p.Port = 3 }
	for tid := range uint32(3) {
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, tid), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, tid), false, trunk)
		s.at(us, 1, trace.Entered, 0, header(netlock.Acquire, 1, tid), false, trunk)
		s.at(500*ns, 1, trace.Left, 0, header(netlock.Acquire, 1, tid), true, trunk)
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, tid), true, trunk)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, tid), true)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, tid), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Release, 1, tid), false, trunk)
		s.at(us, 1, trace.Entered, 0, header(netlock.Release, 1, tid), false, trunk)
	}
	if r := s.want(); r.Coverage["grants-switch"] != 3 || r.Coverage["requests"] != 3 {
		t.Error(r.Coverage)
	}
}

// A lock that moves to the server and back is granted by both, later than it would be.
func TestMoves(t *testing.T) {
	for _, moves := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Moves = moves })
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		parked := header(netlock.Acquire, 1, 2)
		parked.Mark = netlock.BufferOnly
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 1, parked, false, func(p *Packet) { p.Port = 3 })
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		s.at(5*us, 0, trace.Left, 1, header(netlock.GrantFromServer, 1, 2), true)
		s.at(us, 0, trace.Entered, 2, header(netlock.Acquire, 1, 3), false) // waits for the server
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
		s.at(us, 0, trace.Left, 1, header(netlock.Release, 1, 2), false, toServer)
		s.at(8*us, 0, trace.Left, 2, header(netlock.Acquire, 1, 3), true)
		s.at(us, 0, trace.Entered, 2, header(netlock.Release, 1, 3), false)
		if moves {
			s.want()
		} else {
			s.want(lock.RuleOccupancy, lock.RulePlacement, lock.RuleDelay)
		}
	}
}

// A change of placement that is told is judged.
func TestPlacementThatIsTold(t *testing.T) {
	s := newScript(t, nil)
	use := func(tid uint32) {
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 2, tid), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 2, tid), true)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 2, tid), false)
	}
	s.Placed(0, 0, 2, 4)
	use(1)
	if n := len(s.report.Findings()); n > 0 {
		t.Errorf("%d findings of an installed lock", n)
	}
	s.Placed(s.now, 0, 2, 0)
	use(2)
	s.want(lock.RulePlacement)
}

func TestANewServerWaitsForALease(t *testing.T) {
	for _, early := range []bool{true, false} {
		s := newScript(t, nil)
		other := func(p *Packet) { p.Src = netip.MustParseAddr("10.9.9.8") }
		s.at(0, 0, trace.Entered, 0, header(netlock.Acquire, 5, 1), false)
		owned := header(netlock.Acquire, 5, 1)
		owned.Mark = netlock.Owned
		s.at(500*ns, 0, trace.Left, 0, owned, false, func(p *Packet) { p.Port = 3 })
		s.ServerStopped(s.now.Add(us), serverAddress)
		wait := 500 * us
		if !early {
			wait = 2 * ms
		}
		s.at(wait, 0, trace.Left, 0, header(netlock.GrantFromServer, 5, 1), true, other)
		if early {
			s.want(lock.RuleFailover)
		} else {
			s.want()
		}
	}
}

func TestAllocations(t *testing.T) {
	figure := []lock.Demand{{Lock: 1, Rate: 200, Contention: 2}, {Lock: 2, Rate: 10, Contention: 1}} // figure 2-7
	if got := Objective(figure, map[uint32]int{1: 1, 2: 1}); got != 110 {
		t.Errorf("one slot each: %v, want 110", got)
	}
	if got := Objective(figure, Optimum(figure, 2)); got != 200 {
		t.Errorf("both to lock 1: %v, want 200", got)
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 6))
		demands := make([]lock.Demand, 1+r.IntN(4))
		for i := range demands {
			demands[i] = lock.Demand{Lock: uint32(i), Rate: float64(r.IntN(50)), Contention: r.IntN(4)}
		}
		slots := r.IntN(8)
		best, of := 0.0, map[uint32]int{}
		var every func(i, left int)
		every = func(i, left int) {
			if i == len(demands) {
				best = max(best, Objective(demands, of))
				return
			}
			for n := range min(left, demands[i].Contention) + 1 {
				of[demands[i].Lock] = n
				every(i+1, left-n)
			}
		}
		every(0, slots)
		sum := 0
		for _, n := range Optimum(demands, slots) {
			sum += n
		}
		if got := Objective(demands, Optimum(demands, slots)); got < best-1e-9 || got > best+1e-9 || sum > slots {
			t.Fatalf("seed %d: %v with %d slots: %v of %d, want %v", seed, demands, slots, got, sum, best)
		}
	}
	for _, c := range []struct {
		locks map[uint32]int
		want  string
	}{
		{map[uint32]int{1: 2}, ""}, {map[uint32]int{1: 1, 2: 1}, "110"}, {map[uint32]int{1: 2, 2: 1}, "gives 3"},
		{map[uint32]int{2: 2}, "contention"}, {map[uint32]int{}, "best one"},
	} {
		j, err := New(lock.Network{Switches: []lock.Switch{{Placed: true, Slots: 2, Locks: c.locks}}, Complete: true,
			Demands: [][]lock.Demand{figure}, Optimal: true})
		if err != nil {
			t.Fatal(err)
		}
		r := j.Finish(0)
		all := strings.Join(describe(&r), " ")
		if (c.want == "") != (len(violated(&r)) == 0) || !strings.Contains(all, c.want) {
			t.Errorf("%v: %s", c.locks, all)
		}
	}
}

func TestMeasures(t *testing.T) {
	s := base(1)
	s.tenants = 2
	r, _ := s.run()
	values := map[string]analyzers.Metric{}
	for _, m := range r.Metrics {
		values[m.Name] = m
	}
	sw, server := values["lock.latency-switch"], values["lock.latency-server"]
	if sw.Count != r.Coverage["grants-switch"] || server.Count != r.Coverage["grants-server"] || sw.Min != 600 ||
		server.Min <= sw.Min || values["lock.wait"].Min != 0 || values["lock.wait"].Count != sw.Count {
		t.Errorf("%+v %+v %+v", sw, server, values["lock.wait"])
	}
	if jain := values["lock.jain"]; jain.Count != 1 || jain.Max > million || jain.Max < million/2 {
		t.Errorf("Jain's index is %+v", jain)
	}
	if rows := r.Tables[0].Rows; len(rows) != 4 || rows[0][0] != "switch" || rows[2][0] != "tenant 1" {
		t.Errorf("%v", rows)
	}
}

func TestFactsThatMakeNoSense(t *testing.T) {
	for want, n := range map[string]lock.Network{
		"negative duration": {Switches: []lock.Switch{{Lease: -1}}},
		"priorities":        {Switches: []lock.Switch{{Priorities: 300}}},
		"demands":           {Demands: make([][]lock.Demand, 1)},
		"at most 256":       {Switches: make([]lock.Switch, 257)},
	} {
		if _, err := New(n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A request that waits, and of which a copy was rejected, still comes before those that came after it.
func TestARejectedCopyKeepsThePlaceOfTheFirst(t *testing.T) {
	for _, again := range []bool{true, false} { // what came after it is asked for again, or is not
		s := newScript(t, func(n *lock.Network) {
			f := &n.Switches[0]
			f.Period, f.Reset, f.Quota = ms, clock.Time(ms), map[uint16]int64{1: 3}
		})
		of := func(op netlock.Op, mode netlock.Mode, tid uint32) netlock.Header {
			return netlock.Header{Op: op, Mode: mode, Lock: 1, Transaction: tid, Tenant: 1}
		}
		s.at(us, 0, trace.Entered, 0, of(netlock.Acquire, netlock.Shared, 1), false)
		s.at(500*ns, 0, trace.Left, 0, of(netlock.Acquire, netlock.Shared, 1), true)
		s.at(us, 0, trace.Entered, 1, of(netlock.Acquire, netlock.Exclusive, 2), false)
		s.at(us, 0, trace.Entered, 2, of(netlock.Acquire, netlock.Shared, 3), false)
		for _, c := range []struct {
			client int
			mode   netlock.Mode
		}{{1, netlock.Exclusive}, {2, netlock.Shared}} {
			if c.client == 1 || again {
				tid := uint32(c.client + 1)
				s.at(20*us, 0, trace.Entered, c.client, of(netlock.Acquire, c.mode, tid), false)
				s.at(500*ns, 0, trace.Left, c.client, of(netlock.Reject, c.mode, tid), true)
			}
		}
		s.want()
	}
}
