package fabric

// sorted returns events in the order of their time; those of one instant keep their order, which is that of scheduling. Many
// are distributed by the digits of their time within the day, the lowest first (a radix sort). With fewer, counting would take
// longer than moving what a rough distribution leaves in disorder; with few, so would any distribution.
func (e *engine) sorted(events []event) []event {
	const few, some, rough = 16, 128, 6 // bits
	switch {
	case len(events) <= few:
		insertionSort(events)
		return events
	case len(events) < some:
		events, e.scratch = distribute(events, e.scratch, whatBits+e.dayLog-rough, e.counters[:1<<rough])
		insertionSort(events)
		return events
	}
	passes := (e.dayLog + maxDigit - 1) / maxDigit
	digit := (e.dayLog + passes - 1) / passes
	for pass := range passes {
		events, e.scratch = distribute(events, e.scratch, whatBits+pass*digit, e.counters[:1<<digit])
	}
	return events
}

const maxDigit = 9 // bits: counters fill 2 kB

// distribute returns events sorted by the bits from shift on, as many as tell the counts apart, and an array for later use.
func distribute(events, into []event, shift uint, counts []uint32) (sorted, free []event) {
	clear(counts)
	mask := event(len(counts) - 1)
	for _, ev := range events {
		counts[ev>>shift&mask]++
	}
	at := uint32(0)
	for i, n := range counts {
		counts[i] = at
		at += n
	}
	if cap(into) < len(events) {
		into = make([]event, 0, 2*len(events))
	}
	into = into[:len(events)]
	for _, ev := range events {
		next := &counts[ev>>shift&mask]
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
