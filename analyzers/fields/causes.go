package fields

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Short names of what the sentences are made of.
type (
	subject = cause.Argument
	instant = cause.Instant
	psn     = cause.PSN
)

// what is a packet with a wrong field: who sent it, and when.
type what struct {
	who subject
	op  packet.Opcode
	at  instant
}

func (a *Analyzer) what(r *trace.Record) what {
	return what{cause.Sender(r), r.Opcode, cause.At(&a.meta, r.TimeNS)}
}

// count writes a small number.
func count[T ~int | ~uint8 | ~uint16](n T) cause.Count { return cause.Count(n) }

func causeVersion(w what, version uint8) cause.Cause {
	return cause.Of(RuleVersion, "not-0", "%v sent %v with transport header version %v at %v.", w.who, w.op,
		count(version), w.at)
}

func causeReserved(w what, bits uint16) cause.Cause {
	return cause.Of(RuleReserved, "not-0", "%v sent %v with reserved bits %v at %v.", w.who, w.op, cause.Hex(bits), w.at)
}

func causeMigReq(w what, was, is int) cause.Cause {
	return cause.Of(RuleMigReq, "changed", "%v changed MigReq from %v to %v at %v.", w.who, count(was), count(is), w.at)
}

func causeMigReqDiffers(connection, requester, responder int) cause.Cause {
	return cause.Of(RuleMigReqDiffers, "differ", "On qpn %v the requester sent MigReq %v and the responder MigReq %v.",
		count(connection), count(requester), count(responder))
}

func causeMigReqRefused(connection, requester, responder int, n int64) cause.Cause {
	return cause.Of(RuleMigReqDiffers, "refused",
		"On qpn %v the requester sent MigReq %v and the responder MigReq %v; the receiver of MigReq 0 requested "+
			"%v a second time.",
		count(connection), count(requester), count(responder), cause.Counted{N: n, Noun: "intact packet"})
}

func causeMigReqSetting(w what, is, want int) cause.Cause {
	return cause.Of(RuleMigReqSetting, "other-value", "%v sent %v with MigReq %v at %v; it is set to %v.", w.who, w.op,
		count(is), w.at, count(want))
}

func causeSourcePort(w what, was, is uint16) cause.Cause {
	return cause.Of(RuleSourcePort, "changed", "%v changed its UDP source port from %v to %v at %v.", w.who, count(was),
		count(is), w.at)
}

func causeSourcePortSetting(w what, is, want uint16) cause.Cause {
	return cause.Of(RuleSourcePortSetting, "other-value", "%v sent %v from UDP source port %v at %v; it is set to %v.",
		w.who, w.op, count(is), w.at, count(want))
}

func causeFlowLabel(flow trace.FlowID, is, want uint32) cause.Cause {
	return cause.Of(RuleFlowLabel, "other-value", "%v sent packets with IPv6 flow label %v; it is set to %v.",
		cause.Host(flow), cause.Hex(is), cause.Hex(want))
}

func causeFlowLabelChanged(flow trace.FlowID, was, is uint32) cause.Cause {
	return cause.Of(RuleFlowLabelChanged, "changed", "%v changed its IPv6 flow label from %v to %v.",
		cause.Host(flow), cause.Hex(was), cause.Hex(is))
}

func causeDSCPChanged(w what, was, is uint8) cause.Cause {
	return cause.Of(RuleDSCPChanged, "changed", "%v sent %v with DSCP %v at %v; the packets before had DSCP %v.", w.who,
		w.op, count(is), w.at, count(was))
}

func causeImmediate(w what) cause.Cause {
	return cause.Of(RuleRetransmission, "immediate-data", "%v retransmitted %v with other immediate data at %v.", w.who,
		w.op, w.at)
}

func causeOperands(w what) cause.Cause {
	return cause.Of(RuleRetransmission, "operands", "%v retransmitted %v with other operands at %v.", w.who, w.op, w.at)
}

func causePayloadChanged(who subject, op packet.Opcode, at psn) cause.Cause {
	return cause.Of(RulePayloadChanged, "changed", "%v retransmitted psn %v (%v) with another payload.", who, at, op)
}

func causeReadChanged(who subject, op packet.Opcode, at psn) cause.Cause {
	return cause.Of(RuleReadChanged, "changed", "%v repeated READ response psn %v (%v) with other data.", who, at, op)
}

func causeNotCompared(n int64) cause.Cause {
	return cause.Of(RuleNotCompared, "too-many", "The payloads of %v were not compared.",
		cause.Counted{N: n, Noun: "retransmission"})
}

