package deflect

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
)

// §4, figure 15: priority values 5, 1, 4, 2, 3, 2 arrive, and all of them wait; the window has the last four.
func TestRelativePrioritiesOfTheWorkedComparison(t *testing.T) {
	var w window
	var queue []uint32
	var sum uint64
	for i, c := range []struct {
		value                        uint32
		ideal, quantile, exponential float64
	}{{5, 0, 0, 0}, {1, 0, 0, .18}, {4, .50, .25, .74}, {2, .33, .25, .45}, {3, .50, .50, .63}, {2, .20, .25, .49}} {
		smaller := 0
		for _, q := range queue {
			if q < c.value {
				smaller++
			}
		}
		if got := float64(smaller) / math.Max(1, float64(len(queue))); math.Abs(got-c.ideal) > .005 {
			t.Errorf("packet %d: ideal R is %.3f", i, got)
		}
		if got := float64(w.smaller(c.value)) / 4; got != c.quantile {
			t.Errorf("packet %d: the quantile is %.3f, want %.2f", i, got, c.quantile)
		}
		got := float64(exponential(uint64(c.value), sum, uint64(len(queue)))) / billion
		if math.Abs(got-c.exponential) > .005 {
			t.Errorf("packet %d: by the exponential distribution R is %.4f, want %.2f", i, got, c.exponential)
		}
		w.pass(c.value, 4, 1)
		queue, sum = append(queue, c.value), sum+uint64(c.value)
	}
	if got := exponential(2, 15, 5); got != 486_582_881 { // 1 − e^(−2/3)
		t.Errorf("the last R is %d billionths", got)
	}
}

// §3.3: of the bitmap 10011 a scan from the fourth port on visits 4, 5, 1, 2 and takes 2.
func TestAScanGoesRoundTheBitmap(t *testing.T) {
	bitmap := "10011"
	var seen []int
	for i := range len(bitmap) {
		at := visited(len(bitmap), 3, i)
		if seen = append(seen, at+1); bitmap[at] == '0' {
			break
		}
	}
	if !slices.Equal(seen, []int{4, 5, 1, 2}) {
		t.Errorf("visits %v", seen)
	}
}

// shares returns how often each port is picked, over all bitmaps and numbers at random: congested has the probabilities
// of bits. The last value is how often none is.
func shares(congested []float64, draws int) []float64 {
	n := len(congested)
	of := make([]float64, n+1)
	for bitmap := range 1 << n {
		p := 1.0
		for i, c := range congested {
			if bitmap>>i&1 == 1 {
				p *= c
			} else {
				p *= 1 - c
			}
		}
		for r := range draws {
			to := n
			for i := range n {
				if at := visited(n, r, i); bitmap>>at&1 == 0 {
					to = at
					break
				}
			}
			of[to] += p / float64(draws)
		}
	}
	return of
}

// Appendix E: with equal congestion every port is as likely, and none is free with probability p^n. §3.3: with uneven
// congestion the successor of a congested port has its share. §9: 5 bits over 8 ports give the first 63 %.
func TestScansPickPortsWithTheProbabilitiesOfAppendixE(t *testing.T) {
	for _, n := range []int{1, 2, 4, 7} {
		for _, p := range []float64{0, .2, .5, .9} {
			got := shares(slices.Repeat([]float64{p}, n), n)
			none := math.Pow(p, float64(n))
			for i, share := range got[:n] {
				if math.Abs(share-(1-none)/float64(n)) > 1e-12 {
					t.Errorf("%d ports, p = %g: port %d has %.6f", n, p, i, share)
				}
			}
			if math.Abs(got[n]-none) > 1e-12 {
				t.Errorf("%d ports, p = %g: none in %.6f", n, p, got[n])
			}
		}
	}
	// exactly .4498, .2698, .2518, .0278; §3.3 has them within .0012
	for i, want := range []float64{.451, .271, .251, .027} {
		if got := shares([]float64{.1, .1, .1, .9}, 4); math.Abs(got[i]-want) > .0013 {
			t.Errorf("uneven congestion: port %d has %.4f, want %.3f", i, got[i], want)
		}
	}
	if got := shares(slices.Repeat([]float64{.2}, 8), 32)[0]; math.Abs(got-.63) > .005 {
		t.Errorf("with 5 bits the first port has %.4f", got)
	}
}

