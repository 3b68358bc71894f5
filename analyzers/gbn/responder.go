package gbn

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A responder is what the observer knows of the receiver of requests.
type responder struct {
	state uint8
	// adrift: it is no longer known exactly what the responder has received; only uncertain.go judges it. unsettled: it is
	// unknown which of several copies the responder accepted, until it has acknowledged everything: see settle.
	adrift, unsettled bool
	forged            bool // a request that its requester did not send so has passed

	log     arrivals
	acked   pos // the highest position acknowledged, -1: none
	ackID   uint64
	nak     pos // of the last sequence NAK
	nakID   uint64
	msn     int64  // the highest that a response had
	counts  int    // responses whose MSN was right
	counted bool   // only one MSN was possible for one of them: the trace begins with the connection
	fatalID uint64 // of the NAK that ended the connection
	earned  bool   // an invalid request deserved that NAK
	// performed is the latest READ or atomic that was accepted, -1: none.
	performed pos
	spoke     int64 // how many requests had passed at its latest response
	due       pos   // the highest position that requested an acknowledgement and was certainly accepted
	dueID     uint64
	dueNS     int64 // when it passed

	// late: the injector delayed a request, which arrived after later ones, or gave one another PSN, and it arrived before
	// others.
	late bool
	// overdueNS is when the responder must have sent the NAK of the open gap.
	overdueNS int64
	// skipped: it answered requests after that gap, so it waited neither for the missing request nor to send the NAK.
	skipped bool

	stream    stream
	uncertain uncertain
}

func (p *responder) init() {
	p.acked, p.nak, p.due, p.performed = -1, -never, -1, -1
	p.uncertain.init()
}

// responseSent judges a response on what it shows of its sender.
func (s *session) responseSent(r *trace.Record) {
	if !s.req.started && (s.midway || s.captured) {
		return // nothing is known of the request that it answers
	}
	s.mtuShown = s.mtuShown || r.Opcode.IsReadResponse() && !r.Opcode.Ends()
	p := s.unwrap(r.PSN)
	if s.rsp.state == rsFailed {
		s.answerAfterError(r, p)
		return
	}
	if !s.exact() {
		s.uncertainResponse(r, p)
		s.settle(r, p)
		return
	}
	if s.midway && s.beganBefore(r, p) {
		s.rsp.adrift, s.captured = true, true
		s.uncertainResponse(r, p)
		return
	}
	s.rsp.spoke = s.rsp.log.pushed
	s.rsp.log.acknowledge(r, p)
	positive := r.Opcode != packet.Acknowledge || r.Syndrome.IsAck()
	if positive && s.executed(r, p) {
		return
	}
	switch {
	case r.Opcode.IsReadResponse():
		s.readResponse(r, p)
	case r.Opcode == packet.AtomicAcknowledge:
		s.atomicAck(r, p)
	case r.Syndrome.IsAck():
		s.ack(r, p)
	case r.Syndrome.IsRNR():
		s.checkRNRField(r, p)
		s.rnrNak(r, p)
	case r.Syndrome == packet.SyndromeNakSequence:
		s.sequenceNak(r, p)
	case r.Syndrome.IsNak() && r.Syndrome <= packet.SyndromeNakOperation:
		s.fatalNak(r, p)
	default:
		s.badSyndrome(r, p)
	}
}

// answerAfterError reports a response after a fatal NAK.
func (s *session) answerAfterError(r *trace.Record, p pos) {
	say(s.report(RuleAfterError, r, p, s.rsp.fatalID), "nothing after the NAK that ends the connection", response(r, p),
		causeResponseAfterError(s.responder(), reply{r, p}))
}

// beganBefore reports whether a response shows that the connection is older than the trace, so that what its responder
// had received before is unknown. Only responses up to the first acceptable one matter.
func (s *session) beganBefore(r *trace.Record, p pos) bool {
	q := &s.rsp
	if q.spoke > 0 {
		return false
	}
	if p < 0 || r.Has(trace.HasAETH) {
		// Even a responder that accepts too much counts no more requests than were sent.
		return p < 0 || int64(r.MSN) > s.req.ended
	}
	return p >= q.log.most.expected && q.log.gaps == 0
}

