package aqm

import (
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

// AFD is approximate fair dropping of one egress queue: a fair rate that follows the queue, and the probability of a
// drop for a flow that exceeds it. The source gives no formulas: the law is that of Pan et al. (2003) with gains for
// measured rates.
type AFD struct {
	set         aqm.Policy
	link        clock.BitRate
	desired     int
	least, most float64
	fair        float64
	old         int        // bytes at the last update
	next        clock.Time // update
	faults      afdFaults
}

// afdFaults are seeded bugs.
type afdFaults struct{ perPacket, doubleGain, noLimit bool }

// NewAFD returns the state of a queue of a port with the rate of link, which starts now. Updates are at multiples of
// the period.
func NewAFD(now clock.Time, set aqm.Policy, link clock.BitRate) *AFD {
	a := &AFD{set: set, link: link, desired: set.DesiredBytes, most: float64(link), fair: float64(link)}
	if a.desired == 0 {
		a.desired = aqm.DesiredDepth(link)
	}
	a.least = min(float64(set.LeastRate), a.most)
	a.next = clock.Time(0).Add((now.Sub(0)/set.Period + 1) * set.Period)
	return a
}

// Fair returns the fair rate in bit/s.
func (a *AFD) Fair() float64 { return a.fair }

// Advance performs the updates before now; queue is how many bytes have waited since the last call. An update at an
// instant follows all that happens in it.
func (a *AFD) Advance(now clock.Time, queue int) {
	if a.faults.perPacket {
		a.update(queue)
		return
	}
	for a.next < now {
		before := a.fair
		old := a.old
		a.update(queue)
		a.next = a.next.Add(a.set.Period)
		if old == queue && a.fair == before { // at a bound, or at the desired depth: so it stays
			if n := now.Sub(a.next) / a.set.Period; n > 0 {
				a.next = a.next.Add(n * a.set.Period)
			}
		}
	}
}

func (a *AFD) update(queue int) {
	ki := a.set.Ki
	if a.faults.doubleGain {
		ki *= 2
	}
	perSecond := 8 / (float64(a.set.Period) / float64(clock.Second))
	a.fair -= perSecond * (ki*float64(queue-a.desired) + a.set.Kp*float64(queue-a.old))
	if !a.faults.noLimit {
		a.fair = min(a.fair, a.most)
	}
	a.fair = max(a.fair, a.least)
	a.old = queue
}

// Probability returns that of a drop, or mark, of a packet of an elephant with a rate in bit/s; queue is how many bytes
// wait.
func (a *AFD) Probability(rate float64, queue int) float64 {
	switch {
	case queue == 0 || rate <= a.fair:
		return 0
	case a.set.Gate && 2*queue < a.desired:
		return 0
	case a.set.Function == aqm.Excess:
		return min(a.set.MaxDrop, (rate-a.fair)/a.fair)
	}
	return min(a.set.MaxDrop, 1-a.fair/rate)
}
