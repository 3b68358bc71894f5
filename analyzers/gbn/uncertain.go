package gbn

import (
	"fmt"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// uncertain is the responder's state where deliveries are not known exactly: in a plain capture, which does not show
// losses after the tap, and after events that delay, reorder or duplicate. Only what holds whatever was delivered is
// judged.
type uncertain struct {
	read   pos // of the next READ response
	passed pos // the highest request that passed
	header pos // the highest request of which only the trimmed header passed, -1: none
	last   pos // the latest such request
	lastID uint64
}

func (l *uncertain) init() { l.header, l.last = -1, -1 }

// uncertainArrived notes that a request may have arrived.
func (s *session) uncertainArrived(p pos) {
	l := &s.rsp.uncertain
	l.passed = max(l.passed, p)
}

// uncertainResponse judges a response.
func (s *session) uncertainResponse(r *trace.Record, p pos) {
	if r.Opcode != packet.Acknowledge && r.Has(trace.HasAETH) && !r.Syndrome.IsAck() {
		s.badSyndrome(r, p)
	}
	switch {
	case r.Opcode.IsReadResponse():
		s.uncertainRead(r, p)
	case r.Opcode == packet.AtomicAcknowledge:
		s.rsp.acked = max(s.rsp.acked, p)
	case r.Syndrome.IsAck():
		s.uncertainAck(r, p)
	case r.Syndrome == packet.SyndromeNakSequence:
		s.uncertainNak(r, p)
	case r.Syndrome.IsRNR():
		s.checkRNRField(r, p)
		s.uncertainRNR(r, p)
	case r.Syndrome.IsNak() && r.Syndrome <= packet.SyndromeNakOperation:
		s.step(rsFatal)
		s.rsp.fatalID = r.ID
	default:
		s.badSyndrome(r, p)
	}
}

// uncertainFold advances the least state to where the request at p is accepted, and judges the MSN. In a plain capture
// the arrivals are all requests in the order of their first transmission: what the responder eventually accepts.
func (s *session) uncertainFold(r *trace.Record, p, atLeast pos) {
	q := &s.rsp
	if q.adrift || !s.captured {
		return
	}
	for q.log.len > 0 && q.log.least.expected <= p {
		q.log.pop()
	}
	s.checkMSN(r, p, q.log.least.msn+atLeast)
}

func (s *session) uncertainAck(r *trace.Record, p pos) {
	q := &s.rsp
	switch {
	case p >= s.req.next && (s.midway || s.captured):
		return // requests before the trace may have gone further; the observer decides about what a capture lacks
	case p >= s.req.next:
		say(s.report(s.step(rsAckBeyond), r, p), fmt.Sprintf("ack psn %d at most", s.req.next), response(r, p),
			causeNeverSent(s.responder(), reply{r, p}, psnOf(s.req.next)))
		return
	case p < q.acked && p < s.req.lowest && !q.adrift && !s.midway:
		say(s.report(s.step(rsAckDecreasing), r, p, q.ackID),
			fmt.Sprintf("ack psn %d or later: psn %d has not been retransmitted", q.acked+1, p+1), response(r, p),
			causeAckDecreasedUnasked(s.responder(), reply{r, p}, psnOf(q.acked)))
		return
	case p > q.acked:
		s.step(rsAck)
	case p == q.acked:
		s.step(rsAckRepeated)
	default:
		s.step(rsReAck)
		s.uncertainFold(r, p, p-q.acked)
		return
	}
	q.acked, q.ackID = p, r.ID
	s.uncertainFold(r, p, 0)
}

func (s *session) uncertainNak(r *trace.Record, p pos) {
	q, l := &s.rsp, &s.rsp.uncertain
	switch {
	case p == q.nak && !s.retransmissionTrimmed(p):
		say(s.report(s.step(rsNackRepeat), r, p, q.nakID),
			fmt.Sprintf("no second nack for psn %d before it is received", p+1), response(r, p),
			causeNakRepeat(s.responder(), psnOf(p)))
		return
	case p <= q.acked && !s.midway:
		say(s.report(s.step(rsNackDuplicate), r, p, q.ackID),
			fmt.Sprintf("no nack for psn %d: psn %d is acknowledged", p+1, q.acked+1), response(r, p),
			causeNakAcknowledged(s.responder(), psnOf(p), psnOf(q.acked)))
		return
	case p+1 >= max(s.req.next, l.passed+1) && !s.captured && !s.trimmedAt(p):
		say(s.report(s.step(rsNackUnprovoked), r, p), fmt.Sprintf("no nack: nothing after psn %d was sent", p+1),
			response(r, p), causeNakForTail(s.responder(), psnOf(p)))
		return
	}
	s.step(rsNack)
	// Everything was seen in order and once, yet p is missing: it was lost after the tap. That is certain only before the
	// first retransmission: the requests discarded after a gap or an RNR NAK have been seen, too.
	if _, seen := s.req.window.get(p); seen && s.captured && s.req.lowest == never {
		s.lossAfter = true
	}
	q.nak, q.nakID = p, r.ID
	q.acked, q.ackID = max(q.acked, p-1), r.ID
	s.uncertainFold(r, p-1, 0)
}

func (s *session) uncertainRNR(r *trace.Record, p pos) {
	q := &s.rsp
	if p <= q.acked && !s.midway {
		say(s.report(s.step(rsRNRUnprovoked), r, p, q.ackID),
			fmt.Sprintf("no rnr for psn %d: psn %d is acknowledged", p+1, q.acked+1), response(r, p),
			causeRNRAcknowledged(s.responder(), psnOf(p), psnOf(q.acked)))
		return
	}
	s.step(rsRNRNak)
	q.acked, q.ackID = max(q.acked, p-1), r.ID
	s.uncertainFold(r, p-1, 0)
}

// uncertainRead judges a READ response by the request at its PSN.
func (s *session) uncertainRead(r *trace.Record, p pos) {
	q, l := &s.rsp, &s.rsp.uncertain
	sp, ok := s.req.spans.covering(p)
	if !ok || sp.atomic {
		if !q.adrift && !s.midway && p >= s.req.una.least().una { // older requests are forgotten
			say(s.report(s.step(rsReadUnexpected), r, p), "no READ response: no request for it was seen", response(r, p),
				causeReadUnseen(s.responder(), psnOf(p)))
		}
		return
	}
	later, retransmitted := s.req.window.get(p)
	starts := p == sp.first || retransmitted && later.opcode == packet.ReadRequest
	switch {
	case s.midway && s.a.meta.EventsKnown:
		// Any request may repeat one from before the trace, and any response may answer that one.
	case starts && p != l.read && !r.Opcode.Starts() && sp.restarts == 1 && sp.high >= p:
		// The original answer was past p, and only p was requested again: this must be a replay.
		say(s.report(s.step(rsReplayKernel), r, p, later.id), "READ_RESPONSE_FIRST or READ_RESPONSE_ONLY", r.Opcode.String(),
			causeReplayOpcode(s.responder(), psnOf(p), r.Opcode))
	case p != l.read && !starts && s.captured: // elsewhere responses are all there, but not all were followed
		say(s.report(RuleCaptureGap, r, p, sp.id), fmt.Sprintf("read-response psn %d", l.read+1), response(r, p),
			causeResponsesMissing(s.responder(), psnOf(p), psnOf(l.read)))
	default:
		s.step(rsReadNext)
	}
	sp.high = max(sp.high, p)
	l.read = p + 1
	s.uncertainReadShape(r, p, sp)
	s.uncertainFold(r, p, min(0, p-q.acked)-1)
	q.acked, q.ackID = max(q.acked, p), r.ID
}

// uncertainReadShape judges opcode, length and pad of a READ response.
func (s *session) uncertainReadShape(r *trace.Record, p pos, sp *span) {
	last := p == sp.last
	middle := p != sp.first && sp.restarts == 0 // no request started here
	if r.Opcode.Ends() != last || middle && r.Opcode.Starts() || !s.midway && p == sp.first && !r.Opcode.Starts() {
		say(s.report(RuleReadOpcode, r, p, sp.id), readOpcode(p == sp.first, last).String(), r.Opcode.String(),
			causeReadOpcode(s.responder(), psnOf(p), r.Opcode, readOpcode(p == sp.first, last)))
	}
	want := int64(s.mtu)
	if last {
		want = int64(sp.length) - (p-sp.first)*int64(s.mtu)
	}
	if s.mtu > 0 && int64(r.PayloadLen) != want {
		say(s.report(RuleReadLength, r, p, sp.id),
			fmt.Sprintf("%d bytes of payload", want), fmt.Sprintf("%v with %d bytes", r.Opcode, r.PayloadLen),
			causeReadResponseLength(s.responder(), psnOf(p), r.PayloadLen, want))
	}
	s.checkPad(r, p)
}