func (s *session) badSyndrome(r *trace.Record, p pos) {
	say(s.report(RuleSyndrome, r, p), "ACK, RNR NAK or NAK with a defined code", r.Syndrome.String(),
		causeSyndrome(s.responder(), psnOf(p), r.Syndrome))
}

// step takes an edge of the responder's machine and returns the violated rule, or "".
func (s *session) step(input uint8) Rule { return s.a.responder.Step(&s.rsp.state, input) }

// ack judges a positive acknowledgement of everything through p.
func (s *session) ack(r *trace.Record, p pos) {
	q := &s.rsp
	switch {
	case p >= q.log.most.expected:
		s.ackBeyond(r, p)
		return
	case p > q.acked:
		s.step(rsAck)
		s.foldThrough(r, p)
		q.acked, q.ackID = p, r.ID
		s.checkMSN(r, p, q.log.least.msn)
	case p == q.acked && p >= 0:
		s.step(rsAckRepeated)
		s.checkMSN(r, p, q.log.completedThrough(p))
	default:
		s.reAck(r, p)
	}
}

func (s *session) ackBeyond(r *trace.Record, p pos) {
	first := s.rsp.log.most.expected
	var last uint64
	if k, ok := s.req.window.get(first); ok {
		last = k.id
	}
	expected := fmt.Sprintf("ack psn %d at most: psn %d has not been delivered", first, first+1)
	if first == 0 {
		expected = "no ack: psn 1 has not been delivered"
	}
	s.rsp.skipped = true
	f := s.report(s.step(rsAckBeyond), r, p, last)
	why := causeUndelivered
	if first >= s.req.next {
		why = causeNeverSent
	}
	say(f, expected, response(r, p), why(s.responder(), reply{r, p}, psnOf(first)))
	s.actsOnLost(f, first, p)
}

// actsOnLost records in f that the responder acts on lost requests, those in a range of positions.
func (s *session) actsOnLost(f *analyzers.Finding, from, to pos) {
	if f == nil || to-from > windowMin {
		return
	}
	for p := from; p <= to; p++ {
		at := p
		if sp, ok := s.req.spans.covering(p); ok {
			at = sp.first
		}
		if w, ok := s.req.window.get(at); ok && w.dropped {
			f.Undelivered = true
			return
		}
	}
}

// foldThrough advances the least state until the request at p is accepted. Responses due before that and not sent are
// missing: responses are in the order of their requests (IBTA volume 1, 9.7.5.1.1).
func (s *session) foldThrough(r *trace.Record, p pos) {
	s.cutStream(r, p)
	q := &s.rsp
	for q.log.len > 0 && q.log.least.expected <= p {
		if a := q.log.popAccepted(); a == nil {
			s.fold(r)
		} else if a.ackReq {
			q.due, q.dueID, q.dueNS = a.pos, a.id, a.timeNS
		}
	}
}

// fold advances the least state by one arrival and reports what it still required; r is the response that shows its
// arrival.
func (s *session) fold(r *trace.Record) {
	q := &s.rsp
	expected := q.log.least.expected
	a := q.log.pop()
	if a.fate == fateExpected && a.owesData() {
		q.performed = a.pos
	}
	switch {
	case a.flaw != 0:
		s.fatalMissing(a)
	case a.fate == fateAhead:
		s.nakMissing(r, expected, a)
	case a.owesData() && (a.fate == fateExpected || a.fate == fateDuplicate && a.heir):
		s.readMissing(r, a)
	case r != nil && a.unanswered() && !s.disturbed && (a.op == packet.ReadRequest || q.performed <= a.pos) &&
		!s.superseded(a.pos):
		s.readMissing(r, a)
	case a.fate == fateExpected && a.ackReq:
		q.due, q.dueID, q.dueNS = a.pos, a.id, a.timeNS
	}
}

