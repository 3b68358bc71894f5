package deflect

import (
	"math"
	"math/bits"

	"candela.dev/candela/deflect"
)

// billion is the denominator of R of Dist….
const billion = 1_000_000_000

// window is the recent priority values of a port (§3.6).
type window struct {
	values []uint32
	filled int
	next   int // place that is written next
	count  int // of packets since the latest sample
	known  int64
	hashed bool // known is the hash of the values
}

// smaller counts the values below x.
func (w *window) smaller(x uint32) (n int) {
	for _, v := range w.values[:w.filled] {
		if v < x {
			n++
		}
	}
	return n
}

// pass counts a packet and reports whether it was sampled: one in period, the first included.
func (w *window) pass(x uint32, places, period int) bool {
	sampled := w.count == 0
	if sampled {
		if w.values == nil {
			w.values = make([]uint32, places)
		}
		w.values[w.next], w.hashed = x, false
		if w.next++; w.next == places {
			w.next = 0
		}
		w.filled = min(w.filled+1, places)
	}
	if w.count++; w.count >= period {
		w.count = 0
	}
	return sampled
}

// hash is deflect.WindowHash of the window.
func (w *window) hash() int64 {
	if w.hashed {
		return w.known
	}
	w.hashed = true
	w.known = deflect.WindowHash(func(yield func(uint64) bool) {
		for i := range w.filled {
			at := i
			if w.filled == len(w.values) {
				at = (w.next + i) % w.filled
			}
			if !yield(uint64(w.values[at])) {
				return
			}
		}
	})
	return w.known
}

// exponential returns 1 − exp(−x count / sum) in billionths (§3.7); sum / count is the mean.
func exponential(x, sum, count uint64) uint64 {
	switch {
	case x == 0 || count == 0:
		return 0
	case sum == 0:
		return billion
	}
	return uint64(math.Round(-math.Expm1(-float64(x)*float64(count)/float64(sum)) * billion))
}

// binned is exponential with the tables of hardware.
func binned(x, mean uint64) uint64 { return exponential(deflect.DistBin(x), deflect.DistBin(mean), 1) }

// average returns floor(((divisor − 1) mean + x) / divisor).
func average(mean, x, divisor uint64) uint64 { return ((divisor-1)*mean + x) / divisor }

// less reports whether a·b < c·d, and whether both are equal.
func less(a, b, c, d uint64) (below, equal bool) {
	h1, l1 := bits.Mul64(a, b)
	h2, l2 := bits.Mul64(c, d)
	return h1 < h2 || h1 == h2 && l1 < l2, h1 == h2 && l1 == l2
}

// beyond reports whether occ is beyond Eq. 1's threshold Q (1 − alpha num/den), alpha being in millionths: occ is below
// Q.
func beyond(occ, room int, alpha, num, den uint64, equal bool) bool {
	below, same := less(uint64(room-occ)*1_000_000, den, uint64(room)*alpha, num)
	return below || equal && same
}

// tabled is beyond as hardware compares: floor(Q alpha R) ≥ Q − occ.
func tabled(occ, room int, alpha, num uint64) bool {
	below, _ := less(uint64(room)*alpha, num, uint64(room-occ), 1_000_000*billion)
	return !below
}

// drawnOver reports whether U, of 53 bits, is below R (occ − least) / (Q − least) (§3.8).
func drawnOver(draw uint64, occ, least, room int, num, den uint64) bool {
	below, _ := less(draw, den*uint64(room-least), 1<<53, num*uint64(occ-least))
	return below
}
