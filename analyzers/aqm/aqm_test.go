package aqm

import (
	"math"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

func TestEveryRuleHasCausesWithSentences(t *testing.T) { causetest.Table(t, Rules(), Causes()) }

// The source's numbers: an elephant from packet 700 on, a mouse after a window with 499 bytes and none with 500; 120
// packets are mice, and so are the next ones 5001 us later.
func TestTrapAndCountsFollowTheSource(t *testing.T) {
	const us = clock.Microsecond
	set := aqm.Etrap{ByteCount: 1_048_555, AgePeriod: 500 * us, Threshold: 500, Weight: 0.5}
	trap := newTrap(&set)
	for i := 1; i <= 700; i++ {
		if f := trap.observe(clock.Time(i), flowKey{}, 1500); f.elephant != (i == 700) {
			t.Fatalf("packet %d: elephant %v", i, f.elephant)
		}
	}
	for bytes, want := range map[int64]bool{499: false, 500: true} {
		trap := newTrap(&set)
		trap.observe(0, flowKey{}, 2_000_000)
		trap.observe(clock.Time(0).Add(500*us), flowKey{}, bytes)
		if f := trap.observe(clock.Time(0).Add(1000*us), flowKey{}, 0); f.elephant != want {
			t.Errorf("%d bytes in a window: elephant %v", bytes, f.elephant)
		}
	}
	for pause, want := range map[clock.Duration]int{5000 * us: 122, 5001 * us: 1} {
		d := newFirsts(&aqm.DPP{MaxPackets: 120, AgePeriod: 5000 * us})
		for i := 1; i <= 121; i++ {
			if _, mouse := d.classify(0, flowKey{}, 64); mouse != (i <= 120) {
				t.Fatalf("packet %d: mouse %v", i, mouse)
			}
		}
		if f, _ := d.classify(clock.Time(0).Add(pause), flowKey{}, 64); f.index != want {
			t.Errorf("after %v: number %d", pause, f.index)
		}
	}
}

// Flows that want less than their share, and bursts, say nothing about fairness: two backlogged elephants share a
// queue by 1 to 1, and by 1 to 3.
func TestFairnessIsThatOfBackloggedElephants(t *testing.T) {
	for other, want := range map[int64]float64{1: 1, 3: 0.8} {
		var w demand
		send := func(flow uint32, size int64, from, until int, d float64) {
			for i := from; i < until; i++ {
				a := arrival{at: clock.Time(0).Add(clock.Duration(i) * clock.Microsecond), key: flowKey{flow: flow}, size: size,
					fate: left}
				w.sees(&a, d)
			}
		}
		send(1, 1000, 0, 1000, 0.5)
		send(2, 1000*other, 0, 1000, 0.5)
		send(3, 10, 0, 1000, 0)       // wants little
		send(4, 9000, 500, 520, 0.99) // an elephant for a moment
		if got, ok := w.jain(); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("1 to %d: %v", other, got)
		}
	}
}

// Nothing says whether a packet at the very instant of an update comes before it: a switch may have either order, and
// has to keep it.
func TestUpdatesOfTheFairRateMayPrecedePacketsOfTheirInstant(t *testing.T) {
	const period = 25 * clock.Microsecond
	policy := aqm.Policy{DesiredBytes: 150_000, Period: period, Kp: 0.02, Ki: 0.0005, LeastRate: 10_000_000}
	const link = 10 * 1000 * 1000 * 1000
	run := func(orders ...bool) (refused bool) { // whether the update of each period sees the packet at its instant
		f := newFairRate(0, policy, link)
		waiting, want, before := int64(0), float64(link), 0.0
		for i, sees := range orders {
			at := clock.Time(0).Add(clock.Duration(i+1) * period)
			f.advance(at, waiting)
			q := float64(waiting)
			waiting += 200_000
			if sees {
				q = float64(waiting)
			}
			want = min(want-8e6/25*(policy.Ki*(q-150_000)+policy.Kp*(q-before)), link)
			before = q
			f.advance(at+1, waiting)
			refused = !f.claims(int64(math.Round(want))) || refused
		}
		return refused
	}
	for _, sees := range []bool{false, true} {
		if run(sees, sees, sees) {
			t.Errorf("updates that see packets of their instant (%v) are refused", sees)
		}
		if !run(sees, !sees, sees) {
			t.Errorf("an order that changes, at first %v, is not refused", sees)
		}
	}
}

// Counters of few bits begin with 0 again; what they show of marks may differ by those that do not show.
func TestCountersBeginWithZeroAgain(t *testing.T) {
	set := aqm.Settings{CounterBits: 8}
	for n, want := range map[uint64]uint64{255: 255, 256: 0, 1000: 232} {
		if got := set.Wrapped(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
		if got := (aqm.Group{TxPackets: n, TxBytes: n, EarlyPackets: n, EarlyBytes: n, DroppedPackets: n, MarkedPackets: n,
			DepthBytes: int(n)}).Wrapped(&set); got != (aqm.Group{TxPackets: want, TxBytes: want, EarlyPackets: want,
			EarlyBytes: want, DroppedPackets: want, MarkedPackets: want, DepthBytes: int(n)}) {
			t.Errorf("%d: %+v", n, got)
		}
	}
	set.CounterBits = 0
	if set.Wrapped(math.MaxUint64) != math.MaxUint64 {
		t.Error("64 bits")
	}
}

// What flows got is unfair beside the max-min fair shares of what arrived, also if one demands less than the others.
func TestFairnessIsThatOfMaxMinShares(t *testing.T) {
	for _, c := range []struct {
		arrived, got [3]float64
		unfair       bool
	}{
		{[3]float64{6e6, 6e6, 6e6}, [3]float64{3e6, 3e6, 3e6}, false},
		{[3]float64{6e6, 6e6, 6e6}, [3]float64{2e6, 3e6, 4e6}, true},
		{[3]float64{1.2e6, 6e6, 6e6}, [3]float64{1.2e6, 3e6, 3e6}, false},
		{[3]float64{1.2e6, 6e6, 6e6}, [3]float64{1.2e6, 4.5e6, 1.5e6}, true},
	} {
		b := backlog{flows: make(map[flowKey]*portion)}
		demand := c.arrived[0] // what is fair: a smaller demand, and half of the rest
		for i := range c.arrived {
			key := flowKey{flow: uint32(i)}
			b.list = append(b.list, key)
			b.flows[key] = &portion{surplus: surplus{arrived: c.arrived[i], actual: c.got[i], expected: min(demand, 3e6),
				largest: 1500}}
			demand = 3e6
		}
		if unfair, actual, expected := b.unfair(); unfair != c.unfair {
			t.Errorf("%v of %v: unfair %v, %v beside %v", c.got, c.arrived, unfair, actual, expected)
		}
	}
}
