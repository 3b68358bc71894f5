package deflect

import (
	"maps"
	"slices"
	"syscall"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// talker sends packets at line rate to hosts in turn.
type talker struct {
	to     []fabric.HostID
	sizes  []int32
	values []uint32 // priority values, in turn
	most   uint32   // packets; 0: no bound
	sent   uint32
}

func (*talker) Receive(clock.Time, *fabric.Packet) {}
func (*talker) HandleTimer(clock.Time)             {}
func (*talker) NextTimer() clock.Time              { return clock.Never }

func (s *talker) Poll(_ clock.Time, p *fabric.Packet) bool {
	if len(s.to) == 0 || s.most > 0 && s.sent == s.most {
		return false
	}
	i := int(s.sent)
	s.sent++
	p.Dst, p.Size, p.Protocol, p.Flow, p.Number = s.to[i%len(s.to)], s.sizes[i%len(s.sizes)], fabric.Raw, s.sent%8, s.sent
	p.SetRank(deflect.Mark{Value: s.values[i%len(s.values)]}.Pack())
	return true
}

// network is a leaf-spine network of three leaves and three spines, with two hosts at each leaf, all links alike, and
// switches of a model.
func network(t testing.TB, spec *fabric.Spec, name string, bugs []string, settings ...string) *fabric.Network {
	t.Helper()
	f := Family()
	m, _ := f.Model(name)
	v, err := m.Parameters.Values(settings...)
	if err != nil {
		t.Fatal(err)
	}
	if spec.Topology.Kind == "" {
		spec.Seed, spec.Topology = 7, fabric.TopologySpec{Kind: fabric.LeafSpine, Hosts: 6, Leaves: 3, Spines: 3,
			Link: fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: clock.Microsecond}}
	}
	if err := m.Configure(v, &spec.Switch); err != nil {
		t.Fatal(err)
	}
	m.Distort(bugs, &spec.Switch)
	n, err := fabric.New(spec, func(sw *fabric.Switch) fabric.Mechanism {
		mechanism, err := m.New(sw, v, bugs)
		if err != nil {
			t.Fatal(err)
		}
		return mechanism
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// incast has all hosts but the first send to the first, and every third packet elsewhere.
func incast(n *fabric.Network) {
	for id := range fabric.HostID(n.Hosts()) {
		s := &talker{}
		if id > 0 {
			other := (id + 2) % fabric.HostID(n.Hosts())
			if other == 0 {
				other = 1
			}
			s = &talker{to: []fabric.HostID{0, 0, other}, sizes: []int32{1500, 700, 1500, 64, 1500},
				values: []uint32{90_000, 3000, 1, 40_000, 700_000, 12, 0}}
		}
		n.Host(id).Attach(s)
	}
}

// variants are models with settings that take different ways through the code.
var variants = [][]string{
	{"ecmp"}, {"naive-deflection"}, {"dibs"}, {"sd"}, {"vertigo"}, {"pd"},
	{"ecmp", "forwarding=power-of-two"},
	{"dibs", "eligible=neither", "information=snapshot", "information-ns=3000"},
	{"sd", "information=control-packets", "pipes=2"},
	{"sd", "information=snapshot", "information-ns=5000", "congested-bytes=9000"},
	{"pd", "algorithm=on-full"}, {"pd", "alpha=0.9", "forwarding=routes", "choices=3"},
	{"pd", "alpha=0.5", "sample-on=enqueue", "denominator=filled", "equal=deflects", "tie=first", "sample=1"},
	{"pd", "alpha=0.5", "relative=dist-exact", "information=snapshot", "information-ns=1500", "pipes=3"},
	{"pd", "alpha=0.5", "relative=dist-ewma", "priority-unit=1500", "information=control-packets"},
	{"pd", "alpha=0.5", "relative=oracle"},
	{"pd", "algorithm=probabilistic", "min-threshold-bytes=3000"},
}

const room = "queue-bytes=15000"

// No packet is lost or made, queues keep to Q, and there is one decision about each packet's end.
func TestEveryPacketEndsOnceAndQueuesKeepTheirRoom(t *testing.T) {
	for _, c := range variants {
		n := network(t, &fabric.Spec{}, c[0], nil, append([]string{room}, c[1:]...)...)
		incast(n)
		kinds := decisions()
		last := map[[2]uint64]uint8{}
		n.SetDecisions(func(d *trace.Decision) {
			last[[2]uint64{uint64(d.Switch), d.Packet}] = d.Kind
			if kinds[d.Kind].Outcome == trace.OutcomeQueued && (d.Occupancy+int64(d.Size) > 15_000 ||
				d.Occupancy+int64(d.Size) == 15_000 && c[0] != "vertigo") {
				t.Fatalf("%v: %s with %d bytes onto %d", c, kinds[d.Kind].Name, d.Size, d.Occupancy)
			}
		})
		left, dropped := 0, 0
		n.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
			if at.Host || at.Stage == fabric.Ingress {
				return
			}
			key := [2]uint64{uint64(at.Node), p.ID}
			kind, ok := last[key]
			delete(last, key)
			switch {
			case at.Stage == fabric.Egress:
				left++
				if !ok || kinds[kind].Outcome != trace.OutcomeQueued {
					t.Fatalf("%v: packet %d left after decision %d, %v", c, p.ID, kind, ok)
				}
			case at.Reason == fabric.ReasonTTL:
			default:
				dropped++
				if want := map[fabric.Reason]uint8{fabric.ReasonTail: deflect.Tail, NoPort: deflect.NoPort,
					Evicted: deflect.Displaced}[at.Reason]; kind != want {
					t.Fatalf("%v: dropped for reason %d after decision %d", c, at.Reason, kind)
				}
			}
		})
		if err := n.Run(clock.Time(300 * clock.Microsecond)); err != nil {
			t.Fatal(err)
		}
		if total := n.Total(); total.Sent != total.Delivered+total.Dropped+uint64(n.InFlight()) || left < 1000 {
			t.Errorf("%v: %+v with %d in flight, %d left", c, total, n.InFlight(), left)
		}
		var sum deflect.PortCounters
		for i := range n.Switches() {
			for _, p := range n.Switch(i).Mechanism().(*Mechanism).Counters().Ports {
				sum.To, sum.From = sum.To+p.To, sum.From+p.From
				sum.NoPort, sum.Tail, sum.Displaced = sum.NoPort+p.NoPort, sum.Tail+p.Tail, sum.Displaced+p.Displaced
			}
		}
		if sum.To != sum.From || (sum.To > 20) != (c[0] != "ecmp") || sum.NoPort+sum.Tail+sum.Displaced != uint64(dropped) {
			t.Errorf("%v: counters %+v, %d dropped", c, sum, dropped)
		}
	}
}

// mixed is FNV-1a over numbers.
type mixed uint64

func (h *mixed) add(values ...uint64) {
	for _, v := range values {
		*h = (*h ^ mixed(v)) * 1099511628211
		*h ^= *h >> 29
	}
}

// digest returns a number of all that taps see in 0.2 ms, and how many packets were deflected.
func digest(t *testing.T, spec *fabric.Spec, settings ...string) (sum, deflected uint64) {
	t.Helper()
	n := network(t, spec, settings[0], nil, append([]string{room}, settings[1:]...)...)
	incast(n)
	var h mixed
	n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		h.add(uint64(at.Node), uint64(at.Port), uint64(at.Queue), uint64(at.Stage), uint64(at.Reason), uint64(now), p.ID,
			uint64(p.TTL), uint64(p.Deflects), p.Rank, uint64(p.Flags))
	})
	if err := n.Run(clock.Time(200 * clock.Microsecond)); err != nil {
		t.Fatal(err)
	}
	for i := range n.Switches() {
		for _, p := range n.Switch(i).Mechanism().(*Mechanism).Counters().Ports {
			deflected += p.To
		}
	}
	return uint64(h), deflected
}

