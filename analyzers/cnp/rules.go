package cnp

import "candela.dev/candela/analyzers"

// Rule ids.
const (
	RuleFormat     = "cnp.format"
	RuleUnprovoked = "cnp.unprovoked"
	RuleWrongQP    = "cnp.wrong-qp"
	RuleDisabled   = "cnp.disabled"
	RuleInterval   = "cnp.interval"
	RuleMissing    = "cnp.missing"
	RuleExcess     = "cnp.excess"
	RuleMode       = "cnp.mode"
	RuleNoResponse = "cnp.no-response"
	RuleNotOffered = "cnp.not-offered"
	RuleNotJudged  = "cnp.not-judged"
)

const (
	annex  = "IBTA annex A17.9.3"
	pacing = "Lumina (Yu, thesis, Johns Hopkins 2023), section 5.4, congestion notification; DCQCN (SIGCOMM 2015), " +
		"section 3.1, notification point"
)

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	return []analyzers.Rule{
		{
			ID: RuleFormat, Severity: analyzers.Violation, Clause: annex,
			Statement: "A CNP has BECN set, FECN clear, PSN 0, no acknowledge request and 16 reserved bytes of payload.",
		},
		{
			ID: RuleUnprovoked, Severity: analyzers.Violation, Clause: annex,
			Statement: "A CNP answers a delivered packet that carries CE or, on NICs that do so, a loss.",
		},
		{
			ID: RuleWrongQP, Severity: analyzers.Violation, Clause: annex,
			Statement: "The destination QP of a CNP is the queue pair whose data was marked.",
		},
		{
			ID: RuleDisabled, Severity: analyzers.Violation, Clause: pacing,
			Statement: "With the notification point off no CNP is sent.",
		},
		{
			ID: RuleInterval, Severity: analyzers.Violation, Clause: pacing,
			Statement: "CNPs of one group are at least the configured minimum time apart.",
		},
		{
			ID: RuleMissing, Severity: analyzers.Violation, Clause: pacing,
			Statement: "A trigger yields a CNP if its group had none within the minimum time.",
		},
		{
			ID: RuleExcess, Severity: analyzers.Violation, Clause: pacing,
			Statement: "A trigger yields no CNP if its group had one within the minimum time.",
		},
		{
			ID: RuleMode, Severity: analyzers.Note, Clause: pacing,
			Statement: "The scopes of CNP pacing that explain the trace.",
		},
		{
			ID: RuleNoResponse, Severity: analyzers.Note, Clause: annex,
			Statement: "Data with CE is answered by CNPs where a notification point is on; here that is not known.",
		},
		{
			ID: RuleNotOffered, Severity: analyzers.Note, Clause: annex,
			Statement: "A device that declares to have no notification point owes no CNPs.",
		},
		{
			ID: RuleNotJudged, Severity: analyzers.Note, Clause: pacing,
			Statement: "Hosts may hold packets for longer than the minimum time between CNPs: how far CNPs are apart is not " +
				"judged.",
		},
	}
}
