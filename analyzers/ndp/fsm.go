package ndp

import "candela.dev/candela/analyzers/fsm"

// The machines define what is legal; sender.go and receiver.go determine the inputs.
type (
	machine  = fsm.Machine[Rule]
	row      = fsm.Row[Rule]
	coverage = fsm.Coverage[Rule]
)

const stay = fsm.Stay

// States of a packet at its sender, as far as what has passed towards it can have led to them.
const (
	txUnsent uint8 = iota
	txSent
	txNacked   // trimmed, and a NACK passed towards the sender
	txReturned // its header passed on the way back
	txAcked
)

var senderStates = []string{"unsent", "sent", "nacked", "returned", "acked"}

// Sender inputs: transmissions of the packet, and answers that passed towards the sender.
const (
	inNew               uint8 = iota // sent for the first time
	inRetransmit                     // retransmitted, before the RTO has run out
	inRetransmitLate                 // retransmitted, after it
	inRetransmitCrossed              // retransmitted after an ACK passed that the sender may not have received
	inAck
	inNack
	inReturn
)

var senderInputs = []string{"new", "again", "again-after-rto", "again-crossing-ack", "ack", "nack", "return"}

// senderMachine is one packet at its sender (specification, section 5). A NACK or a return allows one retransmission,
// the RTO allows one, an ACK allows none.
var senderMachine = fsm.Declare("sender", senderStates, senderInputs, []row{
	{Input: inNew, To: txSent, Rule: RuleSeqSkip},
	{Input: inNew, States: []uint8{txUnsent}, To: txSent},
	{Input: inRetransmit, To: txSent},
	{Input: inRetransmit, States: []uint8{txUnsent}, To: txSent, Rule: RuleSeqSkip},
	{Input: inRetransmit, States: []uint8{txSent}, To: txSent, Rule: RuleTimeoutEarly},
	{Input: inRetransmit, States: []uint8{txAcked}, To: txAcked, Rule: RuleSpurious},
	{Input: inRetransmitLate, To: txSent},
	{Input: inRetransmitLate, States: []uint8{txUnsent}, To: txSent, Rule: RuleSeqSkip},
	{Input: inRetransmitLate, States: []uint8{txAcked}, To: txAcked, Rule: RuleSpurious},
	{Input: inRetransmitCrossed, To: stay},
	{Input: inAck, To: txAcked},
	{Input: inAck, States: []uint8{txUnsent}, To: stay},
	{Input: inNack, To: txNacked},
	{Input: inNack, States: []uint8{txUnsent, txAcked, txReturned}, To: stay},
	{Input: inReturn, To: txReturned},
	{Input: inReturn, States: []uint8{txUnsent, txAcked, txNacked}, To: stay},
})

// States of a packet at its receiver, as far as its answers prove them.
const (
	rxMissing uint8 = iota
	rxHeader        // a header was delivered: a NACK is owed
	rxWhole         // the packet was delivered: an ACK is owed
	rxNacked
	rxAcked
)

var receiverStates = []string{"missing", "header", "whole", "nacked", "acked"}

// Receiver inputs: deliveries, and answers that answer one of them or none.
const (
	inHeader uint8 = iota
	inWhole
	inAcks          // an ACK while a whole packet is unanswered (or a header of one that arrived whole before)
	inAcksRepeated  // an ACK, and every delivery is answered
	inNacks         // a NACK, and a header is unanswered
	inNacksRepeated // a NACK, and every header is answered
)

var receiverInputs = []string{"header", "whole", "ack", "ack-again", "nack", "nack-again"}

// receiverMachine is one packet at its receiver (specification, section 5).
var receiverMachine = fsm.Declare("receiver", receiverStates, receiverInputs, []row{
	{Input: inHeader, To: rxHeader},
	{Input: inHeader, States: []uint8{rxWhole, rxAcked}, To: stay}, // late: it is here already
	{Input: inWhole, To: rxWhole},
	{Input: inWhole, States: []uint8{rxAcked}, To: stay},
	{Input: inAcks, To: rxAcked},
	{Input: inAcks, States: []uint8{rxMissing}, To: stay, Rule: RuleAckUnprovoked},
	{Input: inAcks, States: []uint8{rxHeader, rxNacked}, To: stay, Rule: RuleAckTrimmed},
	{Input: inAcksRepeated, To: stay, Rule: RuleAckUnprovoked},
	{Input: inAcksRepeated, States: []uint8{rxHeader, rxNacked}, To: stay, Rule: RuleAckTrimmed},
	{Input: inNacks, To: stay}, // of a header that came before the packet did
	{Input: inNacks, States: []uint8{rxHeader}, To: rxNacked},
	{Input: inNacks, States: []uint8{rxMissing}, To: stay, Rule: RuleNackUnprovoked},
	{Input: inNacksRepeated, To: stay, Rule: RuleNackUnprovoked},
	{Input: inNacksRepeated, States: []uint8{rxWhole}, To: stay, Rule: RuleNackWhole},
	{Input: inNacksRepeated, States: []uint8{rxAcked}, To: stay, Rule: RuleNackWhole},
})
