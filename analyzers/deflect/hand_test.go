package deflect

import (
	"maps"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/athost"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// leafSpine is a network of two leaves, 0 and 1, each with two hosts at its first ports, and two spines, 2 and 3.
type leafSpine struct {
	view
	bounded bool
	outages []analyzers.Outage
}

func (v *leafSpine) Switches() int { return 4 }
func (v *leafSpine) SwitchName(sw int) string {
	return [...]string{"leaf-0", "leaf-1", "spine-0", "spine-1"}[sw]
}
func (v *leafSpine) Ports(sw int) int                   { return 4 - sw/2*2 }
func (v *leafSpine) Number(sw int) (int, bool)          { return sw, true }
func (v *leafSpine) Bounded() bool                      { return v.bounded }
func (v *leafSpine) Link(int, int) (clock.BitRate, int) { return clock.Gbps, 0 }
func (v *leafSpine) HostAt(sw, port int) (uint32, bool) {
	return uint32(2*sw + port), sw < 2 && port < 2
}
func (v *leafSpine) Reason(_ int, code uint8) analyzers.DropReason {
	r := v.view.Reason(0, code%5)
	r.Outage = code == 5
	return r
}
func (v *leafSpine) Network() *analyzers.Network {
	return &analyzers.Network{Peers: [][]int{{-1, -1, 2, 3}, {-1, -1, 2, 3}, {0, 1}, {0, 1}},
		Homes:   []analyzers.Home{{Switch: 0}, {Switch: 0, Port: 1}, {Switch: 1}, {Switch: 1, Port: 1}},
		Routing: analyzers.SpreadFlows, Outages: v.outages}
}

// script is what happens to packets from host 0 to host 2.
type script struct {
	t     *testing.T
	judge analyzers.SwitchJudge
	now   clock.Time
	rank  uint64
	ttl   uint8
}

func newScript(t *testing.T, v *leafSpine) *script {
	v.set.Queue = 10_000
	j, err := NewJudge(v)
	if err != nil {
		t.Fatal(err)
	}
	return &script{t: t, judge: j, ttl: 249}
}

// at shows a packet of 1000 bytes, 8 us after the one before.
func (s *script) at(stage trace.SwitchStage, sw, port int, id uint64) {
	s.now = s.now.Add(8 * us)
	if stage == trace.Entered && sw > 1 || stage == trace.Entered && port > 1 {
		s.ttl--
	}
	s.judge.Observe(s.tap(stage, sw, port, id))
}

func (s *script) tap(stage trace.SwitchStage, sw, port int, id uint64) *trace.SwitchTap {
	t := &trace.SwitchTap{Time: s.now, Stage: stage, Switch: sw, Port: port, ID: id, Number: id, Dst: 2, Flow: 5,
		TTL: s.ttl, Size: 1000, Protocol: trace.ProtocolRaw, Rank: s.rank}
	if s.rank != 0 {
		t.Flags |= trace.Ranked
	}
	return t
}

// through shows a packet come in and leave.
func (s *script) through(sw, in, out int, id uint64) {
	s.at(trace.Entered, sw, in, id)
	s.at(trace.Left, sw, out, id)
}

// path shows the shortest path of a packet.
func (s *script) path(id uint64) {
	s.ttl = 249
	s.through(0, 0, 2, id)
	s.through(2, 0, 1, id)
	s.through(1, 2, 0, id)
}

func (s *script) drop(sw, port int, id uint64, reason uint8) {
	t := s.tap(trace.Dropped, sw, port, id)
	t.Reason = reason
	s.judge.Observe(t)
}

func (s *script) rules() []string {
	r, err := s.judge.Finish()
	if err != nil {
		s.t.Fatal(err)
	}
	causetest.Declared(s.t, Causes(), r.Findings)
	return slices.Sorted(maps.Keys(violations(&r)))
}

// Paths are followed over all switches; loops are legal.
func TestPathsAreFollowed(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *script)
		want []string
	}{
		{"the shortest path", func(s *script) { s.path(1) }, nil},
		{"a loop", func(s *script) {
			s.through(0, 0, 2, 1)
			s.through(2, 0, 0, 1)
			s.through(0, 2, 3, 1)
			s.through(3, 0, 1, 1)
			s.through(1, 3, 2, 1)
			s.through(2, 1, 1, 1)
			s.through(1, 2, 0, 1)
		}, []string{deflect.RuleNeedless}}, // of ECMP
		{"a TTL that stays", func(s *script) {
			s.through(0, 0, 2, 1)
			s.ttl++
			s.through(2, 0, 1, 1)
			s.through(1, 2, 0, 1)
		}, []string{deflect.RulePath}},
		{"a TTL that the first switch leaves", func(s *script) {
			s.ttl = 250
			s.through(0, 0, 2, 1)
			s.through(2, 0, 1, 1)
			s.through(1, 2, 0, 1)
		}, []string{deflect.RulePath}},
		{"a packet that comes by another link", func(s *script) {
			s.through(0, 0, 2, 1)
			s.through(3, 0, 1, 1)
			s.through(1, 3, 0, 1)
		}, []string{deflect.RulePath}},
		{"a packet that nobody sent", func(s *script) {
			s.ttl = 240
			s.through(2, 0, 1, 1)
			s.through(1, 2, 0, 1)
		}, []string{deflect.RulePath}},
		{"a packet that ends on a link", func(s *script) {
			s.through(0, 0, 2, 1)
		}, []string{deflect.RuleConservation}},
		{"a packet that stays", func(s *script) {
			s.at(trace.Entered, 0, 0, 1)
		}, []string{deflect.RuleConservation}},
		{"a packet that leaves twice", func(s *script) {
			s.path(1)
			s.at(trace.Left, 1, 0, 1)
		}, []string{deflect.RuleConservation}},
		{"a packet that leaves and is dropped", func(s *script) {
			s.through(0, 0, 2, 1)
			s.drop(0, 2, 1, reasonTail)
			s.through(2, 0, 1, 1)
			s.through(1, 2, 0, 1)
		}, []string{deflect.RuleConservation}},
		{"a packet that comes twice", func(s *script) {
			s.at(trace.Entered, 0, 0, 1)
			s.path(1)
		}, []string{deflect.RuleConservation}},
		{"the end of a TTL", func(s *script) {
			s.ttl = 1
			s.through(2, 0, 0, 1)
			s.at(trace.Entered, 0, 2, 1)
			s.drop(0, 0, 1, reasonTTL)
		}, []string{deflect.RuleNeedless, deflect.RulePath, deflect.RuleTTL}}, // nobody sent it; an ECMP does not deflect
		{"an early end of a TTL", func(s *script) {
			s.at(trace.Entered, 0, 0, 1)
			s.drop(0, 0, 1, reasonTTL)
		}, []string{deflect.RulePath, deflect.RuleTTL}},
		{"two frames at once", func(s *script) {
			s.at(trace.Entered, 1, 2, 1)
			s.at(trace.Entered, 1, 2, 2)
			s.at(trace.Left, 1, 0, 1)
			s.now = s.now.Add(-us)
			s.at(trace.Left, 1, 0, 2)
		}, []string{deflect.RuleFloor, deflect.RulePath}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &leafSpine{}
			s := newScript(t, v)
			c.do(s)
			if got := s.rules(); !slices.Equal(got, c.want) {
				t.Errorf("violated are %v, want %v", got, c.want)
			}
		})
	}
}

