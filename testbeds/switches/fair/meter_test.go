package fair

import (
	"math"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
)

const us = clock.Microsecond

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s: %.15g, want %.15g", what, got, want)
	}
}

// 4.2 with K of 100 us and packets of 12,000 bits.
func TestEstimateOfARate(t *testing.T) {
	a := averaging{faults: new(meterFaults)}.over(100 * us)
	var m meter
	near(t, "the first packet: len/K", m.add(0, 12000, &a), 120e6)
	near(t, "at the same instant: len/K more", m.add(0, 12000, &a), 240e6)
	// e^-0.1 = 0.904837418035960: 0.0951625819640404 · 12000/10 us + 0.904837418035960 · 240e6
	near(t, "10 us later", m.add(clock.Time(10*us), 12000, &a), 331356078.68547890)
	// e^-1 = 0.367879441171442: 0.632120558828558 · 12000/100 us + 0.367879441171442 · 331356078.68547890
	near(t, "100 us later", m.add(clock.Time(110*us), 12000, &a), 75854467.0594270+121899089.055574)
	// no bits: e^-0.2 = 0.818730753077982
	near(t, "decay over 20 us", m.add(clock.Time(130*us), 0, &a), 0.818730753077982*(75854467.0594270+121899089.055574))
	// shortly after: the series, where x is 10^-6 · 100: (1 - e^-x)/x = 0.99995000166662500
	var short meter
	short.add(0, 12000, &a)
	near(t, "10 ns later", short.add(clock.Time(10*clock.Nanosecond), 12000, &a),
		0.99995000166662500*120e6+(1-1e-4*0.99995000166662500)*120e6)
}

// A constant rate is estimated as such: of 12,000 bits each 300 ns, 40 Gb/s.
func TestEstimateOfAConstantRateIsTheRate(t *testing.T) {
	for _, windowed := range []bool{false, true} {
		a := averaging{window: 100 * us, weight: 0.125, windowed: windowed, faults: new(meterFaults)}.over(100 * us)
		var m meter
		for i := range 30000 {
			m.add(clock.Time(i*300)*clock.Time(clock.Nanosecond), 12000, &a)
		}
		if math.Abs(m.rate/40e9-1) > 1e-4 {
			t.Errorf("windowed %v: %g", windowed, m.rate)
		}
	}
}

// 5, 1 with W of 100 us.
func TestWindowOfARate(t *testing.T) {
	for _, test := range []struct {
		name    string
		divides bool
		weight  float64
		want    []float64
	}{
		// the window from 0 to 110 us has 24,000 bits: 24000/110 us = 218.18 Mb/s; that to 220 us has 12,000
		{"by the time since the window began", false, 0.125, []float64{0, 0, 24e9 / 110 / 8,
			24e9/110/8*7/8 + 12e9/110/8}},
		{"by W", true, 0.125, []float64{0, 0, 30e6, 30e6*7/8 + 15e6}},
		{"without averaging", true, 1, []float64{0, 0, 240e6, 120e6}},
	} {
		a := &averaging{window: 100 * us, divides: test.divides, weight: test.weight, windowed: true,
			faults: new(meterFaults)}
		var m meter
		for i, at := range []clock.Duration{0, 100 * us, 110 * us, 220 * us} {
			near(t, test.name, m.add(clock.Time(at), 12000, a), test.want[i])
		}
	}
}

// still is a port with an alpha and a label that test nothing else.
func still(set *fair.Settings, alpha float64) *port {
	p := newPort(0, set, 40*clock.Gbps, new(faults))
	p.nodes[0].alpha = alpha
	return p
}

// A label of 2 Gb/s beside an alpha of 1.25 Gb/s is dropped with probability 0.375: by U below it, and in mode
// dataplane with 4 bits by R of 10 to 15, as 2·9 ≤ 15·1.25 = 18.75 < 2·10.
func TestDropTest(t *testing.T) {
	d := dataplane()
	d.DropBits = 4
	for _, test := range []struct {
		set     *fair.Settings
		label   uint64
		draw    uint64
		dropped bool
	}{
		{ideal(), 2e9, 0, true},
		{ideal(), 2e9, 3 << 61, false}, // U is exactly 0.375: not below
		{ideal(), 2e9, 3<<61 - 1<<11, true},
		{ideal(), 1.25e9, 0, false},
		{d, 2e9, 10 << 60, true},
		{d, 2e9, 9 << 60, false},
		{d, 1.25e9, 15 << 60, false}, // equal
		{d, 1.25e9 + 1, 15 << 60, true},
		{d, 40e9, 0, false}, // error of 2^-n: one of 16 passes whatever its rate
	} {
		p := still(test.set, 1.25e9)
		if v := p.arrive(0, 0, test.label, 12000, test.draw, true); v.dropped != test.dropped {
			t.Errorf("mode %d, label %d, draw %#x: dropped is %v", test.set.Mode, test.label, test.draw, v.dropped)
		}
	}
}

