package aqm

import (
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

// fairRate follows the fair rate of a queue by what waited there at the multiples of the period.
type fairRate struct {
	policy      aqm.Policy
	desired     float64
	low, high   float64
	rate        float64
	before      float64 // bytes at the last update
	update      clock.Time
	gainP, gain float64 // bit/s per byte
}

func newFairRate(now clock.Time, p aqm.Policy, link clock.BitRate) *fairRate {
	f := &fairRate{policy: p, desired: float64(p.DesiredBytes), high: float64(link), rate: float64(link)}
	if p.DesiredBytes == 0 {
		f.desired = float64(aqm.DesiredDepth(link))
	}
	f.low = min(float64(p.LeastRate), f.high)
	perSecond := float64(clock.Second) / float64(p.Period)
	f.gainP, f.gain = 8*perSecond*p.Kp, 8*perSecond*p.Ki
	f.update = clock.Time(0).Add((now.Sub(0)/p.Period + 1) * p.Period)
	return f
}

// advance makes the updates before now; waiting bytes have been in the queue since the last call. What happens at the
// instant of an update precedes it.
func (f *fairRate) advance(now clock.Time, waiting int64) {
	q := float64(waiting)
	for f.update < now {
		next := min(max(f.rate-f.gain*(q-f.desired)-f.gainP*(q-f.before), f.low), f.high)
		if next == f.rate && q == f.before { // and so on up to now
			periods := (now.Sub(f.update) + f.policy.Period - 1) / f.policy.Period
			f.update = f.update.Add(periods * f.policy.Period)
			return
		}
		f.rate, f.before = next, q
		f.update = f.update.Add(f.policy.Period)
	}
}

// probability returns that of a drop or mark for an elephant of a rate.
func (f *fairRate) probability(rate float64, waiting int64) float64 {
	switch {
	case waiting == 0, rate <= f.rate, f.policy.Gate && float64(waiting) < f.desired/2:
		return 0
	case f.policy.Function == aqm.Excess:
		return min(rate/f.rate-1, f.policy.MaxDrop)
	}
	return min((rate-f.rate)/rate, f.policy.MaxDrop)
}
