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
