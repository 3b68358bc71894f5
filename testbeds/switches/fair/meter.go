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
	inverse  float64 // 1/K, for each ps, of exponential averages
	rate     float64 // a bit in K, in bit/s
	window   clock.Duration
	divides  bool    // samples divide by the window, not by the time that has passed
	weight   float64 // of a sample
	windowed bool
	faults   *meterFaults
}

type meterFaults struct{ literalSign, zeroStart, skipsInstant, lastGap bool }

const perSecond = float64(clock.Second)

// over returns a with exponential averages over K.
func (a averaging) over(k clock.Duration) averaging {
	a.inverse, a.rate = 1/float64(k), perSecond/float64(k)
	return a
}

// add counts bits that arrive now, and returns the rate.
func (m *meter) add(now clock.Time, bits float64, a *averaging) float64 {
	if a.windowed {
		return m.addToWindow(now, bits, a)
	}
	if !m.seen { // 4.2: len/K
		m.seen, m.last = true, now
		if !a.faults.zeroStart {
			m.rate = bits * a.rate
		}
		return m.rate
	}
	x := float64(now-m.last) * a.inverse
	m.last = now
	// (1 - e^-x)/x, by its series where a subtraction would cancel
	share := 1 - x*(1./2-x*(1./6-x*(1./24-x*(1./120-x*(1./720)))))
	if x > 0.01 {
		share = -math.Expm1(-x) / x
	}
	sample := bits * a.rate
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
