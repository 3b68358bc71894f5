package gbn

import "candela.dev/candela/analyzers"

// A Rule identifies a check of the analyzer. Identifiers are never reused or renamed.
type Rule string

// Rules about the requester.
const (
	RulePSNSkip            Rule = "gbn.psn-skip"
	RuleRoundGap           Rule = "gbn.round-gap"
	RuleRetransmitFirst    Rule = "gbn.retransmit-first"
	RuleTimeoutStart       Rule = "gbn.timeout-start"
	RuleResendAcknowledged Rule = "gbn.resend-acknowledged"
	RuleRetransmitChanged  Rule = "gbn.retransmit-changed"
	RuleReadRestart        Rule = "gbn.read-restart"
	RuleTimeoutEarly       Rule = "gbn.timeout-early"
	RuleRNREarly           Rule = "gbn.rnr-early"
	RuleRetryExceeded      Rule = "gbn.retry-exceeded"
	RuleNakUnanswered      Rule = "gbn.nak-unanswered"
	RuleAfterError         Rule = "gbn.after-error"
	RuleOpcodeSequence     Rule = "gbn.opcode-sequence"
	RulePayloadLength      Rule = "gbn.payload-length"
	RuleDMALength          Rule = "gbn.dma-length"
	RulePadCount           Rule = "gbn.pad-count"
	RuleSolicited          Rule = "gbn.solicited"
	RulePKeyChanged        Rule = "gbn.p-key-changed" // about responders, too
)

// Rules about the responder.
const (
	RuleAckBeyond        Rule = "gbn.ack-beyond"
	RuleAckDecreasing    Rule = "gbn.ack-decreasing"
	RuleAckMissing       Rule = "gbn.ack-missing"
	RuleNakPSN           Rule = "gbn.nak-psn"
	RuleNakRepeat        Rule = "gbn.nak-repeat"
	RuleNakDuplicate     Rule = "gbn.nak-duplicate"
	RuleNakUnprovoked    Rule = "gbn.nak-unprovoked"
	RuleNakMissing       Rule = "gbn.nak-missing"
	RuleRNRUnprovoked    Rule = "gbn.rnr-unprovoked"
	RuleNakFatalMissing  Rule = "gbn.nak-fatal-missing"
	RuleNakCode          Rule = "gbn.nak-code"
	RuleMSN              Rule = "gbn.msn"
	RuleSyndrome         Rule = "gbn.syndrome"
	RuleRNRTimer         Rule = "gbn.rnr-timer"
	RuleReadUnexpected   Rule = "gbn.read-unexpected"
	RuleReadOrder        Rule = "gbn.read-order"
	RuleReadMissing      Rule = "gbn.read-missing"
	RuleReadOpcode       Rule = "gbn.read-opcode"
	RuleReadLength       Rule = "gbn.read-length"
	RuleReplayOpcode     Rule = "gbn.replay-opcode"
	RuleAtomicUnexpected Rule = "gbn.atomic-unexpected"
)

// Rules about the end of a connection, and about the trace.
const (
	RuleIncomplete Rule = "gbn.incomplete"
	RuleCaptureGap Rule = "gbn.capture-gap"
	RuleICRC       Rule = "gbn.icrc"
	RuleUnknownQP  Rule = "gbn.unknown-qp"
)

// A ruleInfo is what documentation and findings say about a rule.
type ruleInfo struct {
	Rule      Rule
	Severity  analyzers.Severity
	Clause    string // of IBTA volume 1 unless it names another source
	Statement string
}

