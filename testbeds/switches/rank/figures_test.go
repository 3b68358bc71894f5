package rank

import (
	"math/big"
	"slices"
	"testing"

	judge "candela.dev/candela/analyzers/rank"
)

// ofFigure43 is the arrivals of figure 4-3. What PIFO and FIFO do with those of figure 4-2 is a test of whole runs, in
// package switchtest.
var ofFigure43 = []uint64{1, 4, 5, 2, 1, 2}

// The oracle, which keeps what PIFO does, knows all six ranks and has a fixed threshold, four of six: as if two of six
// places stayed taken.
func TestFigure43TheOracleAdmitsWhatPIFOKeepsInOrderOfArrival(t *testing.T) {
	m := newAIFO(judge.Admission{Target: 6, Below: true, Window: 6, Sample: 1, Room: 6}, nil, nil)
	w := m.port(0)
	for _, r := range ofFigure43 {
		w.insert(r)
	}
	var kept []uint64
	for _, r := range ofFigure43 {
		if m.admits(2, m.below(w, r), int64(w.filled)) {
			kept = append(kept, r)
		}
	}
	if !slices.Equal(kept, []uint64{1, 2, 1, 2}) {
		t.Errorf("AIFO admits %v", kept)
	}
}

// Figure 4-4: C = 6, k = 1/6, half of the window is smaller: of 2 that wait 0.8 is free, of 5 0.2.
func TestFigure44ThresholdsOfTwoAndFive(t *testing.T) {
	m := newAIFO(judge.Admission{Target: 6, HeadroomPPM: 166_667, Window: 16, Sample: 1, Room: 6}, nil, nil)
	for c, want := range map[int64]bool{2: true, 5: false} {
		if got := m.admits(c, 8, 16); got != want {
			t.Errorf("%d wait: admitted %v", c, got)
		}
	}
}

// k C and the shares are compared without rounding, as far as the parameters go.
func TestTheRuleOfAIFOIsExact(t *testing.T) {
	number := func(n int64) *big.Int { return big.NewInt(n) }
	exact := func(s *judge.Admission, c, below, filled int64) bool {
		million := number(1_000_000)
		rest := new(big.Int).Sub(million, number(s.HeadroomPPM))
		if new(big.Int).Mul(number(c), million).Cmp(new(big.Int).Mul(number(s.HeadroomPPM), number(s.Target))) <= 0 {
			return true
		}
		left := new(big.Int).Mul(new(big.Int).Mul(number(below), number(s.Target)), rest)
		right := new(big.Int).Mul(new(big.Int).Mul(number(s.Target-c), million), number(max(filled, 1)))
		order := left.Cmp(right)
		return order < 0 || order == 0 && !s.Below
	}
	cases := 0
	for _, target := range []int64{1, 2, 3, 7, 10, 20, 1000, 1<<20 - 1, 1 << 20} {
		for _, k := range []int64{0, 1, 100_000, 166_666, 333_333, 500_000, 999_999} {
			for _, c := range []int64{0, 1, 2, k * target / 1_000_000, k*target/1_000_000 + 1, target - 1, target, target + 1} {
				for _, filled := range []int64{0, 1, 20, 1 << 16} {
					for _, below := range []int64{0, filled / 2, filled} {
						for _, strict := range []bool{false, true} {
							s := judge.Admission{Target: target, HeadroomPPM: k, Below: strict, Window: 1, Sample: 1}
							cases++
							if got, want := newAIFO(s, nil, nil).admits(c, below, filled), exact(&s, c, below, filled); got != want {
								t.Errorf("%+v: %d wait, %d of %d smaller: %v, want %v", s, c, below, filled, got, want)
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}
