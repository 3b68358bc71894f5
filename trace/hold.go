package trace

import "math"

// A Holder keeps packets that leave an injector later: delayed ones until they are due, reordered ones until enough
// later packets of their flow have arrived. The switch holds frames in it, [Checked.WithDepartures] the records of
// their mirror copies. Times are in the unit of the owner's clock. The zero Holder is empty.
type Holder[T any] struct {
	queue []held[T] // by due, then by arrival
	ready []T       // scratch
}

// held is one packet that waits.
type held[T any] struct {
	item   T
	due    int64
	flow   FlowID
	behind int // later packets of the flow that have yet to arrive; 0: only time counts
}

// Next returns when the first packet is due, the largest number if none waits.
func (h *Holder[T]) Next() int64 {
	if len(h.queue) == 0 {
		return math.MaxInt64
	}
	return h.queue[0].due
}

// Hold keeps a packet of a flow until due, or until behind later packets of its flow have passed, whichever is earlier.
func (h *Holder[T]) Hold(due int64, flow FlowID, behind int, item T) {
	at := len(h.queue)
	for at > 0 && h.queue[at-1].due > due {
		at--
	}
	h.queue = append(h.queue, held[T]{})
	copy(h.queue[at+1:], h.queue[at:])
	h.queue[at] = held[T]{item, due, flow, behind}
}

// Overtaken counts one more packet of a flow and returns those that waited for it, in the order of their arrival: they
// leave right after it. The slice is valid until the next call.
func (h *Holder[T]) Overtaken(flow FlowID) []T {
	h.ready = h.ready[:0]
	if len(h.queue) == 0 || flow == NoFlow {
		return h.ready
	}
	left := 0
	for i := range h.queue {
		x := &h.queue[i]
		if x.behind > 0 && x.flow == flow {
			if x.behind--; x.behind == 0 {
				h.ready = append(h.ready, x.item)
				continue
			}
		}
		h.queue[left] = *x
		left++
	}
	clear(h.queue[left:])
	h.queue = h.queue[:left]
	return h.ready
}

// Due returns what is due by now, in order. The slice is valid until the next call.
func (h *Holder[T]) Due(now int64) []T {
	h.ready = h.ready[:0]
	n := 0
	for ; n < len(h.queue) && h.queue[n].due <= now; n++ {
		h.ready = append(h.ready, h.queue[n].item)
	}
	left := copy(h.queue, h.queue[n:])
	clear(h.queue[left:])
	h.queue = h.queue[:left]
	return h.ready
}