func causeAlignment(w what, va uint64) cause.Cause {
	return cause.Of(RuleAtomicAlignment, "unaligned", "%v sent %v for address %v at %v, which is not a multiple of 8.",
		w.who, w.op, cause.Hex(va), w.at)
}

func causeAtomicResult(who subject, op packet.Opcode, va, is, want uint64) cause.Cause {
	return cause.Of(RuleAtomicResult, "other-value",
		"%v answered %v at address %v with %v; the atomics before it had left %v there.", who, op, cause.Hex(va),
		cause.Hex(is), cause.Hex(want))
}

func causeOpcode(w what) cause.Cause {
	return cause.Of(RuleOpcode, "undefined", "%v sent a packet with opcode %v at %v, which the service does not define.",
		w.who, w.op, w.at)
}

func causeNotification(w what, fecn, becn int) cause.Cause {
	return cause.Of(RuleNotification, "fecn-or-becn", "%v sent %v with FECN %v and BECN %v at %v.", w.who, w.op,
		count(fecn), count(becn), w.at)
}

func causeCE(w what) cause.Cause {
	return cause.Of(RuleNotification, "ce", "%v sent %v with CE at %v, before any switch can have marked it.", w.who, w.op,
		w.at)
}

func causePayload(w what, bytes uint16, pad uint8) cause.Cause {
	return cause.Of(RulePayload, "not-empty", "%v sent %v with %v of payload and %v of padding at %v.", w.who, w.op,
		cause.Bytes(bytes), cause.Bytes(int(pad)), w.at)
}

func causeSolicited(w what) cause.Cause {
	return cause.Of(RuleSolicited, "asked", "%v asked for a solicited event in %v at %v.", w.who, w.op, w.at)
}

func causeAckReq(w what) cause.Cause {
	return cause.Of(RuleAckReq, "asked", "%v asked for an acknowledgement in %v at %v.", w.who, w.op, w.at)
}

func causeDSCP(w what, is, want uint8) cause.Cause {
	return cause.Of(RuleDSCP, "other-value", "%v sent %v with DSCP %v at %v; its host is set to %v.", w.who, w.op,
		count(is), w.at, count(want))
}

func causeECN(w what, is, want packet.ECN) cause.Cause {
	return cause.Of(RuleECN, "other-value", "%v sent %v with %v at %v; its host is set to %v.", w.who, w.op, ecn(is), w.at,
		ecn(want))
}

// An ecn is a codepoint in a sentence.
type ecn packet.ECN

func (e ecn) String() string { return [...]string{"Not-ECT", "ECT(1)", "ECT(0)", "CE"}[e&3] }

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	const us = instant(1000)
	requester, responder := cause.Requester(0), cause.Responder(0)
	sent := func(op packet.Opcode, at instant) what { return what{requester, op, at} }
	answered := func(op packet.Opcode) what { return what{responder, op, 0} }
	return []cause.Cause{
		causeVersion(sent(packet.WriteOnly, 0), 1),
		causeReserved(sent(packet.WriteOnly, 0), 0x100),
		causeMigReq(sent(packet.WriteOnly, us), 1, 0),
		causeMigReqDiffers(1, 0, 1),
		causeMigReqRefused(1, 0, 1, 1),
		causeMigReqSetting(sent(packet.SendOnly, 0), 0, 1),
		causeSourcePort(sent(packet.WriteOnly, us), 50000, 50001),
		causeSourcePortSetting(what{responder, packet.Acknowledge, 2 * us}, 50001, 50000),
		causeFlowLabel(0, 0, 0x123), causeFlowLabelChanged(0, 1, 3),
		causeDSCPChanged(sent(packet.WriteOnly, us), 0, 7),
		causeImmediate(sent(packet.SendOnlyImm, 2*us)),
		causeOperands(sent(packet.FetchAdd, us)),
		causePayloadChanged(requester, packet.SendOnly, 6),
		causeReadChanged(responder, packet.ReadResponseOnly, 6),
		causeNotCompared(1),
		causeAlignment(sent(packet.FetchAdd, 0), 0x44),
		causeAtomicResult(responder, packet.FetchAdd, 0x40, 0x14, 0xa),
		causeOpcode(what{cause.Host(1), 0x15, 0}),
		causeNotification(sent(packet.WriteOnly, 0), 0, 1),
		causeCE(sent(packet.WriteOnly, 0)),
		causePayload(sent(packet.ReadRequest, 0), 64, 0),
		causeSolicited(answered(packet.Acknowledge)),
		causeAckReq(answered(packet.ReadResponseOnly)),
		causeDSCP(sent(packet.SendOnly, 0), 0, 26),
		causeECN(sent(packet.SendOnly, 0), packet.NotECT, packet.ECT0),
	}
}
