package fair

import (
	"math"

	"candela.dev/candela/clock"
)

// meter estimates a rate in bit/s.
type meter struct {
	rate float64
	bits float64    // Dataplane: of the window
	last clock.Time // update, or beginning of the window
	seen bool
}

// averaging is how meters average.
type averaging struct {
	period   float64 // K in ps, for exponential averages
	window   clock.Duration
	divides  bool    // samples divide by the window, not by the time that has passed
	weight   float64 // of a sample
	windowed bool
	faults   *meterFaults
}

type meterFaults struct{ literalSign, zeroStart, skipsInstant, lastGap bool }

const perSecond = float64(clock.Second)

// add counts bits that arrive now, and returns the rate.
func (m *meter) add(now clock.Time, bits float64, a *averaging) float64 {
	if a.windowed {
		return m.addToWindow(now, bits, a)
	}
	if !m.seen { // 4.2: len/K
		m.seen, m.last = true, now
		if !a.faults.zeroStart {
			m.rate = bits * perSecond / a.period
		}
		return m.rate
	}
	x := float64(now-m.last) / a.period
	m.last = now
	// (1 - e^-x)/x, by its series where a subtraction would cancel
	share := 1 - x/2*(1-x/3*(1-x/4*(1-x/5*(1-x/6))))
	if x > 0.01 {
		share = -math.Expm1(-x) / x
	}
	sample := bits * perSecond / a.period
	switch f := a.faults; {
	case f.literalSign: // equation 3.4 as printed
		m.rate = math.Exp(x)*m.rate - math.Expm1(max(x, 1e-9))/max(x, 1e-9)*sample
	case f.skipsInstant && x == 0:
	case f.lastGap:
		m.rate = sample / max(x, 1e-9)
	default:
		m.rate = share*sample + (1-x*share)*m.rate
	}
	return m.rate
}

// addToWindow is 5, 1.
func (m *meter) addToWindow(now clock.Time, bits float64, a *averaging) float64 {
	if !m.seen {
		m.seen, m.last, m.bits = true, now, bits
		return m.rate
	}
	elapsed := now.Sub(m.last)
	if elapsed <= a.window {
		m.bits += bits
		return m.rate
	}
	if a.divides {
		elapsed = a.window
	}
	m.rate += (m.bits*perSecond/float64(elapsed) - m.rate) * a.weight
	m.last, m.bits = now, bits
	return m.rate
}
