package sai_test

import (
	"net/netip"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	judge "candela.dev/candela/analyzers/sai"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/packet"
	"candela.dev/candela/sai"
	model "candela.dev/candela/testbeds/switches/sai"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// scenario is one run: a single switch, its settings and changes, and flows without congestion control.
type scenario struct {
	hosts   int
	set     func(parameter.Values)
	flows   []flow
	changes []change
	bugs    []string
	blind   bool // the analyzer does not know the queue of departing packets
	seed    uint64
}

type flow struct {
	from, to int
	packets  int
	size     int
	dscp     int
	v6       bool
	gbps     int
	start    clock.Duration
	ecn      packet.ECN
}

type change struct {
	at  clock.Duration
	set func(parameter.Values)
}

// sender is the open-loop stack of one host.
type sender struct {
	id    uint32
	flows []flow
	sent  []int
	next  []clock.Time
	turn  int
}

func (s *sender) Receive(clock.Time, *fabric.Packet) {}
func (s *sender) HandleTimer(clock.Time)             {}

func (s *sender) NextTimer() clock.Time {
	at := clock.Never
	for i, f := range s.flows {
		if s.sent[i] < f.packets {
			at = min(at, s.next[i])
		}
	}
	return at
}

func (s *sender) Poll(now clock.Time, p *fabric.Packet) bool {
	for k := range s.flows {
		i := (s.turn + k) % len(s.flows)
		f := s.flows[i]
		if s.sent[i] == f.packets || s.next[i] > now {
			continue
		}
		s.turn = i + 1
		s.sent[i]++
		p.Dst, p.Size, p.Protocol = fabric.HostID(f.to), int32(f.size), fabric.Raw
		p.Flow, p.Number, p.Entropy = s.id<<8|uint32(i), uint32(s.sent[i]), uint16(1000+i)
		p.DSCP, p.IPv6, p.ECN = uint8(f.dscp), f.v6, f.ecn
		if f.gbps > 0 {
			s.next[i] = s.next[i].Add((clock.BitRate(f.gbps) * clock.Gbps).Serialise(f.size))
		}
		return true
	}
	return false
}

// outcome is the result of a run.
type outcome struct {
	analyzers.Result
	counters sai.Snapshot
	mech     *model.Mechanism
	net      *fabric.Network
}

// rules lists the violated rules without duplicates.
func (o outcome) rules() []string {
	var list []string
	for _, f := range o.Findings {
		if f.Severity == analyzers.Violation && !slices.Contains(list, f.Rule) {
			list = append(list, f.Rule)
		}
	}
	slices.Sort(list)
	return list
}

type failer interface {
	Helper()
	Fatal(...any)
}

// run runs a scenario until no event is left.
func run(t failer, s scenario) outcome {
	t.Helper()
	v := model.Model().Parameters.Defaults()
	s.set(v)
	spec, err := model.SwitchSpec(v)
	if err != nil {
		t.Fatal(err)
	}
	net, mech := build(t, s, v, spec)
	analyzer := newJudge(s, v, mech)
	net.SetTap(observe(net, func(o *sai.Observation) {
		if s.blind {
			o.Queue = sai.UnknownQueue
		}
		analyzer.Observe(o)
	}))
	before := mech.Snapshot()
	current := v
	for _, c := range s.changes {
		if err := net.Run(clock.Time(c.at)); err != nil {
			t.Fatal(err)
		}
		set := model.Model().Parameters.Nothing()
		c.set(set)
		if err := mech.Change(set, set); err != nil {
			t.Fatal(err)
		}
		current = current.Merge(set)
		settings, err := model.Settings(current, s.hosts)
		if err != nil {
			t.Fatal(err)
		}
		analyzer.AddChange(judge.Change{FromPS: int64(c.at), Settings: settings})
	}
	if err := net.Run(clock.Time(clock.Second)); err != nil {
		t.Fatal(err)
	}
	counters, err := mech.Snapshot().Since(before)
	if err != nil {
		t.Fatal(err)
	}
	return outcome{analyzer.Finish(counters), counters, mech, net}
}

func build(t failer, s scenario, v parameter.Values, spec fabric.SwitchSpec) (*fabric.Network, *model.Mechanism) {
	t.Helper()
	var mech *model.Mechanism
	var broken error
	net, err := fabric.New(&fabric.Spec{Seed: s.seed, Topology: fabric.TopologySpec{Hosts: s.hosts}, Switch: spec},
		func(sw *fabric.Switch) fabric.Mechanism {
			mech, broken = model.New(sw, v, s.bugs)
			if broken != nil {
				return nil
			}
			return mech
		})
	if err != nil || broken != nil {
		t.Fatal(err, broken)
	}
	senders := make([]*sender, s.hosts)
	for i := range senders {
		senders[i] = &sender{id: uint32(i)}
	}
	for _, f := range s.flows {
		h := senders[f.from]
		h.flows = append(h.flows, f)
		h.sent = append(h.sent, 0)
		h.next = append(h.next, clock.Time(f.start))
	}
	for i, h := range senders {
		net.Host(fabric.HostID(i)).Attach(h)
	}
	return net, mech
}

// observe returns a tap that reports the packets entering and leaving the switch.
func observe(net *fabric.Network, to func(*sai.Observation)) fabric.Tap {
	var records uint64
	return func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		var t trace.SwitchTap
		if at.Stage == fabric.Dropped || !net.AtSwitch(at, now, p, &t) || t.Internal {
			return
		}
		o := judge.Observation(&t, func(host uint32, v6 bool) netip.Addr { return model.Address(fabric.HostID(host), v6) })
		records++
		o.ID = records
		to(&o)
	}
}