// A packet that is under way when the observation or a trunk ends is not a fault.
func TestWhatIsOnItsWayIsNotLost(t *testing.T) {
	for _, v := range []*leafSpine{{bounded: true},
		{outages: []analyzers.Outage{{Trunk: [2]int{0, 2}, From: 0, To: analyzers.Forever}}}} {
		s := newScript(t, v)
		s.through(0, 0, 2, 1)
		if got := s.rules(); len(got) > 0 {
			t.Errorf("violated are %v", got)
		}
	}
}

// records are those of a packet that is queued at port, with the destination port egress.
func (s *script) queued(sw int, id uint64, port, egress int, deflections int64, more ...trace.Decision) {
	s.now = s.now.Add(8 * us)
	s.judge.Observe(s.tap(trace.Entered, sw, 0, id))
	r := trace.Decision{Time: s.now, Switch: sw, Port: port, Kind: deflect.Queued, Packet: id}
	r.Values = [8]int64{int64(egress), 0, deflections, int64(s.ttl)}
	for i := range more {
		more[i].Switch, more[i].Packet, more[i].Time = sw, id, s.now
		s.judge.Decide(&more[i])
	}
	s.judge.Decide(&r)
	s.judge.Observe(s.tap(trace.Left, sw, port, id))
}

// Destination ports are on shortest paths; those of a flow stay, and of two that are drawn the shorter is taken.
func TestForwarding(t *testing.T) {
	route := func(port, first, second int, x, y int64) trace.Decision {
		return trace.Decision{Port: port, Kind: deflect.Route, Values: [8]int64{int64(first), int64(second), x, y, 2}}
	}
	for _, c := range []struct {
		name string
		two  bool
		do   func(s *script)
		want []string
	}{
		{"a hash", false, func(s *script) {
			s.queued(0, 1, 2, 2, 0)
			s.queued(0, 2, 2, 2, 0)
		}, nil},
		{"a hash that changes", false, func(s *script) {
			s.queued(0, 1, 2, 2, 0)
			s.queued(0, 2, 3, 3, 0)
		}, []string{deflect.RuleForwarding}},
		{"a port on no path", false, func(s *script) { s.queued(0, 1, 1, 1, 0) },
			[]string{deflect.RuleForwarding}},
		{"two ports", true, func(s *script) { s.queued(0, 1, 2, 2, 0, route(2, 2, 3, 0, 0)) }, nil},
		{"no draw", true, func(s *script) { s.queued(0, 1, 2, 2, 0) }, []string{deflect.RuleForwarding}},
		{"one port twice", true, func(s *script) { s.queued(0, 1, 2, 2, 0, route(2, 2, 2, 0, 0)) },
			[]string{deflect.RuleForwarding}},
		{"the longer queue", true, func(s *script) {
			s.waits(1, 2)
			s.queued(0, 2, 2, 2, 0, route(2, 2, 3, 1000, 0))
		}, []string{deflect.RuleForwarding, deflect.RuleOrder, deflect.RuleRecord}}, // it overtakes, and finds an empty queue
		{"a wrong length", true, func(s *script) { s.queued(0, 1, 2, 2, 0, route(2, 2, 3, 0, 7)) },
			[]string{deflect.RuleRecord}},
		{"a deflection that is not counted", false, func(s *script) { s.queued(0, 1, 2, 2, 1) },
			[]string{deflect.RuleRecord}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &leafSpine{bounded: true}
			if c.two {
				v.set.Forwarding = deflect.PowerOfTwo
			}
			s := newScript(t, v)
			c.do(s)
			if got := s.rules(); !slices.Equal(got, c.want) {
				t.Errorf("violated are %v, want %v", got, c.want)
			}
		})
	}
}

