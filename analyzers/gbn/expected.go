package gbn

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// ordinary handles r if it is what nearly all requests are: a valid packet of a SEND or WRITE, sent for the first time,
// in order, to a responder that expects it, on a connection of which everything is known. It does what requestSent and
// requestPassed do for such a packet (a test compares them). For any other packet it returns false and does nothing.
func (s *session) ordinary(r *trace.Record) bool {
	q, p := &s.req, s.req.next
	if s.slow() ||
		r.Flags&(trace.Sent|trace.Passed|trace.Solicited|trace.ForeignPKey|trace.ForeignRKey) != trace.Sent|trace.Passed ||
		r.Event != trace.EventNone || r.ICRC == packet.ICRCInvalid || r.PSN != s.psn(p) {
		return false
	}
	m, ok := q.message.followed(r, s.mtu)
	if !ok {
		return false
	}
	q.window.put(p, q.una.most().una, r)
	s.a.requester.Step(&q.state, rqNew)
	s.a.responder.Step(&s.rsp.state, rsExpected)
	q.message = m
	if !m.open {
		q.ended++
	}
	q.lastData, q.cur, q.next, q.fresh = p, p+1, p+1, true
	q.lastID, q.lastNS = r.ID, r.TimeNS
	s.rsp.uncertain.passed = max(s.rsp.uncertain.passed, p)
	s.rsp.log.pushExpected(r, p)
	return true
}

// slow reports whether the session is in a state that ordinary does not handle.
func (s *session) slow() bool {
	q, rsp := &s.req, &s.rsp
	l := &rsp.log
	return !q.started || s.captured || s.fateUnknown || !s.mtuShown || s.mtu != l.mtu || q.state > rqSending ||
		rsp.state != rsReady ||
		rsp.adrift || q.cur != q.next || q.fatalID != 0 || len(q.claims) > 0 ||
		l.len == len(l.ring) || l.most.expected != q.next || l.most.awaiting || l.most.failed || !l.most.agrees(&q.message)
}

// agrees reports whether the responder is at the same place of the same message as its requester.
func (st *receipt) agrees(m *message) bool {
	if !m.open || m.unknown {
		return !m.unknown && st.open == packet.VerbNone
	}
	return st.open == m.verb && (m.verb != packet.VerbWrite || st.left == m.left)
}

// followed returns the message after r, a packet of a SEND or WRITE, or false if r is a different packet or invalid.
func (m *message) followed(r *trace.Record, mtu int) (next message, ok bool) {
	op := r.Opcode
	verb, starts, ends, n := op.Verb(), op.Starts(), op.Ends(), int(r.PayloadLen)
	if verb != packet.VerbSend && verb != packet.VerbWrite || starts == m.open || m.open && verb != m.verb ||
		r.PadCount != uint8(-n&3) || r.DMALen > maxDMALength {
		return message{}, false
	}
	if !ends && n != mtu || n > mtu || n == 0 && !starts {
		return message{}, false
	}
	next = *m
	if starts {
		next = message{verb: verb, left: int64(r.DMALen), id: r.ID}
	}
	next.open = !ends
	if verb == packet.VerbWrite {
		next.left -= int64(n)
		if next.left < 0 || ends != (next.left == 0) {
			return message{}, false
		}
	}
	return next, true
}

// pushExpected adds the expected and valid request r at p, for which there is room.
func (l *arrivals) pushExpected(r *trace.Record, p pos) {
	l.len++
	a := l.at(l.len - 1)
	// Field by field, as a composite is made elsewhere and copied.
	a.id, a.timeNS, a.number, a.pos, a.psns, a.length = r.ID, r.TimeNS, l.pushed, p, 1, r.DMALen
	a.op, a.fate, a.ackReq, a.header, a.payload = r.Opcode, fateExpected, r.Flags&trace.AckReq != 0, false, r.PayloadLen
	a.foreignKey, a.heir, a.stray, a.got, a.altered, a.outrun, a.flaw = false, false, false, 0, false, false, 0
	l.pushed++
	l.most.accept(a)
}
