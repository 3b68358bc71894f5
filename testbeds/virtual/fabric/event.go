package fabric

import (
	"math/bits"

	"candela.dev/candela/clock"
)

// An actor does something at instants that it chose itself: a host's timer is due, a mechanism wakes up.
type actor interface{ act(now clock.Time) }

// task is the one pending wake-up of an actor.
type task struct {
	actor  actor
	at     clock.Time
	place  int32  // 0: not pending; inCalendar; else index in the heap of far events, plus one
	number uint32 // in engine.tasks, from 1; 0: not there yet
	node   int32  // number of the first port of the switch or host that is woken: its rank at one instant
}

const inCalendar = -1

// what is something that happens, in 48 bits. The highest are its rank among what happens at one instant: its kind,
// then the number of a port, which also identifies its switch or host. The lowest 26 name a packet or a task.
type what uint64

// Kinds, in the order in which they happen at one instant.
const (
	arrival  what = iota // of a packet at a port
	freeWire             // of a port
	wakeUp               // of a task; without the number of one: cancelled

	kindBits   = 2
	portBits   = 20
	portMask   = 1<<portBits - 1
	packetBits = 26
	packetMask = 1<<packetBits - 1
	kindShift  = packetBits + portBits
	whatBits   = kindBits + portBits + packetBits
	whatMask   = 1<<whatBits - 1
)

func (w what) kind() what    { return w >> kindShift }
func (w what) port() int     { return int(w >> packetBits & portMask) }
func (w what) packet() uint  { return uint(w & packetMask) }
func (w what) task() int     { return int(w & packetMask) }
func (w what) rank() uint64  { return uint64(w >> packetBits) }
func (w what) nothing() bool { return w.kind() == wakeUp && w&packetMask == 0 }

// event is one word of a day: in the highest 16 bits the picoseconds since the day began, in the others what happens
// then. Events are this small, and hold no pointers, because a large network has tens of thousands, which all pass
// through the caches.
type event uint64

func (ev event) what() what     { return what(ev & whatMask) }
func (ev event) offset() uint64 { return uint64(ev) >> whatBits }

// turn is what events are sorted by: offset and rank. Events of one turn go in the order of their scheduling.
func (ev event) turn() uint64 { return uint64(ev) >> packetBits }

const (
	days      = 1 << dayBits // of the calendar
	dayBits   = 12
	dayMask   = days - 1
	wordBits  = 6 // days in a word of the bitmap, as a power of two
	words     = days >> wordBits
	minDayLog = 6             // 64 ps
	maxDayLog = 64 - whatBits // 65.5 ns
	closed    = -1
)

// engine orders events by (time; arrival, departure, timer; switch or host; port; order of scheduling). No part of this
// order depends on what happens elsewhere in the network: the order of scheduling decides between events of one kind at
// one port, or timers of one switch or host, alone. It makes a run a function of configuration and seed (ADR 24).
//
// Nearly all events of a network lie less than a serialisation plus a propagation ahead. They go into a calendar: a
// ring of days. Scheduling is an append to a day, which touches no other event's memory (packets of a large network are
// more than caches hold); a day is sorted when it comes. What lies beyond the ring (retransmission timers, starts of
// flows) waits in a heap.
//
// Of two events of one turn the heap's goes first: what was beyond the ring when it was scheduled was scheduled before
// any event of the same instant that was not, because the ring's end only moves forward.
type engine struct {
	now       clock.Time
	dayLog    uint // length of a day, as a power of two of picoseconds
	portWidth uint // bits of the numbers of ports

	opened int // days, since how many events they had was last looked at
	served int // events of these days, when they were opened

	open     int        // index of the day that is sorted and being served, or closed
	openDay  uint64     // the same, counted from the start of time
	dawn     clock.Time // when it began
	today    []event    // its events; none if closed
	position int        // of the next of them
	ahead    int        // up to where it may be served before lookAhead

	packets *pool
	ports   []Port
	tasks   []*task
	hops    uint64
	halted  bool // by a fault

	occupied [words]uint64
	filled   uint64 // which words of occupied are not zero
	ring     [days][]event
	reusable [][]event // of days that have passed: few circulate, and those are in the cache
	scratch  []event   // where a day is sorted to
	digits   digits    // of sorting
	tied     bool      // many events of the latest sorted day share their time with others

	far   []farEvent
	order uint64 // of scheduling among far events

	look ahead

	// Of several partitions (see windows).
	serving what       // the latest event
	home    []uint8    // partitions of ports
	outbox  [][]letter // for each partition
	sent    [][]letter // what is being collected
	posted  clock.Time // when the earliest of outbox arrives
}

