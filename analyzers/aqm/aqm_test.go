package aqm

import (
	"math"
	"math/rand/v2"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

func TestEveryRuleHasCausesWithSentences(t *testing.T) { causetest.Table(t, Rules(), Causes()) }

// selects draws packets with probabilities that vary, p being what the wager is told and q what is drawn.
func selects(w *wager, random *rand.Rand, packets int, q func(p float64) float64) (seen int, broken bool) {
	for i := range packets {
		p := 0.05 + 0.6*math.Abs(math.Sin(float64(i)/50))
		if w.see(p, random.Float64() < q(p)) {
			return i + 1, true
		}
	}
	return packets, false
}

// Right probabilities are never refused; wrong ones are after some hundred packets.
func TestWagersFindWrongProbabilitiesOnly(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b budget
	for range 100 {
		if n, broken := selects(b.next(), random, 3000, func(p float64) float64 { return p }); broken {
			t.Fatalf("right probabilities are refused after %d packets", n)
		}
	}
	for name, q := range map[string]func(p float64) float64{
		"half":   func(p float64) float64 { return p / 2 },
		"double": func(p float64) float64 { return min(1, 2*p) },
		"square": func(p float64) float64 { return p * p },
		"never":  func(float64) float64 { return 0 },
	} {
		if n, broken := selects(b.next(), random, 3000, q); !broken {
			t.Errorf("%s: not refused in %d packets", name, n)
		}
	}
	regular := b.next()
	broken := false
	for i := range 3000 { // the right share, every fourth packet
		broken = regular.see(0.25, i%4 == 0) || broken
	}
	if !broken {
		t.Error("regular drops are not refused")
	}
}

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

// A bug that begins late is found as soon as one from the start: right probabilities before it do not hide it.
func TestWagersFindProbabilitiesThatBecomeWrong(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var b budget
	for name, q := range map[string]func(p float64) float64{
		"half":  func(p float64) float64 { return p / 2 },
		"never": func(float64) float64 { return 0 },
	} {
		w := b.next()
		if n, broken := selects(w, random, 50_000, func(p float64) float64 { return p }); broken {
			t.Fatalf("right probabilities are refused after %d packets", n)
		}
		if n, broken := selects(w, random, 1500, q); !broken {
			t.Errorf("%s: not refused in %d packets after 50,000 right ones", name, n)
		}
	}
	w := b.next() // half and one and a half times as likely in turns: right on the average
	broken := false
	for i := range 20_000 {
		factor := 0.5 + float64(i/1000%2)
		broken = w.see(0.3, random.Float64() < 0.3*factor) || broken
	}
	if !broken {
		t.Error("probabilities that are right on the average are not refused")
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

// Independent draws of flows are never refused, even if all have the same probabilities; equal ones are at once.
func TestTwinsFindEqualDrawsOnly(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var b budget
	for range 50 {
		w := newTwins(&b)
		for i := range 20_000 { // four flows
			if p := 0.02 + 0.9*random.Float64(); w.see(i/4, p, random.Float64() < p) {
				t.Fatalf("independent draws are refused after %d packets", i)
			}
		}
	}
	for _, spread := range []float64{0, 0.1, 0.9} {
		w, broken := newTwins(&b), 0
		for i := 0; i < 4000 && broken == 0; i += 2 {
			u := random.Float64()
			for range 2 {
				if p := 0.05 + spread*random.Float64(); w.see(i/2, p, u < p) {
					broken = i + 1
				}
			}
		}
		if broken == 0 {
			t.Errorf("equal draws of two flows whose probabilities differ by up to %v are not refused", spread)
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
