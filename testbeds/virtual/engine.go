package virtual

import "candela.dev/candela/clock"

// An actor acts at instants that it schedules: a link delivers, a host transmits or serves a timer.
type actor interface {
	// act is called at the scheduled instant; the actor schedules its next one through its task.
	act(now clock.Time)
}

// task is the only pending wake-up of an actor. Actors are hosts and links, not packets, so the heap stays small.
type task struct {
	actor actor
	at    clock.Time
	order uint64 // of scheduling: breaks ties, so that a run is a function of configuration and seed
	place int    // in the heap, plus one; 0: not scheduled
}

// engine is the discrete-event core: a clock and a binary heap of tasks ordered by (time, order of scheduling).
type engine struct {
	now   clock.Time
	order uint64
	heap  []*task
}

// schedule sets t's wake-up to at, replacing an earlier one. A past instant means now.
func (e *engine) schedule(t *task, at clock.Time) {
	at = max(at, e.now)
	if t.place != 0 && t.at == at {
		return
	}
	e.order++
	t.at, t.order = at, e.order
	if t.place == 0 {
		e.heap = append(e.heap, t)
		t.place = len(e.heap)
		e.up(len(e.heap) - 1)
		return
	}
	i := t.place - 1
	if !e.up(i) {
		e.down(i)
	}
}

func (e *engine) cancel(t *task) {
	if t.place == 0 {
		return
	}
	i, last := t.place-1, len(e.heap)-1
	e.swap(i, last)
	e.heap = e.heap[:last]
	t.place = 0
	if i < last && !e.up(i) {
		e.down(i)
	}
}

// next returns the instant of the earliest wake-up, or clock.Never.
func (e *engine) next() clock.Time {
	if len(e.heap) == 0 {
		return clock.Never
	}
	return e.heap[0].at
}

// step serves the earliest wake-up. There must be one.
func (e *engine) step() {
	t := e.heap[0]
	e.cancel(t)
	e.now = t.at
	t.actor.act(e.now)
}

func (e *engine) less(i, j int) bool {
	a, b := e.heap[i], e.heap[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (e *engine) swap(i, j int) {
	e.heap[i], e.heap[j] = e.heap[j], e.heap[i]
	e.heap[i].place, e.heap[j].place = i+1, j+1
}

func (e *engine) up(i int) bool {
	moved := false
	for i > 0 {
		parent := (i - 1) / 2
		if !e.less(i, parent) {
			break
		}
		e.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (e *engine) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(e.heap) {
			return
		}
		if right := child + 1; right < len(e.heap) && e.less(right, child) {
			child = right
		}
		if !e.less(child, i) {
			return
		}
		e.swap(i, child)
		i = child
	}
}
