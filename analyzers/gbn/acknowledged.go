package gbn

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// responsePassed extends what the requester may know by a response on its way to it.
func (s *session) responsePassed(r *trace.Record) {
	if s.responseTrimmed(r); !r.Delivered() || !s.req.started {
		return
	}
	s.noteFate(r)
	p := s.unwrap(r.PSN)
	switch {
	case r.Opcode.IsReadResponse(), r.Opcode == packet.AtomicAcknowledge:
		s.learnResponse(r, p)
	case r.Syndrome.IsAck():
		s.learnUpTo(r, p+1, nakNone)
	case r.Syndrome.IsRNR():
		s.learnUpTo(r, p, nakRNR)
	case r.Syndrome == packet.SyndromeNakSequence:
		s.learnUpTo(r, p, nakSequence)
	case r.Syndrome.IsNak():
		s.learnUpTo(r, p, nakNone)
		s.a.requester.step(&s.req.state, rqFatal)
		s.req.fatalID, s.req.fatalNS = r.ID, r.TimeNS
	}
}

// noteFate gives up exactness when an event makes the order or number of deliveries differ from the trace. In a pair of
// captures the second shows what really passed.
func (s *session) noteFate(r *trace.Record) {
	switch r.Event {
	case trace.EventDelay, trace.EventDuplicate, trace.EventReorder, trace.EventRewrite:
		if r.Has(trace.Sent) {
			s.fateUnknown = true
		}
	default: // one packet in, one or none out, in order
	}
}

// learnUpTo follows a response that acknowledges everything before una, except READ and atomic requests that are not
// answered yet: for those it is an implied NAK (IBTA volume 1, 9.7.5.1.2).
func (s *session) learnUpTo(r *trace.Record, una pos, kind nakKind) {
	q := &s.req
	una = min(una, q.next)
	if missing, ok := q.spans.missing(); ok && missing < una {
		una, kind = missing, nakImplied
	}
	s.learn(r, una, kind)
}

// learnResponse follows a READ response or atomic ACK, which acknowledges all earlier requests and itself.
func (s *session) learnResponse(r *trace.Record, p pos) {
	q := &s.req
	missing, ok := q.spans.missing()
	switch {
	case !ok || p < missing:
		s.learn(r, 0, nakNone)
	case p > missing:
		s.learn(r, missing, nakImplied)
	default:
		q.spans.answered()
		s.learn(r, p+1, nakNone)
	}
}

// learn adds the state in which everything before una is acknowledged and kind asks for una.
func (s *session) learn(r *trace.Record, una pos, kind nakKind) {
	q := &s.req
	most := q.una.most()
	if una < most.una && (kind == nakSequence || kind == nakRNR) {
		q.contrary = una // the responder takes an acknowledgement back: its fault, and no requester is blamed for obeying
	}
	if una < most.una && (s.captured || s.fateUnknown) {
		q.una.insert(knowledge{una: una, id: r.ID, timeNS: r.TimeNS}) // what said more may be lost or late
	}
	if una < most.una || una == most.una && kind == nakNone {
		s.a.requester.step(&q.state, rqAckOld)
		return
	}
	if una > most.una {
		q.una.push(knowledge{una: una, id: r.ID, timeNS: r.TimeNS})
		s.expire(r)
		q.spans.forget(q.una.least().una)
		most = q.una.most()
	}
	if kind != nakNone {
		most.asks++
		most.askNS = r.TimeNS
		if r.Opcode == packet.Acknowledge && r.Syndrome.IsRNR() {
			most.askNS += packet.RNRTimer(r.Syndrome.TimerCode())
		}
		if most.nak != kind || kind != nakImplied || most.answered {
			most.nak, most.nakID, most.nakNS, most.answered = kind, r.ID, r.TimeNS, false
			most.rnrNS = packet.RNRTimer(r.Syndrome.TimerCode())
		}
	}
	s.a.requester.step(&q.state, learned(kind, una, q.next))
}

// learned is the requester's input for a response.
func learned(kind nakKind, una, next pos) uint8 {
	switch kind {
	case nakSequence:
		return rqNack
	case nakRNR:
		return rqRNR
	case nakImplied:
		return rqImplied
	case nakNone:
	}
	if una == next {
		return rqAckAll
	}
	return rqAck
}
