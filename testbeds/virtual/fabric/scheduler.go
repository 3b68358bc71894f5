package fabric

import "math/bits"

// A Scheduler chooses the queue that a port serves next. The choice is always sent, so Next may book it. One Scheduler
// serves all ports of a switch and keeps its state in them.
type Scheduler interface {
	// Next returns the index of a queue of pt whose bit is set in ready. At least one bit is set, and its queue is not
	// empty.
	Next(pt *Port, ready uint64) int
}

// scheduler returns the scheduler described by s, which is valid.
func (s *SchedulerSpec) scheduler(queues int) Scheduler {
	switch s.Kind {
	case WRR, DWRR:
		return newWeighted(s, queues)
	case FIFO:
		return fifo{}
	default:
		return strict{}
	}
}

// strict serves the queue with the highest index first, in the order of IEEE 802.1Q traffic classes.
type strict struct{}

func (strict) Next(_ *Port, ready uint64) int { return bits.Len64(ready) - 1 }

// fifo serves packets of all queues in the order of their arrival at the switch; the lower queue wins a tie.
type fifo struct{}

func (fifo) Next(pt *Port, ready uint64) int {
	queues := pt.queues
	best := bits.TrailingZeros64(ready)
	for rest := ready & (ready - 1); rest != 0; rest &= rest - 1 {
		if i := bits.TrailingZeros64(rest); queues[i].Head().Arrived < queues[best].Head().Arrived {
			best = i
		}
	}
	return best
}

// weighted is deficit round robin (Shreedhar and Varghese, 1995) in bytes, or weighted round robin in packets. Queues
// without a weight have strict priority over it.
//
// A queue gets a grant of weight × unit of credit when its turn comes, and is served while its head costs no more than
// its credit. Left-over credit is kept while the queue has packets and lost when it empties, so that shares are exact
// to a packet.
//
// A port holds the credit of its queues and the current turn.
type weighted struct {
	grants []int
	strict uint64 // queues without a weight
	bytes  bool   // credit is in bytes instead of packets
}

func newWeighted(s *SchedulerSpec, queues int) *weighted {
	w := &weighted{grants: make([]int, queues), bytes: s.Kind == DWRR}
	for i := range w.grants {
		weight, unit := 1, 1
		if len(s.Weights) > 0 {
			weight = s.Weights[i]
		}
		if w.bytes {
			unit = max(s.Quantum, 1)
		}
		if weight == 0 {
			w.strict |= 1 << i
		}
		w.grants[i] = weight * unit
	}
	return w
}

func (w *weighted) Next(pt *Port, ready uint64) int {
	if first := ready & w.strict; first != 0 {
		return bits.Len64(first) - 1
	}
	if at := int(pt.turn) - 1; at >= 0 && ready&(1<<at) != 0 && w.affords(&pt.queues[at]) {
		return w.book(pt, at)
	}
	if ready&(ready-1) == 0 {
		return w.alone(pt, bits.TrailingZeros64(ready))
	}
	for {
		later := ready &^ (1<<pt.turn - 1) // after the queue that had its turn
		for _, part := range [2]uint64{later, ready &^ later} {
			for ; part != 0; part &= part - 1 {
				i := bits.TrailingZeros64(part)
				q := &pt.queues[i]
				q.credit += w.grants[i]
				if w.affords(q) {
					return w.book(pt, i)
				}
			}
		}
		w.skip(pt.queues, ready)
	}
}

// alone serves queue i, the only one with packets. It grants as many rounds as its head needs, at least one.
func (w *weighted) alone(pt *Port, i int) int {
	q, grant := &pt.queues[i], w.grants[i]
	q.credit += grant
	if short := w.cost(q) - q.credit; short > 0 {
		q.credit += (short + grant - 1) / grant * grant
	}
	return w.book(pt, i)
}

// cost returns the credit needed to serve the head of a queue.
func (w *weighted) cost(q *Queue) int {
	if w.bytes {
		return int(q.first.Size)
	}
	return 1
}

func (w *weighted) affords(q *Queue) bool { return q.credit >= w.cost(q) }

// book serves queue i, which keeps the turn.
func (w *weighted) book(pt *Port, i int) int {
	pt.turn = uint8(i + 1)
	q := &pt.queues[i]
	q.credit -= w.cost(q)
	if q.packets == 1 {
		q.credit = 0
	}
	return i
}

// skip grants at once all rounds in which no queue can afford its head, so that small quanta do not cost run time.
func (w *weighted) skip(queues []Queue, ready uint64) {
	rounds := 0
	for rest := ready; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		need := (w.cost(&queues[i]) - queues[i].credit + w.grants[i] - 1) / w.grants[i]
		if rounds == 0 || need < rounds {
			rounds = need
		}
	}
	for rest := ready; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		queues[i].credit += (rounds - 1) * w.grants[i]
	}
}
