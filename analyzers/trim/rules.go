package trim

import "candela.dev/candela/analyzers"

// Rule ids.
const (
	ruleNackMissing   = "trim.nack-missing"
	ruleNackPSN       = "trim.nack-psn"
	ruleNackRepeat    = "trim.nack-repeat"
	ruleAcknowledged  = "trim.acknowledged"
	ruleHeaderChanged = "trim.header-changed"
	ruleHeaders       = "trim.headers"
)

const (
	saiClause  = "SAI packet trimming proposal; candela spec trimming, section 1"
	ibtaClause = "9.7.5.1.1; 9.7.5.1.2"
)

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	return []analyzers.Rule{
		{ID: ruleNackMissing, Severity: analyzers.Violation, Clause: saiClause,
			Statement: "A NIC that is said to react to trimmed headers " +
				"asks for the packet that a header names, if that is the one it waits for: with a sequence NAK, or with another " +
				"READ request."},
		{ID: ruleNackPSN, Severity: analyzers.Violation, Clause: saiClause + "; 9.7.5.2",
			Statement: "The NAK for a trimmed header names the packet " +
				"that the receiver waits for, which is not later than the trimmed one."},
		{ID: ruleNackRepeat, Severity: analyzers.Violation, Clause: saiClause + "; 9.7.5.2",
			Statement: "One trimmed header is NAKed once; only " +
				"the header of a retransmission that was trimmed, too, brings another NAK."},
		{ID: ruleAcknowledged, Severity: analyzers.Violation, Clause: ibtaClause,
			Statement: "A trimmed header is not delivered: nothing acknowledges " +
				"the packet before it has arrived whole."},
		{ID: ruleHeaderChanged, Severity: analyzers.Violation, Clause: saiClause,
			Statement: "A switch that trims keeps addresses, ports, queue pair, PSN " +
				"and all other transport headers that it forwards."},
		{ID: ruleHeaders, Severity: analyzers.Note, Clause: saiClause,
			Statement: "What is left of trimmed packets: size, DSCP, and whether IP length, " +
				"IP checksum and UDP length were updated. Switches differ; this is reported and not judged."},
	}
}
