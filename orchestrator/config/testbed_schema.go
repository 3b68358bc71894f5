package config

import (
	"slices"

	"candela.dev/candela/clock"
)

func testbedSchema() *object {
	return &object{
		title: "The testbed description",
		doc:   "Where tests run.",
		refused: map[string]string{
			"traffic": "it belongs into the test", "seed": "it belongs into the test",
		},
		fields: slices.Concat([]field{
			{key: "name", doc: "Name of the testbed.", kind: nameForm, def: "virtual",
				at: at(func(t *Testbed) *string { return &t.Name })},
			{key: "kind", doc: "virtual: simulated in this process; netns: network namespaces of this machine; lab: machines " +
				"with agents; vm: virtual machines with soft-RoCE.", required: true,
				kind: enum[status]{values: []status{KindVirtual, KindNetns, KindLab, KindVM}},
				at:   at(func(t *Testbed) *status { return (*status)(&t.Kind) })},
			{key: "links", doc: "The cables between hosts and switch.", kind: linksSchema(), def: "{}",
				at: at(func(t *Testbed) *Testbed { return t })},
			{key: "switch", doc: "The injector switch.", kind: switchSchema(), def: "{}",
				at: at(func(t *Testbed) *Switch { return &t.Switch })},
			{key: "mirror", doc: "How packets are copied to the dumpers.", kind: mirrorSchema(), def: "{}",
				at: at(func(t *Testbed) *Mirror { return &t.Mirror })},
			{key: "dumpers", doc: "Hosts that record the copies, in weighted turns.",
				kind: list[Dumper]{of: dumperSchema(), min: 1, max: 64}, def: "[{name: dumper-1}, {name: dumper-2}]",
				at: at(func(t *Testbed) *[]Dumper { return &t.Dumpers })},
			{key: "live", doc: "Options of testbeds of kind netns and lab.", kind: optional[Live]{liveSchema()},
				at: at(func(t *Testbed) **Live { return &t.Live })},
			{key: "injector", doc: "Running third-party switch with P4Runtime; of a lab, instead of live.switch.",
				kind: optional[ExternalInjector]{externalInjectorSchema()},
				at:   at(func(t *Testbed) **ExternalInjector { return &t.Injector })},
			{key: "vm", doc: "Options of testbeds of kind vm.", kind: optional[VM]{vmSchema()},
				at: at(func(t *Testbed) **VM { return &t.VM })},
		}, timeScaleFields()),
	}
}

func rate(def string, f func(any) any) field {
	return field{key: "rate-gbps", doc: "Port speed in Gb/s.", def: def, at: f,
		kind: quantity{unit: "Gb/s", scale: int64(clock.Gbps), min: 1, max: 800, why: "ports of 1 to 800 Gb/s are modelled"}}
}

func linksSchema() *object {
	link := &object{
		title: "link",
		doc:   "The cable between a host and the switch.",
		fields: []field{
			rate("100", at(func(l *Link) *clock.BitRate { return &l.Rate })),
			{key: "propagation-delay-ns", doc: "One way, in nanoseconds; 5 ns are about a metre.", def: "250",
				kind: quantity{unit: "ns", scale: int64(clock.Nanosecond), max: 10_000_000_000},
				at:   at(func(l *Link) *clock.Duration { return &l.Propagation })},
		},
	}
	return &object{
		title: "links",
		doc:   "The cables between hosts and switch.",
		fields: []field{
			{key: "requester", doc: "The requester's cable.", kind: link, def: "{}",
				at: at(func(t *Testbed) *Link { return &t.Requester })},
			{key: "responder", doc: "The responder's cable.", kind: link, def: "{}",
				at: at(func(t *Testbed) *Link { return &t.Responder })},
		},
	}
}

func switchSchema() *object {
	return &object{
		title: "switch",
		doc:   "The injector switch between the hosts.",
		fields: []field{
			{key: "driver", doc: "p4runtime: an injector, as where the key is missing. none: there is no injector; a machine " +
				"of the lab runs the model of a switch between its interfaces, for tests of switches.",
				kind: optionalStatus{enum[status]{values: []status{DriverP4Runtime, DriverNone}}},
				at:   at(func(s *Switch) *status { return (*status)(&s.Driver) })},
			{key: "latency-ns", doc: "From the last bit in to the first bit out of an idle port.", def: "400",
				kind: quantity{unit: "ns", scale: int64(clock.Nanosecond), max: 1_000_000_000},
				at:   at(func(s *Switch) *clock.Duration { return &s.Latency })},
			{key: "egress-buffer-bytes", doc: "Size of the queue of an egress port; frames beyond it are dropped and counted.",
				def:  "16777216",
				kind: integer{min: 16384, max: 1 << 40, unit: "bytes"}, at: at(func(s *Switch) *int { return &s.EgressBuffer })},
			{key: "max-frame-bytes", doc: "Longest Ethernet frame without FCS.", def: "9216",
				kind: integer{min: 512, max: 16384, unit: "bytes"}, at: at(func(s *Switch) *int { return &s.MaxFrame })},
		},
	}
}

func mirrorSchema() *object {
	return &object{
		title: "mirror",
		doc:   "How packets are copied to the dumpers.",
		fields: []field{
			{key: "snap-bytes", doc: "Bytes of each copy that are kept; 0: all.", def: "0",
				kind: integer{min: 0, max: 16384, unit: "bytes"}, at: at(func(m *Mirror) *int { return &m.Snap })},
		},
	}
}

func dumperSchema() *object {
	return &object{
		title: "dumpers",
		doc:   "A host that records mirror copies. One that is too slow loses packets, and the run is then invalid.",
		fields: []field{
			{key: "name", doc: "Name of the dumper; its shard file carries it.", kind: nameForm, required: true,
				at: at(func(d *Dumper) *string { return &d.Name })},
			{key: "weight", doc: "Its turns in each round of the round robin.", kind: integer{min: 1, max: 64}, def: "1",
				at: at(func(d *Dumper) *int { return &d.Weight })},
			rate("100", at(func(d *Dumper) *clock.BitRate { return &d.Rate })),
			{key: "cores", doc: "Cores that record, each its share of the packets.", kind: integer{min: 1, max: 256}, def: "8",
				at: at(func(d *Dumper) *int { return &d.Cores })},
			{key: "pps-per-core", doc: "Packets that one core records per second.", def: "10000000",
				kind: integer{min: 1, max: 1_000_000_000}, at: at(func(d *Dumper) *int { return &d.PPSPerCore })},
			{key: "buffer-bytes", doc: "Size of the buffer of a core; frames beyond it are lost.", def: "4194304",
				kind: integer{min: 16384, max: 1 << 40, unit: "bytes"}, at: at(func(d *Dumper) *int { return &d.Buffer })},
		},
	}
}
