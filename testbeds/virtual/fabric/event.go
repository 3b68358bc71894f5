package fabric

import (
	"math/bits"

	"candela.dev/candela/clock"
)

// An actor does something at instants that it chose itself: a port is free again, a host's timer is due.
type actor interface{ act(now clock.Time) }

// task is the one pending wake-up of an actor.
type task struct {
	actor actor
	at    clock.Time
	place int32 // 0: not pending; inCalendar; else index in the heap of far events, plus one
}

const inCalendar = -1

// event is a packet that arrives or a task that is due, whichever is not nil; a cancelled event has neither.
type event struct {
	at     clock.Time
	packet *Packet
	task   *task
}

const (
	days      = 1 << dayBits // of the calendar
	dayBits   = 12
	dayMask   = days - 1
	wordBits  = 6 // days in a word of the bitmap, as a power of two
	words     = days >> wordBits
	minDayLog = 6  // 64 ps
	maxDayLog = 16 // 65.5 ns
	closed    = -1
)

// engine orders events by (time, order of scheduling), which makes a run a function of configuration and seed.
//
// Nearly all events of a network lie less than a serialisation plus a propagation ahead. They go into a calendar: a ring of
// days. Scheduling is an append to a day, which touches no other event's memory (packets of a large network are more than caches
// hold); a day is sorted when it comes. What lies beyond the ring (retransmission timers, starts of flows) waits in a heap.
//
// A tie between the two is the heap's: an event that was beyond the ring when it was scheduled was scheduled before any
// event of the same instant that was not, because the ring's end only moves forward.
type engine struct {
	now    clock.Time
	dayLog uint // length of a day, as a power of two of picoseconds

	open     int    // index of the day that is sorted and being served, or closed
	openDay  uint64 // the same, counted from the start of time
	position int    // of the next event in the open day
	ahead    int    // up to where lookAhead has been

	occupied [words]uint64
	filled   uint64 // which words of occupied are not zero
	ring     [days][]event
	spare    [][]event // of days that have passed: few circulate, and those are in the cache
	scratch  []event   // where a day is sorted to

	far   []farEvent
	order uint64 // of scheduling among far events

	large   bool  // the network's state exceeds the caches: see touch
	touched int64 // means nothing; keeps the compiler from leaving reads out
}

// farEvent is an entry of the heap.
type farEvent struct {
	event
	order uint64
}

// span sets the calendar's length so that it reaches at least d ahead, if that leaves days short enough. There must be no events yet.
func (e *engine) span(d clock.Duration) {
	e.open = closed
	e.dayLog = minDayLog
	for e.dayLog < maxDayLog && clock.Duration(days)<<e.dayLog < d {
		e.dayLog++
	}
}

// deliver has p arrive at an instant that has not passed.
func (e *engine) deliver(p *Packet, at clock.Time) { e.insert(event{at: at, packet: p}) }

// schedule sets t's wake-up to at, replacing an earlier one. Instants in the past are served now.
func (e *engine) schedule(t *task, at clock.Time) {
	at = max(at, e.now)
	if t.place != 0 {
		if t.at == at {
			return
		}
		e.cancel(t)
	}
	t.at, t.place = at, inCalendar
	e.insert(event{at: at, task: t})
}

func (e *engine) insert(ev event) {
	day := uint64(ev.at) >> e.dayLog
	if day-uint64(e.now)>>e.dayLog >= days {
		e.order++
		e.push(farEvent{ev, e.order})
		return
	}
	i := int(day & dayMask)
	events := e.ring[i]
	if events == nil {
		if n := len(e.spare); n > 0 {
			events, e.spare = e.spare[n-1], e.spare[:n-1]
		}
	}
	events = append(events, ev)
	e.ring[i] = events
	if i == e.open {
		for j := len(events) - 1; j > e.position && events[j-1].at > ev.at; j-- {
			events[j], events[j-1] = events[j-1], ev
		}
		return
	}
	if len(events) == 1 {
		e.occupied[i>>wordBits] |= 1 << (i & (1<<wordBits - 1))
		e.filled |= 1 << (i >> wordBits)
	}
	if e.open != closed && day < e.openDay {
		e.open = closed // nothing of it has been served, or day would have passed
	}
}

// cancel removes t's wake-up, if there is one.
func (e *engine) cancel(t *task) {
	switch t.place {
	case 0:
	case inCalendar:
		events := e.ring[uint64(t.at)>>e.dayLog&dayMask]
		for i := range events {
			if events[i].task == t {
				events[i].task = nil
			}
		}
		t.place = 0
	default:
		e.remove(int(t.place) - 1)
		t.place = 0
	}
}

// next returns when the earliest event is due; ok is false if there is none.
func (e *engine) next() (at clock.Time, ok bool) {
	near := e.nearest()
	switch {
	case len(e.far) > 0 && (near == nil || e.far[0].at <= near.at):
		return e.far[0].at, true
	case near != nil:
		return near.at, true
	}
	return clock.Never, false
}

// step serves the earliest event, if there is one and it is due by until, and reports whether that was so.
func (e *engine) step(until clock.Time) bool {
	near := e.nearest()
	if len(e.far) > 0 && (near == nil || e.far[0].at <= near.at) {
		ev := e.far[0].event
		if ev.at > until {
			return false
		}
		e.remove(0)
		e.serve(ev)
		return true
	}
	if near == nil || near.at > until {
		return false
	}
	ev := *near
	near.packet, near.task = nil, nil
	e.position++
	e.serve(ev)
	return true
}

func (e *engine) serve(ev event) {
	e.now = ev.at
	if p := ev.packet; p != nil {
		p.to.arrive(ev.at, p)
		return
	}
	ev.task.place = 0
	ev.task.actor.act(ev.at)
}

