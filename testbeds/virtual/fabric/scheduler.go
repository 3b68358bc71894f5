package fabric

import "math/bits"

// A Scheduler chooses the queue that a port serves next. It belongs to one port. What it chose is sent: it may book it.
type Scheduler interface {
	// Next returns the index of a queue whose bit is set in ready. At least one is; such queues have a head.
	Next(queues []Queue, ready uint64) int
}

// newScheduler makes the scheduler that a valid s describes.
func newScheduler(s *SchedulerSpec, queues int) Scheduler {
	switch s.Kind {
	case WRR, DWRR:
		w := &weighted{unit: 1, at: -1}
		if w.shares = w.few[:]; queues > len(w.few) {
			w.shares = make([]share, queues)
		}
		w.shares = w.shares[:queues]
		if s.Kind == DWRR {
			w.unit, w.bytes = max(s.Quantum, 1), true
		}
		for i := range w.shares {
			w.shares[i].weight = 1
			if len(s.Weights) > 0 {
				w.shares[i].weight = s.Weights[i]
			}
			if w.shares[i].weight == 0 {
				w.strict |= 1 << i
			}
		}
		return w
	case FIFO:
		return fifo{}
	default:
		return strict{}
	}
}

// strict serves the queue with the highest index first, as IEEE 802.1Q numbers traffic classes.
type strict struct{}

func (strict) Next(_ []Queue, ready uint64) int { return bits.Len64(ready) - 1 }

// fifo serves packets in the order of their arrival at the switch, whatever their queue; the lower queue wins a tie.
type fifo struct{}

func (fifo) Next(queues []Queue, ready uint64) int {
	best := bits.TrailingZeros64(ready)
	for rest := ready & (ready - 1); rest != 0; rest &= rest - 1 {
		if i := bits.TrailingZeros64(rest); queues[i].Head().Arrived < queues[best].Head().Arrived {
			best = i
		}
	}
	return best
}

// weighted is deficit round robin (Shreedhar and Varghese, 1995) in bytes, or weighted round robin in packets, behind strict
// priority for the queues without a weight.
//
// A queue gets weight × unit of credit when its turn comes and is served while its head costs no more than its credit. Left-over
// credit is kept while the queue has packets and lost when it empties, so that shares are exact to a packet.
type weighted struct {
	shares []share
	strict uint64
	unit   int
	at     int // queue whose turn it is, or -1
	bytes  bool
	few    [8]share // where shares usually is: beside the rest
}

// share is what a queue gets.
type share struct{ weight, credit int }

func (w *weighted) Next(queues []Queue, ready uint64) int {
	if first := ready & w.strict; first != 0 {
		return bits.Len64(first) - 1
	}
	if w.at >= 0 && ready&(1<<w.at) != 0 && w.affords(queues, w.at) {
		return w.book(queues, w.at)
	}
	if ready&(ready-1) == 0 {
		return w.alone(queues, bits.TrailingZeros64(ready))
	}
	for {
		later := ready &^ (1<<(w.at+1) - 1) // behind the queue that had its turn
		for _, part := range [2]uint64{later, ready &^ later} {
			for ; part != 0; part &= part - 1 {
				i := bits.TrailingZeros64(part)
				w.shares[i].credit += w.shares[i].weight * w.unit
				if w.affords(queues, i) {
					return w.book(queues, i)
				}
			}
		}
		w.skip(queues, ready)
	}
}

// alone serves queue i, the only one with packets: it gets as many rounds as its head needs, at least one.
func (w *weighted) alone(queues []Queue, i int) int {
	s := &w.shares[i]
	grant := s.weight * w.unit
	s.credit += grant
	if short := w.cost(queues, i) - s.credit; short > 0 {
		s.credit += (short + grant - 1) / grant * grant
	}
	return w.book(queues, i)
}

// cost returns what serving the head of queue i takes.
func (w *weighted) cost(queues []Queue, i int) int {
	if w.bytes {
		return int(queues[i].Head().Size)
	}
	return 1
}

func (w *weighted) affords(queues []Queue, i int) bool {
	return w.shares[i].credit >= w.cost(queues, i)
}

// book serves queue i, whose turn it stays.
func (w *weighted) book(queues []Queue, i int) int {
	w.at = i
	w.shares[i].credit -= w.cost(queues, i)
	if queues[i].packets == 1 {
		w.shares[i].credit = 0
	}
	return i
}

// skip grants at once the rounds in which no queue can afford its head, so that small quanta cost no time.
func (w *weighted) skip(queues []Queue, ready uint64) {
	rounds := 0
	for rest := ready; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		grant := w.shares[i].weight * w.unit
		need := (w.cost(queues, i) - w.shares[i].credit + grant - 1) / grant
		if rounds == 0 || need < rounds {
			rounds = need
		}
	}
	for rest := ready; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		w.shares[i].credit += (rounds - 1) * w.shares[i].weight * w.unit
	}
}
