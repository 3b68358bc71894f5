package gbn

import "candela.dev/candela/analyzers/fsm"

// The machines define what is legal; requester.go and responder.go determine the inputs.
type (
	machine  = fsm.Machine[Rule]
	row      = fsm.Row[Rule]
	coverage = fsm.Coverage[Rule]
)

const stay = fsm.Stay

// Requester states, as far as packets that passed the observer can have led to them.
const (
	rqIdle      uint8 = iota // nothing outstanding
	rqSending                // requests outstanding
	rqNacked                 // a NACK (sequence, RNR or implied) has passed towards it and is not answered
	rqResending              // in a round of retransmission
	rqFailed                 // a fatal NAK has passed towards it
)

var requesterStates = []string{"idle", "sending", "nacked", "resending", "failed"}

// Requester inputs: requests that it sent, and responses that passed towards it.
const (
	rqNew            uint8 = iota // the next PSN, never sent before
	rqRepeat                      // the next PSN of a round of retransmission
	rqRestartNack                 // back to the PSN that a NACK asked for
	rqRestartRNR                  // back to the PSN of an RNR NAK
	rqRestartImplied              // back to the first missing READ response
	rqRestartTimeout              // back to the oldest unacknowledged PSN, no NACK asking for it
	rqSkipAcked                   // forward over acknowledged PSNs
	rqCaptureGap                  // forward over PSNs that the capture does not hold
	rqRestartAcked                // back to before the oldest PSN that can be unacknowledged
	rqRestartBeyond               // back, but past the oldest unacknowledged PSN
	rqRestartOff                  // back to a PSN that was oldest unacknowledged at no time
	rqRoundGap                    // forward over unacknowledged PSNs sent before
	rqPSNSkip                     // forward over PSNs never sent
	rqAck                         // some more acknowledged
	rqAckAll                      // everything acknowledged
	rqAckOld                      // nothing new acknowledged
	rqNack                        // PSN sequence error for the oldest unacknowledged PSN
	rqRNR                         // RNR NAK for it
	rqImplied                     // response that shows a READ response or atomic ACK to be missing
	rqFatal                       // NAK that ends the connection
)

var requesterInputs = []string{
	"new", "repeat", "restart-nack", "restart-rnr", "restart-implied-nak", "restart-timeout", "skip-acknowledged",
	"capture-gap",
	"restart-acknowledged", "restart-beyond", "restart-off", "round-gap", "psn-skip",
	"ack", "ack-all", "ack-old", "nack", "rnr", "implied-nak", "fatal-nak",
}

// requesterMachine is the Go-back-N requester (IBTA volume 1, 9.7.2 and 9.7.6; Lumina, section 5.4 of Yu's thesis).
var requesterMachine = fsm.Declare("requester", requesterStates, requesterInputs, []row{
	{Input: rqNew, To: rqSending},
	// the old round goes on: packets already in the pipeline
	{Input: rqNew, States: []uint8{rqNacked, rqFailed}, To: stay},
	{Input: rqRepeat, To: rqResending},
	{Input: rqRepeat, States: []uint8{rqNacked, rqFailed}, To: stay},
	{Input: rqRestartNack, To: rqResending},
	{Input: rqRestartRNR, To: rqResending},
	{Input: rqRestartImplied, To: rqResending},
	{Input: rqRestartTimeout, To: rqResending},
	{Input: rqRestartTimeout, States: []uint8{rqNacked}, To: stay}, // it crossed the NACK, which is still unanswered
	{Input: rqSkipAcked, To: rqSending},
	{Input: rqSkipAcked, States: []uint8{rqNacked}, To: stay},
	{Input: rqCaptureGap, To: rqSending},
	{Input: rqRestartAcked, To: rqResending, Rule: RuleResendAcknowledged},
	{Input: rqRestartBeyond, To: rqResending, Rule: RuleTimeoutStart},
	{Input: rqRestartBeyond, States: []uint8{rqNacked}, To: rqResending, Rule: RuleRetransmitFirst},
	{Input: rqRestartOff, To: rqResending, Rule: RuleTimeoutStart},
	{Input: rqRestartOff, States: []uint8{rqNacked}, To: rqResending, Rule: RuleRetransmitFirst},
	{Input: rqRoundGap, To: rqResending, Rule: RuleRoundGap},
	{Input: rqRoundGap, States: []uint8{rqNacked}, To: rqResending, Rule: RuleRetransmitFirst},
	{Input: rqPSNSkip, To: rqSending, Rule: RulePSNSkip},
	{Input: rqAck, To: stay},
	{Input: rqAckAll, To: rqIdle},
	{Input: rqAckOld, To: stay},
	{Input: rqNack, To: rqNacked},
	{Input: rqRNR, To: rqNacked},
	{Input: rqImplied, To: rqNacked},
	{Input: rqFatal, To: rqFailed},
	{Input: rqAckAll, States: []uint8{rqFailed}, To: stay},
	{Input: rqNack, States: []uint8{rqFailed}, To: stay},
	{Input: rqRNR, States: []uint8{rqFailed}, To: stay},
	{Input: rqImplied, States: []uint8{rqFailed}, To: stay},
})