// ruleTable is append-only: findings in old run directories refer to it.
var ruleTable = []ruleInfo{
	{RulePSNSkip, analyzers.Violation, "9.7.3.1",
		"The PSN of a request sent for the first time follows that of the request before it; none is left out."},
	{RuleRoundGap, analyzers.Violation, "9.7.2; Lumina (Yu, thesis, Johns Hopkins 2023), section 5.4",
		"Within a round of retransmission PSNs are consecutive; only acknowledged ones may be left out."},
	{RuleRetransmitFirst, analyzers.Violation, "9.7.5.2; 9.7.6.1.1",
		"After a NACK the old round may go on consecutively, but the first jump is to the PSN that the NACK names."},
	{RuleTimeoutStart, analyzers.Violation, "9.7.6.1.3",
		"A retransmission that no NACK asked for starts at the oldest unacknowledged PSN."},
	{RuleResendAcknowledged, analyzers.Violation, "9.7.6.1.3; 9.7.5.1.2",
		"A retransmission does not start before a PSN that the requester certainly knows to be acknowledged."},
	{RuleRetransmitChanged, analyzers.Violation, "9.7.2",
		"A request that is retransmitted is the same packet: opcode, payload length, RETH and remote key."},
	{RuleReadRestart, analyzers.Violation, "9.4.4; 9.7.2",
		"A READ request that is retransmitted starts at the first missing response, with address and length moved " +
			"accordingly, and " +
			"ends where the original ends."},
	{RuleTimeoutEarly, analyzers.Violation, "9.7.6.1.3",
		"Without a NACK a request is not retransmitted before the local ACK timeout T has passed."},
	{RuleRNREarly, analyzers.Violation, "9.7.5.2.8",
		"After an RNR NAK the request is not retransmitted before the RNR timer that the NAK names has passed."},
	{RuleRetryExceeded, analyzers.Violation, "9.9.2.1.1; 9.7.6.1.3",
		"Without progress a request is retransmitted at most retry_cnt times (rnr_retry after RNR NAKs)."},
	{RuleNakUnanswered, analyzers.Violation, "9.7.5.2; 9.7.6.1.1",
		"A NACK that reached the requester is answered by a retransmission."},
	{RuleOpcodeSequence, analyzers.Violation, "9.7.4.1.2; table 38",
		"A message is ONLY, or FIRST, any number of MIDDLE and LAST of one operation, with nothing in between."},
	{RulePayloadLength, analyzers.Violation, "9.7.4.1.6; 9.2.3",
		"FIRST and MIDDLE packets carry exactly the path MTU, LAST 1 byte to the MTU, ONLY 0 bytes to the MTU."},
	{RuleDMALength, analyzers.Violation, "9.7.4.1.6; 9.3.3",
		"The payloads of a WRITE add up to the DMA length of its RETH."},
	{RulePadCount, analyzers.Violation, "9.2.3; 9.2",
		"The pad count makes the payload a multiple of four bytes."},
	{RuleAckBeyond, analyzers.Violation, "9.7.5.1.1; 9.7.5.1.2",
		"A response acknowledges nothing beyond the last request that the responder can have received in order."},
	{RuleAckDecreasing, analyzers.Violation, "9.7.5.1.2; 9.7.5.1.3",
		"Acknowledged PSNs do not decrease, unless a duplicate request with that PSN or an earlier one is answered."},
	{RuleAckMissing, analyzers.Violation, "9.7.5.1",
		"A request that asks for an acknowledgement and was received in order is acknowledged."},
	{RuleNakPSN, analyzers.Violation, "9.7.5.2; 9.7.5.1.1",
		"A sequence NAK carries the PSN that the responder expects: that of the first missing request."},
	{RuleNakRepeat, analyzers.Violation, "9.7.5.2",
		"A gap is NACKed once; there is no second NACK until the missing request was received."},
	{RuleNakDuplicate, analyzers.Violation, "9.7.5.1.3; 9.7.4.1.1",
		"A duplicate request is never answered by a sequence NAK."},
	{RuleNakUnprovoked, analyzers.Violation, "9.7.4.1.1; 9.7.5.2",
		"A sequence NAK answers a request out of order that can have been received; a fatal NAK answers a request at its " +
			"own PSN that can have been received."},
	{RuleNakMissing, analyzers.Violation, "9.7.4.1.1; 9.7.5.2",
		"A request received out of order is answered by a sequence NAK, before any later response, unless the missing " +
			"request " +
			"arrives before the NAK can have left."},
	{RuleRNRUnprovoked, analyzers.Violation, "9.7.5.2.8",
		"An RNR NAK names a request that can have been received in order and was not acknowledged."},
	{RuleMSN, analyzers.Violation, "9.7.7.1",
		"The MSN is the number of requests that the responder can have completed when it sent the response."},
	{RuleSyndrome, analyzers.Violation, "9.7.5.1; tables 44 to 46",
		"The AETH syndrome is one that the specification defines, and READ responses and atomic ACKs carry an ACK."},
	{RuleReadUnexpected, analyzers.Violation, "9.4.4; 9.7.5.1.1",
		"A READ response answers a READ request that can have been received, at the PSN at which it starts."},
	{RuleReadOrder, analyzers.Violation, "9.4.4; 9.7.5.1.1",
		"READ responses carry consecutive PSNs, and responses keep the order of their requests."},
	{RuleReadMissing, analyzers.Violation, "9.4.4; 9.7.5.1",
		"A READ or atomic request received in order is answered, completely and before any later response."},
	{RuleReadOpcode, analyzers.Violation, "9.4.4; 9.7.5.1",
		"READ responses are ONLY, or FIRST, any number of MIDDLE and LAST at the last PSN of the request."},
	{RuleReadLength, analyzers.Violation, "9.4.4; 9.7.5.1",
		"READ responses return exactly the requested length: the path MTU in each packet, the rest in the last."},
	{RuleReplayOpcode, analyzers.Warning, "9.4.4; 9.7.5.1.3",
		"The responses to a repeated READ request are those of a request of their own: they start with FIRST or ONLY. " +
			"The Linux kernel continues with MIDDLE or LAST, which requesters tolerate."},
	{RuleAtomicUnexpected, analyzers.Violation, "9.4.5; 9.7.5.1.1",
		"An atomic ACK answers an atomic request that can have been received."},
	{RuleIncomplete, analyzers.Violation, "9.7.1; Lumina (Yu, thesis, Johns Hopkins 2023), section 5.4",
		"At the end of the trace every request has been delivered and acknowledged."},
	{RuleCaptureGap, analyzers.Note, "docs/internals/architecture.md, The observer sits at the switch",
		"A capture lacks packets that the endpoints sent, or shows a loss whose place is unknown; what they would prove is " +
			"not judged."},
	{RuleAfterError, analyzers.Violation, "9.7.5.2; 10.3.1",
		"After a fatal NAK the queue pairs are in error: the responder answers nothing more, and the requester sends " +
			"nothing more."},
	{RuleNakFatalMissing, analyzers.Violation, "9.7.4.1.2 to 9.7.4.1.6; 9.7.5.2",
		"An invalid request that arrives in order (opcode out of sequence, wrong length, no right to the memory) is not " +
			"executed, but " +
			"answered by a NAK that ends the connection."},
	{RuleNakCode, analyzers.Violation, "9.7.5.2; table 46",
		"The code of a NAK that ends the connection is that of the fault: invalid request, or remote access error."},
	{RuleSolicited, analyzers.Violation, "9.2; 9.4.1",
		"Only the last packet of a SEND, or of a WRITE with immediate, asks for a solicited event."},
	{RuleICRC, analyzers.Violation, "7.8.1; RoCEv2 A17.3.3",
		"A packet that leaves its sender carries the invariant CRC of its contents."},
	{RuleUnknownQP, analyzers.Violation, "9.6.1.1; 9.6.1.2",
		"A packet is addressed to the queue pair of its connection."},
	{RulePKeyChanged, analyzers.Violation, "9.6.1; 10.9",
		"All packets of a queue pair carry one partition key."},
	{RuleRNRTimer, analyzers.Violation, "9.7.5.2.8; 11.2.4.2",
		"The wait in an RNR NAK is at least the one that the responder's queue pair is set to."},
}

// Rules returns the table of rules in its documented order.
func Rules() []analyzers.Rule {
	list := make([]analyzers.Rule, 0, len(ruleTable))
	for _, r := range ruleTable {
		list = append(list, analyzers.Rule{ID: string(r.Rule), Severity: r.Severity, Clause: r.Clause,
			Statement: r.Statement})
	}
	return list
}

// ruleIndex finds a rule's place in the table.
var ruleIndex = func() map[Rule]int {
	m := make(map[Rule]int, len(ruleTable))
	for i := range ruleTable {
		m[ruleTable[i].Rule] = i
	}
	return m
}()
