package gbn

import (
	"strings"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/observer"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Short names of what the sentences are made of.
type (
	happened = cause.Cause
	subject  = cause.Argument
	psn      = cause.PSN
	psns     = cause.PSNs
	instant  = cause.Instant
	duration = cause.Duration
)

// psnOf returns how people count p.
func psnOf(p pos) psn { return psn(p + 1) }

// psnsOf returns the packets from one position to another.
func psnsOf(first, last pos) psns { return psns{First: psnOf(first), Last: psnOf(last)} }

func (s *session) requester() subject       { return cause.Requester(s.flow) }
func (s *session) responder() subject       { return cause.Responder(s.flow) }
func (s *session) instant(ns int64) instant { return cause.At(&s.a.meta, ns) }

// A nakWord names a NAK in a sentence.
type nakWord nakKind

func (w nakWord) String() string {
	switch nakKind(w) {
	case nakRNR:
		return "the RNR NAK"
	case nakImplied:
		return "the response that skipped it" // an implied NAK
	case nakSequence, nakNone:
	}
	return "the NAK"
}

// A verbWord names an operation in a sentence.
type verbWord packet.Verb

func (w verbWord) String() string {
	if v := packet.Verb(w); v != packet.VerbAtomic {
		return strings.ToUpper(v.String())
	}
	return "atomic"
}

// A reply names a response in a sentence: "ack psn 9".
type reply struct {
	r *trace.Record
	p pos
}

func (a reply) String() string { return response(a.r, a.p) }

// Causes lists an example of each cause, in the order of the rules.
func Causes() []cause.Cause {
	return append(ownCauses(), observer.Causes()...)
}

// ownCauses are those that this package reports itself.
func ownCauses() []cause.Cause { return append(requesterCauses(), responderCauses()...) }

func causeSkipped(who subject, skipped psns, sent psn) happened {
	return cause.Of(RulePSNSkip, "skipped", "%v skipped %v and sent psn %v.", who, skipped, sent)
}

func causeLeftOut(who subject, left psns, sent psn) happened {
	return cause.Of(RuleRoundGap, "left-out", "%v left %v out of a round of retransmission and sent psn %v.", who, left,
		sent)
}

func causeRestartedElsewhere(who subject, sent, asked psn, nak nakWord, at instant) happened {
	return cause.Of(RuleRetransmitFirst, "restarted-elsewhere",
		"%v sent psn %v instead of retransmitting psn %v after %v at %v.",
		who, sent, asked, nak, at)
}

func causeTimeoutElsewhere(who subject, sent, oldest psn) happened {
	return cause.Of(RuleTimeoutStart, "restarted-elsewhere",
		"%v restarted at psn %v instead of psn %v, the oldest unacknowledged one.", who, sent, oldest)
}

func causeBeforeFirst(who subject, sent psn) happened {
	return cause.Of(RuleResendAcknowledged, "before-first", "%v sent psn %v, which is before its first request.", who,
		sent)
}

func causeAcknowledgedBefore(who subject, sent, oldest psn) happened {
	if sent < 1 {
		return causeBeforeFirst(who, sent)
	}
	return cause.Of(RuleResendAcknowledged, "acknowledged-before",
		"%v retransmitted psn %v although everything before psn %v had been acknowledged.", who, sent, oldest)
}

func causeOtherOpcode(who subject, sent psn, is, was packet.Opcode) happened {
	return cause.Of(RuleRetransmitChanged, "other-opcode", "%v retransmitted psn %v as %v; it had sent %v.", who, sent,
		is, was)
}

func causeOtherLength(who subject, sent psn, is, was uint16) happened {
	return cause.Of(RuleRetransmitChanged, "other-length", "%v retransmitted psn %v with %v of payload; it had sent %v.",
		who, sent, cause.Bytes(is), cause.Count(was))
}

func causeOtherAddress(who subject, sent psn, is, was uint64) happened {
	return cause.Of(RuleRetransmitChanged, "other-address",
		"%v retransmitted psn %v for address %v; it had sent it for %v.", who, sent, cause.Hex(is), cause.Hex(was))
}

func causeOtherDMALength(who subject, sent psn, is, was uint32) happened {
	return cause.Of(RuleRetransmitChanged, "other-dma-length",
		"%v retransmitted psn %v with DMA length %v; it had sent %v.", who, sent, cause.Count(is), cause.Count(was))
}

func causeOtherKey(who subject, sent psn, is, was uint32) happened {
	return cause.Of(RuleRetransmitChanged, "other-key",
		"%v retransmitted psn %v with remote key %v; it had sent %v.", who, sent, cause.Hex(is), cause.Hex(was))
}

// causeChanged says in which respect r differs from what was sent before.
func causeChanged(who subject, p psn, r *trace.Record, old *sent) happened {
	switch {
	case r.Opcode != old.opcode:
		return causeOtherOpcode(who, p, r.Opcode, old.opcode)
	case r.PayloadLen != old.payload:
		return causeOtherLength(who, p, r.PayloadLen, old.payload)
	case r.VA != old.va:
		return causeOtherAddress(who, p, r.VA, old.va)
	case r.DMALen != old.dmaLen:
		return causeOtherDMALength(who, p, r.DMALen, old.dmaLen)
	}
	return causeOtherKey(who, p, r.RKey, old.rkey)
}

func causeNoRead(who subject, sent psn, is packet.Opcode) happened {
	return cause.Of(RuleReadRestart, "other-opcode", "%v sent %v at psn %v, where it had requested a READ.", who,
		is, sent)
}

func causeReadAddress(who subject, sent psn, is, want uint64) happened {
	return cause.Of(RuleReadRestart, "other-address",
		"%v repeated the READ from psn %v on at address %v; the rest of the READ is at %v.", who, sent, cause.Hex(is),
		cause.Hex(want))
}

func causeReadLength(who subject, sent psn, is uint32, want int64) happened {
	return cause.Of(RuleReadRestart, "other-length",
		"%v repeated the READ from psn %v on with a length of %v; %v were left of it.", who, sent, cause.Bytes(is),
		cause.Bytes(want))
}

func causeReadKey(who subject, sent psn, is, want uint32) happened {
	return cause.Of(RuleReadRestart, "other-key",
		"%v repeated the READ from psn %v on with remote key %v; the READ had %v.", who, sent, cause.Hex(is),
		cause.Hex(want))
}

// causeReadRestart names the field in which r differs from the rest of a READ.
func causeReadRestart(who subject, p psn, r *trace.Record, va uint64, length int64, rkey uint32) happened {
	switch {
	case r.Opcode != packet.ReadRequest:
		return causeNoRead(who, p, r.Opcode)
	case r.VA != va:
		return causeReadAddress(who, p, r.VA, va)
	case int64(r.DMALen) != length:
		return causeReadLength(who, p, r.DMALen, length)
	}
	return causeReadKey(who, p, r.RKey, rkey)
}

func causeTimeoutEarly(who subject, sent psn, after, timeout duration) happened {
	return cause.Of(RuleTimeoutEarly, "early",
		"%v retransmitted psn %v without a NAK after only %v; its timeout is %v.", who, sent, after, timeout)
}

func causeRNREarly(who subject, sent psn, after, wait duration) happened {
	return cause.Of(RuleRNREarly, "early",
		"%v retransmitted psn %v only %v after the RNR NAK, which asked for a wait of %v.", who, sent, after, wait)
}

func causeRetries(who subject, sent psn, n, most int) happened {
	return cause.Of(RuleRetryExceeded, "retry-count",
		"%v retransmitted psn %v without progress %v; retry_cnt allows %v.", who, sent,
		cause.Times(n), cause.Count(most))
}

func causeRNRRetries(who subject, sent psn, n, most int) happened {
	return cause.Of(RuleRetryExceeded, "rnr-retry-count",
		"%v retransmitted psn %v after RNR NAKs %v; rnr_retry allows %v.", who, sent,
		cause.Times(n), cause.Count(most))
}

func causeBothRetries(who subject, sent psn, n, most int) happened {
	return cause.Of(RuleRetryExceeded, "both-counts",
		"%v retransmitted psn %v without progress %v; retry_cnt and rnr_retry together allow %v.", who, sent,
		cause.Times(n), cause.Count(most))
}

func causeNeverRetransmitted(who subject, missing psn, nak nakWord, at instant) happened {
	return cause.Of(RuleNakUnanswered, "never-retransmitted", "%v never retransmitted psn %v after %v at %v.", who,
		missing, nak, at)
}

func causeMayHaveGivenUp(who subject, missing psn, nak nakWord, at instant) happened {
	return cause.Of(RuleNakUnanswered, "may-have-given-up",
		"%v did not retransmit psn %v after %v at %v; it may have used up its retries.", who, missing, nak, at)
}

func causeLostForGood(who subject, lost psn, at instant) happened {
	return cause.Of(RuleIncomplete, "never-retransmitted",
		"%v never retransmitted psn %v, which it had sent at %v and which was lost.", who, lost, at)
}

func causeNeverAcknowledged(who subject, open psns) happened {
	return cause.Of(RuleIncomplete, "never-acknowledged", "%v stopped although %v had not been acknowledged.", who, open)
}

func causeRefused(who subject, open psns, at instant) happened {
	return cause.Of(RuleIncomplete, "refused",
		"%v did not complete %v: a fatal NAK at %v ended the connection.", who, open, at)
}

func causeGaveUp(rule Rule, who subject, missing psn, retries int, setting string) happened {
	return cause.Of(rule, "gave-up", "%v gave up on psn %v after %v without progress (%v).", who, missing,
		cause.Counted{N: int64(retries), Noun: "retransmission"}, cause.Name(setting))
}

func causeRequestAfterError(who subject, sent psn, at instant) happened {
	return cause.Of(RuleAfterError, "request", "%v sent psn %v after the fatal NAK at %v.", who, sent, at)
}

func causeResponseAfterError(who subject, sent reply) happened {
	return cause.Of(RuleAfterError, "response", "%v sent %v after its own fatal NAK.", who, sent)
}

func causeInsideMessage(who subject, sent psn, is packet.Opcode, open packet.Verb) happened {
	return cause.Of(RuleOpcodeSequence, "inside-message", "%v sent %v at psn %v inside a %v message.", who, is,
		sent, verbWord(open))
}

func causeOutsideMessage(who subject, sent psn, is packet.Opcode) happened {
	return cause.Of(RuleOpcodeSequence, "outside-message", "%v sent %v at psn %v where no message was open.", who,
		is, sent)
}

func causePayloadLength(who subject, sent psn, r *trace.Record, least, most int) happened {
	return cause.Of(RulePayloadLength, "wrong-length", "%v sent %v at psn %v with %v of payload; it must carry %v.", who,
		r.Opcode, sent, cause.Bytes(r.PayloadLen), cause.Between{Least: int64(least), Most: int64(most)})
}

func causeTooLong(who subject, sent psn, extra int64) happened {
	return cause.Of(RuleDMALength, "too-long", "%v exceeded the DMA length of the WRITE by %v at psn %v.", who,
		cause.Bytes(extra), sent)
}

func causeTooShort(who subject, sent psn, left int64) happened {
	return cause.Of(RuleDMALength, "too-short", "%v ended the WRITE at psn %v with %v of its DMA length missing.", who,
		sent,
		cause.Bytes(left))
}

func causeNotEnded(who subject, sent psn, is packet.Opcode) happened {
	return cause.Of(RuleDMALength, "not-ended",
		"%v sent the last bytes of the WRITE at psn %v as %v, which does not end it.", who, sent, is)
}

// causeDMALength names the fault in the length of a WRITE, given the announced bytes that are left.
func causeDMALength(who subject, p psn, op packet.Opcode, left int64) happened {
	switch {
	case left < 0:
		return causeTooLong(who, p, -left)
	case left > 0:
		return causeTooShort(who, p, left)
	}
	return causeNotEnded(who, p, op)
}

func causePadCount(who subject, sent psn, is, want uint8, payload uint16) happened {
	return cause.Of(RulePadCount, "wrong-count", "%v sent psn %v with pad count %v; %v of payload need %v.", who, sent,
		cause.Count(is), cause.Bytes(payload), cause.Count(want))
}

func causeSolicited(who subject, sent psn, is packet.Opcode) happened {
	return cause.Of(RuleSolicited, "asked", "%v asked for a solicited event in %v at psn %v.", who, is, sent)
}

func causePartition(who subject, at instant, is, was uint16) happened {
	return cause.Of(RulePKeyChanged, "changed", "%v changed its partition key from %v to %v at %v.", who,
		cause.Hex(was), cause.Hex(is), at)
}

func causeICRC(who subject, at instant, is packet.Opcode) happened {
	return cause.Of(RuleICRC, "bad", "%v sent %v with a bad iCRC at %v.", who, is, at)
}

func causeUnknownQP(at instant, is packet.Opcode, qp packet.QPN) happened {
	return cause.Of(RuleUnknownQP, "no-connection",
		"A host sent %v to queue pair %v at %v, which belongs to no connection.", is, qp, at)
}

func causeRequestsMissing(who subject, sent psn) happened {
	return cause.Of(RuleCaptureGap, "requests-missing",
		"%v sent psn %v, which does not follow what the capture holds before it.", who, sent)
}

func causeResponsesMissing(who subject, sent, want psn) happened {
	return cause.Of(RuleCaptureGap, "responses-missing",
		"%v sent READ response psn %v; the capture does not hold psn %v, which comes first.", who, sent, want)
}

func causeStrays(n int64) happened {
	return cause.Of(RuleCaptureGap, "of-no-connection", "The analyzer did not judge %v of no known connection.",
		cause.Counted{N: n, Noun: "packet"})
}

func causeUnknownOpcodes(n int64) happened {
	return cause.Of(RuleCaptureGap, "unknown-opcode",
		"The analyzer did not judge %v with opcodes that a reliable connection does not have.", cause.Counted{N: n,
			Noun: "packet"})
}

// causeIncomplete says how the requester left requests unfinished.
func (s *session) causeIncomplete(rule Rule) happened {
	q, who := &s.req, s.requester()
	most := q.una.most()
	open := psnsOf(most.una, q.next-1)
	switch k := s.lostForGood(most.una); {
	case rule == RuleNakUnanswered:
		return causeNeverRetransmitted(who, open.First, nakWord(most.nak), s.instant(most.nakNS))
	case q.fatalID != 0:
		return causeRefused(who, open, s.instant(q.fatalNS))
	case k != nil:
		return causeLostForGood(who, psnOf(k.pos), s.instant(k.firstNS))
	}
	return causeNeverAcknowledged(who, open)
}

// lostForGood returns the first request from position p on that was lost and not retransmitted, or nil.
func (s *session) lostForGood(p pos) *sent {
	q := &s.req
	for ; p < min(q.next, q.lowest); p++ {
		if k, ok := q.window.get(p); ok && k.lost > 0 {
			return k
		}
	}
	return nil
}

// causeAfterError is a request p after the NAK that ended the connection.
func (s *session) causeAfterError(p pos) happened {
	return causeRequestAfterError(s.requester(), psnOf(p), s.instant(s.req.fatalNS))
}
