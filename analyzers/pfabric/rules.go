// Package pfabric judges pFabric hosts by the packets that taps at their NICs saw. Timers and windows of the protocol
// are fixed functions of what a host sent and received, so the analyzer computes them from the packets, to the
// picosecond, and compares. It applies the paper (Alizadeh et al., SIGCOMM 2013, 4.2) with the choices that the
// documentation of the transport names.
package pfabric

import "candela.dev/candela/analyzers"

// Name is the analyzer's, and the first part of its rules'.
const Name = "pfabric"

const (
	ruleWindow       = "pfabric.window"
	ruleEarly        = "pfabric.retransmit-early"
	ruleAcknowledged = "pfabric.retransmit-acknowledged"
	ruleSequence     = "pfabric.sequence"
	ruleProbeAbsent  = "pfabric.probe-missing"
	ruleProbeEarly   = "pfabric.probe-early"
	ruleRank         = "pfabric.rank"
	rulePriority     = "pfabric.priority"
	ruleSendAbsent   = "pfabric.send-missing"
	ruleAckAbsent    = "pfabric.ack-missing"
	ruleAckFalse     = "pfabric.ack-false"
	ruleIncomplete   = "pfabric.incomplete"
)

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	const clause = "Alizadeh et al. 2013, 4.2"
	list := []analyzers.Rule{
		{ID: ruleWindow, Clause: clause, Statement: "No more packets are in flight than the window allows: the initial " +
			"window, slow start below the threshold, one more each round trip above it, one after a timeout."},
		{ID: ruleEarly, Clause: clause,
			Statement: "A packet in flight is retransmitted only after the flow's timer has run out."},
		{ID: ruleAcknowledged, Clause: clause, Statement: "The sender does not retransmit what is acknowledged."},
		{ID: ruleSequence, Clause: clause,
			Statement: "Lost packets are retransmitted lowest first, then new ones are sent in order."},
		{ID: ruleProbeAbsent, Clause: clause, Statement: "After too many timeouts in a row the sender sends probes alone " +
			"until an acknowledgement arrives."},
		{ID: ruleProbeEarly, Clause: clause, Statement: "Probes are sent in probe mode alone, one for each timeout."},
		{ID: ruleRank, Clause: "Alizadeh et al. 2013, 4.1", Statement: "The rank of a packet is the bytes of its flow " +
			"from its first byte on, or what the workload says."},
		{ID: rulePriority, Clause: "Alizadeh et al. 2013, 4.1", Needs: analyzers.NeedsHost,
			Statement: "Of the packets that a host may send, the one of the lowest rank goes first."},
		{ID: ruleSendAbsent, Clause: clause,
			Statement: "A NIC is not idle while a flow of its host may send new data, what is lost, or a probe."},
		{ID: ruleAckAbsent, Clause: clause, Statement: "Every packet that arrives whole is acknowledged."},
		{ID: ruleAckFalse, Clause: clause, Statement: "An acknowledgement names only what has arrived."},
		{ID: ruleIncomplete, Clause: clause, Statement: "In the end every packet that was sent has been acknowledged."},
	}
	for i := range list {
		if list[i].Needs == "" {
			list[i].Needs = analyzers.NeedsFlow
		}
		list[i].Severity = analyzers.Violation
	}
	return list
}
