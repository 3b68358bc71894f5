package aqm

import (
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

// meanQueue follows RED's mean of a queue.
type meanQueue struct {
	policy    aqm.Policy
	low, high float64
	mean      float64
	since     int // packets since the last selected one, from 0
	// uncertain says that a packet may have been selected unseen, so that since is not known.
	uncertain bool
}

func newMeanQueue(p aqm.Policy, link clock.BitRate) *meanQueue {
	low, high := aqm.REDBytes(link)
	if p.MinBytes != 0 {
		low = p.MinBytes
	}
	if p.MaxBytes != 0 {
		high = p.MaxBytes
	}
	return &meanQueue{policy: p, low: float64(low), high: float64(high)}
}

// arrive takes a packet that finds waiting bytes and returns the probability of its selection; known: it follows from
// the packets seen.
func (m *meanQueue) arrive(waiting int64) (p float64, known bool) {
	m.mean += m.policy.Weight * (float64(waiting) - m.mean)
	switch {
	case m.mean <= m.low:
		m.since, m.uncertain = 0, false
		return 0, true
	case m.mean > m.high:
		return 1, true
	}
	base := m.policy.MaxProbability * (m.mean - m.low) / (m.high - m.low)
	rest := 1 - float64(m.since)*base
	m.since++
	if rest <= base {
		return 1, !m.uncertain
	}
	return base / rest, !m.uncertain
}

// selected says that the packet was dropped or marked; the next is the first since then.
func (m *meanQueue) selected() { m.since, m.uncertain = 1, false }
