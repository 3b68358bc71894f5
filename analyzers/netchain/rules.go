package netchain

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/lock"
)

// Name is the analyzer's, and the first part of its rules'.
const Name = "netchain"

const ruleNotJudged = "netchain.not-judged"

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	const source = "NetLock (netlock.md), "
	v := analyzers.Violation
	table := []struct {
		id, clause, statement string
		severity              analyzers.Severity
		exact                 bool
	}{
		{lock.RuleChainExclusion, source + "10 (N1), 13", "A lock has one owner: from its grant to the release of the last " +
			"lock id that the owner uses, or the end of the lease, nobody else is granted an id of the lock.", v, false},
		{lock.RuleChainOnce, source + "10 (N2)", "Each request gets at most one answer, and nothing else is answered.", v,
			false},
		{lock.RuleChainLost, source + "10 (N2, N3), 13", "Each request is answered, by a grant or by REJECT.", v, false},
		{lock.RuleChainRejection, source + "13", "A request is rejected only if another transaction owns the lock, or no " +
			"lock has the number.", v, false},
		{lock.RuleChainRelease, source + "13", "After its owner has released it a lock is free: the next request is " +
			"granted.", v, false},
		{lock.RuleChainOwner, source + "9, 13", "A release by a transaction that does not own the lock frees nothing.", v,
			false},
		{lock.RuleChainPlacement, source + "10 (N10), 13", "All locks are in the switch: it sends no request or release " +
			"to a server, no server grants, and a number that no lock has is not granted.", v, false},
		{lock.RuleChainDelay, source + "10 (N8)", "An answer leaves the switch within its pipeline latency after the " +
			"request.", v, true},
		{lock.RuleChainLease, source + "10 (N12)", "Nobody is rejected for an owner that has had the lock for longer than " +
			"lease and poll period.", v, true},
		{lock.RuleChainFailover, source + "10 (N13)", "A switch that returns without its registers grants nothing within a " +
			"lease.", v, false},
		{lock.RuleChainTransparency, source + "10 (N15)", "Packets of others leave the switch unchanged and, within a " +
			"flow, in order.", v, false},
		{ruleNotJudged, "docs/internals/architecture.md, The observer sits at the switch", "What the taps do not show is " +
			"not judged.", analyzers.Note, false},
	}
	var rules []analyzers.Rule
	for _, r := range table {
		rules = append(rules, analyzers.Rule{ID: r.id, Clause: r.clause, Severity: r.severity, Statement: r.statement,
			Needs: analyzers.NeedsSwitch, ExactTimes: r.exact})
	}
	return rules
}
