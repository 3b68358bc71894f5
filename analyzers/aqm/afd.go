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
	first       bool    // updates precede what happens at their instant
	// the same with the other order. Nothing says which a switch has; the first record on which both differ shows it.
	other *fairRate
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
	other := *f
	other.first = true
	f.other = &other
	return f
}

// claims takes the claim of a record, and reports whether a correct switch makes it.
func (f *fairRate) claims(claim int64) bool {
	own := near(claim, f.rate)
	if f.other == nil || own && near(claim, f.other.rate) {
		return own
	}
	if !own && near(claim, f.other.rate) {
		*f, own = *f.other, true
	}
	f.other = nil
	return own
}

// exceeds reports whether the fair rate is above a flow's, whichever order its updates have.
func (f *fairRate) exceeds(flow float64) bool {
	return flow < f.rate*(1-1e-9) && (f.other == nil || flow < f.other.rate*(1-1e-9))
}

// advance makes the updates before now; waiting bytes have been in the queue since the last call. What happens at the
// instant of an update precedes it, or follows it if first is set.
func (f *fairRate) advance(now clock.Time, waiting int64) {
	if f.other != nil {
		f.other.advance(now, waiting)
	}
	if f.first {
		now++ // clock.Time counts the smallest unit
	}
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
