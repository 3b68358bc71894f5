// Package tcp judges TCP hosts by the packets that taps at their NICs saw: what a sender may send again and when, how much it may
// have on its way, and whether a receiver's acknowledgements are true. It knows the RFCs and nothing of any implementation.
//
// At a NIC it is known what a host had been told when it sent a packet. Congestion windows are not on the wire: the analyzer keeps
// the greatest window that the rules allow for what was acknowledged and lost so far, and blames only what is beyond it. Whether a
// timer ran out is not on the wire either: wherever one may have, all that was outstanding may be sent again.
package tcp

import "candela.dev/candela/analyzers"

// Name is the analyzer's, and the first part of its rules'.
const Name = "tcp"

const (
	ruleSpurious      = "tcp.retransmit-spurious"
	ruleEarly         = "tcp.retransmit-early"
	ruleTimeoutEarly  = "tcp.timeout-early"
	ruleBackoff       = "tcp.backoff"
	ruleTimeoutAbsent = "tcp.timeout-missing"
	ruleWindow        = "tcp.congestion-window"
	ruleReceive       = "tcp.receive-window"
	ruleSkip          = "tcp.seq-skip"
	ruleAckBeyond     = "tcp.ack-beyond"
	ruleAckBackwards  = "tcp.ack-backwards"
	ruleAckMissing    = "tcp.ack-missing"
	ruleSackFalse     = "tcp.sack-false"
	ruleIncomplete    = "tcp.incomplete"
)

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	list := []analyzers.Rule{
		{ID: ruleSpurious, Clause: "RFC 9293, 3.8; RFC 6675, 4", Statement: "What the sender knows to have arrived, acknowledged or, unless a timeout came since, SACKed, is not sent again."},
		{ID: ruleEarly, Clause: "RFC 6675, 4 and 5", Statement: "A segment is sent again when three later ones were SACKed, three later transmissions delivered or a timeout came, not before."},
		{ID: ruleTimeoutEarly, Clause: "RFC 6298, 2.4 and 5", Statement: "The retransmission timer runs for no less than its minimum after the latest new acknowledgement."},
		{ID: ruleBackoff, Clause: "RFC 6298, 5.5", Statement: "Each further timeout without a new acknowledgement takes at least twice as long as the one before, up to 60 s."},
		{ID: ruleTimeoutAbsent, Clause: "RFC 6298, 5", Statement: "What is outstanding and not acknowledged is sent again when the retransmission timer has run out."},
		{ID: ruleWindow, Clause: "RFC 5681, 3.1; RFC 6675, 5; RFC 9438, 4.6", Statement: "No more is on its way than slow start allows, less what each loss and timeout takes away."},
		{ID: ruleReceive, Clause: "RFC 9293, 3.8.6", Statement: "Nothing is sent beyond the receiver's window."},
		{ID: ruleSkip, Clause: "RFC 9293, 3.4", Statement: "New data follows what was sent before, no byte left out."},
		{ID: ruleAckBeyond, Clause: "RFC 9293, 3.10.7.4", Statement: "Only what has arrived in order is acknowledged: every byte of the stream is there."},
		{ID: ruleAckBackwards, Clause: "RFC 9293, 3.4", Statement: "The acknowledgement number never goes back."},
		{ID: ruleAckMissing, Clause: "RFC 5681, 4.2", Statement: "Data that has arrived in order is acknowledged within half a second."},
		{ID: ruleSackFalse, Clause: "RFC 2018, 4", Statement: "A SACK block holds only what has arrived."},
		{ID: ruleIncomplete, Clause: "RFC 9293, 3.8", Statement: "In the end every byte that was sent has been acknowledged."},
	}
	for i := range list {
		list[i].Severity = analyzers.Violation
	}
	return list
}
