// Package tcp judges TCP hosts by the packets that taps at their NICs saw: what a sender may retransmit and when, how
// much it may have in flight, and whether a receiver's acknowledgements are true. It applies the RFCs. The rules of
// Exact presume the algorithms that Config declares, and are not applied to unknown stacks; the others presume none.
//
// At a NIC it is known what a host had received when it sent a packet, except for Config.Hold. Congestion windows are
// not in the packets: the analyzer keeps the greatest window that the rules allow for what was acknowledged and lost so
// far, and reports only what exceeds it. Timeouts are not in the packets either: after a possible timeout all that was
// outstanding may be retransmitted.
//
// A packet may have waited at its NIC, so when a host decided to send it is known only as an interval. So is the start
// of a timer: it starts no earlier than the NIC's latest pause and the latest new acknowledgement, and a timer started
// by a timeout no earlier than that timeout can have come, however long the NIC has been busy. What cannot be decided
// is reported as tcp.timer-unjudged.
package tcp

import (
	"slices"

	"candela.dev/candela/analyzers"
)

// Name is the analyzer's, and the first part of its rules'.
const Name = "tcp"

const (
	ruleSpurious        = "tcp.retransmit-spurious"
	ruleEarly           = "tcp.retransmit-early"
	ruleTimeoutEarly    = "tcp.timeout-early"
	ruleBackoff         = "tcp.backoff"
	ruleTimeoutAbsent   = "tcp.timeout-missing"
	ruleWindow          = "tcp.congestion-window"
	ruleReceive         = "tcp.receive-window"
	ruleSkip            = "tcp.seq-skip"
	ruleAckBeyond       = "tcp.ack-beyond"
	ruleAckBackwards    = "tcp.ack-backwards"
	ruleAckMissing      = "tcp.ack-missing"
	ruleDuplicateAbsent = "tcp.duplicate-ack-missing"
	ruleSackFalse       = "tcp.sack-false"
	ruleSackAbsent      = "tcp.sack-missing"
	ruleShrinks         = "tcp.window-shrinks"
	ruleIncomplete      = "tcp.incomplete"
	ruleUnjudged        = "tcp.timer-unjudged"

	ruleHandshake         = "tcp.handshake"
	ruleBeforeEstablished = "tcp.data-before-established"
	ruleSYNEarly          = "tcp.syn-early"
	ruleInitial           = "tcp.initial-window"

	ruleLimited       = "tcp.limited-transmit"
	rulePartial       = "tcp.partial-ack"
	ruleFast          = "tcp.fast-retransmit-off"
	ruleRetries       = "tcp.retries"
	ruleEvery         = "tcp.ack-every"
	ruleDelay         = "tcp.ack-delay"
	ruleEchoUnfounded = "tcp.ece-unfounded"
	ruleEchoMissing   = "tcp.ece-missing"
	ruleCWRUnfounded  = "tcp.cwr-unfounded"
	ruleCWRMissing    = "tcp.cwr-missing"
	ruleECT           = "tcp.ect"
	ruleNegotiation   = "tcp.ecn-negotiation"
	ruleMarkWindow    = "tcp.ecn-window"
	ruleOverreaction  = "tcp.ecn-overreaction"
	ruleMarksUnjudged = "tcp.ecn-unjudged"
)

// exact lists the rules that hold for hosts of declared algorithms only. Others are correct, too, if they
//
//   - spread a reduction over a round trip (PRR, RFC 6937), or undo it (F-RTO, RFC 5682; RFC 3522),
//   - probe for a lost tail, and detect losses by time (RACK-TLP, RFC 8985),
//   - delay or compress acknowledgements by rules of their own, and tell of several SACK blocks.
var exact = []string{
	ruleEarly, ruleTimeoutEarly, ruleBackoff, ruleWindow, ruleMarkWindow, ruleOverreaction, ruleLimited, rulePartial,
	ruleFast, ruleRetries, ruleEvery, ruleDelay, ruleDuplicateAbsent, ruleCWRUnfounded,
}

