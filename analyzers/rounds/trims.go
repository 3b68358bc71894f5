package rounds

import (
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/trace"
)

// receiveHeader handles a trimmed request. A responder that reacts has then noticed the gap, so later packets do not
// open it.
func (s *stream) receiveHeader(step *Step) {
	if s.unsure {
		step.Marks |= Unsure
	}
	switch place := step.Place; {
	case place < s.want:
		return
	case place == s.want:
		step.Marks |= TrimmedNext
	case s.gapOpen:
		return
	default:
		step.Marks |= TrimmedAhead
	}
	if s.responderTrims == trace.TrimAnswered {
		s.gapOpen, s.gapNS = true, Never
	}
}

// learnHeader follows a trimmed response to the requester.
func (s *stream) learnHeader(r *trace.Record, step *Step) {
	due := s.reads.first()
	if s.requesterTrims == trace.TrimIgnored || !r.Opcode.IsReadResponse() || due == nil || step.Place < due.next ||
		step.Place >= s.high {
		return
	}
	if step.Marks |= TrimmedAhead; step.Place == due.next && s.una == due.next {
		step.Marks ^= TrimmedAhead | TrimmedNext
	}
	s.trimmed, s.trimNS = true, r.TimeNS
	s.pendingNS = r.TimeNS
	s.pending++ // the requester may have moved on before it restarts
}

// byTrim reports whether a trimmed READ response may have caused the restart at r. If nothing is known about the
// requester, the restart must be before any timer can have expired.
func (s *stream) byTrim(r *trace.Record) bool {
	return s.trimmed && readLike(r.Opcode) &&
		(s.requesterTrims == trace.TrimAnswered || r.TimeNS-s.trimNS < bounds.ShortestTimeoutNS)
}