// §3.5: with α = 0.1 and 300 KB the least important packet is refused above 270 KB, R = 0.5 above 285 KB.
func TestTheThresholdOfEquation1(t *testing.T) {
	const room, tenth = 300_000, 100_000
	for _, c := range []struct {
		occ      int
		num, den uint64
		equal    bool
		want     bool
	}{{270_000, 1, 1, false, false}, {270_001, 1, 1, false, true}, {270_000, 1, 1, true, true}, {285_000, 10, 20,
		false, false},
		{285_001, 10, 20, false, true}, {299_999, 0, 20, true, false}} {
		if got := beyond(c.occ, room, tenth, c.num, c.den, c.equal); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Comparisons in integers are those of rational numbers.
func TestComparisonsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(256, maxQueue).Draw(t, "room")
		occ := rapid.IntRange(0, room-1).Draw(t, "occ")
		alpha := rapid.Uint64Range(0, 1_000_000).Draw(t, "alpha")
		den := rapid.SampledFrom([]uint64{1, 20, maxWindow, billion}).Draw(t, "den")
		num := rapid.Uint64Range(0, den).Draw(t, "num")
		rat := func(a, b uint64) *big.Rat {
			return new(big.Rat).SetFrac(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
		}
		mul := func(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
		q, r, a := rat(uint64(room), 1), rat(num, den), rat(alpha, 1_000_000)
		tau := new(big.Rat).Sub(q, mul(q, mul(a, r)))
		if got, want := beyond(occ, room, alpha, num, den, false), rat(uint64(occ), 1).Cmp(tau) > 0; got != want {
			t.Fatalf("Eq. 1: %v", got)
		}
		if got, want := beyond(occ, room, alpha, num, den, true), rat(uint64(occ), 1).Cmp(tau) >= 0; got != want {
			t.Fatalf("Eq. 1, equality deflects: %v", got)
		}
		if den == billion {
			product := mul(q, mul(a, r))
			floor := new(big.Int).Quo(product.Num(), product.Denom())
			if got, want := tabled(occ, room, alpha, num), floor.Cmp(big.NewInt(int64(room-occ))) >= 0; got != want {
				t.Fatalf("hardware: %v", got)
			}
		}
		least := rapid.IntRange(0, room-1).Draw(t, "least")
		draw := rapid.Uint64Range(0, 1<<53-1).Draw(t, "draw")
		if occ > least {
			p := mul(r, rat(uint64(occ-least), uint64(room-least)))
			if got, want := drawnOver(draw, occ, least, room, num, den), rat(draw, 1<<53).Cmp(p) < 0; got != want {
				t.Fatalf("§3.8: %v", got)
			}
		}
	})
}

// §3.7: M' = floor((49 M + x) / 50).
func TestTheMovingAverageRoundsDown(t *testing.T) {
	for _, c := range [][3]uint64{{0, 49, 0}, {0, 50, 1}, {100, 0, 98}, {45, 45, 45}, {2, 45, 2}} {
		if got := average(c[0], c[1], 50); got != c[2] {
			t.Errorf("%v: %d", c, got)
		}
	}
}

// §3.6: the window has the first, the (S+1)th, … value, the newest W of them, and its hash has them from the oldest on.
func TestAWindowSamplesOneOfSMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, period := rapid.IntRange(1, 8).Draw(t, "W"), rapid.IntRange(1, 5).Draw(t, "S")
		var w window
		var all []uint64
		for i := range rapid.IntRange(0, 60).Draw(t, "packets") {
			x := rapid.Uint32Range(0, 9).Draw(t, "value")
			if sampled := w.pass(x, places, period); sampled != (i%period == 0) {
				t.Fatalf("packet %d: sampled %v", i, sampled)
			} else if sampled {
				all = append(all, uint64(x))
			}
		}
		newest := all[max(0, len(all)-places):]
		smaller := 0
		for _, v := range newest {
			if v < 5 {
				smaller++
			}
		}
		if w.smaller(5) != smaller || w.filled != len(newest) || w.hash() != deflect.WindowHash(slices.Values(newest)) {
			t.Fatalf("window %v, want %v", w.values[:w.filled], newest)
		}
	})
}

// What an ingress sees is copied when it is needed; it is what a copy at each instant of §5 would have.
func TestLateCopiesAreThoseOfTheirInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pipes := rapid.IntRange(1, 3).Draw(t, "pipes")
		period := clock.Duration(rapid.IntRange(3, 40).Draw(t, "period"))
		m := &Mechanism{set: deflect.Settings{Info: deflect.Snapshot, Pipes: pipes, Congested: 50}, period: period,
			ports: make([]port, 1), pipes: make([]pipe, pipes)}
		for j := range m.pipes {
			m.pipes[j] = pipe{phase: period * clock.Duration(j) / clock.Duration(pipes), seen: make([]view, 1)}
		}
		type change struct {
			at    clock.Time
			bytes int
		}
		past := []change{{-1, 0}}
		now, bytes := clock.Time(0), 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(clock.Duration(rapid.IntRange(0, 30).Draw(t, "gap")))
			if rapid.Bool().Draw(t, "changes") {
				m.changes(now, 0, bytes)
				bytes = rapid.IntRange(0, 99).Draw(t, "bytes")
				past = append(past, change{now, bytes})
				continue
			}
			j := rapid.IntRange(0, pipes-1).Draw(t, "pipe")
			p := &m.pipes[j]
			p.update(now, m, 0, bytes)
			want := 0
			if since := now.Sub(clock.Time(p.phase)); since >= 0 {
				at := clock.Time(p.phase).Add(since / period * period)
				for _, c := range past {
					if c.at < at {
						want = c.bytes
					}
				}
			}
			if got := p.seen[0]; got.bytes != want || got.bit != (want >= 50) {
				t.Fatalf("at %d pipe %d sees %+v, want %d bytes", now, j, got, want)
			}
		}
	})
}