// waits shows a packet that comes and, by its record, waits at a port of leaf-0.
func (s *script) waits(id uint64, port int) {
	s.judge.Observe(s.tap(trace.Entered, 0, 0, id))
	s.judge.Decide(&trace.Decision{Time: s.now, Port: port, Kind: deflect.Route, Packet: id,
		Values: [8]int64{2, 3, 0, 0, 2}})
	s.judge.Decide(&trace.Decision{Time: s.now, Port: port, Kind: deflect.Queued, Packet: id,
		Values: [8]int64{int64(port), 0, 0, int64(s.ttl)}})
}

// Senders mark the bytes that are left, retransmissions and messages.
func TestMarks(t *testing.T) {
	gap := 100 * us
	remaining, las := deflect.Settings{Scheme: deflect.PD, Gap: gap, Boost: true}, deflect.Settings{Scheme: deflect.PD,
		Priority: deflect.LAS, Gap: gap}
	type sent struct {
		after  clock.Duration
		number uint64
		mark   deflect.Mark
	}
	first := deflect.Mark{First: true, Value: 3000}
	for _, c := range []struct {
		name string
		set  deflect.Settings
		sent []sent
		want bool
	}{
		{"a message", remaining, []sent{{0, 1, first}, {0, 2, deflect.Mark{Value: 2000}}, {0, 3, deflect.Mark{Value: 1000}}},
			false},
		{"an ACK in between", remaining, []sent{{0, 1, first}, {0, 9, deflect.Mark{Control: true}},
			{0, 2, deflect.Mark{Value: 2000}}}, false},
		{"an ACK with a value", remaining, []sent{{0, 9, deflect.Mark{Control: true, Value: 5}}}, true},
		{"it does not begin", remaining, []sent{{0, 1, deflect.Mark{Value: 3000}}}, true},
		{"it does not fall", remaining, []sent{{0, 1, first}, {0, 2, deflect.Mark{Value: 3000}}}, true},
		{"a retransmission", remaining, []sent{{0, 1, first}, {0, 2, deflect.Mark{Value: 2000}},
			{0, 1, deflect.Mark{First: true, Value: 3000, Ret: 1}}, {0, 3, deflect.Mark{Value: 1000}}}, false},
		{"a retransmission without boost", remaining, []sent{{0, 1, first}, {0, 1, first}}, true},
		{"a retransmission with another value", remaining, []sent{{0, 1, first},
			{0, 1, deflect.Mark{First: true, Value: 2000, Ret: 1}}}, true},
		{"a retransmission after a pause", remaining, []sent{{0, 1, first},
			{3 * gap, 1, deflect.Mark{First: true, Value: 3000, Ret: 1}}, {0, 2, deflect.Mark{Value: 2000, Ret: 1}}}, false},
		{"the flow's Ret stays", remaining, []sent{{0, 1, first},
			{3 * gap, 1, deflect.Mark{First: true, Value: 3000, Ret: 1}}, {0, 2, deflect.Mark{Value: 2000}}}, true},
		{"the flow's Ret grows without a pause", remaining, []sent{{0, 1, first},
			{0, 1, deflect.Mark{First: true, Value: 3000, Ret: 1}}, {0, 2, deflect.Mark{Value: 2000, Ret: 1}}}, true},
		{"another message", remaining, []sent{{0, 1, first}, {0, 4, deflect.Mark{First: true, Flowlet: 1, Value: 9000}},
			{0, 5, deflect.Mark{Flowlet: 1, Value: 8000}}}, false},
		{"another message with the old flowlet", remaining, []sent{{0, 1, first},
			{0, 4, deflect.Mark{First: true, Value: 9000}}}, true},
		{"LAS", las, []sent{{0, 1, deflect.Mark{First: true}}, {0, 2, deflect.Mark{Value: 1000}},
			{3 * gap, 3, deflect.Mark{First: true, Flowlet: 1}}}, false},
		{"LAS that does not begin anew", las, []sent{{0, 1, deflect.Mark{First: true}}, {3 * gap, 2,
			deflect.Mark{Value: 1000}}}, true},
		{"LAS that begins without a pause", las, []sent{{0, 1, deflect.Mark{First: true}}, {0, 2,
			deflect.Mark{First: true, Flowlet: 1}}}, true},
		{"LAS that falls", las, []sent{{0, 1, deflect.Mark{First: true}}, {0, 2, deflect.Mark{Value: 1000}},
			{0, 3, deflect.Mark{Value: 900}}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &leafSpine{bounded: true}
			v.set = c.set
			s := newScript(t, v)
			for i, p := range c.sent {
				s.now = s.now.Add(p.after + us)
				tap := s.tap(trace.Entered, 0, 0, uint64(i+1))
				tap.Number, tap.Rank, tap.Flags = p.number, p.mark.Pack(), trace.Ranked
				s.judge.Observe(tap)
			}
			if got := slices.Contains(s.rules(), deflect.RuleMark); got != c.want {
				t.Errorf("blamed: %v", got)
			}
		})
	}
}

