package fair

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// constant sends flows of 1500 bytes at constant rates with gaps of their own.
type constant struct {
	to    fabric.HostID
	flows uint32
	size  int32
	gap   clock.Duration // of each packet
	next  clock.Time
	sent  uint32
}

func (c *constant) Receive(clock.Time, *fabric.Packet) {}

func (c *constant) Poll(now clock.Time, p *fabric.Packet) bool {
	if c.gap == 0 || now < c.next {
		return false
	}
	c.next = max(c.next, now).Add(c.gap)
	c.sent++
	p.Dst, p.Size, p.Original, p.Protocol, p.Number = c.to, c.size, c.size, fabric.Raw, c.sent
	p.Flow = c.sent%c.flows + 1
	return true
}

func (c *constant) NextTimer() clock.Time {
	if c.gap == 0 {
		return clock.Never
	}
	return c.next
}

func (c *constant) HandleTimer(clock.Time) {}

// network is a dumbbell with a trunk of 10 Gb/s between two switches, three hosts on each side.
func network(t testing.TB, v parameter.Values, bugs ...string) *fabric.Network {
	t.Helper()
	f := Family()
	m, _ := f.Model("hcsfq")
	spec := &fabric.Spec{Seed: 1, Topology: fabric.TopologySpec{Kind: fabric.Dumbbell, Hosts: 6,
		Link:   fabric.LinkSpec{Rate: 40 * clock.Gbps, Delay: clock.Microsecond, Framing: 20},
		Uplink: fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: clock.Microsecond, Framing: 20}}}
	if err := m.Configure(v, &spec.Switch); err != nil {
		t.Fatal(err)
	}
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

// send has host 0 send at 8 Gb/s to host 3, and host 1 at 4 Gb/s to host 4, each so many flows.
func send(n *fabric.Network, flows uint32) {
	for i, gap := range []clock.Duration{1500, 3000} {
		n.Host(fabric.HostID(i)).Attach(&constant{to: fabric.HostID(i + 3), flows: flows, size: 1500,
			gap: gap * clock.Nanosecond})
	}
}

func defaults() parameter.Values {
	f := Family()
	m, _ := f.Model("hcsfq")
	return m.Parameters.Defaults()
}

// Labels are packet metadata: the first switch sets them, every switch lowers them to its alpha, the last takes them
// off, and only the first measures flows. Rates count the framing of links: 8 Gb/s of packets are 8.107.
func TestLabelsGoFromTheFirstSwitchToTheLast(t *testing.T) {
	n := network(t, configured())
	send(n, 1)
	var sum, count [2]float64 // of labels on the trunk by source
	n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		if at.Host {
			if p.Rank != 0 || p.Flags&fabric.Ranked != 0 {
				t.Fatalf("a label of %d at a host", p.Rank)
			}
			return
		}
		labelled := p.Flags&fabric.Ranked != 0
		if onTrunk := at.Node == 0 && at.Stage == fabric.Egress || at.Node == 1 && at.Stage == fabric.Ingress; onTrunk {
			node, rate := fair.OfLabel(p.Rank)
			if !labelled || node != 1 {
				t.Fatalf("packet of node %d, labelled %v", node, labelled)
			}
			if now > clock.Time(10*ms) {
				sum[p.Src] += float64(rate)
				count[p.Src]++
			}
		} else if labelled && at.Stage != fabric.Dropped {
			t.Fatalf("a label at switch %d, stage %s", at.Node, at.Stage)
		}
	})
	if err := n.Run(clock.Time(20 * ms)); err != nil {
		t.Fatal(err)
	}
	// 0.985 of 10 Gb/s less 4.053 for host 1 leave 5.797 for host 0, whose labels are lowered to an alpha that two loops
	// move, node 1 having the link alone: such links carry a percent less
	for i, want := range []float64{5.797e9, 4.053e9} {
		if got := sum[i] / count[i]; got < 0.95*want || got > 1.05*want {
			t.Errorf("labels of host %d behind the first switch: %.4g on average, want %.4g", i, got, want)
		}
	}
	first, last := n.Switch(0).Mechanism().(*Mechanism).Counters(), n.Switch(1).Mechanism().(*Mechanism).Counters()
	if first.Flows != 2 || last.Flows != 0 {
		t.Errorf("flows at the edge: %d, in the core: %d", first.Flows, last.Flows)
	}
}

// State in the core does not depend on the number of flows: A, F and alpha of each of four nodes.
func TestRegistersDoNotDependOnFlows(t *testing.T) {
	for _, flows := range []uint32{1, 10, 500} {
		for _, bugs := range [][]string{nil, {"core-state"}} {
			n := network(t, configured(), bugs...)
			send(n, flows)
			if err := n.Run(clock.Time(2 * ms)); err != nil {
				t.Fatal(err)
			}
			edge, core := n.Switch(0).Mechanism().(*Mechanism).Counters(), n.Switch(1).Mechanism().(*Mechanism).Counters()
			for i, p := range core.Ports {
				want := 12
				if bugs != nil {
					want += 2 * int(flows)
				}
				if p.Registers != want {
					t.Errorf("%d flows, bugs %v: port %d has %d registers, want %d", flows, bugs, i, p.Registers, want)
				}
			}
			if edge.Flows != 2*int(flows) {
				t.Errorf("%d flows: the edge measures %d", flows, edge.Flows)
			}
		}
	}
}

