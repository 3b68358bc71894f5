// Package fair judges switches with core-stateless fair queueing (CSFQ, HCSFQ): trees of nodes with weights, one FIFO
// and a random drop test. From the taps it recomputes each label, A, F and alpha of every node, and with which
// probability each packet was to be dropped. It compares that with what became of the packet and, if the switch keeps
// records, with what these claim. While demand is stationary it compares what flows and nodes get with the oracle of
// weighted hierarchical max-min shares (package waterfill).
package fair

import "candela.dev/candela/analyzers"

// Name is the analyzer's, and the first part of its rules'.
const Name = "fair"

// Rules. Identifiers are never reused or renamed.
const (
	ruleFIFO      = "fair.fifo"
	ruleShares    = "fair.shares"
	ruleIsolation = "fair.isolation"
	ruleWork      = "fair.work"
	ruleUnder     = "fair.under-share"
	ruleTest      = "fair.drop-test"
	ruleLabel     = "fair.label"
	rulePacing    = "fair.pacing"
	ruleEstimator = "fair.estimator"
	ruleAlpha     = "fair.alpha"
	ruleExcess    = "fair.excess"
	ruleState     = "fair.state"
	ruleTail      = "fair.tail"
	ruleNotJudged = "fair.not-judged"
)

// Rules lists what the analyzer checks. That no packet is lost without a drop (H2) is what the analyzers of forwarding
// and of decisions judge.
func Rules() []analyzers.Rule {
	const source = "Yu, Wu and Jin, HCSFQ (NSDI 2021), "
	const steady = " That is judged while demand has been stationary for 20 K_c, with K_c of at least twice K_alpha, " +
		"and in mode ideal of at most two layers."
	v := analyzers.Violation
	table := []struct {
		id, clause, statement string
		severity              analyzers.Severity
	}{
		{ruleFIFO, source + "3.3 (H1)", "Packets leave a port in the order in which they came, across flows and within " +
			"them.", v},
		{ruleShares, source + "3.2 (H3)", "Each child of a node gets its weighted max-min share of what the node gets, " +
			"within 2 % (dataplane: 6 %), chance, and what demands near their shares " +
			"vary." + steady + " Of a dataplane, and where demand varies, as that of TCP does, they are judged if the " +
			"algorithm with the same arrivals is within 4 % of the max-min shares of labels as they were. Where demand " +
			"varies, the tolerance is 10 %.", v},
		{ruleIsolation, source + "3.2 (H4)", "If demand changes below one node, flows elsewhere get what they got, but " +
			"for what the shares themselves change." + steady, v},
		{ruleWork, source + "3.2 (H5)", "A link to which more is offered than it carries is used up to its target but " +
			"for 2 % (dataplane: 6 %)." + steady, v},
		{ruleUnder, source + "3.3, equation 3.3 (H6)", "No packet is dropped by the drop test if its label is at most " +
			"alpha of its node; a flow that demands at most 95 % of its share loses less than 1 %.", v},
		{ruleTest, source + "3.3, equations 3.3 and 3.7 (H7)", "Packets are dropped independently with probability 1 - " +
			"alpha / label, rounded to n bits by a dataplane. A correct switch is blamed in one run of a million at most.", v},
		{ruleLabel, source + "algorithm 4, line 39 (H8)", "The label is the flow's rate for each unit of weight as the " +
			"edge measures it; every hop lowers it to its alpha and never raises it; the last hop takes it off, with its " +
			"shim.", v},
		{rulePacing, source + "algorithm 4 (H9)", "Alpha of a node changes after more than K_c in one phase, or always " +
			"after K_c, and then it does; at most once in K_c.", v},
		{ruleEstimator, source + "equation 3.4 (H10)", "A and F are those of the packets that came and that were not " +
			"dropped, to a relative 1e-9.", v},
		{ruleAlpha, source + "algorithm 4", "Alpha, and the capacity of a node, follow from A, F and alpha of its parent " +
			"as algorithm 4 has it, within its bounds. Alpha of the parent is always that before the packet, or always that " +
			"after it.", v},
		{ruleExcess, source + "theorem 2 (H11)", "What a flow gets above its share since its first packet is at most " +
			"r K (1 + ln(R/r)) and a packet, but for chance.", v},
		{ruleState, source + "3.4 (H13)", "A port keeps three values for each interior node, whatever the number of " +
			"flows; its counters are what the taps saw.", v},
		{ruleTail, source + "3.5 (H14)", "The FIFO holds no more than it has room for. Full, it drops less than 1 % of " +
			"what is dropped, if the target is at most 98.5 % of " +
			"the link and the FIFO holds what comes in K_alpha." + steady, v},
		{ruleNotJudged, "docs/internals/architecture.md, The observer sits at the switch",
			"What the taps do not show, or the reference model promises nothing of, is not judged.", analyzers.Note},
	}
	only := map[string]string{rulePacing: "when alpha of a node changes", ruleEstimator: "A and F",
		ruleAlpha: "alpha and the capacity of nodes"}
	more := map[string]string{ruleTest: "label, alpha, probability and random number of each packet",
		ruleLabel: "the label of each packet where it enters"}
	var rules []analyzers.Rule
	for _, r := range table {
		rules = append(rules, analyzers.Rule{ID: r.id, Clause: r.clause, Severity: r.severity, Statement: r.statement,
			Needs: analyzers.NeedsSwitch, Records: only[r.id] + more[r.id], RecordsOnly: only[r.id] != "",
			SteadyLinks: r.id != ruleFIFO && r.id != ruleState && r.id != ruleNotJudged})
	}
	return rules
}
