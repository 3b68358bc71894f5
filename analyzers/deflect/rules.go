// Package deflect judges switches that deflect packets instead of dropping them: DIBS, SD, Vertigo and PD, and those
// that they are compared with. From the taps it recomputes what waited at every port, what the ingress saw of it, the
// windows of priority values, and so what each scheme had to do with each packet. It compares that with what became of
// the packet and, if the switch keeps records, with what these claim. It follows each packet over all switches.
package deflect

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/deflect"
)

// Name is the analyzer's, and the first part of its rules'.
const Name = "deflect"

const ruleNotJudged = "deflect.not-judged"

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	const source = "Practical Packet Deflection in Datacenters (CoNEXT 2023), "
	const ofTaps = "docs/internals/architecture.md, The observer sits at the switch"
	v := analyzers.Violation
	table := []struct {
		id, clause, statement string
		severity              analyzers.Severity
	}{
		{deflect.RuleRoom, source + "3 (DEF-1)", "DIBS and SD drop a packet for want of a port only if all eligible ports " +
			"are congested as the ingress sees them; a queue refuses only what does not fit.", v},
		{deflect.RuleTarget, source + "3 (DEF-2)", "A packet is deflected to a port to another switch that the settings " +
			"allow, and, unless the deflection is naive, to one that takes it by the scheme's own test.", v},
		{deflect.RuleNeedless, source + "3 (DEF-3)", "While the destination port has room as the ingress sees it, ECMP, " +
			"Naive, DIBS, SD, Vertigo, and PD without alpha, deflect no packet that arrives for it, and drop none.", v},
		{deflect.RuleVerdict, source + "4, equation 1 (DEF-4)", "PD deflects a packet if and only if its port is full or " +
			"holds more than Q (1 - alpha R), or by the probability of its variant; the others if it is full.", v},
		{deflect.RuleImportant, source + "4 (DEF-5)", "PD deflects a packet of relative priority 0 only if its port is " +
			"full.", v},
		{deflect.RuleMonotone, source + "4 (DEF-6)", "Of packets of one size that find the same bytes and the same window, " +
			"PD admits none that is less important than one that it refused.", v},
		{deflect.RuleChoice, source + "3, appendix E (DEF-7)", "Ports are drawn and chosen with the probabilities of the " +
			"scheme, and the shortest of PD's and Vertigo's candidates is taken. A correct switch is blamed for a " +
			"probability in one run of a million at most.", v},
		{deflect.RulePath, source + "3 (DEF-8)", "A packet goes over links that exist, its TTL falls by one at each " +
			"switch, and only deflections make its path longer than the shortest.", v},
		{deflect.RuleConservation, source + "2 (DEF-9)", "Each packet that enters a switch leaves it or is dropped, " +
			"once.", v},
		{deflect.RuleOrder, source + "2 (DEF-10)", "A queue is a FIFO; with Vertigo packets leave by priority value, " +
			"those of one value in the order in which they joined, and what is too much is dropped from the end.", v},
		{deflect.RuleVictim, source + "2 (DEF-11)", "Vertigo pulls out of a full queue the least important packets, all of " +
			"them less important than the one that arrives, and no more than it needs.", v},
		{deflect.RuleShim, source + "5 (DEF-12)", "The ordering layer of a host holds a packet as long as one before it is " +
			"missing, for at most omega; it passes each on once, unless it holds a copy, and no more of them late than came " +
			"so.", v},
		{deflect.RuleMark, source + "5 (DEF-13)", "The remaining bytes of a message fall from packet to packet, and a " +
			"retransmission has those that it had, and one more in Ret.", v},
		{deflect.RuleWindow, source + "4 (DEF-14)", "A window holds the newest W of the first, (S+1)th, (2S+1)th, ... " +
			"priority value that was evaluated at its port.", v},
		{deflect.RuleFloor, source + "6 (DEF-15)", "A port sends no faster than its link carries, so that no query is " +
			"faster than the bytes of its answers.", v},
		{deflect.RuleStale, source + "3.3 (DEF-16)", "What the ingress sees of a queue is what it was at the latest update " +
			"of its pipe.", v},
		{deflect.RuleDropped, source + "4 (DEF-17)", "PD drops a packet for want of a port only if all candidates, as " +
			"many as it is to draw, refuse it.", v},
		{deflect.RuleRecord, ofTaps, "What a switch records of a packet is what the taps show of it.", v},
		{deflect.RuleCounters, ofTaps, "Counters of a port are what taps and records show.", v},
		{deflect.RuleForwarding, source + "6 (power of two)", "The destination port is on a shortest path: that of a hash " +
			"of the flow, or the shorter queue of two that are drawn.", v},
		{deflect.RuleTTL, source + "3 (DEF-8)", "No packet is deflected so often that its TTL ends.", analyzers.Warning},
		{ruleNotJudged, ofTaps, "What the taps do not show is not judged.", analyzers.Note},
	}
	// what the device claims, and the taps alone do not show
	only := map[string]string{deflect.RuleRecord: "what the switch did with a packet, and why",
		deflect.RuleVictim: "which packets are pulled out of queues", deflect.RuleStale: "what the ingress sees",
		deflect.RuleForwarding: "the destination port", deflect.RuleDropped: "the candidates",
		deflect.RuleMonotone: "the verdict on each port", deflect.RuleWindow: "the windows"}
	more := map[string]string{deflect.RuleVerdict: "destination, relative priority and random number",
		deflect.RuleChoice: "the candidates", deflect.RuleNeedless: "the destination port",
		deflect.RuleRoom: "the destination port", deflect.RuleTarget: "the destination port and the candidates",
		deflect.RuleImportant: "the destination port", deflect.RuleOrder: "where packets of Vertigo wait",
		deflect.RuleCounters: "all but drops", deflect.RulePath: "which hops are deflections"}
	var rules []analyzers.Rule
	for _, r := range table {
		rules = append(rules, analyzers.Rule{ID: r.id, Clause: r.clause, Severity: r.severity, Statement: r.statement,
			Needs: analyzers.NeedsSwitch, Records: only[r.id] + more[r.id], RecordsOnly: only[r.id] != "",
			SteadyLinks: r.id == deflect.RuleFloor,
			ExactTimes:  r.id != deflect.RulePath && r.id != deflect.RuleConservation && r.id != ruleNotJudged})
	}
	return rules
}
