package gbn

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/packet"
)

func causeUndelivered(who subject, sent reply, missing psn) happened {
	return cause.Of(RuleAckBeyond, "undelivered", "%v sent %v although psn %v had not been delivered.", who, sent, missing)
}

func causeNeverSent(who subject, sent reply, next psn) happened {
	return cause.Of(RuleAckBeyond, "never-sent", "%v sent %v although psn %v had not been sent.", who, sent, next)
}

func causeAckBeforeFirst(who subject, sent reply) happened {
	return cause.Of(RuleAckDecreasing, "before-first", "%v sent %v, which is before the first request.", who, sent)
}

func causeAckDecreased(who subject, sent reply, acked psn) happened {
	if acked < 1 {
		return causeAckBeforeFirst(who, sent)
	}
	return cause.Of(RuleAckDecreasing, "no-duplicate",
		"%v sent %v after it had acknowledged psn %v, although no duplicate request can have caused that.", who, sent, acked)
}

func causeAckDecreasedUnasked(who subject, sent reply, acked psn) happened {
	if acked < 1 {
		return causeAckBeforeFirst(who, sent)
	}
	return cause.Of(RuleAckDecreasing, "not-retransmitted",
		"%v sent %v after it had acknowledged psn %v, although no psn that old had been retransmitted.", who, sent, acked)
}

func causeNoAck(who subject, arrived psn, at instant) happened {
	return cause.Of(RuleAckMissing, "never-acknowledged", "%v never acknowledged psn %v, delivered at %v.", who, arrived,
		at)
}

func causeNoAckOfDuplicate(who subject, arrived psn, at instant) happened {
	return cause.Of(RuleAckMissing, "duplicate", "%v never acknowledged the duplicate of psn %v, delivered at %v.", who,
		arrived, at)
}

func causeNakPSN(who subject, named, missing psn) happened {
	return cause.Of(RuleNakPSN, "wrong-psn", "%v sent a NAK for psn %v although psn %v was the first one missing.", who,
		named, missing)
}

func causeNakSecondGap(who subject, named, missing psn) happened {
	return cause.Of(RuleNakPSN, "first-gap-open",
		"%v sent a NAK for psn %v although psn %v, for which it had sent a NAK before, was still missing.", who, named,
		missing)
}

func causeNakRepeat(who subject, named psn) happened {
	return cause.Of(RuleNakRepeat, "second-nak", "%v sent a second NAK for psn %v before that packet had arrived.", who,
		named)
}

func causeNakForDuplicate(who subject, named, received psn) happened {
	return cause.Of(RuleNakDuplicate, "for-duplicate",
		"%v answered a duplicate with a NAK for psn %v although everything up to psn %v had arrived.", who, named, received)
}

func causeNakAcknowledged(who subject, named, acked psn) happened {
	return cause.Of(RuleNakDuplicate, "acknowledged", "%v sent a NAK for psn %v after it had acknowledged psn %v.", who,
		named, acked)
}

func causeNakWithoutGap(who subject, named, received psn) happened {
	return cause.Of(RuleNakUnprovoked, "no-gap",
		"%v sent a NAK for psn %v although nothing had arrived out of order (last in order: psn %v).", who, named, received)
}

func causeNakForTail(who subject, named psn) happened {
	return cause.Of(RuleNakUnprovoked, "nothing-after",
		"%v sent a NAK for psn %v although nothing after it had been sent.",
		who, named)
}

func causeFatalNak(who subject, sent reply) happened {
	return cause.Of(RuleNakUnprovoked, "no-request",
		"%v ended the connection with %v although no unanswered request at that psn can have arrived.", who, sent)
}

func causeNoNak(who subject, missing, ahead psn) happened {
	return cause.Of(RuleNakMissing, "never-sent",
		"%v never sent a NAK for psn %v after psn %v had arrived out of order.", who, missing, ahead)
}

func causeNakPassedOver(who subject, sent reply, missing, ahead psn) happened {
	return cause.Of(RuleNakMissing, "passed-over",
		"%v sent %v but no NAK for psn %v before it, although psn %v had arrived out of order.", who, sent, missing, ahead)
}

func causeRNR(who subject, named psn) happened {
	return cause.Of(RuleRNRUnprovoked, "no-request",
		"%v sent an RNR NAK for psn %v although no unacknowledged request at that psn can have arrived in order.", who, named)
}

func causeRNRAcknowledged(who subject, named, acked psn) happened {
	return cause.Of(RuleRNRUnprovoked, "acknowledged", "%v sent an RNR NAK for psn %v after it had acknowledged psn %v.",
		who, named, acked)
}

