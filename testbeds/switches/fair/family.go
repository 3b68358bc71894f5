// Package fair models core-stateless fair queueing: CSFQ, and HCSFQ for a tree of nodes. The edge labels each packet
// with the rate of its flow; a switch keeps three aggregates of each node and drops at random, before one FIFO, what
// exceeds the fair rate. Section numbers are those of the reference model (hcsfq.md).
package fair

import (
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/fair"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Family declares the family.
func Family() switches.Family {
	return switches.Family{
		Name: "fair", Decisions: decisions(), Counters: count,
		Reasons: []analyzers.DropReason{{Name: fair.ReasonExcess, Doc: "The flow's rate exceeds its fair rate.",
			Decided: true}},
		Models: []switches.Model{
			model("csfq", "Core-stateless fair queueing (CSFQ): the edge labels packets with the rates of their flows, and "+
				"switches drop at random what exceeds the fair rate of the link, before one FIFO.",
				slices.Concat(parameters(), overflows()), slices.Concat(flatBugs(), overflowBugs())),
			model("hcsfq", "Hierarchical CSFQ (HCSFQ): so for a tree, every node of which has a fair rate that it offers its "+
				"children; what a flow leaves goes to its siblings first.",
				slices.Concat(parameters(), trees()), slices.Concat(flatBugs(), treeBugs())),
		},
		Settings: func(v parameter.Values, _ int) (any, error) { return settings(v), nil },
		Snapshot: func(sw *fabric.Switch) (any, error) {
			m, ok := sw.Mechanism().(*Mechanism)
			if !ok {
				return fair.Counters{}, fmt.Errorf("switch %s is out of service", sw.Name())
			}
			return m.Counters(), nil
		},
		Metrics: metrics(),
	}
}

// metrics are what the judge measures, while demand is stationary.
func metrics() []switches.Metric {
	return []switches.Metric{
		{Name: "fair-rate-gbps", Of: "fair.rate", Scale: 1e9, Doc: "What each flow gets, framing included. Of fair."},
		{Name: "fair-jain", Of: "fair.jain", Scale: 1e6, Head: "Jain below a node",
			Doc: "For each node, Jain's index of what those of its children get that want more, for each unit of weight. Of " +
				"fair."},
		{Name: "fair-error", Of: "fair.error", Scale: 1e6, Head: "error of shares",
			Doc: "For each level of the tree, the greatest relative distance of a child from its max-min share. Of fair."},
		{Name: "fair-depth", Of: "fair.depth", Scale: 1, Doc: "Bytes that wait in a FIFO. Of fair."},
		{Name: "fair-convergence-us", Of: "fair.convergence", Scale: 1e3, Head: "convergence",
			Doc: "Time from a change of demand until all shares are right. Of fair."},
	}
}

func model(name, doc string, own parameter.Table, bugs []fault) switches.Model {
	m := switches.Model{
		Model: parameter.Model{Name: name, Doc: doc, Parameters: own},
		Ranks: true, OwnQueues: true, NoNIC: "its nodes are those of a link that many hosts share",
		// A flow of less could not have all of an idle link, as alpha ends at the link's rate (specification, 4.3).
		Weighs: true, WeighsFrom: fabric.WeightUnit,
		Check: check,
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) error {
			s.Queues = []fabric.QueueSpec{{MaxPackets: v.Int("queue-packets"), MaxBytes: v.Int("queue-bytes")}}
			if set := settings(v); set.Shim {
				s.LabelShim = labelShim(&set)
			}
			return nil
		},
		New: func(_ *fabric.Switch, v parameter.Values, names []string) (fabric.Mechanism, error) {
			m := &Mechanism{set: settings(v), faults: faultsOf(bugs, names)}
			m.shims = shimSizes(&m.set)
			return m, nil
		},
		Distort: func(names []string, s *fabric.SwitchSpec) {
			for i := range bugs {
				if bugs[i].distort != nil && slices.Contains(names, bugs[i].Name) {
					bugs[i].distort(s)
				}
			}
		},
	}
	for i := range bugs {
		m.Bugs = append(m.Bugs, bugs[i].Bug)
	}
	return m
}

// decisions declares what the switches record, in the order of package fair.
func decisions() []trace.DecisionKind {
	values := []trace.DecisionValue{
		{Name: "node", Doc: "Number of the flow's parent in the tree; 0: the link."},
		{Name: "edge", Doc: "1: this switch has labelled the packet."},
		{Name: "label", Unit: "bps", Doc: "Rate of the flow for each unit of weight, as tested; 0: the packet bypassed the " +
			"test."},
		{Name: "alpha", Unit: "bps", Doc: "Fair rate of the parent, as tested, rounded."},
		{Name: "probability", Unit: "ppb", Doc: "1 − alpha/label, at least 0, in billionths."},
		{Name: "draw", Doc: "Number at random: in mode ideal of 53 bits, in mode dataplane of drop-bits."},
		{Name: "relabel", Unit: "bps", Doc: "The label afterwards."},
	}
	causes := []string{"", "tested", "bypassed"}
	kind := func(name, doc string, outcome trace.Outcome) trace.DecisionKind {
		return trace.DecisionKind{Name: name, Doc: doc, Outcome: outcome, Causes: causes, Values: values}
	}
	return []trace.DecisionKind{
		kind("queued", "The packet waits in the FIFO.", trace.OutcomeQueued),
		kind("excess", "The drop test drops it.", trace.OutcomeDropped),
		kind("tail", "The FIFO has no room for it.", trace.OutcomeDropped),
		{Name: "state", Doc: "With this packet a node is due: more than K_c have passed since its fair rate, or whether it " +
			"is congested, changed.", Causes: []string{"", "congested", "uncongested", "overflow"},
			Values: []trace.DecisionValue{
				{Name: "node", Doc: "Its number in the tree; 0: the link."},
				{Name: "arrival", Unit: "bps", Doc: "A, this packet included, rounded as all rates here."},
				{Name: "accepted", Unit: "bps", Doc: "F."},
				{Name: "capacity", Unit: "bps", Doc: "c."},
				{Name: "before", Unit: "bps", Doc: "alpha before."},
				{Name: "after", Unit: "bps", Doc: "alpha after."},
				{Name: "largest", Unit: "bps", Doc: "tmpAlpha: largest rate of a child since the last update."},
				{Name: "since", Unit: "ns", Doc: "Time since the last record of the node at this port."},
			}},
	}
}

// count adds the counters.
func count(sw *fabric.Switch, add func(string, int64)) error {
	m, ok := sw.Mechanism().(*Mechanism)
	if !ok { // out of service
		return nil
	}
	c := m.Counters()
	add("flows", int64(c.Flows))
	for i, p := range c.Ports {
		for _, n := range []struct {
			name  string
			count uint64
		}{{"packets", p.Packets}, {"excess", p.Excess}, {"tail", p.Tail}, {"bypassed", p.Bypassed}, {"updates", p.Updates},
			{"registers", uint64(p.Registers)}} {
			add(fmt.Sprintf("port-%d.%s", i, n.name), int64(n.count))
		}
	}
	return nil
}
