package tcp

import (
	"math"

	"candela.dev/candela/clock"
)

// window is the greatest congestion window that a sender can have, in bytes, and what is in flight.
type window struct {
	size      float64
	threshold float64 // of slow start, at most
	peak      float64 // size at the latest new acknowledgement
	flight    int64   // bytes that are on their way for certain

	before  float64 // what it was before it shrank last
	shrunk  clock.Time
	waiting float64 // bytes, at most, that waited at the NIC then
}

func newWindow(c *Config) window {
	initial := float64(c.InitialWindow * c.MSS)
	w := window{size: initial, threshold: math.Inf(1), peak: initial}
	if c.Threshold > 0 {
		w.threshold = float64(c.Threshold * c.MSS)
	}
	return w
}

// leastThreshold is the least threshold of slow start, in segments (RFC 5681, 3.1, equation 4).
const leastThreshold = 2

// room returns the window by which a packet that leaves now was sent: the earlier one if the packet may have waited at
// its NIC since the window shrank. No more than the earlier window can have waited.
func (a *Analyzer) room(s *stream) float64 {
	if s.swift == nil && a.decided(s.key.src) < s.shrunk && s.waiting >= 0 {
		return max(s.size+s.dups.extra, s.before)
	}
	return s.size + s.dups.extra
}

// shrink makes the window smaller.
func (a *Analyzer) shrink(s *stream, to float64) {
	s.before = a.room(s)
	s.waiting = s.before + float64(a.cfg.MSS) - float64(s.flight)
	s.shrunk, s.size = a.now, to
}

// share returns what loss leaves of a window.
func (a *Analyzer) share(size float64) float64 {
	return max(leastThreshold*float64(a.cfg.MSS), size*a.cfg.Beta)
}

// halve follows the first sign of loss in a window.
func (a *Analyzer) halve(s *stream) {
	s.threshold = a.share(s.size)
	a.shrink(s, s.threshold)
}

// collapse handles a timeout. Only the first one of a segment changes the threshold (RFC 5681, 3.1). If that one may
// not have been seen, it may have come before what shrank the window since the latest new acknowledgement, and replaced
// it.
func (a *Analyzer) collapse(s *stream) {
	switch {
	case s.timeouts > 0:
	case s.unseen:
		s.threshold = a.share(s.peak)
	default:
		s.threshold = a.share(s.size)
	}
	a.shrink(s, float64(a.cfg.MSS))
}

// grow handles the acknowledgement of n segments. The sender may have a smaller window and a lower threshold, and the
// greatest result need not come from the greatest window.
func (a *Analyzer) grow(s *stream, n float64) {
	mss := float64(a.cfg.MSS)
	w := s.size / mss
	top := max(w, min(w+n, s.threshold/mss)) // where slow start can end
	rest := n - (top - w)
	if a.cfg.Beta > reno { // CUBIC grows by at most half of itself in a round trip (RFC 9438, 4.4)
		s.size = mss * (top + rest/2)
		return
	}
	if rest <= 0 {
		s.size = mss * top
		return
	}
	// Avoidance that starts at v with m segments left ends at v + m/v. That is greatest for the greatest v: without slow
	// start before it or, where n is large, for the least.
	most := max(top+rest/top, leastThreshold+(n-max(0, leastThreshold-w))/leastThreshold)
	if w >= leastThreshold {
		most = max(most, w+n/w)
	}
	s.size = mss * most
}

// reno is the share of the window that remains in RFC 5681, whose congestion avoidance adds a segment in a round trip.
const reno = 0.5
