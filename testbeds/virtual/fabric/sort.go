package fabric

// few events are sorted by moving them one by one: counting would take longer.
const few = 24

// sorted returns events in the order of their turns; those of one turn keep their order, which is that of scheduling.
// Many are distributed by the two halves of their time within the day, the lower first (a radix sort). What then has
// one instant is sorted by rank.
func (e *engine) sorted(events []event) []event {
	if len(events) <= few {
		insertionSort(events)
		return events
	}
	digit := (e.dayLog + 1) / 2
	lows, highs := e.count(events, digit)
	e.scratch = room(e.scratch, len(events))
	distribute(events, e.scratch[:len(events)], whatBits, lows)
	distribute(e.scratch[:len(events)], events, whatBits+digit, highs)
	e.rank(events)
	return events
}

// room returns an array for n events, the one given if it is large enough.
func room(array []event, n int) []event {
	if cap(array) < n {
		return make([]event, 2*n)
	}
	return array[:cap(array)]
}

// digits is where events go in a distribution, by a digit of up to 8 bits: how many have it, then where the next of
// them belongs.
type digits struct {
	at   [1 << maxDigit]uint32
	mask event
}

const maxDigit = 8 // bits: half of maxDayLog

// count returns where events with each low and each high digit of their time begin.
func (e *engine) count(events []event, digit uint) (lows, highs *digits) {
	lows, highs = &e.lows, &e.highs
	size := 1 << digit
	clear(lows.at[:size])
	clear(highs.at[:size])
	lows.mask, highs.mask = event(size-1), event(size-1)
	for _, ev := range events {
		lows.at[uint8(ev>>whatBits&lows.mask)]++
		highs.at[uint8(ev>>((whatBits+digit)&63))]++
	}
	var low, high uint32
	for i := range size {
		l, h := &lows.at[i&(len(lows.at)-1)], &highs.at[i&(len(highs.at)-1)]
		low, *l = low+*l, low
		high, *h = high+*h, high
	}
	return lows, highs
}

// distribute puts events into another array, sorted by the digit that begins at shift.
func distribute(events, into []event, shift uint, to *digits) {
	mask := to.mask
	for _, ev := range events {
		next := &to.at[uint8(ev>>(shift&63)&mask)]
		into[*next] = ev
		*next++
	}
}

// rank sorts the events of each instant, which are adjacent, by their ranks.
func (e *engine) rank(events []event) {
	for i := 1; i < len(events); i++ {
		if events[i].turn() >= events[i-1].turn() {
			continue
		}
		first, end, instant := i-1, i+1, events[i].offset()
		for first > 0 && events[first-1].offset() == instant {
			first--
		}
		for end < len(events) && events[end].offset() == instant {
			end++
		}
		e.rankInstant(events[first:end])
		i = end
	}
}

// rankInstant sorts events of one instant by rank: by port, a digit at a time, then by kind.
func (e *engine) rankInstant(events []event) {
	if len(events) <= few {
		insertionSort(events)
		return
	}
	e.scratch = room(e.scratch, len(events))
	from, to := events, e.scratch[:len(events)]
	for shift := uint(packetBits); ; shift += maxDigit {
		width := uint(maxDigit)
		last := shift >= packetBits+e.portWidth
		if last {
			shift, width = kindShift, kindBits
		}
		distribute(from, to, shift, e.countOne(from, shift, width))
		from, to = to, from
		if last {
			break
		}
	}
	if &from[0] != &events[0] {
		copy(events, from)
	}
}

// countOne returns where events with each digit of so many bits from shift on begin.
func (e *engine) countOne(events []event, shift, width uint) *digits {
	d := &e.lows
	size := 1 << width
	clear(d.at[:size])
	d.mask = event(size - 1)
	for _, ev := range events {
		d.at[uint8(ev>>(shift&63)&d.mask)]++
	}
	var sum uint32
	for i := range size {
		at := &d.at[i&(len(d.at)-1)]
		sum, *at = sum+*at, sum
	}
	return d
}

// insertionSort sorts events by their turns; those of one turn keep their order.
func insertionSort(events []event) {
	for i := 1; i < len(events); i++ {
		ev := events[i]
		j := i
		for ; j > 0 && events[j-1].turn() > ev.turn(); j-- {
			events[j] = events[j-1]
		}
		events[j] = ev
	}
}