// nakMissing reports that the NAK for expected, required since a, was never sent. The missing request may have arrived
// before the NAK could leave, because it was only late or was retransmitted for another reason: a NAK names the
// expected PSN (IBTA volume 1, 9.7.5.2), so it is then no longer required.
func (s *session) nakMissing(r *trace.Record, expected pos, a *arrival) {
	if s.rsp.late || a.outrun || r == nil && s.silenced(a.timeNS) {
		return
	}
	actual, why := "no nack by the end of the trace", causeNoNak(s.responder(), psnOf(expected), psnOf(a.pos))
	if r != nil {
		sent := reply{r, s.unwrap(r.PSN)}
		actual = sent.String() + " without it"
		why = causeNakPassedOver(s.responder(), sent, psnOf(expected), psnOf(a.pos))
	}
	say(s.report(s.step(rsNackMissing), r, expected, a.id),
		fmt.Sprintf("nack psn %d: psn %d arrived out of order", expected+1, a.pos+1), actual, why)
}

func (s *session) readMissing(r *trace.Record, a *arrival) {
	if r != nil && s.superseded(a.pos) {
		s.rsp.log.inherit(a.pos)
		return
	}
	if r == nil && s.silenced(a.timeNS) {
		return
	}
	what := "read-response"
	if a.op != packet.ReadRequest {
		what = "atomic-ack"
	}
	actual := "nothing by the end of the trace"
	why := causeNoAnswer(s.responder(), a.op.Verb(), psnOf(a.pos), s.instant(a.timeNS))
	if r != nil {
		sent := reply{r, s.unwrap(r.PSN)}
		actual, why = sent.String()+" before it", causeAnswerPassedOver(s.responder(), sent, a.op.Verb(), psnOf(a.pos))
	}
	say(s.report(s.step(rsReadMissing), r, a.pos, a.id), fmt.Sprintf("%s psn %d", what, a.pos+1), actual, why)
}

// superseded reports whether a repeated READ or atomic request at or before p may have arrived: the responder may then
// abandon unsent answers and answer the repeated requests instead.
func (s *session) superseded(p pos) bool {
	l := &s.rsp.log
	return l.duplicates > 0 && l.find(func(a *arrival) bool {
		return a.fate == fateDuplicate && a.owesData() && a.pos <= p
	}) >= 0
}

// reAck judges an acknowledgement of an older PSN: it needs a duplicate, each of which is answered once. Everything
// before the duplicate has been processed then; the oldest possible duplicate is chosen.
func (s *session) reAck(r *trace.Record, p pos) {
	q := &s.rsp
	i := -1
	if q.log.duplicates > 0 {
		i = q.log.find(func(a *arrival) bool { return a.fate == fateDuplicate && a.pos <= p })
	}
	if i < 0 {
		say(s.report(s.step(rsAckDecreasing), r, p, q.ackID),
			fmt.Sprintf("ack psn %d or later: no duplicate of psn %d or before can have arrived", q.acked+1, p+1),
			response(r, p), causeAckDecreased(s.responder(), reply{r, p}, psnOf(q.acked)))
		return
	}
	s.step(rsReAck)
	for range i + 1 {
		s.fold(r)
	}
	s.checkMSN(r, p, q.log.completedThrough(p))
}

// sequenceNak judges a NAK with the code PSN sequence error, which acknowledges everything before p.
func (s *session) sequenceNak(r *trace.Record, p pos) {
	q := &s.rsp
	s.learnTrims(p)
	if !q.log.anyGap() {
		s.nakWithoutGap(r, p)
		return
	}
	gap := s.foldToGap(r)
	for gap != p && q.log.gapAt(p) {
		if a := q.log.pop(); a.fate == fateAhead {
			s.nakMissing(r, gap, a)
		}
		gap = s.foldToGap(r)
	}
	a := q.log.pop()
	if gap != p {
		say(s.report(s.step(rsNackWrongPSN), r, p, a.id),
			fmt.Sprintf("nack psn %d, the first missing packet", gap+1), response(r, p),
			causeNakPSN(s.responder(), psnOf(p), psnOf(gap)))
	} else {
		s.step(rsNack)
		q.acked, q.ackID = max(q.acked, p-1), r.ID
		s.checkMSN(r, p, q.log.least.msn)
	}
	q.nak, q.nakID = gap, r.ID
}

