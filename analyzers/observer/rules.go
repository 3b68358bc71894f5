package observer

import (
	"fmt"

	"candela.dev/candela/packet"
)

// A reason says what keeps an endpoint from sending a frame. Of several the later one comes from the state that is
// nearest to it.
type reason uint8

const (
	reasonNone reason = iota

	// Of a requester.
	reasonAfterError
	reasonAcknowledged
	reasonSkip
	reasonRestart
	reasonGap
	reasonOpcode
	reasonChanged
	reasonRetries
	reasonEarly

	// Of a responder.
	reasonSyndrome
	reasonFatal
	reasonRNR
	reasonNakDuplicate
	reasonNakRepeat
	reasonNak
	reasonOwes
	reasonBeyond
	reasonDecreasing
	reasonAtomicUnexpected
	reasonReadUnexpected
	reasonAtomicResult
	reasonReadOrder
	reasonReadOpcode
	reasonReadLength
	reasonMSN

	reasonUnfinished
)

// ruleOf is the table of rules: what an endpoint violates if nothing explains a frame. Clauses and statements are those
// of the rules of analyzer gbn.
var ruleOf = [...]struct{ rule, expected string }{
	reasonNone:       {"gbn.capture-gap", "what follows from the packets before"},
	reasonAfterError: {"gbn.after-error", "nothing after the NAK that ends the connection"},
	reasonAcknowledged: {"gbn.resend-acknowledged",
		"no retransmission before the oldest PSN that can be unacknowledged"},
	reasonSkip: {"gbn.psn-skip", "the PSN that follows the request before it"},
	reasonRestart: {"gbn.retransmit-first",
		"a retransmission that starts at a PSN that can be the oldest unacknowledged one"},
	reasonGap: {"gbn.round-gap",
		"consecutive PSNs, or a restart at a PSN that can be the oldest unacknowledged one"},
	reasonOpcode: {"gbn.opcode-sequence",
		"a packet that follows the one before it in its message, and the announced length"},
	reasonChanged: {"gbn.retransmit-changed", "the same request as before at this PSN"},
	reasonRetries: {"gbn.retry-exceeded",
		"no more retransmissions without progress than the retry counters allow"},
	reasonEarly: {"gbn.timeout-early",
		"no retransmission before a NAK can have arrived or a timer can have expired"},
	reasonSyndrome: {"gbn.syndrome", "a syndrome and opcode that a responder may send here"},
	reasonFatal: {"gbn.nak-unprovoked",
		"no NAK: no request at its PSN can have arrived in order and be unanswered"},
	reasonRNR: {"gbn.rnr-unprovoked",
		"no RNR NAK: no request at its PSN can have arrived in order and be unanswered"},
	reasonNakDuplicate:     {"gbn.nak-duplicate", "no NAK: everything up to its PSN must have arrived"},
	reasonNakRepeat:        {"gbn.nak-repeat", "no second NAK before the missing request can have arrived"},
	reasonNak:              {"gbn.nak-psn", "no NAK for a PSN that can't be the first one missing"},
	reasonOwes:             {"gbn.read-missing", "first the READ responses or atomic ACK that are owed"},
	reasonBeyond:           {"gbn.ack-beyond", "no ACK of a PSN before everything up to it can have arrived"},
	reasonDecreasing:       {"gbn.ack-decreasing", "no ACK of an older PSN without a duplicate that can have arrived"},
	reasonAtomicUnexpected: {"gbn.atomic-unexpected", "no atomic ACK: no request for it can have arrived"},
	reasonReadUnexpected:   {"gbn.read-unexpected", "no READ response: no request for it can have arrived"},
	reasonAtomicResult:     {"gbn.atomic-unexpected", "the result that the first ACK of this atomic brought"},
	reasonReadOrder:        {"gbn.read-order", "the READ response that is next in order"},
	reasonReadOpcode:       {"gbn.read-opcode", "the opcode of its place among the READ responses"},
	reasonReadLength:       {"gbn.read-length", "as many bytes as the READ asks for at this place"},
	reasonMSN:              {"gbn.msn", "a number of messages that the responder can have completed"},
	reasonUnfinished:       {"gbn.incomplete", "every obligation met at the end"},
}

// describe names a frame in the words of reports.
func (f *frame) describe() string {
	switch {
	case !f.back && f.op == packet.ReadRequest:
		return fmt.Sprintf("read-request psn %d", f.psn+1)
	case !f.back:
		return fmt.Sprintf("data psn %d (%v)", f.psn+1, f.op)
	case f.op.IsReadResponse():
		return fmt.Sprintf("read-response psn %d (%v)", f.psn+1, f.op)
	case f.op == packet.AtomicAcknowledge:
		return fmt.Sprintf("atomic-ack psn %d", f.psn+1)
	case f.syndrome == packet.SyndromeNakSequence:
		return fmt.Sprintf("nack psn %d", f.psn+1)
	}
	return fmt.Sprintf("%v psn %d, msn %d", packet.Classify(f.op, f.syndrome), f.psn+1, f.msn)
}
