package tcp

import "candela.dev/candela/analyzers/fsm"

// The machines define what is legal; sender.go and receiver.go determine the inputs. Connections are never closed, and
// no receiver closes its window: there is no close or persist. handshake.go judges how they are established.
type machine = fsm.Machine[string]

// States of a sender, as far as what has reached it can have led to them.
const (
	txUnused    uint8 = iota // nothing was sent
	txSlowStart              // the window is below the threshold
	txAvoidance              // the greatest window that it can have has reached the greatest threshold
	txRecovery               // fast recovery
	txLoss                   // after a timeout, until all that was outstanding then is acknowledged
	txUnsure                 // it may be in either of them
)

var senderStates = []string{"unused", "slow-start", "avoidance", "recovery", "loss", "unsure"}

// Inputs of a sender: what it sends, and what reaches it.
const (
	txNew uint8 = iota // the next bytes
	// retransmitted: three later segments were SACKed, or three later transmissions delivered
	txRetransmitLost
	// retransmitted once in a recovery: a later segment is SACKed (RFC 6675, NextSeg 3 and 4)
	txRetransmitRescue
	txRetransmitAll // retransmitted: it was outstanding when a timer ran out, or may have
	txTimeout       // the first segment retransmitted when the timer had run out
	txMayExpire     // the timer may have run out, and nothing of it was seen
	txMayLose       // a retransmission may be taken for lost, and need not
	// three segments after one that was sent once were SACKed, and it may not be in recovery
	txLosses
	txAck      // some more is acknowledged
	txAckGrown // some more, and the window reaches the threshold
	txAckAll   // all that was outstanding when the recovery or the timeout came
	txAckOld   // nothing new is acknowledged
	txBeyondWindow
	txBeyondReceiver
	txSkip
	txRetransmitAcked
	txRetransmitSACKed
	txRetransmitEarly
	txTimeoutEarly
	txNoBackoff
	txNoTimeout
	txIncomplete
	txBeyondInitial
	txBeyondLimited
	txNoPartial
	txRetransmitFast
	txRetries
)

var senderInputs = []string{
	"new", "again-lost", "again-rescue", "again-after-timeout", "timeout", "may-expire", "may-lose", "losses", "ack",
	"ack-grown", "ack-all", "ack-old",
	"beyond-window", "beyond-receiver", "skip", "again-acknowledged", "again-sacked", "again-early", "timeout-early",
	"no-backoff", "no-timeout",
	"incomplete", "beyond-initial-window", "beyond-limited-transmit", "no-partial", "again-fast", "retries",
}

// senderMachine is a sender that recovers by SACK (RFC 5681, RFC 6298, RFC 6675).
var senderMachine = fsm.Declare("sender", senderStates, senderInputs, []fsm.Row[string]{
	{Input: txNew, To: fsm.Stay},
	{Input: txNew, States: []uint8{txUnused}, To: txSlowStart},
	// What a recovery took for lost and could not send is sent after its end.
	{Input: txRetransmitLost, To: fsm.Stay},
	{Input: txRetransmitRescue, To: fsm.Stay, Rule: ruleEarly},
	{Input: txRetransmitRescue, States: []uint8{txRecovery, txLoss, txUnsure}, To: fsm.Stay},
	{Input: txRetransmitAll, To: fsm.Stay, Rule: ruleEarly},
	{Input: txRetransmitAll, States: []uint8{txRecovery, txLoss, txUnsure}, To: fsm.Stay}, // a recovery may follow a doubt
	{Input: txTimeout, To: txLoss},
	{Input: txMayExpire, To: txUnsure},
	{Input: txMayExpire, States: []uint8{txLoss}, To: fsm.Stay},
	{Input: txMayLose, To: txUnsure},
	{Input: txMayLose, States: []uint8{txRecovery, txLoss}, To: fsm.Stay},
	{Input: txLosses, To: txRecovery},
	{Input: txAck, To: fsm.Stay},
	{Input: txAckGrown, To: fsm.Stay},
	{Input: txAckGrown, States: []uint8{txSlowStart}, To: txAvoidance},
	{Input: txAckAll, To: fsm.Stay},
	{Input: txAckAll, States: []uint8{txRecovery}, To: txAvoidance},
	{Input: txAckAll, States: []uint8{txLoss, txUnsure}, To: txSlowStart},
	{Input: txAckOld, To: fsm.Stay},
	{Input: txBeyondWindow, To: fsm.Stay, Rule: ruleWindow},
	{Input: txBeyondReceiver, To: fsm.Stay, Rule: ruleReceive},
	{Input: txSkip, To: fsm.Stay, Rule: ruleSkip},
	{Input: txRetransmitAcked, To: fsm.Stay, Rule: ruleSpurious},
	{Input: txRetransmitSACKed, To: fsm.Stay, Rule: ruleSpurious},
	{Input: txRetransmitEarly, To: fsm.Stay, Rule: ruleEarly},
	{Input: txTimeoutEarly, To: txLoss, Rule: ruleTimeoutEarly},
	{Input: txNoBackoff, To: txLoss, Rule: ruleBackoff},
	{Input: txNoTimeout, To: fsm.Stay, Rule: ruleTimeoutAbsent},
	{Input: txIncomplete, To: fsm.Stay, Rule: ruleIncomplete},
	{Input: txBeyondInitial, To: fsm.Stay, Rule: ruleInitial},
	{Input: txBeyondLimited, To: fsm.Stay, Rule: ruleLimited},
	{Input: txNoPartial, To: fsm.Stay, Rule: rulePartial},
	{Input: txRetransmitFast, To: fsm.Stay, Rule: ruleFast},
	{Input: txRetries, To: fsm.Stay, Rule: ruleRetries},
})

