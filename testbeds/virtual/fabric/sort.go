package fabric

// sorted returns events in the order of their time; those of one instant keep their order, which is that of scheduling.
// Many are distributed by the two halves of their time within the day, the lower first (a radix sort). With few,
// counting would take longer than moving them one by one.
func (e *engine) sorted(events []event) []event {
	const few = 16
	if len(events) <= few {
		insertionSort(events)
		return events
	}
	low := whatBits
	digit := (e.dayLog + 1) / 2
	lows, highs := e.count(events, digit)
	events, e.scratch = distribute(events, e.scratch, uint(low), lows)
	events, e.scratch = distribute(events, e.scratch, uint(low)+digit, highs)
	return events
}

// digits is where events go in a distribution, by a digit of up to 8 bits: how many have it, then where the next of
// them belongs.
type digits struct {
	at   [1 << maxDigit]uint32
	mask event
}

const maxDigit = 8 // bits: half of maxDayLog

// count returns where events with each low and each high digit begin.
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

// distribute returns events sorted by the digit that begins at shift, and an array for later use.
func distribute(events, into []event, shift uint, to *digits) (sorted, free []event) {
	if cap(into) < len(events) {
		into = make([]event, 2*len(events))
	}
	into = into[:len(events)]
	mask := to.mask
	for _, ev := range events {
		next := &to.at[uint8(ev>>(shift&63)&mask)]
		into[*next] = ev
		*next++
	}
	return into, events
}

func insertionSort(events []event) {
	for i := 1; i < len(events); i++ {
		ev := events[i]
		j := i
		for ; j > 0 && events[j-1].offset() > ev.offset(); j-- {
			events[j] = events[j-1]
		}
		events[j] = ev
	}
}