// Each packet takes one number of its port's generator, whatever it is used for: the numbers of two networks, one of
// which drops and the other does not, are the same.
func TestEveryPacketDrawsOneNumber(t *testing.T) {
	draws := func(alpha int) (all []int64, dropped int) {
		v := configured()
		if err := v.Set("initial-share", map[int]string{1: "1", 2: "1048576"}[alpha]); err != nil {
			t.Fatal(err)
		}
		n := network(t, v)
		n.Host(0).Attach(&constant{to: 3, flows: 1, size: 1500, gap: 1500 * clock.Nanosecond})
		n.SetDecisions(func(d *trace.Decision) {
			if d.Switch == 0 && d.Kind != fair.State {
				all = append(all, d.Values[fair.ValueDraw])
				if d.Kind == fair.Excess {
					dropped++
				}
			}
		})
		if err := n.Run(clock.Time(ms)); err != nil {
			t.Fatal(err)
		}
		return all, dropped
	}
	free, none := draws(1)
	tight, some := draws(2)
	if none != 0 || some == 0 || len(free) != len(tight) {
		t.Fatalf("%d of %d and %d of %d packets dropped", none, len(free), some, len(tight))
	}
	for i := range free {
		if free[i] != tight[i] {
			t.Fatalf("packet %d draws %d or %d", i, free[i], tight[i])
		}
	}
}

// Packets of fewer than bypass-bytes are neither labelled nor measured nor tested.
func TestSmallPacketsBypass(t *testing.T) {
	v := configured()
	if err := v.Set("bypass-bytes", "125"); err != nil {
		t.Fatal(err)
	}
	for size, bypassed := range map[int32]bool{124: true, 125: false} {
		n := network(t, v)
		n.Host(0).Attach(&constant{to: 3, flows: 1, size: size, gap: 500 * clock.Nanosecond})
		if err := n.Run(clock.Time(ms)); err != nil {
			t.Fatal(err)
		}
		for i, port := range []int{3, 0} { // the trunk, and host 3
			m := n.Switch(i).Mechanism().(*Mechanism)
			c := m.Counters()
			if p := c.Ports[port]; p.Packets == 0 || (p.Bypassed == p.Packets) != bypassed || (p.Bypassed > 0) != bypassed ||
				(c.Flows == 0) != (bypassed || i == 1) {
				t.Errorf("%d bytes, switch %d: %+v, %d flows", size, i, p, c.Flows)
			}
		}
	}
}

// three is a port with three levels, and a packet on its way to it every 300 ns, of whom two thirds are dropped.
func three(mode fair.Mode) (step func()) {
	set := ideal(fair.Node{Parent: 0, Weight: 1}, fair.Node{Parent: 0, Weight: 1}, fair.Node{Parent: 1, Weight: 2},
		fair.Node{Parent: 1, Weight: 1}, fair.Node{Parent: 2, Weight: 1})
	set.Mode = mode
	p, r := newPort(0, set, 40*clock.Gbps, new(faults)), rand.NewPCG(1, 2)
	now, i := clock.Time(0), 0
	return func() {
		now, i = now.Add(100*clock.Nanosecond), i+1
		p.arrive(now, 3+i%3, uint64(8e9+i%3), 12000, r.Uint64(), true)
	}
}

func TestNothingIsAllocatedPerPacket(t *testing.T) {
	for _, mode := range []fair.Mode{fair.Ideal, fair.Dataplane} {
		step := three(mode)
		if allocs := runtimetest.FewestAllocs(0, func() {
			for range 10000 {
				step()
			}
		}); allocs > 0 {
			t.Errorf("mode %d: %d allocations for 10,000 packets", mode, allocs)
		}
	}
}

// BenchmarkPacket measures what a port does with a packet of a flow three levels below the link, beyond the fabric; the
// target is 150 ns. "edge" has the rate of the flow, of 1024, too.
func BenchmarkPacket(b *testing.B) {
	for name, mode := range map[string]fair.Mode{"ideal": fair.Ideal, "dataplane": fair.Dataplane} {
		b.Run("levels=3/mode="+name, func(b *testing.B) {
			step := three(mode)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
	}
	b.Run("edge/levels=1", func(b *testing.B) {
		m := &Mechanism{set: settings(defaults()), flows: make(map[flowKey]*flow)}
		at := &egress{port: newPort(0, &m.set, 40*clock.Gbps, &m.faults), rand: rand.NewPCG(1, 2)}
		p := &fabric.Packet{}
		p.Size = 1500
		now := clock.Time(0)
		b.ReportAllocs()
		for b.Loop() {
			now = now.Add(100 * clock.Nanosecond)
			p.Flow = (p.Flow + 1) % 1024
			parent, label := fair.OfLabel(m.label(now, p, at, 12000, fabric.WeightUnit))
			at.arrive(now, parent, label, 12000, at.rand.Uint64(), true)
		}
	})
}
