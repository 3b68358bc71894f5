package rdma

import "candela.dev/candela/clock"

// timerHeap holds the queue pairs with a pending wake-up, earliest first. Every queue pair has its index, so a change
// takes logarithmic time. Ties are in order of creation, so that runs are reproducible.
type timerHeap struct {
	items []*QP
}

// next returns the earliest wake-up time.
func (h *timerHeap) next() clock.Time {
	if len(h.items) == 0 {
		return clock.Never
	}
	return h.items[0].wake
}

// pop removes and returns the queue pair with the earliest wake-up.
func (h *timerHeap) pop() *QP {
	q := h.items[0]
	h.remove(q)
	return q
}

// set makes the heap wake q at a time; Never removes q. A later time than the pending one is not entered: q is then
// woken early, finds nothing due and calls set again. This makes restarting a timer with each ACK cheap.
func (h *timerHeap) set(q *QP, at clock.Time) {
	switch {
	case at == clock.Never:
		if q.heapIndex >= 0 {
			h.remove(q)
		}
	case q.heapIndex < 0:
		q.wake = at
		q.heapIndex = len(h.items)
		h.items = append(h.items, q)
		h.up(q.heapIndex)
	case at < q.wake:
		q.wake = at
		h.up(q.heapIndex)
	}
}

func (h *timerHeap) remove(q *QP) {
	i, last := q.heapIndex, len(h.items)-1
	q.heapIndex, q.wake = -1, clock.Never
	moved := h.items[last]
	h.items = h.items[:last]
	if i == last {
		return
	}
	h.items[i], moved.heapIndex = moved, i
	h.up(i)
	h.down(moved.heapIndex)
}

func (h *timerHeap) less(a, b *QP) bool {
	return a.wake < b.wake || a.wake == b.wake && a.index < b.index
}

func (h *timerHeap) up(i int) {
	q := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(q, h.items[parent]) {
			break
		}
		h.items[i] = h.items[parent]
		h.items[i].heapIndex = i
		i = parent
	}
	h.items[i], q.heapIndex = q, i
}

func (h *timerHeap) down(i int) {
	q := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if child+1 < len(h.items) && h.less(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.less(h.items[child], q) {
			break
		}
		h.items[i] = h.items[child]
		h.items[i].heapIndex = i
		i = child
	}
	h.items[i], q.heapIndex = q, i
}