// §12, 4: with α = 0, PD is deflection on full, to the byte, whatever R is.
func TestAlpha0IsDeflectionOnFull(t *testing.T) {
	want, deflected := digest(t, &fabric.Spec{}, "pd", "algorithm=on-full")
	for _, relative := range []string{"quantile", "dist-exact", "oracle"} {
		if got, _ := digest(t, &fabric.Spec{}, "pd", "alpha=0", "relative="+relative); got != want {
			t.Errorf("%s: other packets than with on-full", relative)
		}
	}
	if other, _ := digest(t, &fabric.Spec{}, "pd", "alpha=0.1"); other == want || deflected < 50 {
		t.Errorf("α = 0.1 changes nothing, or %d deflections are too few", deflected)
	}
}

// A run depends on the seed alone, not on how many workers simulate it.
func TestWorkersAndRepetitionChangeNothing(t *testing.T) {
	for _, c := range variants {
		one, _ := digest(t, &fabric.Spec{}, c...)
		again, _ := digest(t, &fabric.Spec{}, c...)
		two, _ := digest(t, &fabric.Spec{Workers: 2, Forced: true}, c...)
		if one != again || one != two {
			t.Errorf("%v: digests %x, %x, and with two workers %x", c, one, again, two)
		}
	}
}

func TestNothingIsAllocatedPerPacket(t *testing.T) {
	for _, c := range variants {
		n := network(t, &fabric.Spec{}, c[0], nil, append([]string{room}, c[1:]...)...)
		incast(n)
		until := clock.Time(600 * clock.Microsecond)
		if err := n.Run(until); err != nil {
			t.Fatal(err)
		}
		if allocs := runtimetest.FewestAllocs(0, func() {
			until = until.Add(20 * clock.Microsecond)
			if err := n.Run(until); err != nil {
				t.Fatal(err)
			}
		}); allocs > 0 {
			t.Errorf("%v: %d allocations in 20 us", c, allocs)
		}
	}
}

