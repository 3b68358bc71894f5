package config

import (
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Limits of switch tests: what the simulator holds in some gigabytes and a day.
const (
	maxHosts      = workload.MaxHosts
	maxFlows      = workload.MaxFlows
	maxStreamed   = 1 << 24
	maxFrameBytes = 9216
	minFrameBytes = 64
	maxTestUS     = 3_600_000_000
)

func us(min, max int64) quantity {
	return quantity{unit: "us", scale: int64(clock.Microsecond), min: min, max: max}
}

func gbps() quantity {
	return quantity{unit: "Gb/s", scale: int64(clock.Gbps), min: 0, max: 1600}
}

// switchTestAliases are other names that people try for the keys of switch tests.
var switchTestAliases = map[string]string{
	"switch": switchTestKey, "dut": switchTestKey, "device-under-test": switchTestKey, "switch-model": switchTestKey,
	"switches": switchTestKey, "sut": switchTestKey, "flows": "workload", "workloads": "workload", "network": "topology",
	"deadline": "deadline-us", "timeout": "deadline-us", "duration": "duration-us", "series": "series-us",
	"expected": "expect", "expectations": "expect", "change": "changes", "tap": "taps",
}

// switchTestSchema declares the second kind of test file. The models come from the caller.
func switchTestSchema(o *Options) *object {
	return &object{
		title: "The switch test file",
		doc: "A test of a switch: hosts exchange packets through a network of switches that have the model under test. The " +
			"key " +
			"switch-under-test makes a file a switch test. Hosts, ports, queues and switches count from 0, flows from 1.",
		refused: map[string]string{
			"requester": "a test of a NIC has it; this file has switch-under-test",
			"responder": "a test of a NIC has it; this file has switch-under-test",
			"traffic":   "switch tests call it workload", "repeat": "use candela run --repeat N",
		},
		alias: switchTestAliases,
		fields: []field{
			{key: "name", doc: "Name of the test; reports and run directories carry it.", kind: nameForm, required: true,
				at: at(func(t *SwitchTest) *string { return &t.Name })},
			{key: "metadata", doc: "Information for people; it is in every report.",
				kind: optional[Metadata]{metadataSchema()}, defDoc: "none",
				at: at(func(t *SwitchTest) **Metadata { return &t.Metadata })},
			{key: "testbed", doc: "File with the topology, looked for beside this file and then in the working directory, or " +
				"the name of a built-in one; instead of topology.",
				kind: optionalText{fileForm}, at: at(func(t *SwitchTest) *string { return &t.TopologyFile })},
			{key: "seed", doc: "Everything random is drawn from the seed. The same seed gives the same bytes.",
				kind: integer{min: 0, max: math.MaxInt64}, def: "1", at: at(func(t *SwitchTest) *uint64 { return &t.Seed })},
			{key: "topology", doc: "How hosts and switches are wired.", kind: topologySchema(),
				at: at(func(t *SwitchTest) *Topology { return &t.Topology })},
			{key: "switch-under-test", doc: "The model of every switch of the topology.", kind: underTestSchema(o),
				required: true,
				at:       at(func(t *SwitchTest) *Modelled { return &t.Switch })},
			{key: "hosts", doc: "How hosts send and receive.", kind: hostsSchema(o), def: "{}",
				at: at(func(t *SwitchTest) *Hosts { return &t.Hosts })},
			{key: "workload", doc: "Traffic. Each item is a mapping with one key, its kind.",
				kind: list[Workload]{of: workloadSchema(o), min: 1, max: 4096}, required: true,
				at: at(func(t *SwitchTest) *[]Workload { return &t.Workload })},
			{key: "changes", doc: "Changes of the switch under test while traffic runs.",
				kind: list[Change]{of: changeSchema(), max: 4096, omit: true}, def: "[]",
				at: at(func(t *SwitchTest) *[]Change { return &t.Changes })},
			{key: "duration-us", doc: "End of the run. 0: when every flow has finished.",
				kind: us(0, maxTestUS), def: "0",
				at: at(func(t *SwitchTest) *clock.Duration { return &t.Duration })},
			{key: "deadline-us", doc: "Flows that have not finished by then have failed; it ends a run without duration-us.",
				kind: us(1, maxTestUS), def: "1000000",
				at: at(func(t *SwitchTest) *clock.Duration { return &t.Deadline })},
			{key: "taps", doc: "What is recorded before and after the switch under test.", kind: tapsSchema(), def: "{}",
				at: at(func(t *SwitchTest) *Taps { return &t.Taps })},
			{key: "results", doc: "Results that are written as tables, beside the JSON documents.", kind: resultsSchema(),
				def: "{}", at: at(func(t *SwitchTest) *Results { return &t.Results })},
			{key: "judge", doc: judgeDoc, kind: judgeKind(), defDoc: "by the number of flows",
				at: at(func(t *SwitchTest) **Judging { return &t.Judge })},
			{key: "size-classes-bytes", doc: "Flow sizes at which classes begin: statistics of flows are kept of each class.",
				kind: list[int64]{of: integer{min: 1, max: 1 << 45, unit: "bytes"}, max: 32}, def: "[100000, 1000000]",
				at: at(func(t *SwitchTest) *[]int64 { return &t.SizeClasses })},
			queuesField(),
			{key: "series-us", doc: "Distance of the samples of queues, trims and goodput in series.csv. 0: no time series.",
				kind: us(0, 1_000_000), def: "0",
				at: at(func(t *SwitchTest) *clock.Duration { return &t.Series })},
			{key: "expect", doc: "Expectations. Analyzers that are not named are expected to pass.",
				kind: switchExpectSchema(o), def: "{}",
				at: at(func(t *SwitchTest) *SwitchExpect { return &t.Expect })},
			{key: "sweep",
				doc: "Run the test once for every combination of values, such as `switch-under-test.t0-us: [0, 6, 30]`. " +
					"Paths joined by commas vary together. Points run on all cores.", kind: sweepKind{}, at: parent},
		},
	}
}

// optionalText writes nothing for an empty text.
type optionalText struct{ text }

func topologySchema() *modelled {
	spec := linkSpecSchema()
	return &modelled{
		selector: "kind", doc: "Shape of the network.", title: "topology", what: "topology", models: topologies(),
		of: func(parent any) *Modelled { return &parent.(*Topology).Modelled },
		more: []field{
			{key: "link", doc: "Cable between a host and its switch.", kind: spec, def: "{}",
				at: at(func(t *Topology) *LinkSpec { return &t.Link })},
			{key: "trunk", doc: "Cable between two switches; by default like link.", kind: spec,
				preset: func(_ *decoder, parent any) { t := parent.(*Topology); t.Trunk = t.Link }, defDoc: "as link",
				at: at(func(t *Topology) *LinkSpec { return &t.Trunk })},
			{key: "links", doc: "Hosts with a link of their own, for example a slower one.",
				kind: list[HostLink]{of: hostLinkSchema(), max: maxHosts, omit: true}, def: "[]",
				at: at(func(t *Topology) *[]HostLink { return &t.Links })},
			{key: "trunks", doc: "Links between two switches that differ from trunk: degraded ones, and failed ones.",
				kind: list[Trunk]{of: trunkSchema(), max: maxHosts, omit: true}, def: "[]",
				at: at(func(t *Topology) *[]Trunk { return &t.Trunks })},
			{key: "reroute-us", doc: "How long after a trunk, or the original switch of `standby`, has failed or come back " +
				"(changes) the routes follow. Until then packets that a switch sends there are lost.",
				kind: optional[clock.Duration]{us(0, maxTestUS)}, defDoc: "0",
				at: at(func(t *Topology) **clock.Duration { return &t.reroute })},
		},
	}
}

func linkSpecSchema() *object {
	return &object{
		title: "link", doc: "A cable.",
		fields: []field{
			{key: "gbps", doc: "Rate in Gb/s.", kind: gbps(), def: "100",
				at: at(func(l *LinkSpec) *clock.BitRate { return &l.Rate })},
			{key: "delay-ns", doc: "Propagation, one way, in nanoseconds.", def: "500",
				kind: quantity{unit: "ns", scale: int64(clock.Nanosecond), max: 1_000_000_000},
				at:   at(func(l *LinkSpec) *clock.Duration { return &l.Delay })},
			{key: "framing-bytes",
				doc:  "Bytes that the link adds to each frame: 24 are Ethernet's preamble, FCS and gap; 0 reproduces papers.",
				kind: integer{min: 0, max: 64, unit: "bytes"}, def: "0", at: at(func(l *LinkSpec) *int { return &l.Framing })},
		},
	}
}

func hostLinkSchema() *object {
	return &object{
		title: "link of a host", doc: "A host with a link of its own.",
		fields: []field{
			{key: "host", doc: "The host.", kind: integer{min: 0, max: maxHosts - 1}, required: true,
				at: at(func(l *HostLink) *int { return &l.Host })},
			{key: "gbps", doc: "Rate in Gb/s, both ways.", kind: optional[clock.BitRate]{gbps()},
				at: at(func(l *HostLink) **clock.BitRate { return &l.Rate })},
			{key: "delay-ns", doc: "Propagation, one way, in nanoseconds.",
				kind: optional[clock.Duration]{quantity{unit: "ns", scale: int64(clock.Nanosecond), max: 1_000_000_000}},
				at:   at(func(l *HostLink) **clock.Duration { return &l.Delay })},
		},
	}
}

func trunkSchema() *object {
	return &object{
		title: "link between two switches", doc: "A trunk that differs from the others, in both directions.",
		fields: []field{
			{key: "from", doc: "A switch, such as leaf-0, edge-3 or left.", kind: nameForm, required: true,
				at: at(func(t *Trunk) *string { return &t.From })},
			{key: "to", doc: "The switch at the other end, such as spine-1.", kind: nameForm, required: true,
				at: at(func(t *Trunk) *string { return &t.To })},
			{key: "gbps", doc: "Rate in Gb/s, both ways.", kind: optional[clock.BitRate]{gbps()},
				at: at(func(t *Trunk) **clock.BitRate { return &t.Rate })},
			{key: "delay-ns", doc: "Propagation, one way, in nanoseconds.",
				kind: optional[clock.Duration]{quantity{unit: "ns", scale: int64(clock.Nanosecond), max: 1_000_000_000}},
				at:   at(func(t *Trunk) **clock.Duration { return &t.Delay })},
			{key: "failed", doc: "The trunk is down for the whole test: no route uses it.", kind: boolean{}, def: "false",
				at: at(func(t *Trunk) *bool { return &t.Failed })},
		},
	}
}

func trunkChangeSchema() *object {
	return &object{
		title: "change of a trunk", doc: "What becomes of a link between two switches, in both directions.",
		fields: []field{
			{key: "from", doc: "A switch, such as leaf-0, edge-3 or left.", kind: nameForm, required: true,
				at: at(func(t *TrunkChange) *string { return &t.From })},
			{key: "to", doc: "The switch at the other end, such as spine-1.", kind: nameForm, required: true,
				at: at(func(t *TrunkChange) *string { return &t.To })},
			{key: "gbps", doc: "Rate in Gb/s, both ways, of frames that begin to leave from now on.",
				kind: optional[clock.BitRate]{gbps()}, at: at(func(t *TrunkChange) **clock.BitRate { return &t.Rate })},
			{key: "delay-ns", doc: "Propagation, one way, in nanoseconds. When it falls, the next frame leaves so late that " +
				"it does not overtake the last.",
				kind: optional[clock.Duration]{quantity{unit: "ns", scale: int64(clock.Nanosecond), max: 1_000_000_000}},
				at:   at(func(t *TrunkChange) **clock.Duration { return &t.Delay })},
			{key: "failed", doc: "`true`: the trunk goes down; `false`: it comes back.", kind: optional[bool]{boolean{}},
				at: at(func(t *TrunkChange) **bool { return &t.Failed })},
		},
	}
}

// topologies are the shapes, declared like models.
func topologies() []parameter.Model {
	var models []parameter.Model
	for _, s := range fabric.Shapes() {
		models = append(models, s.Model)
	}
	return models
}

func underTestSchema(o *Options) *modelled {
	return &modelled{selector: "model", doc: "Model of the switch.", title: "switch-under-test", what: "model",
		models: o.Switches,
		of:     func(parent any) *Modelled { return parent.(*Modelled) }, bugs: true}
}

func hostsSchema(o *Options) *modelled {
	def := ""
	if len(o.Transports) > 0 {
		def = o.Transports[0].Name
	}
	return &modelled{selector: "transport", doc: "Transport protocol of the hosts.", title: "hosts", what: "transport",
		def: def, models: o.transportModels(),
		of: func(parent any) *Modelled { return &parent.(*Hosts).Modelled },
		more: []field{{key: "nic", doc: nicDoc, kind: optional[HostNIC]{hostNICSchema(o)},
			at: at(func(h *Hosts) **HostNIC { return &h.NIC })}}}
}

const nicDoc = "Queues and a mechanism on the NIC of every host, by a model of `switch-under-test`, with its " +
	"parameters and its seeded bugs. Without it NICs have no queues: a packet leaves its host when the wire is free."

func hostNICSchema(o *Options) *modelled {
	return &modelled{selector: "model", doc: "Model of the NICs.", title: "hosts.nic", what: "model", models: o.NICs,
		of: func(parent any) *Modelled { return &parent.(*HostNIC).Modelled }, refused: o.NoNICs,
		more: []field{{key: "backlog-packets",
			doc: "Packets of the transport that may be at the NIC: with so many of them the transport waits. A queue can only " +
				"overflow if more of them are allowed than it holds.",
			kind: integer{min: 1, max: 1 << 20, unit: "packets"}, def: "64",
			at: at(func(n *HostNIC) *int { return &n.Backlog })},
			{key: "drop-burst-packets",
				doc: "Packets that a NIC may drop at one instant. With so many, the transport is asked for the next one when the " +
					"last would have left the wire. 1: after each drop. Simulators whose hosts queue at once whatever a window " +
					"allows have no such pause.",
				kind: integer{min: 1, max: 1 << 20, unit: "packets"}, def: "1",
				at: at(func(n *HostNIC) *int { return &n.DropBurst })}}}
}

func changeSchema() *object {
	return &object{
		title: "change", doc: "Something that is set while traffic runs.",
		fields: []field{
			{key: "at-us", doc: "When, from the start of the run.", kind: us(0, maxTestUS), required: true,
				at: at(func(c *Change) *clock.Duration { return &c.At })},
			{key: "switch", doc: "Number of the switch; by default all.", kind: optional[int]{integer{min: 0, max: 4096}},
				at: at(func(c *Change) **int { return &c.Switch })},
			{key: "set", doc: "Parameters of the switch under test and their new values.", kind: settings{},
				at: at(func(c *Change) *parameter.Values { return &c.Set })},
			{key: "state", doc: "Instead of set. `stopped`: the switch is out of service; what is inside, what arrives, and " +
				"all of its registers are lost. " +
				"`running`: it is in service again, with the parameters that it was set to.",
				kind: optional[status]{enum[status]{values: []status{Stopped, Running}}},
				at:   at(func(c *Change) **status { return &c.state })},
			{key: "trunk", doc: "Instead of set and state: a link between two switches that fails, comes back, or gets " +
				"another rate or delay. Packets on a trunk that fails, and those that wait for it, are lost.",
				kind: optional[TrunkChange]{trunkChangeSchema()}, at: at(func(c *Change) **TrunkChange { return &c.Trunk })},
		},
	}
}

func tapsSchema() *object {
	return &object{
		title: "taps", doc: "What is recorded before and after the switch under test.",
		fields: []field{
			{key: "capture", doc: "Write every packet to taps/before.pcap and taps/behind.pcap.", kind: boolean{}, def: "false",
				at: at(func(t *Taps) *bool { return &t.Capture })},
			{key: "decisions",
				doc: "Write what the switches decide about each packet to decisions.csv, decisions.json (a record a line) or " +
					"decisions.parquet, and judge it against the taps.",
				kind: optional[status]{enum[status]{values: wordsOf(trace.DecisionFormats())}},
				at:   at(func(t *Taps) **status { return &t.decisions })},
		},
	}
}

func resultsSchema() *object {
	table := func(key, doc string, of func(r *Results) **status) field {
		return field{key: key, doc: doc, kind: optional[status]{enum[status]{values: []status{"csv", "parquet"}}}, at: at(of)}
	}
	return &object{
		title: "results", doc: "Results that are written as tables, beside the JSON documents.",
		fields: []field{
			table("flows", "Write a row for each flow to flows.csv or flows.parquet: of any number of flows, as they end.",
				func(r *Results) **status { return &r.flows }),
			table("queues", "Write the statistics of each queue to queues.csv or queues.parquet.",
				func(r *Results) **status { return &r.queues }),
			table("metrics", "Write the metrics of the analysis to metrics.csv or metrics.parquet.",
				func(r *Results) **status { return &r.metrics }),
			table("deflections", "Write how many packets each switch has deflected over time to deflection-series.csv or "+
				"deflection-series.parquet, and draw them in the report.",
				func(r *Results) **status { return &r.deflections }),
		},
	}
}

// wordsOf returns words of an enumeration.
func wordsOf(words []string) []status {
	list := make([]status, len(words))
	for i, w := range words {
		list[i] = status(w)
	}
	return list
}
