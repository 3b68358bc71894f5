package gbn

// A NAK follows the answers to what arrived before the gap, and those to a READ that was repeated before it. The
// standard does not limit how long a responder may take for these. A NAK is missing only if the gap stayed open until
// it was overdue, or if requests after the gap were answered.

// nakDelayNS is how long after the gap, or after the last READ response before it, a NAK may be seen: the time of the
// request to the host and of the NAK back.
func (s *session) nakDelayNS() int64 {
	t := s.limits.TimeoutNS
	if t <= 0 {
		return s.a.delay
	}
	return 2*s.a.host.BesideNS(t) + s.a.meta.ClockUncertaintyNS
}

// followGap handles arrival a, the newest, which may open or close a gap; awaiting says whether one was open.
func (s *session) followGap(a *arrival, awaiting bool) {
	q := &s.rsp
	switch {
	case a.fate == fateAhead:
		q.overdueNS, q.skipped = a.timeNS+s.nakDelayNS(), q.skipped && awaiting
	case a.fate == fateExpected && awaiting && q.log.gaps > 0 && !q.skipped:
		q.log.outrunGap(a.timeNS <= q.overdueNS || q.stream.active && q.stream.askedNS <= q.overdueNS)
	}
}

// outrunGap marks the newest gap, which has just closed, if its NAK may not have left yet or a READ before it is
// unanswered.
func (l *arrivals) outrunGap(inTime bool) {
	i := l.len - 1
	for i >= 0 && l.at(i).fate != fateAhead {
		i--
	}
	if i >= 0 {
		l.at(i).outrun = inTime || l.owesDataBefore(i)
	}
}

// owesDataBefore reports whether a READ or atomic request accepted before arrival i is unanswered.
func (l *arrivals) owesDataBefore(i int) bool {
	for j := range i {
		if a := l.at(j); a.fate == fateExpected && a.owesData() {
			return true
		}
	}
	return false
}

// holdUp postpones when a NAK is overdue, because of a READ response at ns that it may have to follow.
func (s *session) holdUp(ns int64) {
	if q := &s.rsp; ns <= q.overdueNS {
		q.overdueNS = ns + s.nakDelayNS()
	}
}
