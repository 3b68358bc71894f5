package lock

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/lock"
)

// Name is the analyzer's, and the first part of its rules'.
const Name = "lock"

const ruleNotJudged = "lock.not-judged"

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	const source = "NetLock (netlock.md), "
	const ofTaps = "docs/internals/architecture.md, The observer sits at the switch"
	v := analyzers.Violation
	table := []struct {
		id, clause, statement string
		severity              analyzers.Severity
		exact                 bool
	}{
		{lock.RuleExclusion, source + "10 (N1)", "From the grant of an exclusive lock to its release, or the end of its " +
			"lease, nobody else holds the lock.", v, false},
		{lock.RuleOnce, source + "10 (N2)", "Each request that is accepted gets one grant or one rejection; a server " +
			"takes no copies of one that it has.", v, false},
		{lock.RuleLost, source + "10 (N3)", "Each request that is accepted is granted; no lock is idle while requests " +
			"wait for it for longer than passes and hand-over, or its server, take; what a server has granted is released " +
			"there, and what it was sent it returns.", v, false},
		{lock.RuleOrder, source + "10 (N4)", "Grants of a lock have the order of arrivals. Shared requests of one run may " +
			"be reordered, unless the switch is chainlock.", v, false},
		{lock.RuleSingleQueue, source + "10 (N5)", "Requests that wait at the server keep their place in the order of " +
			"arrivals.", v, false},
		{lock.RulePriority, source + "10 (N6)", "While a request of higher priority waits in the switch, none of lower " +
			"priority is granted.", v, false},
		{lock.RuleBatch, source + "10 (N7)", "After the release of an exclusive lock the shared requests that lead the " +
			"queue are all granted, each one recirculation after the one before, or all at once by a server.", v, true},
		{lock.RuleDelay, source + "10 (N8)", "A grant leaves the switch within its pipeline latency after the request, or " +
			"the release, that allowed it, and a recirculation for each pass.", v, true},
		{lock.RuleOccupancy, source + "10 (N9)", "A lock has at most the requests in the switch that it has slots for, and " +
			"the server buffers only if they are taken, or if it has requests of the lock: the switch knows what was lost.",
			v, false},
		{lock.RulePlacement, source + "10 (N10)", "The switch grants the locks that are installed, and no others, and " +
			"gives no lock away twice.", v, false},
		{lock.RuleQuota, source + "10 (N11)", "In a period a tenant gets no more requests accepted than its quota, and " +
			"none rejected before.", v, false},
		{lock.RuleLease, source + "10 (N12)", "Nobody holds a lock for longer than lease and poll period while others " +
			"wait.", v, true},
		{lock.RuleFailover, source + "10 (N13)", "Who takes over locks grants none within a lease, and while the backup's " +
			"queue of a lock is not empty only the backup grants it.", v, false},
		{lock.RuleAllocation, source + "10 (N14)", "The allocation fits, and none other serves more requests in the " +
			"switch.", v, false},
		{lock.RuleTransparency, source + "10 (N15)", "Packets of others leave the switch unchanged and, within a flow, in " +
			"order.", v, false},
		{lock.RuleOneTrip, source + "5.3", "If grants go to the database, that of a request which is granted at once does, " +
			"and one that had to wait goes to the client: what the database is asked has no place in the queue.", v, false},
		{ruleNotJudged, ofTaps, "What the taps do not show is not judged.", analyzers.Note, false},
	}
	var rules []analyzers.Rule
	for _, r := range table {
		rules = append(rules, analyzers.Rule{ID: r.id, Clause: r.clause, Severity: r.severity, Statement: r.statement,
			Needs: analyzers.NeedsSwitch, ExactTimes: r.exact})
	}
	return rules
}
