package observer

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/trace"
)

// A breach is the rule that an endpoint violates if nothing explains a frame. The sentence of its cause has the
// endpoint and the frame as arguments. Clauses and statements are those of the rules of analyzer gbn.
type breach struct{ rule, expected, code, format string }

// ruleOf is the table of rules.
var ruleOf = [...]breach{
	reasonNone: {"gbn.capture-gap", "what follows from the packets before",
		"unexplained", "%v sent %v, which does not follow from the packets before it."},
	reasonAfterError: {"gbn.after-error", "nothing after the NAK that ends the connection",
		"in-error", "%v sent %v after the NAK that ended the connection."},
	reasonAcknowledged: {"gbn.resend-acknowledged", "no retransmission before the oldest PSN that can be unacknowledged",
		"certainly-acknowledged", "%v retransmitted %v, which had been acknowledged before."},
	reasonSkip: {"gbn.psn-skip", "the PSN that follows the request before it",
		"not-next", "%v sent %v and skipped at least one request before it."},
	reasonRestart: {"gbn.retransmit-first",
		"a retransmission that starts at a PSN that can be the oldest unacknowledged one",
		"not-oldest", "%v restarted with %v, which cannot have been the oldest unacknowledged request."},
	reasonGap: {"gbn.round-gap", "consecutive PSNs, or a restart at a PSN that can be the oldest unacknowledged one",
		"not-consecutive", "%v sent %v and left out requests of the round before it."},
	reasonOpcode: {"gbn.opcode-sequence",
		"a packet that follows the one before it in its message, and the announced length",
		"does-not-follow", "%v sent %v, whose opcode or length does not continue its message."},
	reasonChanged: {"gbn.retransmit-changed", "the same request as before at this PSN",
		"not-the-same", "%v sent %v at the psn of a different request."},
	reasonRetries: {"gbn.retry-exceeded", "no more retransmissions without progress than the retry counters allow",
		"too-often", "%v retransmitted %v without progress more often than its retry counters allow."},
	reasonEarly: {"gbn.timeout-early", "no retransmission before a NAK can have arrived or a timer can have expired",
		"no-reason", "%v retransmitted %v before a NAK can have arrived or its timer can have expired."},
	reasonFatal: {"gbn.nak-unprovoked", "no NAK: no request at its PSN can have arrived in order and be unanswered",
		"nothing-to-refuse", "%v sent %v although no unanswered request at that psn can have arrived."},
	reasonRNR: {"gbn.rnr-unprovoked", "no RNR NAK: no request at its PSN can have arrived in order and be unanswered",
		"nothing-to-refuse", "%v sent %v although no unanswered request at that psn can have arrived."},
	reasonNakDuplicate: {"gbn.nak-duplicate", "no NAK: everything up to its PSN must have arrived",
		"certainly-arrived", "%v sent %v although that request had arrived."},
	reasonNakRepeat: {"gbn.nak-repeat", "no second NAK before the missing request can have arrived",
		"gap-still-open", "%v sent %v a second time before that request can have arrived."},
	reasonNak: {"gbn.nak-psn", "no NAK for a PSN that can't be the first one missing",
		"not-first-missing", "%v sent %v although that cannot have been the first request missing."},
	reasonOwes: {"gbn.read-missing", "first the READ responses or atomic ACK that are owed",
		"owed", "%v sent %v before the READ responses or the atomic ACK that it owed."},
	reasonBeyond: {"gbn.ack-beyond", "no ACK of a PSN before everything up to it can have arrived",
		"too-soon", "%v sent %v before everything up to that psn can have arrived."},
	reasonDecreasing: {"gbn.ack-decreasing", "no ACK of an older PSN without a duplicate that can have arrived",
		"older", "%v sent %v after it had acknowledged a later psn, although no duplicate can have arrived."},
	reasonAtomicUnexpected: {"gbn.atomic-unexpected", "no atomic ACK: no request for it can have arrived",
		"not-requested", "%v sent %v although no request for it can have arrived."},
	reasonReadUnexpected: {"gbn.read-unexpected", "no READ response: no request for it can have arrived",
		"not-arrived", "%v sent %v although no request for it can have arrived."},
	reasonAtomicResult: {"gbn.atomic-unexpected", "the result that the first ACK of this atomic brought",
		"other-result", "%v sent %v with another result than its first ACK of that atomic."},
	reasonReadOrder: {"gbn.read-order", "the READ response that is next in order",
		"not-next", "%v sent %v, which was not the next READ response."},
	reasonReadOpcode: {"gbn.read-opcode", "the opcode of its place among the READ responses",
		"not-its-place", "%v sent %v, whose opcode does not fit its place in the answer to the READ."},
	reasonReadLength: {"gbn.read-length", "as many bytes as the READ asks for at this place",
		"other-length", "%v sent %v, whose length is not what the READ requested at that psn."},
	reasonSyndrome: {"gbn.syndrome", "a syndrome and opcode that a responder may send here",
		"not-here", "%v sent %v, whose syndrome or opcode is not allowed there."},
	reasonMSN: {"gbn.msn", "a number of messages that the responder can have completed",
		"impossible", "%v sent %v, but it cannot have completed that number of messages."},
	reasonUnfinished: {"gbn.incomplete", "every obligation met at the end",
		"left-open", "%v left requests up to %v unfinished."},
}