// nearest returns the earliest event of the calendar, or nil.
func (e *engine) nearest() *event {
	for {
		if e.open == closed && !e.openNext() {
			return nil
		}
		events := e.ring[e.open]
		for ; e.position < len(events); e.position++ {
			if e.large && e.position >= e.ahead {
				e.lookAhead(events)
			}
			if ev := &events[e.position]; ev.packet != nil || ev.task != nil {
				return ev
			}
		}
		e.ring[e.open] = nil
		e.spare = append(e.spare, events[:0])
		word := e.open >> wordBits
		if e.occupied[word] &^= 1 << (e.open & (1<<wordBits - 1)); e.occupied[word] == 0 {
			e.filled &^= 1 << word
		}
		e.open = closed
	}
}

// openNext opens the first day with events. All of them lie within one turn of the ring from now.
func (e *engine) openNext() bool {
	if e.filled == 0 {
		return false
	}
	today := uint64(e.now) >> e.dayLog
	i := int(today & dayMask)
	word := i >> wordBits
	if left := e.occupied[word] >> (i & (1<<wordBits - 1)); left != 0 {
		i += bits.TrailingZeros64(left)
	} else {
		// Rotated so that the word after today's comes first, and today's, whose early days are a turn ahead, last.
		turn := word + 1
		word = (bits.TrailingZeros64(bits.RotateLeft64(e.filled, -turn)) + turn) & (words - 1)
		i = word<<wordBits + bits.TrailingZeros64(e.occupied[word])
	}
	e.open, e.position = i, 0
	e.openDay = today + (uint64(i)-today)&dayMask
	e.ahead = 0
	e.sort(i)
	return true
}

// lookAhead reads what the next events of the open day will read first. The reads don't depend on each other, so that a
// processor waits for memory once for all of them rather than once for each. It is done for so many at a time that what they
// read is still in the first cache when they are served.
func (e *engine) lookAhead(events []event) {
	const some = 24
	end := min(e.position+some, len(events))
	e.touched += touch(events[e.position:end])
	e.ahead = end
}

// touch reads the events' packets and ports, then what those lead to.
func touch(events []event) (sum int64) {
	for i := range events {
		if p := events[i].packet; p != nil {
			sum += int64(p.Size)
		} else if t := events[i].task; t != nil {
			sum += int64(t.place)
		}
	}
	for i := range events {
		switch {
		case events[i].packet != nil:
			sum += int64(events[i].packet.to.index)
		case events[i].task != nil:
			if pt, ok := events[i].task.actor.(*Port); ok {
				sum += pt.touch() + int64(pt.counters.Sent)
			}
		}
	}
	for i := range events {
		switch {
		case events[i].packet != nil:
			sum += events[i].packet.to.node.touch(events[i].packet)
		case events[i].task != nil:
			if pt, ok := events[i].task.actor.(*Port); ok && pt.filled != 0 {
				q := &pt.queues[bits.TrailingZeros64(pt.filled)]
				sum += int64(q.first.Size) + int64(q.counters.Dequeued)
			}
		}
	}
	return sum
}

// sort orders a day by time; events of one instant keep their order, which is that of scheduling. Many are distributed by the
// digits of their time within the day, the lowest first (a radix sort); with few, counting would take longer than moving.
func (e *engine) sort(day int) {
	const few = 24
	if len(e.ring[day]) <= few {
		insertionSort(e.ring[day])
		return
	}
	passes := (e.dayLog + maxDigit - 1) / maxDigit
	digit := (e.dayLog + passes - 1) / passes
	for pass := range passes {
		e.ring[day], e.scratch = distribute(e.ring[day], e.scratch, pass*digit, digit)
	}
}

const maxDigit = 9 // bits: counters fill 1 kB

// distribute returns events sorted by size bits of their time from bit shift on, and an array for later use.
func distribute(events, into []event, shift, size uint) (sorted, free []event) {
	var counts [1 << maxDigit]uint32
	mask := uint64(1)<<size - 1
	for i := range events {
		counts[uint64(events[i].at)>>shift&mask]++
	}
	at := uint32(0)
	for i := range counts[:mask+1] {
		at, counts[i] = at+counts[i], at
	}
	if cap(into) < len(events) {
		into = make([]event, 0, 2*len(events))
	}
	into = into[:len(events)]
	for i := range events {
		next := &counts[uint64(events[i].at)>>shift&mask]
		into[*next] = events[i]
		*next++
	}
	clear(events)
	return into, events
}

func insertionSort(events []event) {
	for i := 1; i < len(events); i++ {
		ev := events[i]
		j := i
		for ; j > 0 && events[j-1].at > ev.at; j-- {
			events[j] = events[j-1]
		}
		if j != i {
			events[j] = ev
		}
	}
}

func (f *farEvent) before(g *farEvent) bool {
	return f.at < g.at || f.at == g.at && f.order < g.order
}

// The heap of far events has four children to a node: half the depth of a binary one, and siblings share cache lines.

func (e *engine) push(f farEvent) {
	e.far = append(e.far, f)
	e.up(len(e.far) - 1)
}

func (e *engine) remove(i int) {
	last := len(e.far) - 1
	moved := e.far[last]
	e.far[last] = farEvent{}
	e.far = e.far[:last]
	if i == last {
		return
	}
	e.far[i] = moved
	e.down(e.up(i))
}

// up moves entry i towards the root and returns its place.
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

func (e *engine) put(i int, f farEvent) {
	e.far[i] = f
	if f.task != nil {
		f.task.place = int32(i + 1)
	}
}
