package fabric

import "math/bits"

// few events are sorted by moving them one by one: counting would take longer.
const few = 32

// sorted returns events in the order of their turns; those of one turn keep their order, which is that of scheduling.
// Many are distributed by the digits of their turns, the lowest first (a radix sort). The digits skip bits that are 0
// in all events: the highest of port numbers, and the lowest of times, which are multiples of the time of a byte.
func (e *engine) sorted(events []event) []event {
	if len(events) <= few {
		insertionSort(events)
		return events
	}
	var union event
	for _, ev := range events {
		union |= ev
	}
	multiple := min(uint(bits.TrailingZeros64(union.offset())), e.dayLog)
	e.pack(events, multiple)
	width := e.portWidth + kindBits + e.dayLog - multiple
	passes := (width + maxDigit - 1) / maxDigit
	e.scratch = room(e.scratch, len(events))
	from, to := events, e.scratch[:len(events)]
	for shift := uint(packetBits); passes > 0; passes-- {
		digit := (width + passes - 1) / passes
		e.distribute(from, to, shift, digit)
		from, to = to, from
		shift, width = shift+digit, width-digit
	}
	e.scratch = to[:cap(to)]
	e.unpack(from, multiple)
	return from
}

// room returns an array for n events, the one given if it is large enough.
func room(array []event, n int) []event {
	if cap(array) < n {
		return make([]event, 2*n)
	}
	return array[:cap(array)]
}

// pack moves the kinds and times of events down, next to their ports, without the lowest bits of times, which are zero.
func (e *engine) pack(events []event, zeros uint) {
	at := packetBits + e.portWidth
	for i, ev := range events {
		time := ev >> ((whatBits + zeros) & 63) << ((at + kindBits) & 63)
		kind := ev >> kindShift & (1<<kindBits - 1) << (at & 63)
		events[i] = time | kind | ev&(1<<kindShift-1)
	}
}

// unpack reverses pack.
func (e *engine) unpack(events []event, zeros uint) {
	at := packetBits + e.portWidth
	below := event(1)<<at - 1
	for i, ev := range events {
		time := ev >> ((at + kindBits) & 63) << ((whatBits + zeros) & 63)
		kind := ev >> (at & 63) & (1<<kindBits - 1) << kindShift
		events[i] = time | kind | ev&below
	}
}

// digits counts the events with each value of a digit, then holds where the next of them goes.
type digits [1 << maxDigit]uint32

const maxDigit = 9 // bits

// distribute copies events into another array, sorted by the digit of so many bits that begins at shift.
func (e *engine) distribute(events, into []event, shift, digit uint) {
	d, mask := &e.digits, event(1)<<digit-1
	counts := d[:mask+1]
	clear(counts)
	for _, ev := range events {
		d[ev>>(shift&63)&mask&(1<<maxDigit-1)]++
	}
	var sum uint32
	for i, n := range counts {
		counts[i] = sum
		sum += n
	}
	for _, ev := range events {
		next := &d[ev>>(shift&63)&mask&(1<<maxDigit-1)]
		into[*next] = ev
		*next++
	}
}

// insertionSort sorts events by their turns; those of one turn keep their order.
func insertionSort(events []event) {
	for i := 1; i < len(events); i++ {
		ev := events[i]
		last := ev | packetMask // of its turn
		j := i
		for ; j > 0 && events[j-1] > last; j-- {
			events[j] = events[j-1]
		}
		events[j] = ev
	}
}