// Exact returns the rules that presume the algorithms that Config declares; see Config.UnknownStack.
func Exact() []string { return slices.Clone(exact) }

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	list := []analyzers.Rule{
		{ID: ruleSpurious, Clause: "RFC 9293, 3.8; RFC 6675, 4",
			Statement: "The sender does not retransmit what is acknowledged or, unless a timeout came since, SACKed."},
		{ID: ruleEarly, Clause: "RFC 6675, 4 and 5", Statement: "A segment is retransmitted after three later segments " +
			"were SACKed, three later transmissions were delivered or a timeout came, not before; a recovery may retransmit a " +
			"segment before a SACK once."},
		{ID: ruleTimeoutEarly, Clause: "RFC 6298, 2.4 and 5",
			Statement: "The retransmission timer runs for no less than its minimum after the latest new acknowledgement."},
		{ID: ruleBackoff, Clause: "RFC 6298, 5.5", Statement: "Each further timeout without a new acknowledgement takes at " +
			"least twice as long as the one before, up to 60 s."},
		{ID: ruleTimeoutAbsent, Clause: "RFC 6298, 5",
			Statement: "The first unacknowledged segment is retransmitted when the retransmission timer has expired."},
		{ID: ruleWindow, Clause: "RFC 5681, 3.1; RFC 6675, 5; RFC 9438, 4.4 and 4.6", Statement: "No more is in flight " +
			"than slow start and, above the threshold, congestion avoidance allow, less what each loss and timeout takes away."},
		{ID: ruleReceive, Clause: "RFC 9293, 3.8.6", Statement: "Nothing is sent beyond the receiver's window."},
		{ID: ruleSkip, Clause: "RFC 9293, 3.4", Statement: "New data follows what was sent before; no byte is left out."},
		{ID: ruleAckBeyond, Clause: "RFC 9293, 3.10.7.4",
			Statement: "A receiver acknowledges only what has arrived in order."},
		{ID: ruleAckBackwards, Clause: "RFC 9293, 3.4", Statement: "The acknowledgement number never goes back."},
		{ID: ruleAckMissing, Clause: "RFC 5681, 4.2",
			Statement: "Data that has arrived in order is acknowledged within half a second."},
		{ID: ruleDuplicateAbsent, Clause: "RFC 5681, 4.2", Severity: analyzers.Warning,
			Statement: "A segment that arrives after a gap is acknowledged at once, which is within 10 ms here."},
		{ID: ruleSackFalse, Clause: "RFC 2018, 4", Statement: "A SACK block holds only what has arrived."},
		{ID: ruleSackAbsent, Clause: "RFC 2018, 4", Severity: analyzers.Warning,
			Statement: "While there is data after a gap, acknowledgements carry a SACK block. It holds the segment that " +
				"triggered the acknowledgement, unless that filled a gap."},
		{ID: ruleShrinks, Clause: "RFC 9293, 3.8.6", Severity: analyzers.Warning,
			Statement: "The right edge of the receiver's window does not move back."},
		{ID: ruleIncomplete, Clause: "RFC 9293, 3.8",
			Statement: "In the end every byte that was sent has been acknowledged."},
		{ID: ruleUnjudged, Severity: analyzers.Note,
			Clause: "docs/internals/architecture.md, The observer sits at the switch",
			Statement: "Every timeout can be judged: no packet waited at its NIC for so long that its retransmission timer " +
				"cannot be measured."},
		{ID: ruleHandshake, Clause: "RFC 9293, 3.5", Statement: "A connection begins with SYN, SYN-ACK and ACK, whose " +
			"sequence and acknowledgement numbers follow from each other; each is answered, within 10 ms here."},
		{ID: ruleBeforeEstablished, Clause: "RFC 9293, 3.5 and 3.10",
			Statement: "Nobody sends data before the peer's SYN has arrived and the own SYN is acknowledged."},
		{ID: ruleSYNEarly, Clause: "RFC 6298, 2.1 and 5", Statement: "A SYN or SYN-ACK is retransmitted to answer a copy " +
			"of a SYN or when its timer has expired, which runs for the initial timeout and doubles."},
		{ID: ruleInitial, Clause: "RFC 6928, 2; RFC 5681, 3.1", Statement: "Before the first acknowledgement no more is " +
			"sent than the initial window, which is one segment if a SYN was retransmitted more than once."},
		{ID: ruleLimited, Clause: "RFC 3042, 2", Statement: "With loss detection new-reno, the first two duplicate ACKs " +
			"let no more than two segments beyond the congestion window go."},
		{ID: rulePartial, Clause: "RFC 6582, 3.2, step 3", Statement: "With loss detection new-reno, a partial ACK lets " +
			"the first unacknowledged segment be retransmitted, before any new data."},
		{ID: ruleFast, Clause: "hosts: fast-retransmit", Statement: "With fast retransmit off, nothing is retransmitted " +
			"before a timeout."},
		{ID: ruleRetries, Clause: "RFC 9293, 3.8.3", Statement: "After max-retries timeouts in a row nothing is " +
			"retransmitted."},
		{ID: ruleEvery, Clause: "RFC 5681, 4.2", Severity: analyzers.Warning, Statement: "An acknowledgement is sent at " +
			"once when every second full segment, or what ack-every says, has arrived in order."},
		{ID: ruleDelay, Clause: "RFC 5681, 4.2; hosts: delayed-ack-us",
			Statement: "An acknowledgement is delayed no longer than the receiver's configuration says."},
	}
	list = append(append(list, ecnRules()...), swiftRules()...)
	for i := range list {
		list[i].Needs = analyzers.NeedsFlow
		if list[i].Severity == "" {
			list[i].Severity = analyzers.Violation
		}
	}
	return list
}

