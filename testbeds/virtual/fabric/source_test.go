package fabric

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestASwitchDrawsWhatAPlainGeneratorDraws compares with rand.Rand on a bare PCG, for both ways to draw, and compares
// predictions with draws.
func TestASwitchDrawsWhatAPlainGeneratorDraws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		var s source
		s.seed(seed, 7)
		through, plain := rand.New(&s), rand.New(rand.NewPCG(seed, 7))
		for _, n := range rapid.SliceOf(rapid.OneOf(rapid.Uint64Range(1, 70), rapid.Uint64Range(1<<62, 1<<63-1))).Draw(t,
			"bounds") {
			foreseen := s.peek(n)
			if got, want := s.below(n), uint64(plain.IntN(int(n))); got != want || n < 1<<32 && foreseen != want {
				t.Fatalf("below %d: %d, foreseen as %d, want %d", n, got, foreseen, want)
			}
			if got, want := through.Float64(), plain.Float64(); got != want {
				t.Fatalf("drew %v, want %v", got, want)
			}
		}
	})
}