// foldToGap advances the least state to the oldest arrival that requires a NAK and returns the PSN expected there.
func (s *session) foldToGap(r *trace.Record) pos {
	q := &s.rsp
	for !q.log.showsGap(q.log.at(0)) {
		s.fold(r)
	}
	s.cutStream(r, q.log.least.expected-1)
	return q.log.least.expected
}

// nakWithoutGap reports a sequence NAK that no arrival provokes.
func (s *session) nakWithoutGap(r *trace.Record, p pos) {
	q, who := &s.rsp, s.responder()
	expected := fmt.Sprintf("no nack: everything up to psn %d arrived in order", q.log.most.expected)
	why := causeNakWithoutGap(who, psnOf(p), psnOf(q.log.most.expected-1))
	input, support := rsNackUnprovoked, q.ackID
	switch {
	case p == q.nak:
		input, support = rsNackRepeat, q.nakID
		expected = fmt.Sprintf("no second nack for psn %d before it is received", p+1)
		why = causeNakRepeat(who, psnOf(p))
	case q.log.most.awaiting && q.nak == q.log.most.expected:
		input, support = rsNackWrongPSN, q.nakID
		expected = fmt.Sprintf("no nack: psn %d has been nacked already and is still missing", q.nak+1)
		why = causeNakSecondGap(who, psnOf(p), psnOf(q.nak))
	case p <= q.log.most.expected && q.log.duplicates > 0:
		input = rsNackDuplicate
		expected = fmt.Sprintf("ack: everything up to psn %d arrived in order, and duplicates are acknowledged",
			q.log.most.expected)
		why = causeNakForDuplicate(who, psnOf(p), psnOf(q.log.most.expected-1))
	}
	say(s.report(s.step(input), r, p, support), expected, response(r, p), why)
}

// foldTo advances the least state to the oldest arrival at which p is expected, or returns false if there is none.
func (s *session) foldTo(r *trace.Record, p pos) bool {
	q := &s.rsp
	i := q.log.find(func(a *arrival) bool { return a.fate == fateExpected && a.pos == p })
	for range i {
		s.fold(r)
	}
	return i >= 0
}

// checkRNRField judges the timer that an RNR NAK asks for.
func (s *session) checkRNRField(r *trace.Record, p pos) {
	if got := packet.RNRTimer(r.Syndrome.TimerCode()); got < s.limits.MinRNRTimerNS {
		say(s.report(RuleRNRTimer, r, p),
			fmt.Sprintf("an RNR timer of %.2f us or more", float64(s.limits.MinRNRTimerNS)/1000),
			fmt.Sprintf("%s with %.2f us", response(r, p), float64(got)/1000),
			causeRNRTimer(s.responder(), psnOf(p), duration(got), duration(s.limits.MinRNRTimerNS)))
	}
}

// rnrNak judges an RNR NAK: the responder could not accept the request at p, and accepts nothing else before it is
// retransmitted.
func (s *session) rnrNak(r *trace.Record, p pos) {
	q := &s.rsp
	if sp, ok := s.req.spans.covering(p); p > q.acked && p < q.log.least.expected &&
		(!ok || sp.first == p || s.disturbed) {
		// The request was refused before a repeated READ arrived. The answer to that was sent first: responses are in the
		// order of their PSNs.
		s.step(rsRNRNak)
		q.adrift, q.unsettled = true, true
		q.acked, q.ackID = max(q.acked, p-1), r.ID
		return
	}
	if p <= q.acked || !s.foldTo(r, p) {
		say(s.report(s.step(rsRNRUnprovoked), r, p, q.ackID),
			fmt.Sprintf("no rnr: no request at psn %d can have arrived in order and unacknowledged", p+1), response(r, p),
			causeRNR(s.responder(), psnOf(p)))
		return
	}
	s.step(rsRNRNak)
	if repeated := q.log.refuse(); repeated && s.disturbed {
		// a repetition, or a copy that the injector made: it is unknown whether that is refused, too
		q.adrift, q.unsettled = true, true
	} else if q.log.gaps > 0 {
		q.overdueNS, q.skipped = r.TimeNS+s.nakDelayNS(), false
	}
	q.acked, q.ackID = max(q.acked, p-1), r.ID
	s.checkMSN(r, p, q.log.least.msn)
}

