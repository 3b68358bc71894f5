package gbn

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// responsePassed adds what the requester may know once it receives r.
func (s *session) responsePassed(r *trace.Record) {
	if s.responseTrimmed(r); !r.Delivered() || !s.req.started && (s.midway || s.captured) {
		s.req.mute++
		return
	}
	s.noteFate(r)
	if s.req.fatalID != 0 && !s.captured && !s.fateUnknown {
		s.a.requester.Step(&s.req.state, s.heard(r)) // it arrives at a queue pair in error
		return
	}
	if s.a.forged(r) {
		s.req.misled = true
	}
	p := s.unwrap(r.PSN)
	if s.req.doubted >= 0 {
		s.req.askDoubted(r, p)
	}
	switch {
	case r.Opcode.IsReadResponse(), r.Opcode == packet.AtomicAcknowledge:
		if r.Event.Late() && r.Has(trace.Sent) {
			s.req.arrivesLate(p)
		}
		s.learnResponse(r, p)
	case r.Syndrome.IsAck():
		s.learnUpTo(r, p+1, nakNone)
	case r.Syndrome.IsRNR():
		s.learnUpTo(r, p, nakRNR)
	case r.Syndrome == packet.SyndromeNakSequence:
		s.learnUpTo(r, p, nakSequence)
	case r.Syndrome.IsNak():
		missing, gap := s.req.spans.missing()
		s.learnUpTo(r, p, nakNone)
		if gap && missing < p {
			s.req.misled = true // what is missing before may be asked for first
			return
		}
		if p >= s.req.next && !s.captured {
			return // no request that it could be about
		}
		if p < s.req.una.most().una && !s.captured && !s.fateUnknown {
			s.req.misled = true // about what was acknowledged before: a requester may ignore it
			return
		}
		s.a.requester.Step(&s.req.state, rqFatal)
		s.req.fatalID, s.req.fatalNS = r.ID, r.TimeNS
	}
}

// noteFate marks deliveries as unknown when an event changes their order or number. In a pair of captures the second
// shows what really passed.
func (s *session) noteFate(r *trace.Record) {
	if r.Event.Departs() {
		s.disturbed = true
		if r.Has(trace.Sent) {
			s.fateUnknown = true
		}
	}
}

// heard is the requester's input for a response from which it learns nothing new.
func (s *session) heard(r *trace.Record) uint8 {
	q, p := &s.req, s.unwrap(r.PSN)
	una, kind := p+1, nakNone
	if r.Opcode == packet.Acknowledge && !r.Syndrome.IsAck() {
		una = p
		switch {
		case r.Syndrome.IsRNR():
			kind = nakRNR
		case r.Syndrome == packet.SyndromeNakSequence:
			kind = nakSequence
		default:
			return rqFatal
		}
	}
	switch missing, ok := q.spans.missing(); {
	case una < q.una.most().una:
		return rqAckOld
	case ok && missing < una-1 || ok && missing < una && r.Opcode == packet.Acknowledge:
		kind = nakImplied
	}
	return learned(kind, una, q.next)
}

// learnUpTo handles a response that acknowledges everything before una. For unanswered READ and atomic requests among
// these it is an implied NAK (IBTA volume 1, 9.7.5.1.2).
func (s *session) learnUpTo(r *trace.Record, una pos, kind nakKind) {
	q := &s.req
	if (una > q.next || una == q.next && r.Opcode == packet.Acknowledge && !r.Syndrome.IsAck()) && !s.captured {
		s.learnUnasked(r, una, kind)
		return
	}
	una = min(una, q.next)
	if missing, ok := q.spans.missing(); ok && missing < una {
		una, kind = missing, nakImplied
	}
	s.learn(r, una, kind)
}

// learnResponse handles a READ response or atomic ACK, which acknowledges itself and all earlier requests.
func (s *session) learnResponse(r *trace.Record, p pos) {
	q := &s.req
	missing, ok := q.spans.missing()
	switch {
	case p >= q.next && !s.captured:
		s.learnUnasked(r, p+1, nakNone)
	case s.wrong(r, p):
		s.learnWrong(r, p)
	case !ok || p < missing:
		s.learn(r, 0, nakNone)
	case p > missing:
		s.learn(r, missing, nakImplied)
	default:
		if (s.captured || s.fateUnknown) && p > q.una.most().una {
			// If the response is lost after the tap or late, only what is before it is acknowledged.
			q.una.push(knowledge{una: p, id: r.ID, timeNS: r.TimeNS})
		}
		q.spans.answered()
		s.learn(r, p+1, nakNone)
	}
}

// learn adds the state in which everything before una is acknowledged and kind requests una.
func (s *session) learn(r *trace.Record, una pos, kind nakKind) {
	q := &s.req
	most := q.una.most()
	if una < most.una && (kind == nakSequence || kind == nakRNR) {
		q.contrary = una // the responder takes an acknowledgement back: its fault, not that of a requester that obeys
	}
	q.refused = q.refused || kind == nakRNR
	q.exhausted = q.exhausted || kind != nakNone && q.tried >= s.fewest()
	unsure := q.dubious || una == q.doubted
	if una < most.una && (s.captured || s.fateUnknown || unsure) {
		q.una.insert(knowledge{una: una, id: r.ID, timeNS: r.TimeNS}) // what said more may be lost or late, or not heeded
		if i := q.una.search(una); unsure && kind != nakNone && q.una.at(i).una == una {
			q.una.at(i).ask(r, kind)
		}
	}
	if una < most.una || una == most.una && kind == nakNone {
		s.a.requester.Step(&q.state, rqAckOld)
		return
	}
	if una > most.una {
		s.noteStall(r)
		q.mute = 0
		q.una.push(knowledge{una: una, id: r.ID, timeNS: r.TimeNS,
			restores: kind == nakImplied && r.Opcode == packet.Acknowledge && !r.Syndrome.IsAck()})
		s.expire(r)
		q.spans.forget(q.una.least().una)
		most = q.una.most()
	}
	if kind != nakNone {
		most.ask(r, kind)
		if s.mayHaveGivenUp(most) {
			q.lastNack = r.TimeNS
		}
	}
	if una == q.next && kind == nakNone {
		q.tried = 0
	}
	s.a.requester.Step(&q.state, learned(kind, una, q.next))
}

// ask notes a NACK for una.
func (k *knowledge) ask(r *trace.Record, kind nakKind) {
	k.asks++
	k.askID, k.askNS = r.ID, r.TimeNS
	if kind == nakRNR {
		if k.rnrs++; k.waitNS == 0 {
			k.waitNS = r.TimeNS
		}
		k.rnrNS = packet.RNRTimer(r.Syndrome.TimerCode())
	}
	if r.Opcode == packet.Acknowledge && r.Syndrome.IsRNR() {
		k.askNS += packet.RNRTimer(r.Syndrome.TimerCode())
	}
	if k.nak != kind || kind != nakImplied || k.answered {
		k.nak, k.nakID, k.nakNS, k.answered = kind, r.ID, r.TimeNS, false
	}
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