// span sets the length of days: no longer than day, so that what an event of a day schedules seldom falls into the same
// day, where it would have to be inserted; but long enough for the calendar to reach d ahead, if that leaves days short
// enough. Long days are better: many events are sorted at once, and few days are being appended to. There must be no
// events yet.
func (e *engine) span(d, day clock.Duration) {
	e.open = closed
	e.dayLog = minDayLog
	for e.dayLog < maxDayLog && (clock.Duration(2)<<e.dayLog <= day || clock.Duration(days)<<e.dayLog < d) {
		e.dayLog++
	}
}

// deliver has p arrive at port number i at an instant that has not passed.
func (e *engine) deliver(p *Packet, i int32, at clock.Time) {
	e.insert(at, arrival<<kindShift|what(i)<<packetBits|what(p.number))
}

// schedule sets t's wake-up to at, replacing an earlier one. Instants in the past are served now.
func (e *engine) schedule(t *task, at clock.Time) {
	at = max(at, e.now)
	if t.place != 0 {
		if t.at == at {
			return
		}
		e.cancel(t)
	}
	if t.number == 0 {
		e.tasks = append(e.tasks, t)
		t.number = uint32(len(e.tasks))
	}
	t.at, t.place = at, inCalendar
	e.insert(at, t.what())
}

func (t *task) what() what { return wakeUp<<kindShift | what(t.node)<<packetBits | what(t.number) }

// task returns the task that w wakes.
func (e *engine) task(w what) *task { return e.tasks[w.task()-1] }

func (e *engine) insert(at clock.Time, w what) {
	log := e.dayLog & 63
	day := uint64(at) >> log
	if day-uint64(e.now)>>log >= days {
		e.pushFar(at, w)
		return
	}
	ev := event(uint64(at)-day<<log)<<whatBits | event(w)
	i := int(day & dayMask)
	events := &e.ring[i]
	if n := len(*events); day > e.openDay && n < cap(*events) {
		*events = (*events)[:n+1] // only the length is written
		(*events)[n] = ev
		return
	}
	e.insertSlowly(day, i, ev)
}

// pushFar enters an event beyond the calendar.
func (e *engine) pushFar(at clock.Time, w what) {
	e.order++
	e.push(farEvent{at, e.order, w})
}

// insertSlowly enters ev into a day that is open, or before that, or empty, or full.
func (e *engine) insertSlowly(day uint64, i int, ev event) {
	if i == e.open {
		e.insertToday(ev)
		return
	}
	if e.ring[i] == nil {
		e.begin(i)
	}
	e.ring[i] = append(e.ring[i], ev)
	if day < e.openDay {
		e.close() // nothing of it has been served, or day would have passed
	}
}

// dayOf counts days from the start of time.
func (e *engine) dayOf(at clock.Time) uint64 { return uint64(at) >> (e.dayLog & 63) }

// insertToday puts ev behind what has the same turn or an earlier one.
func (e *engine) insertToday(ev event) {
	events := append(e.today, ev)
	for j := len(events) - 1; j > e.position && events[j-1].turn() > ev.turn(); j-- {
		events[j], events[j-1] = events[j-1], ev
	}
	e.today = events
}

// begin notes that day i has events, and gives it an array for them.
func (e *engine) begin(i int) {
	if n := len(e.reusable); n > 0 {
		e.ring[i], e.reusable = e.reusable[n-1], e.reusable[:n-1]
	}
	e.occupied[i>>wordBits] |= 1 << (i & (1<<wordBits - 1))
	e.filled |= 1 << (i >> wordBits)
}

// close puts the open day back.
func (e *engine) close() {
	if e.open != closed {
		e.ring[e.open] = e.today
	}
	e.open, e.openDay, e.today, e.position, e.ahead = closed, 0, nil, 0, 0
	e.look.forget()
}

