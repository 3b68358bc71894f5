package netlock

import "candela.dev/candela/clock"

// queue is a ring that grows.
type queue[T any] struct {
	ring  []T
	first int
	count int
}

func (q *queue[T]) len() int { return q.count }

// push returns the place of a new last entry, with what was there before.
func (q *queue[T]) push() *T {
	if q.count == len(q.ring) {
		const least = 16 // a power of two, as all lengths
		grown := make([]T, max(least, 2*len(q.ring)))
		n := copy(grown, q.ring[q.first:])
		copy(grown[n:], q.ring[:q.first])
		q.ring, q.first = grown, 0
	}
	q.count++
	return &q.ring[(q.first+q.count-1)&(len(q.ring)-1)]
}

// pop removes the first entry. It is valid until the next push.
func (q *queue[T]) pop() *T {
	v := &q.ring[q.first]
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.count--
	return v
}

type timeKind uint8

const (
	timeBegin   timeKind = iota // a transaction of a thread
	timeKill                    // a thread
	timeRelease                 // the locks of a transaction
	timeExpire                  // a transaction
	timeRestart                 // an expired one
	timeRetry                   // a request that was rejected
)

// timer is what a client does at an instant. Those of a transaction count while it has their serial number.
type timer struct {
	at     clock.Time
	order  uint64 // of timers of one instant
	kind   timeKind
	lock   uint32 // place of it among those of the transaction
	thread *thread
	of     *transaction
	serial uint64
}

// timers is a binary heap, first what is due first.
type timers struct {
	heap  []timer
	order uint64
}

func (t *timers) next() clock.Time {
	if len(t.heap) == 0 {
		return clock.Never
	}
	return t.heap[0].at
}

func (t *timer) before(o *timer) bool { return t.at < o.at || t.at == o.at && t.order < o.order }

func (t *timers) add(e timer) {
	t.order++
	e.order = t.order
	t.heap = append(t.heap, timer{})
	h := t.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
}

func (t *timers) pop() timer {
	h := t.heap
	top, n := h[0], len(h)-1
	t.heap = h[:n]
	last := &h[n]
	for i := 0; ; {
		least := 2*i + 1
		if least+1 < n && h[least+1].before(&h[least]) {
			least++
		}
		if least >= n || !h[least].before(last) {
			h[i] = *last
			h[n] = timer{}
			return top
		}
		h[i] = h[least]
		i = least
	}
}