// fatalNak judges a NAK that ends the connection.
func (s *session) fatalNak(r *trace.Record, p pos) {
	q := &s.rsp
	if t := &q.stream; t.active && p == t.next {
		// It fails while it answers a READ: the NAK replaces the next response.
		if !t.replay {
			s.checkMSN(r, p, q.log.least.msn)
		}
	} else if s.cutStream(r, p-1); (p <= q.acked || !s.foldTo(r, p)) && !s.refusesDuplicate(r, p) {
		say(s.report(s.step(rsNackUnprovoked), r, p, q.ackID),
			fmt.Sprintf("no %v: no request at psn %d can have arrived in order and unacknowledged", r.Class(), p+1),
			response(r, p), causeFatalNak(s.responder(), reply{r, p}))
	} else {
		s.checkNakCode(r, p, q.log.at(0))
		s.checkMSN(r, p, q.log.least.msn)
	}
	s.step(rsFatal)
	q.fatalID = r.ID
}

// refusesDuplicate folds up to a repeated READ at p that a fatal NAK may answer, because the memory is gone or the READ
// is not a repetition; or up to a request from before the connection.
func (s *session) refusesDuplicate(r *trace.Record, p pos) bool {
	q := &s.rsp
	i := q.log.find(func(a *arrival) bool {
		return a.pos == p && (a.fate == fateDuplicate && (a.op == packet.ReadRequest || p < 0) || a.stray)
	})
	for range i {
		s.fold(r)
	}
	return i >= 0
}

// finishResponder judges what the responder owes at the end, and reports whether that explains unacknowledged requests.
func (s *session) finishResponder() bool {
	q := &s.rsp
	if !s.exact() || q.state == rsFailed {
		return false
	}
	before := len(s.a.findings)
	s.cutStream(nil, q.stream.next)
	for q.log.len > 0 {
		s.duplicateMissed()
		s.fold(nil)
	}
	if q.due > q.acked && !s.silenced(q.dueNS) {
		say(s.report(RuleAckMissing, nil, q.due, q.dueID),
			fmt.Sprintf("ack psn %d or later", q.due+1), "no acknowledgement of it by the end of the trace",
			causeNoAck(s.responder(), psnOf(q.due), s.instant(q.dueNS)))
	}
	return len(s.a.findings) > before
}

// duplicateMissed reports the oldest arrival if it is a duplicate that the requester needs an answer to and after which
// the responder sent nothing.
func (s *session) duplicateMissed() {
	q := &s.rsp
	a := q.log.at(0)
	silent := a.number >= q.spoke || a.unanswered() && !s.disturbed || a.fate == fateDuplicate && a.ackReq &&
		!a.owesData() && a.got <= a.pos && !s.disturbed
	if a.fate != fateDuplicate || !silent || s.silenced(a.timeNS) || a.pos < 0 || !a.ackReq && !a.owesData() {
		return
	}
	if a.stray || a.owesData() && a.foreignKey {
		return // a repeated request that may not read is dropped silently: the first one was answered
	}
	if a.op.Verb() == packet.VerbAtomic && (q.performed > a.pos || a.altered) {
		return // its result may be gone: a responder need keep only the latest (IBTA volume 1, 9.4.5)
	}
	rule, expected := RuleAckMissing, fmt.Sprintf("ack psn %d or later for the duplicate", a.pos+1)
	why := causeNoAckOfDuplicate(s.responder(), psnOf(a.pos), s.instant(a.timeNS))
	if a.owesData() {
		rule, expected = RuleReadMissing, fmt.Sprintf("the answer to the repeated request at psn %d", a.pos+1)
		why = causeNoAnswerToDuplicate(s.responder(), a.op.Verb(), psnOf(a.pos), s.instant(a.timeNS))
	}
	say(s.report(rule, nil, a.pos, a.id), expected, "nothing by the end of the trace", why)
}
