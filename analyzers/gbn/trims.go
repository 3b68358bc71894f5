package gbn

import "candela.dev/candela/trace"

// The header of a trimmed request is a loss that carries information. A responder without a trim reaction ignores it
// like any damaged packet. One that reacts NAKs the expected PSN if the header shows that it is missing: because the
// header is that of the expected request, even if that was NAKed before, or because it is the first after the gap. That
// NAK replaces the one for the next request out of order. Whether it is sent is not judged here: analyzer trim does
// that where the test says that the device reacts.
//
// If nothing is known about the responder, it is taken not to react until a NAK that nothing else explains shows that
// it does.
//
// A trimmed READ response has the same effect on a requester that reacts as a response out of order, but acknowledges
// nothing. So it may explain one restart at whatever is unacknowledged when the requester handles it.

// setTrims says whether the responder NAKs headers.
func (l *arrivals) setTrims(t trace.TrimReaction) {
	l.least.answersTrims = t == trace.TrimAnswered
	l.most.answersTrims = l.least.answersTrims
}

// showsGap reports whether a responder NAKs a when it arrives.
func (l *arrivals) showsGap(a *arrival) bool {
	return a.fate == fateAhead || a.fate == fateTrimmed && l.least.answersTrims
}

// anyGap reports whether some arrival makes the responder NAK.
func (l *arrivals) anyGap() bool { return l.gaps > 0 || l.headers > 0 && l.least.answersTrims }

// learnTrims concludes from a NAK for p that nothing else explains that its responder reacts to trimmed headers, if
// nothing is known of it.
func (s *session) learnTrims(p pos) {
	l := &s.rsp.log
	if s.trims != trace.TrimReactionUnknown || l.headers == 0 || l.gapAt(p) {
		return
	}
	l.setTrims(trace.TrimAnswered)
	l.rejudge()
	if l.gapAt(p) {
		s.trims = trace.TrimAnswered
		return
	}
	l.setTrims(trace.TrimReactionUnknown)
	l.rejudge()
}

// responseTrimmed records the header of a trimmed response that passed to the requester.
func (s *session) responseTrimmed(r *trace.Record) {
	if !r.HeaderArrives() || !r.Opcode.IsReadResponse() ||
		s.a.meta.TrimReactions.Receiver(r.Flow) == trace.TrimIgnored {
		return
	}
	s.req.carried++
	s.req.carriedNS = r.TimeNS
}

// uncertainTrimmed records the header of a trimmed request where deliveries are not known exactly.
func (s *session) uncertainTrimmed(r *trace.Record, p pos) {
	if l := &s.rsp.uncertain; r.HeaderArrives() && s.trims != trace.TrimIgnored {
		l.header, l.last, l.lastID = max(l.header, p), p, r.ID
	}
}

// trimmedAt reports whether a NAK for p may answer a trimmed header.
func (s *session) trimmedAt(p pos) bool { return s.rsp.uncertain.header >= p }

// retransmissionTrimmed reports whether a second NAK for p may answer the header of a trimmed retransmission. A plain
// capture may have been taken before the switch that trims: there a retransmission suffices.
func (s *session) retransmissionTrimmed(p pos) bool {
	if s.trims == trace.TrimIgnored {
		return false
	}
	if l := &s.rsp.uncertain; !s.captured {
		return l.last == p && l.lastID > s.rsp.nakID
	}
	latest, ok := s.req.window.get(p)
	return ok && latest.id > s.rsp.nakID && s.req.lowest <= p
}
