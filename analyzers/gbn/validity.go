package gbn

import (
	"fmt"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// maxDMALength is the longest message in bytes (IBTA volume 1, 9.7.2).
const maxDMALength = 1 << 31

// validate returns the syndrome of the NAK that an expected request requires, 0 if it is valid as far as the trace
// shows (IBTA volume 1, 9.7.4.1: opcode sequence, lengths, access rights). The trace does not show whether a SEND fits
// its buffer or a READ exceeds the responder's resources.
func (st *receipt) validate(a *arrival, mtu int) packet.Syndrome {
	verb := a.op.Verb()
	open := st.open != packet.VerbNone
	switch {
	case a.op.Starts() == open, open && verb != st.open:
		return packet.SyndromeNakInvalid
	case carriesPayload(a.op) && !fits(a, mtu):
		return packet.SyndromeNakInvalid
	case !carriesPayload(a.op) && a.payload > 0, a.length > maxDMALength:
		return packet.SyndromeNakInvalid
	case verb == packet.VerbWrite && !st.announced(a):
		return packet.SyndromeNakInvalid
	case a.foreignKey && (a.length > 0 || verb == packet.VerbAtomic):
		return packet.SyndromeNakAccess // an operation without bytes needs no right (IBTA volume 1, 9.7.4.1.5)
	}
	return 0
}

// fits reports whether the payload has the length that its place in the message requires.
func fits(a *arrival, mtu int) bool {
	n := int(a.payload)
	switch {
	case mtu == 0:
		return true
	case !a.op.Ends():
		return n == mtu
	}
	return n <= mtu && (n > 0 || a.op.Starts())
}

// announced reports whether the payload of a WRITE is what its DMA length leaves.
func (st *receipt) announced(a *arrival) bool {
	left := st.left
	if a.op.Starts() {
		left = int64(a.length)
	}
	left -= int64(a.payload)
	return a.op.Ends() && left == 0 || !a.op.Ends() && left > 0
}

// invalid returns the index of the invalid request that has arrived, or -1.
func (l *arrivals) invalid() int {
	if !l.most.failed {
		return -1
	}
	return l.find(func(a *arrival) bool { return a.flaw != 0 })
}

// executed reports a response that shows that an invalid request was executed. It returns false if r does not show
// that.
func (s *session) executed(r *trace.Record, p pos) bool {
	q := &s.rsp
	i := q.log.invalid()
	if i < 0 || p < q.log.at(i).pos {
		return false
	}
	a := *q.log.at(i)
	say(s.report(s.step(rsFatalMissing), r, a.pos, a.id), nakFor(&a), response(r, p),
		causeExecuted(s.responder(), reply{r, p}, psnOf(a.pos), a.op))
	// From here on the state of the queue pair is unknown: one finding is enough.
	q.adrift = true
	return true
}

// nakFor names the NAK that a deserves.
func nakFor(a *arrival) string {
	return fmt.Sprintf("%v psn %d: %v is invalid", a.flaw, a.pos+1, a.op)
}

// fatalMissing reports an invalid request that was never answered. A queue pair in error for another reason is silent.
func (s *session) fatalMissing(a *arrival) {
	if peer := s.a.sessions[s.flow.Peer()]; peer != nil &&
		(peer.req.fatalID != 0 || peer.rsp.fatalID != 0 || peer.req.una.most().una < peer.req.next) {
		return
	}
	say(s.report(s.step(rsFatalMissing), nil, a.pos, a.id), nakFor(a), "nothing by the end of the trace",
		causeNotRefused(s.responder(), psnOf(a.pos), a.op))
}

// checkNakCode judges the code of the NAK r that ends the connection at request a. Where the trace shows no flaw the
// responder may have had other reasons, except for "invalid request" in the middle of a WRITE whose beginning it
// accepted.
func (s *session) checkNakCode(r *trace.Record, p pos, a *arrival) {
	s.rsp.earned = a.flaw != 0
	switch {
	case !s.rsp.log.validates:
	case a.flaw != 0 && r.Syndrome != a.flaw:
		say(s.report(RuleNakCode, r, p, a.id), nakFor(a), fmt.Sprintf("%v", r.Syndrome),
			causeNakCode(s.responder(), psnOf(p), r.Syndrome, a.flaw))
	case a.flaw == 0 && r.Syndrome == packet.SyndromeNakInvalid && a.op.Verb() == packet.VerbWrite && !a.op.Starts():
		say(s.report(RuleNakCode, r, p, a.id), fmt.Sprintf("ack: %v is what follows in the message", a.op),
			fmt.Sprintf("%v", r.Syndrome), causeNakNoFault(s.responder(), psnOf(p), r.Syndrome, a.op))
	}
}

// checkSolicited judges the solicited event bit of a request.
func (s *session) checkSolicited(r *trace.Record, p pos) {
	op := r.Opcode
	if !r.Has(trace.Solicited) || op.Ends() && (op.Verb() == packet.VerbSend || op.Headers()&packet.HasImmDt != 0) {
		return
	}
	say(s.report(RuleSolicited, r, p), "no solicited event", fmt.Sprintf("%v with it", op),
		causeSolicited(s.requester(), psnOf(p), op))
}
