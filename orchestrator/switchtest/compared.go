package switchtest

import (
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

// judged are the metrics of the judges, as the analysis has them, and in which direction each gets worse.
func judged() []config.StoredMetric {
	const more, less = config.WorseMore, config.WorseLess
	timed := func(name, doc string) config.StoredMetric {
		return config.StoredMetric{Metric: name, Key: name + "-us", Worse: more, Doc: doc}
	}
	plain := func(name string, worse config.Worse, doc string) config.StoredMetric {
		return config.StoredMetric{Metric: name, Key: name, Worse: worse, Doc: doc}
	}
	return []config.StoredMetric{
		timed("ndp.transit-header", "From a trimmed packet's entry into the network to its header's exit."),
		timed("ndp.transit-whole", "From a whole packet's entry into the network to its exit."),
		timed("ndp.header-to-nack", "From a header's arrival at the receiver to its NACK."),
		timed("ndp.nack-to-retransmission", "From a NACK's arrival at the sender to the retransmission."),
		timed("tcp.round-trip", "From a segment to its acknowledgement, at the sender."),
		timed("sai.trim-latency", "From a packet's arrival to its trimmed copy's departure."),
		plain("sai.trimmed-length", config.WorseEither, "Size of each trimmed copy."),
		plain("sai.copy-share-permille", config.WorseEither, "Trimmed copies' part of each port's bytes, in thousandths."),
		plain("rank.gap", more, "For each port, how far its packets differ from those of a PIFO."),
		plain("rank.gap-course", more, "rank.gap as it went."),
		plain("rank.inversions", more, "For each packet that leaves, how many of smaller ranks wait."),
		plain("rank.inversions-by-rank", more, "For each rank, the inversions of its packets."),
		plain("rank.waiting", more, "For each packet that comes to a port, how many wait there."),
		plain("rank.drops", config.WorseEither, "For each tenth of the packets by rank, the share that is dropped."),
		plain("rank.mismatches", more, "For each port, the share of decisions that the true length would have changed."),
		plain("rank.refused-quantile", config.WorseEither, "For each packet that AIFO drops, the share of smaller ranks."),
		plain("rank.late", more, "For each port, packets that left after later ones of their flow."),
		plain("aqm.evictions", config.WorseEither, "For each elephant, how often it became a mouse again."),
		plain("aqm.mice-share", config.WorseEither, "For each queue, bytes that arrived while their flow was a mouse."),
		plain("aqm.port-bytes", more, "For each port, the most bytes that waited."),
		plain("aqm.fairness", less, "For each queue, Jain's index of the rates of elephants."),
		{Metric: "fair.rate", Key: "fair.rate-gbps", Worse: less, Doc: "What each flow gets, framing included."},
		plain("fair.jain", less, "For each node, Jain's index of its children."),
		plain("fair.error", more, "For each level of the tree, the distance of a child from its fair share."),
		plain("fair.depth", more, "Bytes that wait in a FIFO."),
		timed("fair.convergence", "From a change of demand until all shares are right."),
		plain("deflect.path", more, "Switches on the way of each packet."),
		plain("deflect.detour", more, "Switches on its way beyond those of the shortest path."),
		plain("deflect.deflections", config.WorseEither, "Deflections of each packet."),
		plain("deflect.queue", more, "Bytes that a deflected packet finds where it goes."),
		timed("lock.latency-switch", "From a request's arrival to the grant, by the switch."),
		timed("lock.latency-server", "From a request's arrival to the grant, by a lock server."),
		timed("lock.wait", "The part of lock.latency-switch in the queue."),
		plain("lock.jain", less, "Jain's index of the grants of tenants."),
		timed("netchain.latency", "From a request's arrival to its answer."),
		timed("netchain.held", "From the request that a lock is granted for to the release that frees it."),
	}
}

// ofRunPrefix starts the names of metrics that a run has one value of.
const ofRunPrefix = "run."

// stored returns the metrics of switch tests that the results store has, and that a test can compare with earlier runs.
func stored() []config.StoredMetric {
	var list []config.StoredMetric
	for _, m := range builtin() {
		switch name, unit := m.storedName(); {
		case m.ofRun != nil:
			list = append(list, config.StoredMetric{Metric: name, Key: name + keyUnit(unit), Worse: m.worse, Doc: m.doc})
		default:
			list = append(list, config.StoredMetric{Metric: name, Key: name + keyUnit(m.unit), Worse: m.worse, Doc: m.doc})
		}
	}
	list = append(list,
		config.StoredMetric{Metric: "flows.fct-", Key: "flows.fct-by-size-us", Worse: config.WorseMore, Parts: config.BySize,
			Doc: "Completion time of flows by size class."},
		config.StoredMetric{Metric: "flows.slowdown-permille-", Key: "flows.slowdown-permille-by-size",
			Worse: config.WorseMore, Parts: config.BySize, Doc: "Slowdown of flows by size class, in thousandths."})
	return append(list, judged()...)
}

// storedName returns the name in the store and its unit there.
func (m *metric) storedName() (name, unit string) {
	if m.ofRun == nil {
		return m.inAnalysis(), m.unit
	}
	for _, u := range []struct{ suffix, unit string }{{"-us", analyzers.UnitNS}, {"-gbps", analyzers.UnitBPS}} {
		if name, ok := strings.CutSuffix(m.name, u.suffix); ok {
			return ofRunPrefix + name, u.unit
		}
	}
	return ofRunPrefix + m.name, ""
}

// keyUnit returns how keys of test files name the unit in which people think of a stored one.
func keyUnit(stored string) string {
	switch stored {
	case analyzers.UnitNS:
		return "-us"
	case analyzers.UnitBPS:
		return "-gbps"
	}
	return ""
}

// totals are the metrics that the run has one value of.
func (r *facts) totals() []report.Total {
	var list []report.Total
	for _, m := range builtin() {
		if m.ofRun == nil || m.tapped && r.plan.Streamed() {
			continue
		}
		v, ok := m.ofRun(r)
		if !ok {
			continue
		}
		name, unit := m.storedName()
		switch unit {
		case analyzers.UnitNS:
			v *= 1e3
		case analyzers.UnitBPS:
			v *= 1e9
		}
		list = append(list, report.Total{Name: name, Unit: unit, Value: v})
	}
	return list
}

// compared checks what the test compares with earlier runs: what decides the verdict, and what does not.
func (r *facts) compared() (failed, reported []string) {
	e := &r.plan.Test.Expect.Baseline
	if r.analysis == nil || len(e.Metrics) == 0 {
		return nil, nil
	}
	measured, err := analyzers.Pool(r.analysis.Metrics)
	if err != nil {
		return []string{"expect.baseline: " + err.Error()}, nil
	}
	for _, t := range r.totals() {
		measured = append(measured, analyzers.Single(t.Name, t.Unit, t.Value))
	}
	return orchestrator.Compare(e, measured, r.baseline)
}
