package chance

import "math"

// Twins tests whether the n-th packets of two flows, or of two queues, draw the same random number, for every n. Then
// the fate of one foretells that of the other. The likelihood ratio of that alternative is a martingale of mean 1 if
// all draws are independent, so that it exceeds 1/α with a probability of at most α (Ville 1939).
type Twins struct {
	limit float64 // log of 1/α
	ratio float64 // log
	draws []span  // where the numbers are, by what came of them
	Alike int     // draws that were foretold
	known bool    // it has been found
}

// span is where a random number is: from low on, below high.
type span struct{ low, high float64 }

const (
	// trust is the probability with which a number of the alternative is what it was; a choice.
	trust = 0.9
	// mostTwins bounds the numbers that are remembered of a device.
	mostTwins = 1 << 16
)

// NewTwins returns a test.
func NewTwins(b *Budget) *Twins { return &Twins{limit: b.limit()} }

// See takes the draw with a number of a flow or queue, by which a packet is selected with probability p, strictly
// between 0 and 1. It returns true once, if draws are not independent.
func (t *Twins) See(number int, p float64, selected bool) bool {
	if number >= mostTwins || t.known {
		return false
	}
	for len(t.draws) <= number {
		t.draws = append(t.draws, span{0, 1})
	}
	s := &t.draws[number]
	if *s != (span{0, 1}) {
		foretold := p
		if s.high > s.low {
			foretold = trust*min(max((p-s.low)/(s.high-s.low), 0), 1) + (1-trust)*p
		}
		if selected {
			t.ratio += math.Log(foretold / p)
		} else {
			t.ratio += math.Log((1 - foretold) / (1 - p))
		}
		t.Alike++
	}
	if selected {
		s.high = min(s.high, p)
	} else {
		s.low = max(s.low, p)
	}
	t.known = t.ratio > t.limit
	return t.known
}
