package aqm

import (
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

// RED is random early detection of one egress queue (Floyd and Jacobson 1993), blind to flows. WRED is RED with a
// policy for each class. The mean queue does not decay while the queue is empty.
type RED struct {
	low, high   float64
	probability float64
	weight      float64
	mean        float64
	count       int // packets since the last drop or mark, −1 below low
}

// NewRED returns the state of a queue of a port.
func NewRED(set aqm.Policy, link clock.BitRate) *RED {
	low, high := aqm.REDBytes(link)
	if set.MinBytes > 0 {
		low = set.MinBytes
	}
	if set.MaxBytes > 0 {
		high = set.MaxBytes
	}
	return &RED{low: float64(low), high: float64(high), probability: set.MaxProbability, weight: set.Weight, count: -1}
}

// Mean returns the mean queue in bytes.
func (r *RED) Mean() float64 { return r.mean }

// Arrive takes a packet that finds queue bytes waiting and returns the probability of a drop, or mark.
func (r *RED) Arrive(queue int) float64 {
	r.mean = (1-r.weight)*r.mean + r.weight*float64(queue)
	switch {
	case r.mean <= r.low:
		r.count = -1
		return 0
	case r.mean > r.high:
		return 1
	}
	r.count++
	base := r.probability * (r.mean - r.low) / (r.high - r.low)
	if rest := 1 - float64(r.count)*base; rest > base {
		return base / rest
	}
	return 1
}

// Selected says that the packet of the last Arrive was dropped or marked.
func (r *RED) Selected() { r.count = 0 }
