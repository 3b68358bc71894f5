// Package boltswitch judges the part of switches in Bolt (Arslan et al., NSDI 2023, section 3): it computes occupancy
// and tokens of each port from the packets that join and leave its queues, and compares the flags of data and the SRC
// packets of the switch with that.
package boltswitch

import "candela.dev/candela/analyzers"

// Name is the analyzer's, and the first part of its rules'.
const Name = "boltswitch"

const (
	ruleMissing   = "boltswitch.src-missing"
	ruleUnfounded = "boltswitch.src-unfounded"
	ruleTwice     = "boltswitch.src-twice"
	ruleContent   = "boltswitch.src-content"
	ruleMark      = "boltswitch.mark"
	ruleGrant     = "boltswitch.grant"
	ruleRefusal   = "boltswitch.refusal"
)

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	const control, tokens = "Arslan et al. 2023, 3.1", "Arslan et al. 2023, 3.2, 3.3"
	rule := func(id, clause, statement string) analyzers.Rule {
		return analyzers.Rule{ID: id, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: clause,
			Statement: statement}
	}
	return []analyzers.Rule{
		rule(ruleMissing, control, "Data without DEC that finds the threshold or more waiting at its port is answered by "+
			"an SRC packet at once."),
		rule(ruleUnfounded, control, "SRC packets answer nothing else."),
		rule(ruleTwice, control, "A packet is answered by one SRC packet."),
		rule(ruleContent, control, "An SRC packet has the bytes that waited, the rate of the link, and the time of the "+
			"data packet."),
		rule(ruleMark, control, "Data loses INC and, with SRC, gets DEC if it finds congestion; no other flag changes."),
		rule(ruleGrant, tokens, "Without congestion INC stays only for a token of PRU or an MTU of SM tokens."),
		rule(ruleRefusal, tokens, "Without congestion INC stays if there is a token, and on packets with LAST under PRU."),
	}
}