// States of a receiver.
const (
	rxEven  uint8 = iota // all that has arrived is in order and acknowledged
	rxOwing              // something that is in order is not acknowledged
	rxGap                // something has arrived after a gap
)

var receiverStates = []string{"even", "owing", "gap"}

// Inputs of a receiver: what arrives, and what it says.
const (
	rxNext    uint8 = iota // the next bytes in order, and no gap is left
	rxNextGap              // the next bytes, while there is a gap after them
	rxAhead                // bytes after a gap
	rxOld                  // nothing new
	rxAck                  // all that is in order is acknowledged
	rxAckPart              // less than that
	rxBeyond
	rxBackwards
	rxFalseSACK
	rxNoAck
	rxNoDuplicate
	rxNoSACK
	rxShrinks
	rxNoSecond
	rxSlow
)

var receiverInputs = []string{
	"next", "next-before-gap", "ahead", "old", "ack", "ack-part",
	"ack-beyond", "ack-backwards", "sack-false", "ack-missing", "duplicate-ack-missing", "sack-missing", "window-shrinks",
	"ack-every", "ack-delay",
}

// receiverMachine is a receiver (RFC 9293, 3.10.7.4; RFC 5681, 4.2; RFC 2018, 4).
var receiverMachine = fsm.Declare("receiver", receiverStates, receiverInputs, []fsm.Row[string]{
	{Input: rxNext, To: rxOwing},
	{Input: rxNextGap, To: rxGap},
	{Input: rxAhead, To: rxGap},
	{Input: rxOld, To: fsm.Stay},
	{Input: rxAck, To: rxEven},
	{Input: rxAck, States: []uint8{rxGap}, To: rxGap},
	{Input: rxAckPart, To: fsm.Stay},
	{Input: rxBeyond, To: fsm.Stay, Rule: ruleAckBeyond},
	{Input: rxBackwards, To: fsm.Stay, Rule: ruleAckBackwards},
	{Input: rxFalseSACK, To: fsm.Stay, Rule: ruleSackFalse},
	{Input: rxNoAck, To: fsm.Stay, Rule: ruleAckMissing},
	{Input: rxNoDuplicate, To: fsm.Stay, Rule: ruleDuplicateAbsent},
	{Input: rxNoSACK, To: fsm.Stay, Rule: ruleSackAbsent},
	{Input: rxShrinks, To: fsm.Stay, Rule: ruleShrinks},
	{Input: rxNoSecond, To: fsm.Stay, Rule: ruleEvery},
	{Input: rxSlow, To: fsm.Stay, Rule: ruleDelay},
})
