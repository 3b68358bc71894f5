// Package bolt judges Bolt hosts by the packets that taps at their NICs saw. Windows, flags and timers are functions of
// what a host sent and received, so the analyzer computes them from the packets and compares. It applies the paper
// (Arslan et al., NSDI 2023) with the choices that the documentation of the transport names.
package bolt

import "candela.dev/candela/analyzers"

// Name is the analyzer's, and the first part of its rules'.
const Name = "bolt"

const (
	ruleWindow       = "bolt.window"
	ruleFlags        = "bolt.flags"
	ruleTime         = "bolt.time"
	ruleEarly        = "bolt.retransmit-early"
	ruleAcknowledged = "bolt.retransmit-acknowledged"
	ruleSequence     = "bolt.sequence"
	ruleSendAbsent   = "bolt.send-missing"
	ruleAckAbsent    = "bolt.ack-missing"
	ruleAckFalse     = "bolt.ack-false"
	ruleAckContent   = "bolt.ack-content"
	ruleIncomplete   = "bolt.incomplete"
)

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	const paper, own = "Arslan et al. 2023, 3", "transport bolt"
	list := []analyzers.Rule{
		{ID: ruleWindow, Clause: paper, Statement: "No more packets are in flight than the window allows. SRC packets, " +
			"at most one in the time that drains the sender's share of the queue, and losses lower it; round trips and ACKs " +
			"with INC raise it."},
		{ID: ruleFlags, Clause: "Arslan et al. 2023, 3.2", Statement: "New packets have FIRST before the first RTT is " +
			"known, LAST if the window reaches the end of the flow, and otherwise INC; retransmissions have none."},
		{ID: ruleTime, Clause: "Arslan et al. 2023, 3.1", Statement: "Data carries the time at which it is sent."},
		{ID: ruleEarly, Clause: own, Statement: "A packet in flight is retransmitted only after the flow's timer has run " +
			"out, or after an ACK for one that was sent well after it."},
		{ID: ruleAcknowledged, Clause: own, Statement: "The sender does not retransmit what is acknowledged."},
		{ID: ruleSequence, Clause: own,
			Statement: "Lost packets are retransmitted lowest first, then new ones are sent in order."},
		{ID: ruleSendAbsent, Clause: paper,
			Statement: "A NIC is not idle while the window of a flow of its host allows a packet that is new or lost."},
		{ID: ruleAckAbsent, Clause: own, Statement: "Every packet that arrives whole is acknowledged."},
		{ID: ruleAckFalse, Clause: own, Statement: "An acknowledgement names only what has arrived."},
		{ID: ruleAckContent, Clause: "Arslan et al. 2023, 3.2",
			Statement: "An acknowledgement has the flags and the time of the packet that it is for."},
		{ID: ruleIncomplete, Clause: own, Statement: "In the end every packet that was sent has been acknowledged."},
	}
	for i := range list {
		list[i].Needs, list[i].Severity = analyzers.NeedsFlow, analyzers.Violation
	}
	return list
}