// The ordering layer holds packets for a time, and loses none.
func TestOrderingLayers(t *testing.T) {
	type step struct {
		at     clock.Duration
		stage  athost.Stage
		id     uint64
		number uint64
		ack    bool
	}
	const arrived, delivered, discarded = athost.Arrived, athost.Delivered, athost.Discarded
	for _, c := range []struct {
		name  string
		steps []step
		want  bool
	}{
		{"in order", []step{{1, arrived, 1, 1, false}, {1, delivered, 1, 1, false}, {2, arrived, 2, 2, false},
			{2, delivered, 2, 2, false}}, false},
		{"put in order", []step{{1, arrived, 2, 2, false}, {5, arrived, 1, 1, false}, {5, delivered, 1, 1, false},
			{5, delivered, 2, 2, false}}, false},
		{"held too long", []step{{1, arrived, 2, 2, false}, {200, delivered, 2, 2, false}}, true},
		{"held for ever", []step{{1, arrived, 2, 2, false}, {200, arrived, 3, 3, false}, {200, delivered, 3, 3, false}},
			true},
		{"an ACK that is held", []step{{1, arrived, 2, 2, true}, {2, delivered, 2, 2, true}}, true},
		{"made up", []step{{1, delivered, 2, 2, false}}, true},
		{"passed on twice", []step{{1, arrived, 1, 1, false}, {1, delivered, 1, 1, false}, {1, delivered, 1, 1, false}},
			true},
		{"discarded", []step{{1, arrived, 1, 1, false}, {1, discarded, 1, 1, false}}, true},
		{"a duplicate", []step{{1, arrived, 1, 1, false}, {2, arrived, 9, 1, false}, {2, discarded, 9, 1, false},
			{3, delivered, 1, 1, false}}, false},
		{"put out of order", []step{{1, arrived, 1, 1, false}, {2, arrived, 2, 2, false}, {2, delivered, 2, 2, false},
			{3, delivered, 1, 1, false}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &leafSpine{bounded: true}
			v.set = deflect.Settings{Scheme: deflect.PD, Ordering: true, Hold: 100 * us}
			s := newScript(t, v)
			j := s.judge.(athost.Judge)
			if !j.SeesHosts() {
				t.Fatal("it sees no hosts")
			}
			for _, p := range c.steps {
				mark := deflect.Mark{Control: p.ack, Value: uint32(1000 * (10 - p.number))}
				if p.ack {
					mark.Value = 0
				}
				j.ObserveHost(&athost.Tap{Time: clock.Time(0).Add(p.at * us), Stage: p.stage, Host: 2, ID: p.id, Dst: 2,
					Number: p.number, Rank: mark.Pack(), Flags: trace.Ranked, Size: 1000})
			}
			if got := slices.Contains(s.rules(), deflect.RuleShim); got != c.want {
				t.Errorf("blamed: %v", got)
			}
		})
	}
}

