package tcp

import (
	"math"

	"candela.dev/candela/clock"
)

// window is the greatest congestion window that a sender can have, in bytes, and what is on its way.
type window struct {
	size      float64
	threshold float64 // of slow start, at most
	flight    int64   // bytes that are on their way for certain

	before  float64 // what it was before it shrank last
	shrunk  clock.Time
	waiting float64 // bytes, at most, that waited at the NIC then
}

func newWindow(c *Config) window {
	return window{size: float64(c.InitialWindow * c.MSS), threshold: math.Inf(1)}
}

// leastThreshold is the least threshold of slow start, in segments (RFC 5681, 3.1, equation 4).
const leastThreshold = 2

// room returns the window by which a packet that leaves now was sent: if it may have waited at its NIC since, the one before it
// shrank. No more than that window had room for can have waited.
func (a *Analyzer) room(s *stream) float64 {
	if a.decided(s.key.src) < s.shrunk && s.waiting >= 0 {
		return max(s.size, s.before)
	}
	return s.size
}

// shrink makes the window smaller.
func (a *Analyzer) shrink(s *stream, to float64) {
	s.before = a.room(s)
	s.waiting = s.before + float64(a.cfg.MSS) - float64(s.flight)
	s.shrunk, s.size = a.now, to
}

// share returns what loss leaves of the window.
func (a *Analyzer) share(s *stream) float64 {
	return max(leastThreshold*float64(a.cfg.MSS), s.size*a.cfg.Beta)
}

// halve follows the first sign of loss in a window.
func (a *Analyzer) halve(s *stream) {
	s.threshold = a.share(s)
	a.shrink(s, s.threshold)
}

// collapse follows a timeout. Only the first one of a segment moves the threshold (RFC 5681, 3.1).
func (a *Analyzer) collapse(s *stream) {
	if s.timeouts == 0 {
		s.threshold = a.share(s)
	}
	a.shrink(s, float64(a.cfg.MSS))
}

// grow follows the acknowledgement of n segments. The sender may have a smaller window and a lower threshold; as each of the ways to
// grow takes a greater window to a greater one, the greatest stays the greatest.
func (a *Analyzer) grow(s *stream, n float64) {
	mss := float64(a.cfg.MSS)
	slow := max(0, min(n, (s.threshold-s.size)/mss))
	s.size += slow * mss
	if n -= slow; n <= 0 {
		return
	}
	if a.cfg.Beta > reno { // CUBIC grows by half of itself in a round trip at the most (RFC 9438, 4.4)
		s.size += n / 2 * mss
		return
	}
	// w + n/w is greatest for the greatest window or, where n is large, for the smallest.
	w := s.size / mss
	s.size = mss * max(w+n/w, leastThreshold+n/leastThreshold)
}

// reno is the share of the window that RFC 5681 leaves, whose congestion avoidance adds a segment in a round trip.
const reno = 0.5
