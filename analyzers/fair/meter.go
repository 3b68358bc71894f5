package fair

import (
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
)

// meter is an estimate of a rate in bit/s.
type meter struct {
	value float64
	at    clock.Time // of the last update, or of the beginning of the window
	begun bool
	bits  float64 // of the window
}

// constants are what meters of a port share.
type constants struct {
	set    *fair.Settings
	window clock.Duration
}

func seconds(d clock.Duration) float64 { return float64(d) / float64(clock.Second) }

// update takes a packet; k is the averaging time.
func (m *meter) update(now clock.Time, bits float64, k clock.Duration, c *constants) float64 {
	if c.set.Mode == fair.Dataplane {
		return m.window(now, bits, c)
	}
	elapsed := now.Sub(m.at)
	switch {
	case !m.begun:
		m.value = bits / seconds(k)
	case elapsed == 0:
		m.value += bits / seconds(k)
	default: // equation 3.4, with the sign of its proof
		gone := -math.Expm1(-float64(elapsed) / float64(k)) // 1 − e^(−T/K), which a subtraction would cancel at short gaps
		m.value = gone*bits/seconds(elapsed) + (1-gone)*m.value
	}
	m.begun, m.at = true, now
	return m.value
}

// window is the approximation of section 5, 1.
func (m *meter) window(now clock.Time, bits float64, c *constants) float64 {
	if !m.begun {
		m.begun, m.at, m.bits = true, now, bits
		return m.value
	}
	elapsed := now.Sub(m.at)
	if elapsed <= c.window {
		m.bits += bits
		return m.value
	}
	over := elapsed
	if c.set.WindowDivides {
		over = c.window
	}
	sample := m.bits / seconds(over)
	if c.set.AverageShift > 0 {
		m.value += (sample - m.value) / float64(uint64(1)<<c.set.AverageShift)
	} else {
		m.value = sample
	}
	m.at, m.bits = now, bits
	return m.value
}

// decay is an update with no bits, if the last one is k ago.
func (m *meter) decay(now clock.Time, least clock.Duration, k clock.Duration, c *constants) {
	if c.set.Mode == fair.Dataplane || least == 0 || !m.begun || now.Sub(m.at) < least {
		return
	}
	m.update(now, 0, k, c)
}
