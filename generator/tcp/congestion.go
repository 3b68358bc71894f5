package tcp

import (
	"math"

	"candela.dev/candela/clock"
)

// window is the congestion window and its control, in segments.
type window struct {
	control   Control
	size      float64
	threshold float64 // of slow start

	// CUBIC (RFC 9438)
	max     float64    // window before the last reduction
	before  float64    // the same without fast convergence
	epoch   clock.Time // start of the current growth; Never: not yet
	plateau float64    // seconds from epoch to the plateau (K)
	origin  float64    // window at the plateau
	reno    float64    // Reno's window (W_est)
}

// CUBIC's constants (RFC 9438, 4.1 and 5).
const (
	cubicC    = 0.4
	cubicBeta = 0.7
)

func newWindow(cfg *Config) window {
	w := window{control: cfg.Control, size: float64(cfg.InitialWindow), threshold: math.Inf(1), epoch: clock.Never}
	if cfg.Threshold > 0 {
		w.threshold = float64(cfg.Threshold)
	}
	return w
}

// segments returns the window in whole segments, at least one: below that, Swift paces.
func (w *window) segments() int { return max(1, int(w.size)) }

// grow takes an acknowledgement of n more segments.
func (w *window) grow(now clock.Time, n float64, rtt clock.Duration) {
	if w.size < w.threshold { // slow start
		room := w.threshold - w.size
		w.size += min(n, room)
		if n -= min(n, room); n <= 0 {
			return
		}
	}
	if w.control != Cubic {
		w.size += n / w.size
		return
	}
	w.cubic(now, n, rtt)
}

// cubic grows the window in congestion avoidance (RFC 9438, 4.2 to 4.5).
func (w *window) cubic(now clock.Time, n float64, rtt clock.Duration) {
	if w.epoch == clock.Never {
		w.epoch, w.reno, w.origin, w.plateau = now, w.size, max(w.max, w.size), 0
		if w.max > w.size {
			w.plateau = math.Cbrt((w.max - w.size) / cubicC)
		}
	}
	alpha := 3 * (1 - cubicBeta) / (1 + cubicBeta)
	if w.reno >= w.before {
		alpha = 1
	}
	w.reno += alpha * n / w.size
	since := func(d clock.Duration) float64 {
		t := float64(d)/float64(clock.Second) - w.plateau
		return cubicC*t*t*t + w.origin
	}
	age := now.Sub(w.epoch)
	if since(age) < w.reno {
		w.size = max(w.size, w.reno)
		return
	}
	target := min(max(since(age+rtt), w.size), 1.5*w.size)
	w.size += (target - w.size) * n / w.size
}

// reduce reduces the window at the first sign of loss in it.
func (w *window) reduce() {
	share := 0.5
	if w.control == Cubic {
		share = cubicBeta
		w.before = w.size
		if w.size < w.max { // fast convergence
			w.max = w.size * (1 + cubicBeta) / 2
		} else {
			w.max = w.size
		}
		w.epoch = clock.Never
	}
	w.threshold = max(minWindow, w.size*share)
	w.size = w.threshold
}

// collapse reduces the window to one segment after a timeout. Only the first timeout of a segment changes the threshold
// (RFC 5681, 3.1).
func (w *window) collapse(first bool) {
	if first {
		w.reduce()
	}
	w.size, w.epoch = 1, clock.Never
}

// collapse reduces the window after a timeout.
func (s *sender) collapse(now clock.Time) {
	if s.swift != nil {
		s.swiftTimeout(now)
		return
	}
	s.window.collapse(s.backoff == 0)
}

// measure takes an RTT sample (RFC 6298, 2).
func (s *sender) measure(rtt clock.Duration) {
	s.minRTT = min(s.minRTT, rtt)
	if s.srtt == 0 {
		s.srtt, s.variance = rtt, rtt/2
		return
	}
	off := rtt - s.srtt
	s.variance += (max(off, -off) - s.variance) / 4
	s.srtt += off / 8
}