func causeMSN(who subject, sent reply, msn int64, want cause.Between) happened {
	return cause.Of(RuleMSN, "wrong-count", "%v counted %v completed in %v; it can have completed %v.", who,
		cause.Counted{N: msn, Noun: "message"}, sent, want)
}

func causeSyndrome(who subject, at psn, syndrome packet.Syndrome) happened {
	return cause.Of(RuleSyndrome, "not-allowed", "%v sent a response at psn %v with %v, which is not allowed there.", who,
		at, syndrome)
}

func causeReadUnexpected(who subject, sent psn) happened {
	return cause.Of(RuleReadUnexpected, "no-request",
		"%v sent READ response psn %v although no READ that it answers can have arrived.", who, sent)
}

func causeReadUnseen(who subject, sent psn) happened {
	return cause.Of(RuleReadUnexpected, "not-requested", "%v sent READ response psn %v, which no READ had requested.", who,
		sent)
}

func causeReadOrder(who subject, sent, want psn) happened {
	return cause.Of(RuleReadOrder, "out-of-order", "%v sent READ response psn %v instead of psn %v.", who, sent, want)
}

func causeNoAnswer(who subject, verb packet.Verb, at psn, arrived instant) happened {
	return cause.Of(RuleReadMissing, "never-answered", "%v never answered the %v at psn %v, delivered at %v.", who,
		verbWord(verb), at, arrived)
}

func causeAnswerPassedOver(who subject, sent reply, verb packet.Verb, at psn) happened {
	return cause.Of(RuleReadMissing, "passed-over", "%v sent %v before it had answered the %v at psn %v.", who, sent,
		verbWord(verb), at)
}

func causeBrokeOff(who subject, missing psn) happened {
	return cause.Of(RuleReadMissing, "broke-off", "%v broke off the answer to a READ: it never sent READ response psn %v.",
		who, missing)
}

func causeBrokeOffFor(who subject, sent reply, missing psn) happened {
	return cause.Of(RuleReadMissing, "broke-off-for",
		"%v broke off the answer to a READ: it sent %v before READ response psn %v.", who, sent, missing)
}

func causeNoAnswerToDuplicate(who subject, verb packet.Verb, at psn, arrived instant) happened {
	return cause.Of(RuleReadMissing, "duplicate", "%v never answered the repeated %v at psn %v, delivered at %v.",
		who, verbWord(verb), at, arrived)
}

func causeReadOpcode(who subject, sent psn, is, want packet.Opcode) happened {
	return cause.Of(RuleReadOpcode, "wrong-opcode", "%v sent READ response psn %v as %v instead of %v.", who, sent,
		is, want)
}

func causeReadResponseLength(who subject, sent psn, is uint16, want int64) happened {
	return cause.Of(RuleReadLength, "wrong-length", "%v sent READ response psn %v with %v instead of %v.", who, sent,
		cause.Bytes(is), cause.Count(want))
}

func causeReplayOpcode(who subject, sent psn, is packet.Opcode) happened {
	return cause.Of(RuleReplayOpcode, "continued", "%v began its answer to the repeated READ at psn %v with %v.", who,
		sent,
		is)
}

func causeAtomicUnexpected(who subject, sent psn) happened {
	return cause.Of(RuleAtomicUnexpected, "no-request",
		"%v sent atomic ACK psn %v although no atomic that it answers can have arrived.", who, sent)
}

func causeExecuted(who subject, sent reply, invalid psn, is packet.Opcode) happened {
	return cause.Of(RuleNakFatalMissing, "executed", "%v sent %v although psn %v, %v, was not a valid request.", who, sent,
		invalid, is)
}

func causeNotRefused(who subject, invalid psn, is packet.Opcode) happened {
	return cause.Of(RuleNakFatalMissing, "never-refused", "%v never refused psn %v, %v, which was not a valid request.",
		who, invalid, is)
}

func causeNakCode(who subject, at psn, is, want packet.Syndrome) happened {
	return cause.Of(RuleNakCode, "wrong-code", "%v refused psn %v with %v instead of %v.", who, at,
		is, want)
}

func causeNakNoFault(who subject, at psn, is packet.Syndrome, op packet.Opcode) happened {
	return cause.Of(RuleNakCode, "no-fault", "%v refused psn %v with %v although %v was what follows in the message.",
		who, at, is, op)
}

func causeRNRTimer(who subject, at psn, is, least duration) happened {
	return cause.Of(RuleRNRTimer, "too-short",
		"%v sent an RNR NAK for psn %v with a wait of %v; its queue pair is set to %v.", who, at, is, least)
}
