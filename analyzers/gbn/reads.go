package gbn

import (
	"fmt"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A stream is a READ request that is being answered.
type stream struct {
	active bool
	replay bool  // the request was a duplicate
	kernel bool  // a replay that goes on with MIDDLE or LAST
	next   pos   // of the next response
	first  pos   // of the first response
	end    pos   // of the last response
	left   int64 // bytes still to come
	id     uint64

	askedNS int64 // when the request passed
}

// readResponse judges a READ response at p.
func (s *session) readResponse(r *trace.Record, p pos) {
	t := &s.rsp.stream
	s.holdUp(r.TimeNS)
	continues := t.active && p == t.next
	switch {
	case continues && !r.Opcode.Starts():
		s.step(rsReadNext)
	case s.openStream(r, p):
	case continues:
		// FIRST or ONLY in the middle: checkReadResponse says so.
	case t.active:
		say(s.report(s.step(rsReadOutOfOrder), r, p, t.id), fmt.Sprintf("read-response psn %d", t.next+1), response(r, p),
			causeReadOrder(s.responder(), psnOf(p), psnOf(t.next)))
		if p < t.next || p > t.end {
			return
		}
		t.left -= (p - t.next) * int64(s.mtu)
	default:
		s.rsp.skipped = true
		f := s.report(s.step(rsReadUnexpected), r, p)
		say(f, "no READ response: no request for it can have arrived", response(r, p),
			causeReadUnexpected(s.responder(), psnOf(p)))
		s.actsOnLost(f, p, p)
		return
	}
	q := &s.rsp
	q.log.answer(p)
	s.checkReadResponse(r, p)
	if s.mtu > 0 {
		t.left -= int64(s.mtu) // whatever it brings, the next one has its own place
	} else {
		t.left -= int64(r.PayloadLen)
	}
	t.next = p + 1
	t.active = p != t.end
	s.rsp.acked, s.rsp.ackID = max(s.rsp.acked, p), r.ID
}

// openStream starts the answer to the oldest unanswered READ request at p, or returns false if there is none. Earlier
// requests are answered by then, except READs that it repeats.
func (s *session) openStream(r *trace.Record, p pos) bool {
	q := &s.rsp
	asks := func(a *arrival) bool {
		return a.op == packet.ReadRequest && a.pos == p && (a.fate == fateExpected || a.fate == fateDuplicate)
	}
	// What repeats nothing may be dropped: a request that must be answered comes first.
	i := q.log.find(func(a *arrival) bool { return asks(a) && !a.stray })
	if i < 0 {
		i = q.log.find(asks)
	}
	if i < 0 {
		return false
	}
	duplicate := q.log.at(i).fate == fateDuplicate
	if !duplicate || p > q.stream.end {
		s.cutStream(r, p)
	}
	var a arrival
	if duplicate {
		a = s.foldToReplay(r, i)
	} else {
		for range i {
			s.fold(r)
		}
		a = *q.log.pop()
		q.performed = a.pos
	}
	q.stream = stream{
		active: true, replay: duplicate, next: p, first: p, end: p + a.psns - 1, left: int64(a.length), id: a.id,
		askedNS: a.timeNS,
		kernel:  duplicate && !r.Opcode.Starts() && !s.req.spans.starts(p),
	}
	switch {
	case q.stream.kernel:
		say(s.report(s.step(rsReplayKernel), r, p, a.id), "READ_RESPONSE_FIRST or READ_RESPONSE_ONLY", r.Opcode.String(),
			causeReplayOpcode(s.responder(), psnOf(p), r.Opcode))
	case duplicate:
		s.step(rsReadReplay)
	default:
		s.step(rsReadFirst)
	}
	return true
}

// foldToReplay advances the least state to the duplicate READ or atomic request that is arrival i, and removes it. The
// responder abandons the unsent answers from that PSN on, and answers the requests after the READ after the replay. So
// later requests stay, and only repetitions of what the replay answers are removed.
func (s *session) foldToReplay(r *trace.Record, i int) arrival {
	l := &s.rsp.log
	replay := *l.at(i)
	for i > 0 && l.at(0).pos < replay.pos {
		s.fold(r)
		i--
	}
	l.remove(func(j int, a *arrival) bool {
		repeats := a.fate == fateDuplicate && a.owesData() && a.pos >= replay.pos && a.pos < replay.pos+replay.psns
		return j == i || j < i && repeats
	})
	return replay
}

// cutStream ends an answer that must be complete before responses up to p.
func (s *session) cutStream(r *trace.Record, p pos) {
	t := &s.rsp.stream
	if !t.active || p < t.next || t.replay && (p <= t.end && r != nil || s.disturbed) {
		return
	}
	t.active = false
	if r != nil && s.superseded(t.next) || r == nil && s.silenced(t.askedNS) {
		return
	}
	actual, why := "nothing more by the end of the trace", causeBrokeOff(s.responder(), psnOf(t.next))
	if r != nil {
		sent := reply{r, s.unwrap(r.PSN)}
		actual, why = sent.String()+" before it", causeBrokeOffFor(s.responder(), sent, psnOf(t.next))
	}
	say(s.report(s.step(rsReadMissing), r, t.next, t.id), fmt.Sprintf("read-response psn %d", t.next+1), actual, why)
}

// checkReadResponse judges opcode, length, pad, syndrome and MSN of the next response of the stream.
func (s *session) checkReadResponse(r *trace.Record, p pos) {
	t := &s.rsp.stream
	first, last := p == t.first && !t.kernel, p == t.end
	if want := readOpcode(first, last); r.Opcode != want && !(t.kernel && p == t.first && r.Opcode.Ends() == last) {
		say(s.report(RuleReadOpcode, r, p, t.id), want.String(), r.Opcode.String(),
			causeReadOpcode(s.responder(), psnOf(p), r.Opcode, want))
	}
	want := int64(s.mtu)
	if last {
		want = t.left
	}
	if s.mtu > 0 && int64(r.PayloadLen) != want {
		say(s.report(RuleReadLength, r, p, t.id),
			fmt.Sprintf("%d bytes of payload", want), fmt.Sprintf("%v with %d bytes", r.Opcode, r.PayloadLen),
			causeReadResponseLength(s.responder(), psnOf(p), r.PayloadLen, want))
	}
	s.checkPad(r, p)
	if !r.Has(trace.HasAETH) {
		return
	}
	if !r.Syndrome.IsAck() {
		s.badSyndrome(r, p)
	}
	atLeast := s.rsp.log.least.msn
	if t.replay {
		atLeast = s.rsp.log.completedThrough(t.end)
	}
	if !last {
		atLeast--
	}
	s.checkMSN(r, p, atLeast)
}

// readOpcode returns the opcode of a READ response at the given place of its message.
func readOpcode(first, last bool) packet.Opcode {
	switch {
	case first && last:
		return packet.ReadResponseOnly
	case first:
		return packet.ReadResponseFirst
	case last:
		return packet.ReadResponseLast
	}
	return packet.ReadResponseMiddle
}

// atomicAck judges an atomic ACK at p.
func (s *session) atomicAck(r *trace.Record, p pos) {
	q := &s.rsp
	i := q.log.find(func(a *arrival) bool {
		return a.op.Verb() == packet.VerbAtomic && a.pos == p && (a.fate == fateExpected || a.fate == fateDuplicate)
	})
	if i < 0 {
		f := s.report(s.step(rsAtomicUnexpected), r, p)
		say(f, "no atomic ACK: no request for it can have arrived", response(r, p),
			causeAtomicUnexpected(s.responder(), psnOf(p)))
		s.actsOnLost(f, p, p)
		return
	}
	duplicate := q.log.at(i).fate == fateDuplicate
	if !duplicate {
		s.cutStream(r, p)
	}
	if duplicate {
		s.foldToReplay(r, i)
	} else {
		for range i {
			s.fold(r)
		}
		q.log.pop()
	}
	q.log.answer(p)
	if s.step(rsAtomicAck); !duplicate {
		q.performed = p
	}
	atLeast := q.log.least.msn
	if duplicate {
		atLeast = q.log.completedThrough(p)
	}
	q.acked, q.ackID = max(q.acked, p), r.ID
	if !r.Syndrome.IsAck() {
		s.badSyndrome(r, p)
	}
	s.checkMSN(r, p, atLeast)
}
