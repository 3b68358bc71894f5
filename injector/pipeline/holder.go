package pipeline

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// A Holder keeps what leaves a switch later than it could: delayed packets until their instant, reordered ones until those
// behind them have overtaken. T is a packet as its switch knows it. The zero Holder is empty.
//
// A packet that leaves by time is due one picosecond before a whole nanosecond of the switch's clock. Mirror stamps are in
// whole nanoseconds, so a trace tells exactly which packets arrived before it left and which after.
type Holder[T any] struct {
	queue []held[T] // by due, then by arrival
	ready []T       // scratch
}

// held is one packet that waits.
type held[T any] struct {
	item   T
	due    clock.Time
	flow   trace.FlowID
	behind uint16 // later packets of the flow that have yet to arrive; 0: only time counts
}

// Len returns how many packets wait.
func (h *Holder[T]) Len() int { return len(h.queue) }

// Next returns when the first packet is due, clock.Never if none waits.
func (h *Holder[T]) Next() clock.Time {
	if len(h.queue) == 0 {
		return clock.Never
	}
	return h.queue[0].due
}

// Hold takes a packet that r delays or reorders and returns when it leaves at the latest.
func (h *Holder[T]) Hold(now clock.Time, r *Result, item T) (due clock.Time) {
	wait := r.Forward.DelayNS
	if r.Forward.Behind > 0 {
		wait = ReorderLimitNS
	}
	x := held[T]{item: item, due: dueAfter(now, wait), flow: r.Flow, behind: r.Forward.Behind}
	at := len(h.queue)
	for at > 0 && h.queue[at-1].due > x.due {
		at--
	}
	h.queue = append(h.queue, held[T]{})
	copy(h.queue[at+1:], h.queue[at:])
	h.queue[at] = x
	return x.due
}

// dueAfter returns the last instant before the nanosecond that begins ns after that of now.
func dueAfter(now clock.Time, ns int64) clock.Time {
	start := clock.Time(0).Add(clock.Duration(now.Nanoseconds()+ns) * clock.Nanosecond)
	return start.Add(-1)
}

// Overtaken counts one more packet of a flow and returns those that waited for it, in the order of their arrival. They leave
// right behind it. The slice is valid until the next call.
func (h *Holder[T]) Overtaken(flow trace.FlowID) []T {
	h.ready = h.ready[:0]
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
func (h *Holder[T]) Due(now clock.Time) []T {
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