// cancel removes t's wake-up, if there is one.
func (e *engine) cancel(t *task) {
	switch t.place {
	case 0:
	case inCalendar:
		day := int(uint64(t.at) >> e.dayLog & dayMask)
		events := e.ring[day]
		if day == e.open {
			events = e.today
		}
		for i := range events {
			if events[i].what() == t.what() {
				events[i] &^= packetMask // nothing, in its old place
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
	at, ok = e.near()
	if len(e.far) > 0 && (!ok || e.far[0].at < at) {
		return e.far[0].at, true
	}
	return at, ok
}

// run serves events in their order, those that they lead to included, until none is due by until or the run is halted.
func (e *engine) run(until clock.Time) {
	for !e.halted && e.step(until) {
		// What is left of the batch, unless something else may come first.
		for e.position < e.ahead && !e.halted {
			ev := e.today[e.position]
			at := e.dawn + clock.Time(ev.offset())
			if at > until || ev.what().nothing() || len(e.far) > 0 && e.far[0].at <= at {
				break
			}
			e.position++
			e.serve(at, ev.what())
		}
	}
}

// step serves the earliest event, if there is one and it is due by until, and reports whether that was so.
func (e *engine) step(until clock.Time) bool {
	for e.position < e.ahead || e.prepare() {
		ev := e.today[e.position]
		at := e.dawn + clock.Time(ev.offset())
		if len(e.far) > 0 && !e.far[0].after(at, ev.what()) {
			break
		}
		if at > until {
			return false
		}
		e.position++
		if !ev.what().nothing() {
			e.serve(at, ev.what())
			return true
		}
	}
	return e.stepFar(until)
}

// stepFar serves the earliest event of the heap likewise.
func (e *engine) stepFar(until clock.Time) bool {
	if len(e.far) == 0 || e.far[0].at > until {
		return false
	}
	f := e.far[0]
	e.remove(0)
	e.serve(f.at, f.what)
	return true
}

func (e *engine) serve(at clock.Time, w what) {
	e.now, e.serving = at, w
	switch w.kind() {
	case arrival:
		e.hops++
		e.ports[w.port()].arrive(at, e.packets.at(w.packet()))
	case freeWire:
		e.ports[w.port()].wireFree(at)
	case wakeUp:
		t := e.task(w)
		t.place = 0
		t.actor.act(at)
	}
}

// near returns when the earliest event of the calendar is due, if there is one: it is the next of the open day.
func (e *engine) near() (at clock.Time, ok bool) {
	for ; e.position < e.ahead || e.prepare(); e.position++ {
		if ev := e.today[e.position]; !ev.what().nothing() {
			return e.dawn + clock.Time(ev.offset()), true
		}
	}
	return clock.Never, false
}

// prepare looks ahead to the events behind the last that was looked ahead to, of the next day if need be; false if
// there are none.
func (e *engine) prepare() bool {
	if e.position == len(e.today) && !e.openNext() {
		return false
	}
	e.lookAhead()
	return true
}

// pass leaves the open day, all of which has been served.
func (e *engine) pass() {
	if e.open == closed {
		return
	}
	e.reusable = append(e.reusable, e.today[:0])
	e.ring[e.open], e.today = nil, nil
	word := e.open >> wordBits
	if e.occupied[word] &^= 1 << (e.open & (1<<wordBits - 1)); e.occupied[word] == 0 {
		e.filled &^= 1 << word
	}
	e.close()
}

// openNext leaves the open day and opens the first one with events. All of them lie within one turn of the ring from
// now.
func (e *engine) openNext() bool {
	e.pass()
	if e.filled == 0 {
		return false
	}
	if e.opened == someDays {
		e.review()
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
	e.open, e.openDay = i, today+(uint64(i)-today)&dayMask
	e.dawn = clock.Time(e.openDay << e.dayLog)
	e.today = e.sorted(e.ring[i])
	e.opened++
	e.served += len(e.today)
	return true
}

const (
	someDays = 1024
	busyDay  = 8 // events, on average: fewer are not worth a day
)

// review doubles the length of days if they have few events, because opening a day costs as much as serving one. Days
// never become shorter, as events beyond the calendar must have been scheduled before those in it.
func (e *engine) review() {
	sparse := e.served < busyDay*someDays && e.dayLog < maxDayLog
	e.opened, e.served = 0, 0
	if !sparse {
		return
	}
	type dated struct {
		at clock.Time
		w  what
	}
	var events []dated
	for day, left := e.dayOf(e.now), days; left > 0; day, left = day+1, left-1 {
		i := int(day & dayMask)
		for _, ev := range e.ring[i] {
			events = append(events, dated{clock.Time(day<<e.dayLog + ev.offset()), ev.what()})
		}
		if e.ring[i] != nil {
			e.reusable = append(e.reusable, e.ring[i][:0])
			e.ring[i] = nil
		}
	}
	e.occupied, e.filled = [words]uint64{}, 0
	e.dayLog++
	for _, ev := range events { // those of one turn in the order of their scheduling
		e.insert(ev.at, ev.w)
	}
}