// A packet is held while one that was sent before it is missing.
func TestPacketsAreHeldForThoseThatAreMissing(t *testing.T) {
	for _, c := range []struct{ held, timer, first, soon, late, want bool }{{held: true}, {want: true}, {timer: true},
		{timer: true, first: true}, {soon: true, want: true}, {held: true, late: true, want: true}} {
		held := c.held
		v := &leafSpine{bounded: true}
		v.set = deflect.Settings{Scheme: deflect.PD, Ordering: true, Hold: 100 * us, Gap: 100 * us}
		s := newScript(t, v)
		j := s.judge.(athost.Judge)
		at := func(stage athost.Stage, id uint64, mark deflect.Mark) {
			j.ObserveHost(&athost.Tap{Time: s.now, Stage: stage, Host: 2, ID: id, Dst: 2, Flow: 5, Number: id,
				Protocol: trace.ProtocolRaw, Rank: mark.Pack(), Flags: trace.Ranked, Size: 1000})
		}
		marks := []deflect.Mark{{First: true, Value: 4000}, {Value: 3000}, {Value: 2000}, {Value: 1000}}
		for i, mark := range marks {
			s.now = s.now.Add(8 * us)
			s.rank = mark.Pack()
			s.judge.Observe(s.tap(trace.Entered, 0, 0, uint64(i+1)))
		}
		at(athost.Arrived, 1, marks[0])
		at(athost.Delivered, 1, marks[0])
		s.now = s.now.Add(us)
		early, next := uint64(3), uint64(4)
		if c.first { // the one that comes last is before the one that is held
			early, next = 4, 3
		}
		at(athost.Arrived, early, marks[early-1])
		if c.timer { // of the early one, as the next one comes
			s.now = s.now.Add(100 * us)
			at(athost.Arrived, next, marks[next-1])
			at(athost.Delivered, 3, marks[2])
			at(athost.Delivered, 4, marks[3])
		} else if !held {
			if c.soon { // long before omega, and the one before it is missing
				s.now = s.now.Add(30 * us)
			}
			at(athost.Delivered, 3, marks[2])
		}
		s.now = s.now.Add(us)
		at(athost.Arrived, 2, marks[1])
		at(athost.Delivered, 2, marks[1])
		if held {
			if c.late { // all before it has come
				s.now = s.now.Add(30 * us)
			}
			at(athost.Delivered, 3, marks[2])
		}
		if got := slices.Contains(s.rules(), deflect.RuleShim); got != c.want {
			t.Errorf("%+v, blamed: %v", c, got)
		}
	}
}

// A switch whose settings change is judged no further.
func TestWhatIsNotKnownIsNotJudged(t *testing.T) {
	v := &leafSpine{bounded: true}
	s := newScript(t, v)
	s.judge.Changed(0, 0)
	s.queued(0, 1, 1, 1, 0)
	r, err := s.judge.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if v := violations(&r); v[deflect.RuleForwarding] != "" || len(r.Findings) == 0 {
		t.Errorf("%v, %v", v, r.Findings)
	}
}
