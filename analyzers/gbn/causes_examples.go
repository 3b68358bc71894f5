package gbn

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// us is a time of the examples in microseconds.
func us(n int64) int64 { return 1000 * n }

// requesterCauses are what causes_test.go makes the analyzer report, in the same order.
func requesterCauses() []cause.Cause {
	who := cause.Requester(0)
	at := func(n int64) instant { return instant(us(n)) }
	return []cause.Cause{
		causeSkipped(who, psns{First: 5, Last: 5}, 6),
		causeLeftOut(who, psns{First: 6, Last: 10}, 11),
		causeRestartedElsewhere(who, 6, 5, nakWord(nakSequence), at(10)),
		causeTimeoutElsewhere(who, 10, 1),
		causeAcknowledgedBefore(who, 1, 10),
		causeBeforeFirst(who, 0),
		causeOtherOpcode(who, 2, packet.WriteFirst, packet.WriteMiddle),
		causeOtherLength(who, 2, 1000, 1024),
		causeOtherAddress(who, 1, 7, 0x1000),
		causeOtherDMALength(who, 1, 4000, 4096),
		causeOtherKey(who, 1, 8, 7),
		causeNoRead(who, 1, packet.WriteOnly),
		causeReadAddress(who, 5, 0x1000, 0x2000),
		causeReadLength(who, 5, 10240, 6144),
		causeReadKey(who, 1, 8, 7),
		causeTimeoutEarly(who, 1, duration(us(30_001)), 67_108_864),
		causeRNREarly(who, 1, duration(us(101)), duration(us(640))),
		causeRetries(who, 1, 3, 2),
		causeRNRRetries(who, 1, 2, 1),
		causeBothRetries(who, 1, 3, 2),
		causeNeverRetransmitted(who, 5, nakWord(nakSequence), at(10)),
		causeMayHaveGivenUp(who, 1, nakWord(nakRNR), at(1003)),
		causeGaveUp(RuleNakUnanswered, who, 1, 1, "retry_cnt"),
		causeLostForGood(who, 10, at(9)),
		causeNeverAcknowledged(who, psns{First: 1, Last: 3}),
		causeRefused(who, psns{First: 1, Last: 3}, at(3)),
		causeGaveUp(RuleIncomplete, who, 1, 2, "retry_cnt"),
		causeRequestAfterError(who, 2, at(1)),
		causeInsideMessage(who, 2, packet.SendMiddle, packet.VerbWrite),
		causeOutsideMessage(who, 4, packet.WriteMiddle),
		causePayloadLength(who, 2, &trace.Record{Opcode: packet.SendMiddle, PayloadLen: 512}, 1024, 1024),
		causeTooLong(who, 3, 72),
		causeTooShort(who, 3, 1),
		causeNotEnded(who, 3, packet.WriteMiddle),
		causePadCount(who, 2, 0, 1, 3),
		causeSolicited(who, 2, packet.WriteMiddle),
		causePartition(who, at(1), 0x8001, 0xffff),
		causeICRC(who, at(1), packet.WriteMiddle),
		causeUnknownQP(at(2), packet.WriteLast, 77),
		causeRequestsMissing(who, 6),
		causeResponsesMissing(cause.Responder(0), 4, 3),
		causeStrays(1),
		causeUnknownOpcodes(1),
	}
}

// responderCauses are those about responders.
func responderCauses() []cause.Cause {
	who := cause.Responder(0)
	at := func(n int64) instant { return instant(us(n)) }
	ack := func(n psn) reply {
		return reply{&trace.Record{Opcode: packet.Acknowledge, Syndrome: packet.SyndromeAckNoCredit}, pos(n - 1)}
	}
	fatal := ack(1)
	fatal.r.Syndrome = packet.SyndromeNakInvalid
	return []cause.Cause{
		causeResponseAfterError(who, ack(3)),
		causeUndelivered(who, ack(10), 5),
		causeNeverSent(who, ack(7), 4),
		causeAckDecreased(who, ack(3), 6),
		causeAckDecreasedUnasked(who, ack(4), 6),
		causeAckBeforeFirst(who, ack(-1)),
		causeNoAck(who, 6, at(5)),
		causeNoAckOfDuplicate(who, 2, at(68_004)),
		causeNakPSN(who, 6, 5),
		causeNakSecondGap(who, 7, 5),
		causeNakRepeat(who, 5),
		causeNakForDuplicate(who, 1, 3),
		causeNakAcknowledged(who, 5, 6),
		causeNakWithoutGap(who, 2, 3),
		causeNakForTail(who, 3),
		causeFatalNak(who, fatal),
		causeNoNak(who, 5, 6),
		causeNakPassedOver(who, ack(10), 5, 6),
		causeRNR(who, 2),
		causeRNRAcknowledged(who, 2, 3),
		causeRNRTimer(who, 1, duration(us(640)), duration(us(1280))),
		causeMSN(who, ack(6), 1, cause.Between{Least: 2, Most: 2}),
		causeSyndrome(who, 3, 0x40),
		causeReadUnexpected(who, 2),
		causeReadUnseen(who, 2),
		causeReadOrder(who, 4, 3),
		causeNoAnswer(who, packet.VerbRead, 1, 0),
		causeAnswerPassedOver(who, ack(2), packet.VerbAtomic, 1),
		causeBrokeOff(who, 3),
		causeBrokeOffFor(who, ack(4), 3),
		causeNoAnswerToDuplicate(who, packet.VerbRead, 2, at(68_003)),
		causeReadOpcode(who, 3, packet.ReadResponseMiddle, packet.ReadResponseLast),
		causeReadResponseLength(who, 2, 1000, 1024),
		causeReplayOpcode(who, 5, packet.ReadResponseMiddle),
		causeAtomicUnexpected(who, 1),
		causeExecuted(who, ack(1), 1, packet.SendOnly),
		causeNotRefused(who, 1, packet.SendOnly),
		causeNakCode(who, 1, packet.SyndromeNakAccess, packet.SyndromeNakInvalid),
		causeNakNoFault(who, 2, packet.SyndromeNakInvalid, packet.WriteMiddle),
	}
}
