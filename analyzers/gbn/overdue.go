package gbn

// A NAK leaves behind the answers to what arrived before the gap, and a READ that is asked for again is answered again
// before it. Nobody prescribes how long a responder may take for it. So that it was not sent shows only if the gap
// stayed open until it was overdue, or if what lies behind the gap was answered.

// nakDelayNS is how long after the gap, or after the last READ response that may be before it, a NAK may leave: as long
// as the request takes to the host and the NAK back.
func (s *session) nakDelayNS() int64 {
	t := s.limits.TimeoutNS
	if t <= 0 {
		return s.a.delay
	}
	return 2*s.a.host.BesideNS(t) + s.a.meta.ClockUncertaintyNS
}

// followGap notes what arrival a, the newest, means for the gap that it opens or closes; awaiting says whether one was
// open.
func (s *session) followGap(a *arrival, awaiting bool) {
	q := &s.rsp
	switch {
	case a.fate == fateAhead:
		q.overdueNS, q.skipped = a.timeNS+s.nakDelayNS(), q.skipped && awaiting
	case a.fate == fateExpected && awaiting && q.log.gaps > 0 && !q.skipped:
		q.log.outrunGap(a.timeNS <= q.overdueNS || q.stream.active && q.stream.askedNS <= q.overdueNS)
	}
}

// outrunGap marks the newest gap, which has just closed, if its NAK may not have left yet or a READ before it is not
// answered at all.
func (l *arrivals) outrunGap(inTime bool) {
	i := l.len - 1
	for i >= 0 && l.at(i).fate != fateAhead {
		i--
	}
	if i >= 0 {
		l.at(i).outrun = inTime || l.owesDataBefore(i)
	}
}

// owesDataBefore reports whether a READ or atomic request that was accepted before arrival i waits for its answer.
func (l *arrivals) owesDataBefore(i int) bool {
	for j := range i {
		if a := l.at(j); a.fate == fateExpected && a.owesData() {
			return true
		}
	}
	return false
}

// holdUp puts off when a NAK is overdue by a READ response at ns, which it may have to follow.
func (s *session) holdUp(ns int64) {
	if q := &s.rsp; ns <= q.overdueNS {
		q.overdueNS = ns + s.nakDelayNS()
	}
}