// Responder states, as far as requests that passed the observer can have led to them.
const (
	rsReady  uint8 = iota // every request up to the last was in order
	rsGap                 // a request arrived out of order: a NACK is owed
	rsNacked              // the NACK was sent; nothing but the missing request moves it on
	rsRNR                 // an RNR NAK was sent
	rsFailed              // a fatal NAK was sent
)

var responderStates = []string{"ready", "gap", "nacked", "rnr", "failed"}

// Responder inputs: requests that passed towards it, and responses that it sent.
const (
	rsExpected    uint8 = iota // the expected PSN
	rsDuplicate                // a PSN before the expected one
	rsAhead                    // a PSN after the expected one: the first sign of a gap
	rsDiscarded                // a PSN after the expected one while the NACK is out
	rsTrimmed                  // the header of a trimmed request shows that the expected one is missing
	rsAck                      // acknowledges more
	rsAckRepeated              // acknowledges the same PSN again
	rsReAck                    // answers a duplicate below what was acknowledged
	rsNack
	rsRNRNak
	rsReadFirst    // starts to answer a READ
	rsReadNext     // goes on with it
	rsReadReplay   // starts to answer a duplicate READ
	rsReplayKernel // the same, but with MIDDLE or LAST, as the Linux kernel does
	rsAtomicAck
	rsFatal
	rsAckBeyond
	rsAckDecreasing
	rsNackWrongPSN
	rsNackRepeat
	rsNackDuplicate
	rsNackUnprovoked
	rsNackMissing
	rsRNRUnprovoked
	rsReadUnexpected
	rsReadOutOfOrder
	rsReadMissing
	rsAtomicUnexpected
	rsFatalMissing
)

var responderInputs = []string{
	"expected", "duplicate", "ahead", "discarded", "trimmed", "ack", "ack-again", "re-ack", "nack", "rnr-nak",
	"read-first", "read-next",
	"read-replay", "read-replay-kernel", "atomic-ack", "fatal-nak",
	"ack-beyond", "ack-decreasing", "nack-wrong-psn", "nack-repeat", "nack-duplicate", "nack-unprovoked", "nack-missing",
	"rnr-unprovoked", "read-unexpected", "read-out-of-order", "read-missing", "atomic-unexpected", "fatal-missing",
}

// responderMachine is the Go-back-N responder (IBTA volume 1, 9.7.4 and 9.7.5; Lumina, section 5.4 of Yu's thesis).
var responderMachine = fsm.Declare("responder", responderStates, responderInputs, []row{
	{Input: rsExpected, To: rsReady},
	{Input: rsDuplicate, To: stay},
	{Input: rsAhead, To: rsGap},
	{Input: rsDiscarded, To: stay},
	{Input: rsTrimmed, To: stay}, // a receiver that does not react takes no notice
	{Input: rsAck, To: stay},
	{Input: rsAckRepeated, To: stay},
	{Input: rsReAck, To: stay},
	{Input: rsNack, To: stay}, // late: the missing request has already passed
	{Input: rsNack, States: []uint8{rsGap}, To: rsNacked},
	{Input: rsRNRNak, To: rsRNR},
	{Input: rsReadFirst, To: stay},
	{Input: rsReadNext, To: stay},
	{Input: rsReadReplay, To: stay},
	{Input: rsReplayKernel, To: stay, Rule: RuleReplayOpcode},
	{Input: rsAtomicAck, To: stay},
	{Input: rsFatal, To: rsFailed},
	{Input: rsAckBeyond, To: stay, Rule: RuleAckBeyond},
	{Input: rsAckDecreasing, To: stay, Rule: RuleAckDecreasing},
	{Input: rsNackWrongPSN, To: stay, Rule: RuleNakPSN},
	{Input: rsNackRepeat, To: stay, Rule: RuleNakRepeat},
	{Input: rsNackDuplicate, To: stay, Rule: RuleNakDuplicate},
	{Input: rsNackUnprovoked, To: stay, Rule: RuleNakUnprovoked},
	{Input: rsNackMissing, To: stay, Rule: RuleNakMissing},
	{Input: rsRNRUnprovoked, To: stay, Rule: RuleRNRUnprovoked},
	{Input: rsReadUnexpected, To: stay, Rule: RuleReadUnexpected},
	{Input: rsReadOutOfOrder, To: stay, Rule: RuleReadOrder},
	{Input: rsReadMissing, To: stay, Rule: RuleReadMissing},
	{Input: rsAtomicUnexpected, To: stay, Rule: RuleAtomicUnexpected},
	{Input: rsFatalMissing, To: stay, Rule: RuleNakFatalMissing},
	{Input: rsExpected, States: []uint8{rsFailed}, To: stay},
	{Input: rsAhead, States: []uint8{rsFailed}, To: stay},
	{Input: rsRNRNak, States: []uint8{rsFailed}, To: stay},
})
