package fabric

import (
	"math/bits"

	"candela.dev/candela/clock"
)

// An actor is what an event wakes: a packet arrives, a port is free again, a host's timer is due.
type actor interface{ act(now clock.Time) }

// event is one pending wake-up of its actor, linked into the calendar without allocation. Packets and ports embed theirs.
type event struct {
	next, prev *event
	at         clock.Time
	actor      actor
	place      int32 // 0: not pending; inCalendar; else index in the heap of far events, plus one
}

const (
	inCalendar = -1

	days      = 1 << dayBits // buckets of the calendar
	dayBits   = 12
	dayMask   = days - 1
	weekBits  = 6 // days in a word of the bitmap, as a power of two
	weeks     = days >> weekBits
	minDayLog = 6  // 64 ps
	maxDayLog = 16 // 65.5 ns
)

// engine orders events by (time, order of scheduling), which makes a run a function of configuration and seed.
//
// Nearly all events of a network lie less than a serialisation plus a propagation ahead. They go into a calendar: a ring of
// buckets, each a list in order. Inserting is an append unless a bucket already holds a later event; finding the next is
// a look at two words of bitmap. What lies beyond the ring (retransmission timers, starts of flows) waits in a heap.
//
// A tie between the two is the heap's: an event that was beyond the ring when it was scheduled was scheduled before any
// event of the same instant that was not, because the ring's end only moves forward.
type engine struct {
	now      clock.Time
	dayLog   uint // width of a bucket, as a power of two of picoseconds
	occupied [weeks]uint64
	week     uint64 // which words of occupied are not zero
	ring     [days]struct{ first, last *event }
	far      []farEvent
	order    uint64 // of scheduling among far events
}

// farEvent is an entry of the heap, with its keys inline.
type farEvent struct {
	at    clock.Time
	order uint64
	event *event
}

// span sets the calendar's width so that it reaches at least d ahead, if it can be made that wide without making buckets so
// wide that their lists are long. There must be no events yet.
func (e *engine) span(d clock.Duration) {
	e.dayLog = minDayLog
	for e.dayLog < maxDayLog && clock.Duration(days)<<e.dayLog < d {
		e.dayLog++
	}
}

// schedule sets ev's wake-up to at, replacing an earlier one. Instants in the past are served now.
func (e *engine) schedule(ev *event, at clock.Time) {
	if ev.place != 0 {
		if ev.at == at {
			return
		}
		e.cancel(ev)
	}
	at = max(at, e.now)
	ev.at = at
	if uint64(at)>>e.dayLog-uint64(e.now)>>e.dayLog >= days {
		e.order++
		e.push(farEvent{at, e.order, ev})
		return
	}
	ev.place = inCalendar
	day := int(uint64(at)>>e.dayLog) & dayMask
	bucket := &e.ring[day]
	last := bucket.last
	if last == nil {
		ev.next, ev.prev = nil, nil
		bucket.first, bucket.last = ev, ev
		e.occupied[day>>weekBits] |= 1 << (day & (1<<weekBits - 1))
		e.week |= 1 << (day >> weekBits)
		return
	}
	if last.at <= at {
		ev.next, ev.prev = nil, last
		last.next, bucket.last = ev, ev
		return
	}
	for last.prev != nil && last.prev.at > at {
		last = last.prev
	}
	ev.next, ev.prev = last, last.prev
	if last.prev == nil {
		bucket.first = ev
	} else {
		last.prev.next = ev
	}
	last.prev = ev
}

// cancel removes ev's wake-up, if there is one.
func (e *engine) cancel(ev *event) {
	switch {
	case ev.place == 0:
	case ev.place == inCalendar:
		e.unlink(ev)
	default:
		e.remove(int(ev.place) - 1)
	}
}

func (e *engine) unlink(ev *event) {
	day := int(uint64(ev.at)>>e.dayLog) & dayMask
	bucket := &e.ring[day]
	if ev.prev == nil {
		bucket.first = ev.next
	} else {
		ev.prev.next = ev.next
	}
	if ev.next == nil {
		bucket.last = ev.prev
	} else {
		ev.next.prev = ev.prev
	}
	if bucket.first == nil {
		word := day >> weekBits
		if e.occupied[word] &^= 1 << (day & (1<<weekBits - 1)); e.occupied[word] == 0 {
			e.week &^= 1 << word
		}
	}
	ev.place = 0
}

// next returns the earliest event, or nil.
func (e *engine) next() *event {
	near := e.nearest()
	if len(e.far) > 0 && (near == nil || e.far[0].at <= near.at) {
		return e.far[0].event
	}
	return near
}

// nearest returns the earliest event of the calendar, or nil. All of them lie within one turn of the ring from now.
func (e *engine) nearest() *event {
	today := int(uint64(e.now)>>e.dayLog) & dayMask
	word := today >> weekBits
	if left := e.occupied[word] >> (today & (1<<weekBits - 1)); left != 0 {
		return e.ring[today+bits.TrailingZeros64(left)].first
	}
	if e.week == 0 {
		return nil
	}
	// Rotated so that the word after today's comes first, and today's, whose early bits are a turn ahead, last.
	turn := word + 1
	word = (bits.TrailingZeros64(bits.RotateLeft64(e.week, -turn)) + turn) & (weeks - 1)
	return e.ring[word<<weekBits+bits.TrailingZeros64(e.occupied[word])].first
}

// step serves ev, which next returned.
func (e *engine) step(ev *event) {
	e.cancel(ev)
	e.now = ev.at
	ev.actor.act(ev.at)
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
	e.far[i].event.place = 0
	last := len(e.far) - 1
	moved := e.far[last]
	e.far[last].event = nil
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
	f.event.place = int32(i + 1)
}
