package gbn

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// settle ends the uncertainty which of several copies of a request the responder accepted. A response that acknowledges
// everything ever sent leaves one possible state: all was received in order, and what is still in flight to it is a
// duplicate. The uncertainty remains while READs and atomics are unanswered or partly answered, and where the injector
// changed a request.
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

// answered removes the oldest READ or atomic request whose answer ends at p.
func (l *arrivals) answered(p pos) {
	at := l.find(func(a *arrival) bool { return a.owesData() && a.pos+a.psns-1 == p })
	l.remove(func(i int, _ *arrival) bool { return i == at })
}

// restart sets the state to one that has received everything before expected, and computes all fates again.
func (l *arrivals) restart(expected pos, completed int64, m *message) {
	l.least = receipt{expected: expected, msn: completed, answersTrims: l.least.answersTrims}
	if m.open {
		l.least.open, l.least.left = m.verb, m.left
	}
	l.rejudge()
}