// A congested node: 4.3 after more than K_c, with the limits of a factor of 0.75, of 1 bit/s and of the link.
func TestFairRateOfACongestedNode(t *testing.T) {
	for _, test := range []struct{ alpha, accepted, want float64 }{
		{10e9, 50e9, 10e9 * 0.985 * 40 / 50}, // c/F
		{10e9, 80e9, 7.5e9},                  // at least 0.75
		{10e9, 20e9, 10e9 * 0.985 * 2},       // up
		{30e9, 20e9, 40e9},                   // at most the link
		{1.2, 80e9, 1},                       // at least 1 bit/s
		{2, 0, 40e9},                         // an F below 1 bit/s is 1
	} {
		p := still(ideal(), test.alpha)
		n := &p.nodes[0]
		n.arrival, n.accepted = meter{rate: 60e9, seen: true}, meter{rate: test.accepted, seen: true}
		n.capacity = 0.985 * 40e9
		p.congested(0, n, 0) // begins
		p.congested(clock.Time(200*us), n, 0)
		if n.alpha != test.alpha {
			t.Fatalf("alpha changed after K_c, not after more")
		}
		p.congested(clock.Time(200*us+1), n, 0)
		near(t, "alpha", n.alpha, test.want)
		if p.congested(clock.Time(400*us), n, 0); len(p.updates) != 1 {
			t.Errorf("%d updates", len(p.updates))
		}
	}
}

// AIMD: alpha loses its 128th part or gains C/4096, and what recirculates is read 500 ns later.
func TestFairRateInTheDataPlane(t *testing.T) {
	for accepted, want := range map[float64]float64{50e9: 10e9 - 10e9/128, 30e9: 10e9 + 40e9/4096} {
		p := still(dataplane(), 10e9)
		n := &p.nodes[0]
		n.accepted.rate, n.capacity = accepted, 0.985*40e9
		p.congested(0, n, 0)
		now := clock.Time(100*us + 1)
		p.congested(now, n, 0)
		if n.alpha != 10e9 {
			t.Error("the new fair rate is read at once")
		}
		p.arrive(now.Add(499*clock.Nanosecond), 0, 1, 8, 0, true)
		if n.alpha != 10e9 {
			t.Error("the new fair rate is read early")
		}
		p.arrive(now.Add(500*clock.Nanosecond), 0, 1, 8, 0, true)
		near(t, "alpha", n.alpha, want)
	}
}

// A node without congestion: alpha is the largest label of the last K_c; the packet that ends it begins the next.
func TestFairRateOfANodeWithoutCongestion(t *testing.T) {
	p := still(ideal(), 5e9)
	n := &p.nodes[0]
	for i, label := range []uint64{3e9, 7e9, 2e9} {
		p.arrive(clock.Time(i)*clock.Time(90*us), 0, label, 12000, 0, true)
	}
	if p.arrive(clock.Time(201*us), 0, 9e9, 12000, 0, true); n.alpha != 7e9 {
		t.Errorf("alpha is %g", n.alpha)
	}
	if p.arrive(clock.Time(402*us), 0, 1e9, 12000, 0, true); n.alpha != 7e9 {
		t.Errorf("nothing but the packet that is due: alpha is %g", n.alpha)
	}
	// labels above the link rate do not raise alpha above it
	p.arrive(clock.Time(500*us), 0, 90e9, 12000, 0, true)
	if p.arrive(clock.Time(700*us), 0, 1e9, 12000, 0, true); n.alpha != 40e9 {
		t.Errorf("alpha is %g", n.alpha)
	}
}

