package fabric

import "math/bits"

// A Scheduler chooses the queue that a port serves next. It belongs to one port. What it chose is sent: it may book it.
type Scheduler interface {
	// Next returns the index of a queue whose bit is set in ready. At least one is; such queues have a head.
	Next(queues []Queue, ready uint64) int
}

// newScheduler makes the scheduler that a valid s describes.
func newScheduler(s *SchedulerSpec, queues int) Scheduler {
	weights := make([]int, queues)
	for i := range weights {
		weights[i] = 1
		if len(s.Weights) > 0 {
			weights[i] = s.Weights[i]
		}
	}
	switch s.Kind {
	case WRR:
		return &weighted{weights: weights, credit: make([]int, queues), unit: 1, strict: unweighted(weights), at: -1}
	case DWRR:
		return &weighted{weights: weights, credit: make([]int, queues), unit: max(s.Quantum, 1), strict: unweighted(weights), at: -1,
			bytes: true}
	case FIFO:
		return fifo{}
	default:
		return strict{}
	}
}

// unweighted returns the set of queues without a weight: those are served strictly before the others.
func unweighted(weights []int) (set uint64) {
	for i, w := range weights {
		if w == 0 {
			set |= 1 << i
		}
	}
	return set
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
	weights []int
	credit  []int
	unit    int
	bytes   bool
	strict  uint64
	at      int // queue whose turn it is, or -1
}

func (w *weighted) Next(queues []Queue, ready uint64) int {
	if first := ready & w.strict; first != 0 {
		return bits.Len64(first) - 1
	}
	if w.at >= 0 && ready&(1<<w.at) != 0 && w.affords(queues, w.at) {
		return w.book(queues, w.at)
	}
	for {
		later := ready &^ (1<<(w.at+1) - 1) // behind the queue that had its turn
		for _, part := range [2]uint64{later, ready &^ later} {
			for ; part != 0; part &= part - 1 {
				i := bits.TrailingZeros64(part)
				w.credit[i] += w.weights[i] * w.unit
				if w.affords(queues, i) {
					return w.book(queues, i)
				}
			}
		}
		w.skip(queues, ready)
	}
}

// cost returns what serving the head of queue i takes.
func (w *weighted) cost(queues []Queue, i int) int {
	if w.bytes {
		return int(queues[i].Head().Size)
	}
	return 1
}

func (w *weighted) affords(queues []Queue, i int) bool { return w.credit[i] >= w.cost(queues, i) }

// book serves queue i, whose turn it stays.
func (w *weighted) book(queues []Queue, i int) int {
	w.at = i
	w.credit[i] -= w.cost(queues, i)
	if queues[i].packets == 1 {
		w.credit[i] = 0
	}
	return i
}

// skip grants at once the rounds in which no queue can afford its head, so that small quanta cost no time.
func (w *weighted) skip(queues []Queue, ready uint64) {
	rounds := 0
	for rest := ready; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		grant := w.weights[i] * w.unit
		need := (w.cost(queues, i) - w.credit[i] + grant - 1) / grant
		if rounds == 0 || need < rounds {
			rounds = need
		}
	}
	for rest := ready; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		w.credit[i] += (rounds - 1) * w.weights[i] * w.unit
	}
}
