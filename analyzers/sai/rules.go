// Package sai judges a switch that trims packets by what taps before and after it saw, and by its own counters.
//
// The taps do not show whether a queue was full, so whether a packet should have been trimmed is not judged. What is
// judged: the form of copies, which packets may have copies, in which order they leave, and whether every packet that
// arrived is accounted for: delivered, trimmed or counted.
package sai

import "candela.dev/candela/analyzers"

// Name is the analyzer's, and the first part of its rules'.
const Name = "sai"

const (
	ruleSize         = "sai.trim-size"
	ruleRunt         = "sai.runt"
	ruleDSCP         = "sai.dscp"
	ruleQueue        = "sai.queue"
	ruleIPLength     = "sai.ip-length"
	ruleChecksum     = "sai.ip-checksum"
	ruleHeaders      = "sai.headers"
	ruleForward      = "sai.forward-only"
	ruleWhole        = "sai.whole-unchanged"
	ruleAction       = "sai.action"
	ruleLossless     = "sai.lossless"
	ruleACL          = "sai.acl"
	ruleRoom         = "sai.room"
	ruleOnce         = "sai.once"
	ruleOrder        = "sai.order"
	ruleOvertake     = "sai.overtake"
	ruleSilent       = "sai.silent-loss"
	ruleUntrimmed    = "sai.untrimmed"
	ruleConservation = "sai.conservation"
	ruleTrim         = "sai.counter-trim"
	ruleSent         = "sai.counter-sent"
	ruleLost         = "sai.counter-lost"
	ruleDropped      = "sai.counter-dropped"
	ruleOriginal     = "sai.counter-queue"
	rulePortSum      = "sai.port-sum"
	ruleSwitchSum    = "sai.switch-sum"
	ruleInterface    = "sai.interface"
	ruleQueueSent    = "sai.queue-sent"
	ruleOctets       = "sai.octets"
	ruleACLCounter   = "sai.acl-counter"
	ruleNotJudged    = "sai.not-judged"
)

// Where the rules come from.
const (
	proposal = "SAI packet trimming proposal"
	sonic    = "SONiC packet trimming test plan"
	rfc3635  = "RFC 3635, ifInOctets and ifOutOctets"
)

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	v := analyzers.Violation
	table := []struct {
		id       string
		severity analyzers.Severity
		clause   string
		text     string
	}{
		{ruleSize, v, proposal + ", PACKET_TRIM_SIZE", "A trimmed packet is cut to exactly the trim size."},
		{ruleRunt, v, sonic + ", case 3", "A packet that is not longer than the trim size is sent whole."},
		{ruleDSCP, v, proposal + ", PACKET_TRIM_DSCP_RESOLUTION_MODE",
			"A copy has the trim DSCP, or the one that its egress port's map gives the trim TC."},
		{ruleQueue, v, proposal + ", PACKET_TRIM_QUEUE_RESOLUTION_MODE",
			"A copy leaves by the trim queue, or by the one that its new DSCP maps to."},
		{ruleIPLength, v, proposal + ", DROP_AND_TRIM", "The IP length of a copy is updated."},
		{ruleChecksum, v, proposal + ", DROP_AND_TRIM", "The IPv4 header checksum of a copy is updated."},
		{ruleHeaders, v, proposal + ", overview",
			"A copy keeps addresses, ports, protocol and the bytes after them; TTL counts the hop, ECN may be set to CE."},
		{ruleForward, v, proposal + ", overview",
			"A copy goes on to the packet's destination, never back to its sender nor by another port."},
		{ruleWhole, v, sonic + ", case 3", "A packet that is not trimmed keeps its length, its DSCP and its queue."},
		{ruleAction, v, proposal + ", PACKET_ADMISSION_FAIL_ACTION",
			"Only packets of queues whose profile says DROP_AND_TRIM are trimmed."},
		{ruleLossless, v, sonic + ", limitations", "A lossless queue's packets are not trimmed."},
		{ruleACL, v, proposal + ", ACTION_PACKET_TRIM_DISABLE",
			"A packet that an ACL entry exempts is dropped, not trimmed."},
		{ruleRoom, v, proposal + ", PACKET_ADMISSION_FAIL_ACTION", "A packet is trimmed only if its queue does not admit " +
			"it; no packet is trimmed while the queue holds less than half of its limit."},
		{ruleOnce, v, proposal + ", overview",
			"What leaves has arrived, and leaves once: a copy is neither duplicated nor trimmed a second time."},
		{ruleOrder, v, proposal + ", overview",
			"Copies of one ingress port, egress port and queue leave in the order in which their packets arrived."},
		{ruleOvertake, v, proposal + ", overview",
			"While a copy waits in a queue of strict priority, no packet of a lower queue leaves by its port."},
		{ruleSilent, v, proposal + ", counters",
			"A packet that would be trimmed leaves whole, leaves trimmed, or is counted as DROPPED_TRIM."},
		{ruleUntrimmed, v, proposal + ", PACKET_ADMISSION_FAIL_ACTION",
			"A packet that a queue with DROP_AND_TRIM does not admit is trimmed, unless it is exempt."},
		{ruleConservation, v, proposal + ", counters (inferred)",
			"TRIM = TX_TRIM + DROPPED_TRIM once the trim queue has drained; copies that a failed link lost in it may be left " +
				"out of DROPPED_TRIM, all or none."},
		{ruleTrim, v, proposal + ", QUEUE_STAT_TRIM_PACKETS", "TRIM counts each packet of the queue that was trimmed."},
		{ruleSent, v, proposal + ", QUEUE_STAT_TX_TRIM_PACKETS",
			"TX_TRIM counts each copy of the queue's packets that left."},
		{ruleLost, v, proposal + ", QUEUE_STAT_DROPPED_TRIM_PACKETS",
			"DROPPED_TRIM counts no more copies than packets are missing."},
		{ruleDropped, v, proposal + ", DROP_AND_TRIM",
			"DROPPED_PACKETS and DROPPED_BYTES count every original that was not admitted, trimmed or not."},
		{ruleOriginal, v, proposal + ", counters",
			"Trim counters belong to the queue that a packet was meant for, not to the trim queue."},
		{rulePortSum, v, proposal + ", counters (inferred)", "A port's trim counters are the sums of its queues'."},
		{ruleSwitchSum, v, proposal + ", counters", "The switch's trim counters are the sums of its ports'."},
		{ruleInterface, v, proposal + ", DROP_AND_TRIM",
			"Interface statistics count every dropped original and every packet that left; they may leave out copies."},
		{ruleQueueSent, v, proposal + ", counters",
			"A queue's counter of packets sent holds what left by it, copies included."},
		{ruleOctets, v, rfc3635, "Octet counters of ports, queues and ACL entries count whole frames, MAC header " +
			"included, and either all or none of a kind include the FCS."},
		{ruleACLCounter, v, sonic + ", case 7", "An ACL entry counts each packet that matches it."},
		{ruleNotJudged, analyzers.Note, "Candela",
			"Everything can be judged; otherwise the note says what could not, and why."},
	}
	rules := make([]analyzers.Rule, len(table))
	for i, r := range table {
		rules[i] = analyzers.Rule{ID: r.id, Severity: r.severity, Clause: r.clause, Statement: r.text,
			Needs: analyzers.NeedsSwitch}
	}
	return rules
}
