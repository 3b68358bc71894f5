package fair

import (
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
)

// excessBound is the first part of theorem 2 for a flow since its first packet. Alpha need not be constant: a flow gets
// no more than if it had its greatest value all the time. What random drops add is bounded by deviations standard
// deviations and some packets.
type excessBound struct {
	begun, over   bool
	first, last   clock.Time
	got, variance float64
	largest       float64 // packet
	peak          float64 // rate of the flow between two packets
	greatest      float64 // alpha
	seen          int
}

// somePackets are those that chance may add at once.
const somePackets = 20

// takes takes a packet of a flow, with the label and alpha of its test.
func (e *excessBound) takes(p *port, a *arrival, label, alpha float64, doubtful bool) {
	if e.over || p.d.set.Mode != fair.Ideal {
		return
	}
	bits := p.ownBits(a)
	if !e.begun {
		e.begun, e.first = true, a.at
	} else if gap := a.at.Sub(e.last); gap > 0 {
		e.peak = max(e.peak, bits/seconds(gap))
	} else {
		e.over = true // no rate bounds what comes at once
	}
	if doubtful {
		e.over = true
	}
	e.last = a.at
	e.largest = max(e.largest, bits)
	e.greatest = max(e.greatest, alpha)
	if q := max(0, 1-alpha/max(label, 1)); q > 0 {
		e.variance += q * (1 - q) * bits * bits
	}
	if a.fate != excess && a.fate != tail {
		e.got += bits
	}
	if e.seen++; e.seen > 64 && e.seen%16 != 0 || e.over {
		return
	}
	fairRate := e.greatest * p.d.weightOf(a)
	bound := fairRate*seconds(p.times.K)*(1+math.Log(max(1, e.peak/fairRate))) + e.largest
	above := e.got - fairRate*seconds(a.at.Sub(e.first))
	if above > bound+deviations*math.Sqrt(e.variance)+somePackets*e.largest {
		e.over = true
		p.d.tell(a, aboveBound(p.place(a), int64(above/8), int64(bound/8), rate(fairRate)))
	}
}