// §7: with a host that takes nothing, packets loop between its leaf and the spine until their TTL is spent: 250
// switches, each one less. A visit more by two links for each deflection.
func TestTheTTLEndsLoops(t *testing.T) {
	spec := &fabric.Spec{Seed: 1, Topology: fabric.TopologySpec{Kind: fabric.LeafSpine, Hosts: 4, Leaves: 2, Spines: 1,
		Link: fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: clock.Microsecond},
		LinkOf: func(id fabric.HostID) fabric.LinkSpec {
			if id == 0 {
				return fabric.LinkSpec{Rate: 1_000_000} // a packet in 12 ms
			}
			return fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: clock.Microsecond}
		}}}
	n := network(t, spec, "dibs", nil, room)
	for id := range fabric.HostID(4) {
		s := &talker{}
		if id == 1 {
			s = &talker{to: []fabric.HostID{0}, sizes: []int32{1500}, values: []uint32{1}, most: 12}
		}
		n.Host(id).Attach(s)
	}
	visits, ttl := map[uint64]int{}, map[uint64]uint8{}
	spent := 0
	n.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
		switch {
		case at.Host:
		case at.Stage == fabric.Ingress:
			if before, seen := ttl[p.ID]; seen && p.TTL != before-1 {
				t.Fatalf("a TTL of %d after %d", p.TTL, before)
			}
			visits[p.ID]++
			ttl[p.ID] = p.TTL
			if int(p.TTL)+visits[p.ID] != deflect.TTL {
				t.Fatalf("packet %d has a TTL of %d at switch %d of its path", p.ID, p.TTL, visits[p.ID])
			}
		case at.Reason == fabric.ReasonTTL:
			spent++
		}
	})
	if err := n.Run(clock.Time(3 * clock.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if most := slices.Max(slices.Collect(maps.Values(visits))); most != deflect.TTL || spent != 2 {
		t.Errorf("%d packets spent their TTL, want the 2 that neither wait nor are sent; %d visits", spent, most)
	}
}

// §4, figure 2: a queue of four packets gets 1, 2, 4, 5 in some order, then 3 and 2.
func TestWhatBecomesOfTheSixPacketsOfFigure2(t *testing.T) {
	for _, c := range []struct {
		model                               string
		queued, deflected, dropped, removed []int64
	}{
		{"ecmp", []int64{5, 1, 4, 2}, nil, []int64{3, 2}, nil},
		{"naive-deflection", []int64{5, 1, 4, 2}, []int64{3, 2}, nil, nil},
		{"dibs", []int64{5, 1, 4, 2}, []int64{3, 2}, nil, nil},
		{"sd", []int64{5, 1, 4, 2}, []int64{3, 2}, nil, nil},
		{"vertigo", []int64{5, 1, 4, 2, 3, 2}, []int64{5, 4}, nil, []int64{5, 4}},
	} {
		spec := &fabric.Spec{Seed: 1, Topology: fabric.TopologySpec{Kind: fabric.LeafSpine, Hosts: 4, Leaves: 2, Spines: 3,
			LinkOf: func(id fabric.HostID) fabric.LinkSpec {
				return fabric.LinkSpec{Rate: []clock.BitRate{1_000_000, 10 * clock.Gbps}[min(id, 1)]}
			}}}
		n := network(t, spec, c.model, nil, "queue-bytes=4001")
		for id := range fabric.HostID(4) {
			s := &talker{}
			if id == 1 { // the first packet is on the wire
				s = &talker{to: []fabric.HostID{0}, sizes: []int32{1000}, values: []uint32{9, 5, 1, 4, 2, 3, 2}, most: 7}
			}
			n.Host(id).Attach(s)
		}
		got := map[uint8][]int64{}
		n.SetDecisions(func(d *trace.Decision) {
			if d.Switch == 0 && d.Values[deflect.FateIngress] == 1 { // not those that come back
				got[d.Kind] = append(got[d.Kind], d.Values[deflect.FatePriority])
			}
		})
		if err := n.Run(clock.Time(10 * clock.Microsecond)); err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[uint8][]int64{deflect.Queued: append([]int64{9}, c.queued...),
			deflect.Deflected: c.deflected, deflect.Tail: c.dropped, deflect.Extracted: c.removed} {
			if !slices.Equal(got[kind], want) {
				t.Errorf("%s: decision %d about %v, want %v", c.model, kind, got[kind], want)
			}
		}
	}
}

// Every seeded bug changes what a switch sends, records or claims; those of hosts have tests of their own.
func TestSeededBugsChangeWhatSwitchesDo(t *testing.T) {
	run := func(m *switches.Model, bugs []string, settings []string) uint64 {
		n := network(t, &fabric.Spec{}, m.Name, bugs, append([]string{room}, settings...)...)
		incast(n)
		var h mixed
		n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
			h.add(uint64(at.Node), uint64(at.Port), uint64(at.Queue), uint64(at.Stage), uint64(now), p.ID, uint64(p.TTL))
		})
		n.SetDecisions(func(d *trace.Decision) {
			h.add(uint64(d.Kind), uint64(d.Cause), uint64(d.Port), uint64(d.Occupancy))
			for _, v := range d.Values {
				h.add(uint64(v))
			}
		})
		if err := n.Run(clock.Time(200 * clock.Microsecond)); err != nil {
			t.Fatal(err)
		}
		return uint64(h)
	}
	hosts := map[string]bool{}
	for _, b := range hostBugs() {
		hosts[b.Name] = true
	}
	f := Family()
	for i := range f.Models {
		m := &f.Models[i]
		settings := []string{"forwarding=power-of-two"}
		if m.Parameters.Find("information") >= 0 {
			settings = append(settings, "information=snapshot", "information-ns=2000")
		}
		if m.Name == "pd" {
			settings = append(settings, "alpha=0.4", "sample=3", "window=6")
		}
		correct := run(m, nil, settings)
		for _, b := range m.Bugs {
			if b.Name == "no-boost" || b.Name == "hides-made" || hosts[b.Name] { // these need hosts that retransmit, or Bolt
				continue
			}
			own, without := settings, correct
			if b.Name == "sprays" {
				own = append([]string{"forwarding=routes"}, settings[1:]...)
				without = run(m, nil, own)
			}
			if run(m, []string{b.Name}, own) == without {
				t.Errorf("%s with %s does what it does without", m.Name, b.Name)
			}
		}
	}
}

