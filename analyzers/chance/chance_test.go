package chance

import (
	"math"
	"math/rand/v2"
	"testing"
)

// selects draws packets with probabilities that vary, p being what the wager is told and q what is drawn.
func selects(w *Wager, random *rand.Rand, packets int, q func(p float64) float64) (seen int, broken bool) {
	for i := range packets {
		p := 0.05 + 0.6*math.Abs(math.Sin(float64(i)/50))
		if w.See(p, random.Float64() < q(p)) {
			return i + 1, true
		}
	}
	return packets, false
}

// Right probabilities are never refused; wrong ones are after some hundred packets.
func TestWagersFindWrongProbabilitiesOnly(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b Budget
	for range 100 {
		if n, broken := selects(b.Next(), random, 3000, func(p float64) float64 { return p }); broken {
			t.Fatalf("right probabilities are refused after %d packets", n)
		}
	}
	for name, q := range map[string]func(p float64) float64{
		"half":   func(p float64) float64 { return p / 2 },
		"double": func(p float64) float64 { return min(1, 2*p) },
		"square": func(p float64) float64 { return p * p },
		"never":  func(float64) float64 { return 0 },
	} {
		if n, broken := selects(b.Next(), random, 3000, q); !broken {
			t.Errorf("%s: not refused in %d packets", name, n)
		}
	}
	regular := b.Next()
	broken := false
	for i := range 3000 { // the right share, every fourth packet
		broken = regular.See(0.25, i%4 == 0) || broken
	}
	if !broken {
		t.Error("regular drops are not refused")
	}
}

// A bug that begins late is found as soon as one from the start: right probabilities before it do not hide it.
func TestWagersFindProbabilitiesThatBecomeWrong(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var b Budget
	for name, q := range map[string]func(p float64) float64{
		"half":  func(p float64) float64 { return p / 2 },
		"never": func(float64) float64 { return 0 },
	} {
		w := b.Next()
		if n, broken := selects(w, random, 50_000, func(p float64) float64 { return p }); broken {
			t.Fatalf("right probabilities are refused after %d packets", n)
		}
		if n, broken := selects(w, random, 1500, q); !broken {
			t.Errorf("%s: not refused in %d packets after 50,000 right ones", name, n)
		}
	}
	w := b.Next() // half and one and a half times as likely in turns: right on the average
	broken := false
	for i := range 20_000 {
		factor := 0.5 + float64(i/1000%2)
		broken = w.See(0.3, random.Float64() < 0.3*factor) || broken
	}
	if !broken {
		t.Error("probabilities that are right on the average are not refused")
	}
}

// Independent draws of flows are never refused, even if all have the same probabilities; equal ones are at once.
func TestTwinsFindEqualDrawsOnly(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var b Budget
	for range 50 {
		w := NewTwins(&b)
		for i := range 20_000 { // four flows
			if p := 0.02 + 0.9*random.Float64(); w.See(i/4, p, random.Float64() < p) {
				t.Fatalf("independent draws are refused after %d packets", i)
			}
		}
	}
	for _, spread := range []float64{0, 0.1, 0.9} {
		w, broken := NewTwins(&b), 0
		for i := 0; i < 4000 && broken == 0; i += 2 {
			u := random.Float64()
			for range 2 {
				if p := 0.05 + spread*random.Float64(); w.See(i/2, p, u < p) {
					broken = i + 1
				}
			}
		}
		if broken == 0 {
			t.Errorf("equal draws of two flows whose probabilities differ by up to %v are not refused", spread)
		}
	}
}
