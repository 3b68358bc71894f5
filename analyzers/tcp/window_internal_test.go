package tcp

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Whatever window up to the greatest and threshold up to the highest a Reno sender has (RFC 5681, 3.1), an
// acknowledgement leaves it at most the greatest window that the analyzer keeps.
func TestNoRenoSenderOutgrowsTheGreatestWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const mss = 1000
		a := New(Config{MSS: mss, InitialWindow: 10, Beta: reno})
		s := a.stream(streamKey{})
		size := rapid.Float64Range(1, 60).Draw(rt, "greatest window")
		threshold := rapid.Float64Range(leastThreshold, 60).Draw(rt, "highest threshold")
		n := float64(rapid.IntRange(1, 100).Draw(rt, "segments"))
		w := rapid.Float64Range(1, size).Draw(rt, "window")
		ends := rapid.Float64Range(leastThreshold, threshold).Draw(rt, "threshold")
		s.size, s.threshold = size*mss, threshold*mss
		a.grow(s, n)

		was, left := w, n
		if w < ends {
			slow := min(left, ends-w)
			w, left = w+slow, left-slow
		}
		if w += left / w; w*mss > s.size*(1+1e-9) {
			rt.Fatalf(
				"a window of %g below %g with a threshold of %g below %g has %g after %g segments; the greatest is said to be %g",
				was, size, ends, threshold, w, n, s.size/mss)
		}
		// A sender that reaches the window exists, so that a greater one is always reported.
		most := 0.0
		for _, from := range []float64{1, min(size, leastThreshold), size} {
			for _, to := range []float64{leastThreshold, max(leastThreshold, min(size, threshold)), threshold} {
				v, left := from, n
				if v < to {
					slow := min(left, to-v)
					v, left = v+slow, left-slow
				}
				most = max(most, v+left/v)
			}
		}
		if math.Abs(most*mss-s.size) > 1e-6*s.size {
			rt.Fatalf(
				"the greatest window of %g below a threshold of %g is said to be %g after %g segments; no sender has more than %g",
				size, threshold, s.size/mss, n, most)
		}
	})
}
