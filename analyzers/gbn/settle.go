package gbn

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// settle ends the doubt which of several copies of a request the responder took. A response that acknowledges
// everything that was ever sent leaves one state that it can be in, whichever way it got there: all was received in
// order, and what is still on its way to it is a duplicate. Answers to READs and atomics that it may still owe, or be
// in the middle of, keep the doubt alive, as does what its requester did not send so.
func (s *session) settle(r *trace.Record, p pos) {
	q := &s.rsp
	if !q.unsettled || s.captured || s.fateUnknown || q.forged || q.state == rsFailed {
		return
	}
	if !s.completes(r, p) {
		return
	}
	if r.Opcode != packet.Acknowledge {
		q.log.answered(p)
	}
	if p != s.req.next-1 || q.log.find(func(a *arrival) bool { return a.owesData() || a.pos > p }) >= 0 {
		return
	}
	q.log.restart(p+1, s.req.ended, &s.req.message)
	q.adrift, q.unsettled = false, false
	q.stream = stream{}
	q.spoke = q.log.pushed
	s.step(rsExpected)
}

// completes reports whether r acknowledges the request that ends at p.
func (s *session) completes(r *trace.Record, p pos) bool {
	if r.Opcode.IsReadResponse() {
		sp, ok := s.req.spans.covering(p)
		return ok && sp.last == p && r.Opcode.Ends()
	}
	return r.Syndrome.IsAck()
}

// answered takes out the oldest READ or atomic request whose answer ends at p.
func (l *arrivals) answered(p pos) {
	at := l.find(func(a *arrival) bool { return a.owesData() && a.pos+a.psns-1 == p })
	l.remove(func(i int, _ *arrival) bool { return i == at })
}

// restart begins anew where everything before expected has been received, and judges all arrivals by that.
func (l *arrivals) restart(expected pos, completed int64, m *message) {
	l.least = receipt{expected: expected, msn: completed, answersTrims: l.least.answersTrims}
	if m.open {
		l.least.open, l.least.left = m.verb, m.left
	}
	l.rejudge()
}
