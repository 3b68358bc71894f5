package cnp

// pacer keeps when a group last yielded a CNP: between first and last, because a trigger near the end of the minimum
// time may or may not have yielded one.
type pacer struct {
	started     bool
	first, last int64 // ns

	cnpNS int64 // when the group's latest CNP was seen
	cnpID uint64
}

// outcome is what a trigger leads to.
type outcome uint8

const (
	suppressed outcome = iota
	mayYield
	yields
)

// longAgo is before every trace but far enough from the smallest integer to subtract from.
const longAgo = -1 << 62

// trigger decides about a trigger at ns.
func (p *pacer) trigger(ns, minTime, jitter int64, sure bool) outcome {
	result := yields
	switch {
	case minTime == 0 || !p.started:
	case ns-p.first <= minTime-jitter:
		return suppressed
	case ns-p.last <= minTime+jitter:
		result = mayYield
	}
	if !sure {
		result = mayYield
	}
	if !p.started {
		p.started, p.first = true, longAgo
	}
	if p.last = ns; result == yields {
		p.first = ns
	}
	return result
}

// waiting has the times of triggers whose CNP has not been seen, oldest first.
type waiting struct {
	ns [maxWaiting]int64
	n  int
}

const maxWaiting = 8

// push adds a trigger. If CNPs are paced only the latest that may have yielded one matters.
func (w *waiting) push(ns int64, paced bool) {
	if paced {
		w.n = 0
	}
	if w.n == maxWaiting {
		copy(w.ns[:], w.ns[1:])
		w.n--
	}
	w.ns[w.n] = ns
	w.n++
}

// first adds a trigger only if none waits: if triggers are rare a CNP answers that one.
func (w *waiting) first(ns int64) {
	if w.n == 0 {
		w.push(ns, false)
	}
}

// pop returns the oldest.
func (w *waiting) pop() (ns int64, ok bool) {
	if w.n == 0 {
		return 0, false
	}
	ns = w.ns[0]
	w.n--
	copy(w.ns[:w.n], w.ns[1:])
	return ns, true
}