// ecnRules lists what the analyzer checks of ECN.
func ecnRules() []analyzers.Rule {
	return []analyzers.Rule{
		{ID: ruleEchoUnfounded, Clause: "RFC 3168, 6.1.3; RFC 8257, 3.2", Statement: "An acknowledgement carries ECE only " +
			"from the arrival of CE to that of CWR or, with DCTCP, if all the segments that it is for had CE."},
		{ID: ruleEchoMissing, Clause: "RFC 3168, 6.1.3; RFC 8257, 3.2", Statement: "Every acknowledgement carries ECE " +
			"from the arrival of CE to that of CWR or, with DCTCP, if one of the segments that it is for had CE."},
		{ID: ruleCWRUnfounded, Clause: "RFC 3168, 6.1.2", Statement: "CWR is on the first new segment after a mark, a loss " +
			"or a timeout, and marks of one window count once."},
		{ID: ruleCWRMissing, Clause: "RFC 3168, 6.1.2", Statement: "The first new segment after a mark carries CWR."},
		{ID: ruleECT, Clause: "RFC 3168, 6.1.1, 6.1.4 and 6.1.5", Statement: "Only new data carries ECT, unless " +
			"`ecn-everything` is set, and nothing does without ECN or if a handshake has not negotiated it."},
		{ID: ruleNegotiation, Clause: "RFC 3168, 6.1.1", Statement: "With ECN a SYN carries ECE and CWR, unless it is " +
			"retransmitted, and a SYN-ACK carries ECE alone if the SYN offers ECN. Without ECN neither does."},
		{ID: ruleMarkWindow, Clause: "RFC 3168, 6.1.2; RFC 8257, 3.3", Statement: "After a mark no more is in flight than " +
			"it leaves of the greatest window: as much as after a loss or, with DCTCP, 1 - alpha/2 of it. DCTCP's alpha is " +
			"recomputed if packets leave when they are decided."},
		{ID: ruleOverreaction, Clause: "RFC 3168, 6.1.2; RFC 8257, 3.3", Statement: "Marks of a window reduce it once and " +
			"by no more than that, and without mark or loss it stays: a sender with more to send keeps it filled, less 4 " +
			"segments. This needs flows of known size and packets that leave when they are decided."},
		{ID: ruleMarksUnjudged, Severity: analyzers.Note,
			Clause:    "docs/internals/architecture.md, The observer sits at the switch",
			Statement: "The reaction to marks can be judged in full: no packet waits between its host's decision and its NIC."},
	}
}