func newJudge(s scenario, v parameter.Values, mech *model.Mechanism) *judge.Analyzer {
	c := judge.Config{
		Settings: []judge.Change{{Settings: mech.Settings()}}, Strict: v.Word("scheduler") == "strict", Closed: true,
		PoolBytes: v.Int("buffer-bytes"),
		PortOf: func(a netip.Addr) (int, bool) {
			for i := range s.hosts {
				if model.Address(fabric.HostID(i), a.Is6()) == a {
					return i, true
				}
			}
			return 0, false
		},
	}
	for i := range s.hosts {
		c.Ports = append(c.Ports, model.PortName(i))
	}
	return judge.New(c)
}

// text sets parameters as in a test file.
func text(settings ...string) func(parameter.Values) {
	return func(v parameter.Values) {
		for i := 0; i < len(settings); i += 2 {
			if err := v.Set(settings[i], settings[i+1]); err != nil {
				panic(err)
			}
		}
	}
}

// item returns one item of a list parameter.
func item(name string, integers map[string][]int64, settings ...string) parameter.Values {
	table := model.Model().Parameters
	v := table[table.Find(name)].Items.Defaults()
	text(settings...)(v)
	for key, numbers := range integers {
		v.SetIntegers(key, numbers)
	}
	return v
}

// trimming is the switch of most tests: queue 1 trims at 15 kB, copies leave by queue 6 with DSCP 48.
func trimming(more ...func(parameter.Values)) func(parameter.Values) {
	return func(v parameter.Values) {
		text("trim-size", "256", "trim-dscp", "48", "trim-queue", "6")(v)
		profiles(v, profile("trim", 16_000, 1), profile("drop", 20_000, 0))
		for _, f := range more {
			f(v)
		}
	}
}

func profile(action string, limit int64, queues ...int64) parameter.Values {
	v := item("profiles", map[string][]int64{"queues": queues}, "action", action)
	v.SetStep("limit-bytes", limit)
	return v
}

func profiles(v parameter.Values, list ...parameter.Values) { v.SetList("profiles", list) }

// incast is n senders to host 0, at line rate, in queue 1.
func incast(n, packets, size int) []flow {
	var flows []flow
	for i := range n {
		flows = append(flows, flow{from: i + 1, to: 0, packets: packets, size: size, dscp: 8})
	}
	return flows
}

var _ = testing.Short