// owedAtEnd is the breach of a responder that owes something at the end.
var owedAtEnd = breach{"gbn.ack-missing", ruleOf[reasonUnfinished].expected,
	"left-open", "%v did not answer all requests up to %v."}

func (b *breach) cause(who, what cause.Argument) cause.Cause {
	return cause.Of(b.rule, b.code, b.format, who, what)
}

// A packetWord names a frame in a sentence.
type packetWord string

func (w packetWord) String() string { return string(w) }

// Causes lists an example of each sentence.
func Causes() []cause.Cause {
	const flow = trace.FlowID(0)
	requester, responder := cause.Requester(flow), cause.Responder(flow)
	var list []cause.Cause
	for why := reasonNone; why < reasonUnfinished; why++ {
		who := requester
		if why >= reasonFatal || why == reasonAfterError {
			who = responder
		}
		list = append(list, ruleOf[why].cause(who, packetWord(examples[why])))
	}
	one := cause.PSNs{First: 1, Last: 1}
	return append(list, ruleOf[reasonUnfinished].cause(requester, one), owedAtEnd.cause(responder, one))
}

// examples are packets that break each rule, as frames are described.
var examples = [...]string{
	reasonNone: "data psn 7 (WRITE_ONLY)", reasonAfterError: "ack psn 2, msn 1",
	reasonAcknowledged: "data psn 2 (SEND_ONLY)", reasonSkip: "data psn 3 (SEND_ONLY)",
	reasonRestart: "data psn 3 (SEND_ONLY)", reasonGap: "data psn 3 (SEND_ONLY)",
	reasonOpcode: "read-request psn 2", reasonChanged: "data psn 1 (WRITE_ONLY)",
	reasonRetries: "data psn 1 (SEND_ONLY)", reasonEarly: "data psn 1 (SEND_ONLY)",
	reasonSyndrome: "read-response psn 1 (READ_RESPONSE_ONLY)", reasonFatal: "nak-inv psn 1, msn 1",
	reasonRNR: "rnr psn 1, msn 1", reasonNakDuplicate: "nack psn 1", reasonNakRepeat: "nack psn 1",
	reasonNak:  "nack psn 1",
	reasonOwes: "ack psn 2, msn 1", reasonBeyond: "ack psn 4, msn 4", reasonDecreasing: "ack psn 1, msn 2",
	reasonAtomicUnexpected: "atomic-ack psn 1", reasonReadUnexpected: "read-response psn 2 (READ_RESPONSE_ONLY)",
	reasonAtomicResult: "atomic-ack psn 1", reasonReadOrder: "read-response psn 3 (READ_RESPONSE_LAST)",
	reasonReadOpcode: "read-response psn 2 (READ_RESPONSE_LAST)",
	reasonReadLength: "read-response psn 1 (READ_RESPONSE_FIRST)", reasonMSN: "ack psn 2, msn 9",
}