// cpuTime returns what the process has used, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano()
}

// BenchmarkHop measures what a hop costs where nothing is congested, as on most hops: hosts send at 4 Gb/s over links
// of 10 Gb/s between switches.
func BenchmarkHop(b *testing.B) {
	for _, c := range [][]string{{"ecmp"}, {"pd"}, {"pd", "forwarding=routes"}, {"sd"}, {"vertigo"}} {
		name := c[0]
		if len(c) > 1 {
			name += "-" + c[1]
		}
		b.Run(name, func(b *testing.B) {
			fast := fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: clock.Microsecond}
			n := network(b, &fabric.Spec{Seed: 7, Topology: fabric.TopologySpec{Kind: fabric.LeafSpine, Hosts: 6, Leaves: 3,
				Spines: 3, Link: fabric.LinkSpec{Rate: 4 * clock.Gbps, Delay: clock.Microsecond}, Uplink: fast}}, c[0], nil,
				c[1:]...)
			for id := range fabric.HostID(n.Hosts()) {
				n.Host(id).Attach(&talker{to: []fabric.HostID{(id + 2) % 6}, sizes: []int32{1500},
					values: []uint32{9, 5, 70_000}})
			}
			until, start := clock.Time(0), cpuTime(b)
			for b.Loop() {
				until = until.Add(100 * clock.Microsecond)
				if err := n.Run(until); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-start)/float64(n.Hops()), "cpu-ns/hop")
		})
	}
}