// With a floor of 0.1 the link at 40 Gb/s, which may give 39.4, has an alpha of at least 3.94, and a node of weight 2
// below it one of at least 0.1 of 2·3.94. Its labels are 1 Gb/s and then 0.5. A parent's alpha before the packet is
// 40 Gb/s.
func TestFloorOfTheFairRate(t *testing.T) {
	for _, test := range []struct {
		floor               float64
		before              bool
		link, first, second float64
	}{
		{0.1, false, 3.94e9, 1e9, 0.788e9},
		{0.1, true, 3.94e9, 8e9, 0.788e9},
		{1, false, 39.4e9, 78.8e9, 78.8e9}, // of which the link lets 40 through
	} {
		set := ideal(fair.Node{Weight: 2})
		set.AlphaFloor, set.ParentBefore = test.floor, test.before
		p := newPort(0, set, 40*clock.Gbps, new(faults))
		p.arrive(0, 1, 1e9, 12000, 0, true)
		p.arrive(clock.Time(201*us), 1, 1e9, 12000, 0, true)
		near(t, "the link's", p.nodes[0].alpha, test.link)
		near(t, "the node's", p.nodes[1].alpha, min(test.first, 40e9))
		p.arrive(clock.Time(300*us), 1, 0.5e9, 12000, 0, true)
		p.arrive(clock.Time(402*us), 1, 0.5e9, 12000, 0, true)
		near(t, "the node's, after a slower label", p.nodes[1].alpha, min(test.second, 40e9))
	}
}

// A congested node has no floor: its alpha follows c/F.
func TestFloorEndsWithCongestion(t *testing.T) {
	set := ideal()
	set.AlphaFloor = 1
	p := still(set, 10e9)
	n := &p.nodes[0]
	n.arrival, n.accepted = meter{rate: 60e9, seen: true}, meter{rate: 50e9, seen: true}
	n.capacity = 0.985 * 40e9
	p.congested(0, n, 0)
	p.congested(clock.Time(200*us+1), n, 0)
	near(t, "alpha", n.alpha, 7.88e9)
}

// A flow whose first window is open has label 0: it is not dropped, and does not lower alpha.
func TestFlowsWithoutARateDoNotLowerAlpha(t *testing.T) {
	p := still(dataplane(), 5e9)
	for i := range 4 {
		if v := p.arrive(clock.Time(i)*clock.Time(60*us), 0, 0, 12000, 1<<64-1, true); v.dropped || v.relabel != 0 {
			t.Errorf("packet %d: %+v", i, v)
		}
	}
	if p.nodes[0].alpha != 5e9 || len(p.updates) != 0 {
		t.Errorf("alpha is %g after %v", p.nodes[0].alpha, p.updates)
	}
}

// F decays while all packets are dropped, 20 us after it was updated and again 20 us later.
func TestAcceptedRateDecaysWhileAllIsDropped(t *testing.T) {
	p := still(ideal(), 1)
	n := &p.nodes[0]
	n.accepted.add(0, 12000, &p.rates)
	for at, want := range []float64{10: 120e6, 19: 120e6, 20: 0.818730753077982 * 120e6, 21: 0.818730753077982 * 120e6,
		40: 0.670320046035639 * 120e6} {
		if want > 0 {
			p.arrive(clock.Time(at)*clock.Time(us), 0, 40e9, 12000, 0, true)
			near(t, "F", n.accepted.rate, want)
		}
	}
}

// 4.5: tail drops lower alpha by 1 % each, together by 25 % in K_c.
func TestOverflowLowersTheFairRate(t *testing.T) {
	p := still(ideal(), 10e9)
	n := &p.nodes[0]
	now := clock.Time(201 * us)
	p.overflow(now)
	near(t, "one tail drop", n.alpha, 9.9e9)
	for range 100 {
		p.overflow(now.Add(200 * us))
	}
	near(t, "a hundred more in K_c", n.alpha, 10e9*math.Pow(0.99, 28)) // 0.755; one more would be 0.747
	p.overflow(now.Add(200*us + 1))
	near(t, "after K_c", n.alpha, 10e9*math.Pow(0.99, 29))
}

// A hop lowers labels to its alpha, rounded down.
func TestLabelForTheNextHop(t *testing.T) {
	p := still(ideal(), 1.5)
	for label, want := range map[uint64]uint64{1: 1, 2: 1, 7e9: 1} {
		if got := p.relabel(label, &p.nodes[0]); got != want {
			t.Errorf("label %d becomes %d", label, got)
		}
	}
	if node, rate := fair.OfLabel(fair.Label(1023, 400e9)); node != 1023 || rate != 400e9 {
		t.Errorf("label of node %d with %d", node, rate)
	}
}
