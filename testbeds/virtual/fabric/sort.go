package fabric

import "math/bits"

const (
	few      = 32 // events are sorted by moving them one by one: counting would take longer
	maxDigit = 9  // bits
	timeBits = maxDigit - kindBits
	ties     = 8 // pairs of events of one time, per event: from so many on events are distributed by ports, too
)

// digits counts the events with each value of a digit, then holds where the next of them goes.
type digits [1 << maxDigit]uint32

// sorted returns events in the order of their turns; those of one turn keep their order, which is that of scheduling.
// It may exchange the array of events for e.scratch.
//
// Many are distributed by time. If few share one, moving them one by one does the rest. On links of one rate many do:
// then events are distributed by port first, the lowest digit first, then by kind and time (a radix sort). What
// yesterday was like decides, so that times need not be counted twice. Digits of times begin above the bits that are 0
// in all events, because times are multiples of the time of a byte.
func (e *engine) sorted(events []event) []event {
	if len(events) <= few {
		insertionSort(events)
		return events
	}
	var union event
	for _, ev := range events {
		union |= ev
	}
	zeros := min(uint(bits.TrailingZeros64(union.offset())), e.dayLog)
	e.scratch = room(e.scratch, len(events))
	from, to := events, e.scratch[:len(events)]
	if !e.tied {
		digit := min(e.dayLog-zeros, maxDigit)
		e.tied = e.count(from, whatBits+e.dayLog-digit, digit) > ties*len(events)
		if !e.tied {
			e.move(from, to, whatBits+e.dayLog-digit, digit)
			e.scratch = from[:cap(from)]
			insertionSort(to)
			return to
		}
	}
	shift := uint(packetBits)
	for passes := (e.portWidth + maxDigit - 1) / maxDigit; passes > 0; passes-- {
		digit := (e.portWidth - (shift - packetBits) + passes - 1) / passes
		e.count(from, shift, digit)
		e.move(from, to, shift, digit)
		from, to = to, from
		shift += digit
	}
	e.tied = e.distributeTimes(from, to, zeros) > ties*len(events)
	from, to = to, from
	if rest := e.dayLog - zeros; rest > timeBits {
		e.count(from, whatBits+zeros+timeBits, rest-timeBits)
		e.move(from, to, whatBits+zeros+timeBits, rest-timeBits)
		from, to = to, from
	}
	e.scratch = to[:cap(to)]
	return from
}

// room returns an array for n events, the one given if it is large enough.
func room(array []event, n int) []event {
	if cap(array) < n {
		return make([]event, 2*n)
	}
	return array[:cap(array)]
}

// count finds where the events with each value of a digit, the bits from shift on, go. It returns how many pairs of
// them have equal digits.
func (e *engine) count(events []event, shift, digit uint) (pairs int) {
	d, mask := &e.digits, event(1)<<(digit&63)-1
	clear(d[:mask&(1<<maxDigit-1)+1])
	for _, ev := range events {
		d[ev>>(shift&63)&mask&(1<<maxDigit-1)]++
	}
	return d.add(digit)
}

// add replaces the counts of a digit by the sums of those before each, and returns how many pairs have one value.
func (d *digits) add(digit uint) (pairs int) {
	var sum uint32
	counts := d[:1<<(digit&63)]
	for i, n := range counts {
		counts[i] = sum
		sum += n
		pairs += int(n) * int(n)
	}
	return (pairs - int(sum)) / 2
}

// move copies events into another array, in the order of their digits that were counted.
func (e *engine) move(events, into []event, shift, digit uint) {
	d, mask := &e.digits, event(1)<<(digit&63)-1
	for _, ev := range events {
		next := &d[ev>>(shift&63)&mask&(1<<maxDigit-1)]
		into[*next] = ev
		*next++
	}
}

// distributeTimes copies events into another array, sorted by their lowest bits of time above so many zeros, then by
// kind. It returns how many pairs of them have both in common.
func (e *engine) distributeTimes(events, into []event, zeros uint) (pairs int) {
	d := &e.digits
	clear(d[:])
	for _, ev := range events {
		d[ev.timeAndKind(zeros)]++
	}
	pairs = d.add(maxDigit)
	for _, ev := range events {
		next := &d[ev.timeAndKind(zeros)]
		into[*next] = ev
		*next++
	}
	return pairs
}

func (ev event) timeAndKind(zeros uint) uint64 {
	const kinds = 1<<kindBits - 1
	at := uint64(ev) >> kindShift
	return (at>>(zeros&63)&^kinds | at&kinds) & (1<<maxDigit - 1)
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
