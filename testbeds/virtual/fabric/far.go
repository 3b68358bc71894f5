package fabric

import "candela.dev/candela/clock"

// farEvent is an entry of the heap of events beyond the calendar.
type farEvent struct {
	at    clock.Time
	order uint64
	what  what
}

func (f *farEvent) before(g *farEvent) bool {
	if f.at != g.at {
		return f.at < g.at
	}
	if f.what.rank() != g.what.rank() {
		return f.what.rank() < g.what.rank()
	}
	return f.order < g.order
}

// after reports whether f comes after event w of the calendar, which is due at at.
func (f *farEvent) after(at clock.Time, w what) bool {
	return f.at > at || f.at == at && f.what.rank() > w.rank()
}

// The heap has four children to a node: half the depth of a binary one, and siblings share cache lines.

func (e *engine) push(f farEvent) {
	e.far = append(e.far, f)
	e.up(len(e.far) - 1)
}

func (e *engine) remove(i int) {
	last := len(e.far) - 1
	moved := e.far[last]
	e.far = e.far[:last]
	if i == last {
		return
	}
	e.far[i] = moved
	e.down(e.up(i))
}

// up moves entry i towards the root and returns its position.
func (e *engine) up(i int) int {
	f := e.far[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !f.before(&e.far[parent]) {
			break
		}
		e.put(i, e.far[parent])
		i = parent
	}
	e.put(i, f)
	return i
}

func (e *engine) down(i int) {
	f := e.far[i]
	for {
		least := 4*i + 1
		if least >= len(e.far) {
			break
		}
		for c := least + 1; c < min(4*i+5, len(e.far)); c++ {
			if e.far[c].before(&e.far[least]) {
				least = c
			}
		}
		if !e.far[least].before(&f) {
			break
		}
		e.put(i, e.far[least])
		i = least
	}
	e.put(i, f)
}

// put stores f at i and updates the place of a task, which may be cancelled.
func (e *engine) put(i int, f farEvent) {
	e.far[i] = f
	if f.what.kind() == wakeUp {
		e.task(f.what).place = int32(i + 1)
	}
}
