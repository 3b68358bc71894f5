// Package aqm judges switches with active queue management: AFD with the elephant trap, DPP, RED and WRED, marking by
// a threshold, and tail drop. From the taps it recomputes each flow's state in ETRAP and DPP, what every queue held,
// the fair rate or mean queue, and with which probability each packet was to be dropped or marked. It compares that
// with what became of the packet and, if the switch keeps records, with what these claim.
package aqm

import "candela.dev/candela/analyzers"

// Name is the analyzer's, and the first part of its rules'.
const Name = "aqm"

// Rules. Identifiers are never reused or renamed.
const (
	ruleMouse       = "aqm.mouse"
	ruleBelowFair   = "aqm.below-fair-rate"
	ruleProbability = "aqm.probability"
	ruleFairRate    = "aqm.fair-rate"
	ruleFairness    = "aqm.fairness"
	ruleSteady      = "aqm.steady-queue"
	ruleHeadroom    = "aqm.headroom"
	ruleRate        = "aqm.rate"
	ruleECN         = "aqm.ecn"
	ruleFlowAware   = "aqm.flow-awareness"
	ruleEtrap       = "aqm.etrap"
	ruleMiceGroup   = "aqm.mice-group"
	ruleMiceAge     = "aqm.mice-age"
	ruleMiceFirst   = "aqm.mice-first"
	ruleMiceOrder   = "aqm.mice-order"
	ruleMiceDelay   = "aqm.mice-delay"
	ruleCounters    = "aqm.counters"
	ruleBuffer      = "aqm.buffer"
	ruleRoom        = "aqm.room"
	ruleOff         = "aqm.off"
	ruleMeanQueue   = "aqm.mean-queue"
	ruleThreshold   = "aqm.threshold"
	ruleRecord      = "aqm.record"
	ruleStarved     = "aqm.starved"
	ruleNotJudged   = "aqm.not-judged"
)

// Where the rules come from. The source gives no formulas; the parameters of the models name what was chosen.
const (
	source = "Cisco, Intelligent Buffer Management on Nexus 9000 (NX-OS 7.0(3)I5(1)): "
	ofAFD  = source + "AFD Algorithm"
)

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	v := analyzers.Violation
	table := []struct {
		id, clause, statement string
		severity              analyzers.Severity
	}{
		{ruleMouse, ofAFD + " (AFD-1)", "Packets of flows that are mice by ETRAP are neither dropped early nor marked.", v},
		{ruleBelowFair, ofAFD + " (AFD-2)",
			"A packet is not dropped early if its flow's rate is at most the fair rate, or if its queue is empty.", v},
		{ruleProbability, ofAFD + " (AFD-3)", "Packets are dropped early, or marked, independently with the probability " +
			"that their flow's rate and the fair rate, or the mean queue, give. A correct switch is blamed in one run of a " +
			"million at most.", v},
		{ruleFairRate, ofAFD + " (AFD-4)",
			"The fair rate changes only at multiples of its period, by the law that is set, and remains within its bounds.", v},
		{ruleFairness, ofAFD + " (AFD-5)", "Elephants that all exceed the fair rate get equal shares, as far as their " +
			"measured rates and chance allow.", v},
		{ruleSteady, ofAFD + " (AFD-6)",
			"A queue is not kept from its desired depth by more, or fewer, packets than the probabilities of drops give.", v},
		{ruleECN, source + "AFD with ECN (AFD-7)",
			"With ECN, ECN-capable packets are marked and never dropped early; no others are marked, and without it none is " +
				"(RFC 3168, 5).", v},
		{ruleFlowAware, ofAFD + " (AFD-8)", "AFD drops elephants; it is not as likely to drop mice.", v},
		{ruleHeadroom, ofAFD + " (AFD-9)",
			"A mouse finds room that elephants would have left if they were dropped by their probabilities.", v},
		{ruleEtrap, source + "ETRAP (ETR-1)",
			"A flow becomes an elephant with the packet that exceeds the byte count and a mouse at the end of a window below " +
				"the threshold, and its rate is that of its windows.", v},
		{ruleRate, source + "ETRAP (ETR-2)",
			"The measured rate of a flow that sends at a constant rate is that rate, but for a packet in a window and 3 %.", v},
		{ruleMiceGroup, source + "DPP Mechanism (DPP-1)",
			"The first packets of a flow, and no others, go to the queue of mice.", v},
		{ruleMiceAge, source + "DPP Mechanism (DPP-2)",
			"A flow starts again if and only if it was idle for longer than the age period.", v},
		{ruleMiceFirst, source + "DPP Mechanism (DPP-3)", "No other queue is served while mice wait at the port.", v},
		{ruleMiceOrder, source + "DPP Mechanism (DPP-4)",
			"Packets of a flow keep their order, unless the flow started again while older ones waited.", v},
		{ruleMiceDelay, source + "DPP Mechanism (DPP-5)",
			"A mouse waits for the frame on the wire and the mice before it, and no longer.", v},
		{ruleCounters, source + "Monitor AFD Counters (CNT-1)",
			"Counters are what the taps saw; those of all drops include those of early drops.", v},
		{ruleBuffer, "Buffer sizes of the test (BUF-1)", "Ports and queues hold at most what they have room for.", v},
		{ruleRoom, "Buffer sizes of the test", "A packet is refused for want of room only if there is none.", v},
		{ruleOff, "Policies of the test", "Where a test sets no scheme, nothing is dropped early or marked.", v},
		{ruleMeanQueue, "Floyd and Jacobson 1993 (RED)",
			"Nothing is dropped early, or marked, while the mean queue is at most min-bytes, and all is above max-bytes.", v},
		{ruleThreshold, "RFC 8257, 3.1",
			"ECN-capable packets that find at least the threshold in their queue are marked, and no others.", v},
		{ruleRecord, "docs/internals/architecture.md, The observer sits at the switch",
			"A record says what became of its packet: it was queued, marked, dropped early, or dropped for want of room.", v},
		{ruleStarved, source + "DPP Mechanism", "Mice do not keep other queues of their port from being served for long.",
			analyzers.Note},
		{ruleNotJudged, "docs/internals/architecture.md, The observer sits at the switch",
			"What the taps do not show is not judged.", analyzers.Note},
	}
	// what the device claims, and the taps alone do not show
	only := map[string]string{ruleFairRate: "the fair rate F", ruleRate: "the measured rate",
		ruleRecord: "what the switch did with a packet, and why",
		ruleEtrap:  "whether a flow is an elephant, its bytes and rate"}
	more := map[string]string{ruleProbability: "the probability of each packet", ruleMiceAge: "the index of each packet",
		ruleMeanQueue: "the mean queue at each packet", ruleBuffer: "what waits at the port as each packet comes"}
	var rules []analyzers.Rule
	for _, r := range table {
		rules = append(rules, analyzers.Rule{ID: r.id, Clause: r.clause, Severity: r.severity, Statement: r.statement,
			Needs: analyzers.NeedsSwitch, Records: only[r.id] + more[r.id], RecordsOnly: only[r.id] != "",
			SteadyLinks: r.id == ruleMiceDelay})
	}
	return rules
}
