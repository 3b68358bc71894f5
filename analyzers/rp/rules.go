package rp

import "candela.dev/candela/analyzers"

// Rule ids.
const (
	RuleNoReaction = "rp.no-reaction"
	RuleNoRecovery = "rp.no-recovery"
	RuleUnprovoked = "rp.unprovoked"
	RuleDisabled   = "rp.disabled"
)

const (
	reaction = "DCQCN (SIGCOMM 2015), section 3.1, reaction point; IBTA annex A17.9.2"
	recovery = "DCQCN (SIGCOMM 2015), section 3.1, rate increase"
)

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	return []analyzers.Rule{
		{
			ID: RuleNoReaction, Severity: analyzers.Violation, Clause: reaction,
			Statement: "With the reaction point on, the first CNP slows a sender at line rate down.",
		},
		{
			ID: RuleNoRecovery, Severity: analyzers.Violation, Clause: recovery,
			Statement: "Without further CNPs a sender that was slowed down becomes faster again.",
		},
		{
			ID: RuleUnprovoked, Severity: analyzers.Violation, Clause: reaction,
			Statement: "A sender at line rate is not paced before a CNP has reached it.",
		},
		{
			ID: RuleDisabled, Severity: analyzers.Violation, Clause: reaction,
			Statement: "With the reaction point off a CNP does not slow a sender down.",
		},
	}
}
