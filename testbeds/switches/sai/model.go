// Package sai is a shared-buffer switch with the packet trimming proposed by the Switch Abstraction Interface. A packet
// that the buffer does not admit to a queue with a trimming profile is dropped, and a copy of its first bytes leaves by
// the trim queue.
//
// Package candela/sai has the vocabulary (attributes, settings, counters). This package implements the behaviour and,
// on request, seeded bugs.
package sai

import (
	"fmt"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/sai"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Model describes the model to test files, schema and reference.
func Model() parameter.Model {
	return parameter.Model{
		Name:       "sai",
		Doc:        "Shared-buffer switch with the packet trimming attributes of SAI 1.14, as SONiC sets them.",
		Parameters: parameters(),
		Bugs:       bugTable(),
	}
}

const lastQueue = 7 // SONiC counts queues and traffic classes from 0 to 7

func parameters() parameter.Table {
	return append(trimmingParameters(), bufferParameters()...)
}

func trimmingParameters() parameter.Table {
	return parameter.Table{
		{Name: "trim-size", Kind: parameter.Integer, Unit: "bytes", Default: "128", Min: sai.MinSize, Max: 1<<32 - 1,
			Doc: sai.AttrSize + ": bytes kept of the frame, from the destination address on, without FCS."},
		{Name: "dscp-mode", Kind: parameter.Word, Words: []string{"dscp-value", "from-tc"}, Default: "dscp-value",
			Doc: sai.AttrDSCPMode + ": one DSCP for all copies, or the trim TC through the egress port's map."},
		{Name: "trim-dscp", Kind: parameter.Integer, Default: "0", Max: sai.MaxDSCP,
			Doc: sai.AttrDSCP + ": DSCP of every copy; counts in mode dscp-value."},
		{Name: "trim-tc", Kind: parameter.Integer, Default: "0", Max: lastQueue,
			Doc: sai.AttrTC + ": traffic class that tc-to-dscp turns into a DSCP; counts in mode from-tc."},
		{Name: "queue-mode", Kind: parameter.Word, Words: []string{"static", "dynamic"}, Default: "static",
			Doc: sai.AttrQueueMode + ": a queue index, or by the new DSCP through dscp-to-tc and tc-to-queue."},
		{Name: "trim-queue", Kind: parameter.Integer, Default: "0", Max: lastQueue,
			Doc: sai.AttrQueue + ": queue of every copy; counts in mode static."},
		{Name: "tc-to-dscp", Kind: parameter.List,
			Doc: "TC_TO_DSCP_MAP of ports: what DSCP copies leave with in mode from-tc.",
			Items: parameter.Table{
				{Name: "ports", Kind: parameter.Integers, Max: 1 << 16, Doc: "Egress ports, from 0; none: all."},
				{Name: "tc", Kind: parameter.Integer, Required: true, Max: lastQueue, Doc: "Traffic class."},
				{Name: "dscp", Kind: parameter.Integer, Required: true, Max: sai.MaxDSCP, Doc: "DSCP."},
			}},
		{Name: "disable-trim", Kind: parameter.List,
			Doc: "ACL entries with " + sai.AttrTrimDisable + ": packets that are dropped, not trimmed.",
			Items: parameter.Table{
				{Name: "source", Kind: parameter.Integer, Optional: true, Max: 1 << 16, Doc: "Host that sends."},
				{Name: "destination", Kind: parameter.Integer, Optional: true, Max: 1 << 16, Doc: "Host that receives."},
				{Name: "ip", Kind: parameter.Word, Words: []string{"any", "ipv4", "ipv6"}, Default: "any", Doc: "IP version."},
			}},
	}
}

func bufferParameters() parameter.Table {
	return parameter.Table{
		{Name: "profiles", Kind: parameter.List,
			Doc: "Buffer profiles and the queues that they are bound to; a later one replaces an earlier one on the same queue.",
			Items: parameter.Table{
				{Name: "ports", Kind: parameter.Integers, Max: 1 << 16, Doc: "Ports, from 0; none: all."},
				{Name: "queues", Kind: parameter.Integers, Max: lastQueue, Doc: "Queues; none: all."},
				{Name: "action", Kind: parameter.Word, Words: []string{"drop", "trim"}, Default: "drop",
					Doc: sai.AttrAction + ": packet_discard_action of a packet that is not admitted."},
				{Name: "reserved-bytes", Kind: parameter.Integer, Default: "0", Max: 1 << 30, Unit: "bytes",
					Doc: "Bytes that the queue may always hold."},
				{Name: "limit-bytes", Kind: parameter.Integer, Default: "0", Max: 1 << 30, Unit: "bytes",
					Doc: "Static threshold; 0: none."},
				{Name: "alpha", Kind: parameter.Number, Default: "0", Max: 256,
					Doc: "Dynamic threshold: share of the pool's free bytes that the queue may hold; 0: none."},
				{Name: "lossless", Kind: parameter.Boolean, Default: "false",
					Doc: "The queue is lossless: its packets are never trimmed."},
			}},
		{Name: "buffer-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "1000000", Min: 10_000, Max: 1 << 32,
			Doc: "Shared buffer of the switch."},
		{Name: "scheduler", Kind: parameter.Word, Words: []string{"strict", "wrr", "dwrr"}, Default: "strict",
			Doc: "How a port chooses among its queues: the highest index first, or by weights in packets or bytes."},
		{Name: "weights", Kind: parameter.Integers, Max: 1 << 16,
			Doc: "Weight of each of the eight queues for wrr and dwrr; 0: strictly before the others; none given: 1 each."},
		{Name: "shapers", Kind: parameter.List, Doc: "Queues that are held to a rate, as SONiC's SCHEDULER pir does.",
			Items: parameter.Table{
				{Name: "ports", Kind: parameter.Integers, Max: 1 << 16, Doc: "Ports, from 0; none: all."},
				{Name: "queues", Kind: parameter.Integers, Max: lastQueue, Doc: "Queues."},
				{Name: "rate-gbps", Kind: parameter.Rate, Unit: "Gbps", Required: true, Max: 10_000,
					Doc: "Rate in Gb/s, counted in bytes of frames; 0: none."},
			}},
		{Name: "dscp-to-tc", Kind: parameter.List,
			Doc: "DSCP_TO_TC_MAP: where it says nothing, the class is a DSCP's upper three bits.",
			Items: parameter.Table{
				{Name: "dscp", Kind: parameter.Integer, Required: true, Max: sai.MaxDSCP, Doc: "DSCP."},
				{Name: "tc", Kind: parameter.Integer, Required: true, Max: lastQueue, Doc: "Traffic class."},
			}},
		{Name: "tc-to-queue", Kind: parameter.List,
			Doc: "TC_TO_QUEUE_MAP: where it says nothing, the queue has the class's number.",
			Items: parameter.Table{
				{Name: "tc", Kind: parameter.Integer, Required: true, Max: lastQueue, Doc: "Traffic class."},
				{Name: "queue", Kind: parameter.Integer, Required: true, Max: lastQueue, Doc: "Queue."},
			}},
	}
}

// PortName names a front port as SONiC would.
func PortName(i int) string { return fmt.Sprintf("Ethernet%d", i) }

// Settings reads the parameters of a switch with that many front ports.
func Settings(v parameter.Values, ports int) (sai.Settings, error) {
	s := sai.Settings{
		Trimming: sai.Trimming{
			Size: v.Int("trim-size"), DSCP: v.Int("trim-dscp"), TC: v.Int("trim-tc"), Queue: v.Int("trim-queue"),
		},
		DSCPTC: map[int]int{}, TCQueue: map[int]int{},
	}
	if i := v.Table().Find("pfc-classes"); i >= 0 { // a setting common to all switches
		s.PFC = len(v.Integers("pfc-classes")) > 0
	}
	if v.Word("dscp-mode") == "from-tc" {
		s.Trimming.DSCPMode = sai.FromTC
	}
	if v.Word("queue-mode") == "dynamic" {
		s.Trimming.QueueMode = sai.Dynamic
	}
	readQoS(&s, v)
	readProfiles(&s, v, ports)
	readMaps(&s, v, ports)
	readShapers(&s, v, ports)
	if err := readRules(&s, v); err != nil {
		return sai.Settings{}, err
	}
	return s, s.Validate(portNames(ports), sai.Limits{})
}

func portNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = PortName(i)
	}
	return names
}

func readQoS(s *sai.Settings, v parameter.Values) {
	for dscp := range sai.MaxDSCP + 1 {
		s.DSCPTC[dscp] = dscp >> 3
	}
	for _, m := range v.List("dscp-to-tc") {
		s.DSCPTC[m.Int("dscp")] = m.Int("tc")
	}
	for tc := range lastQueue + 1 {
		s.TCQueue[tc] = tc
	}
	for _, m := range v.List("tc-to-queue") {
		s.TCQueue[m.Int("tc")] = m.Int("queue")
	}
}

// chosen returns the numbers of a list, or all numbers below all if it is empty.
func chosen(list []int64, all int) []int {
	var numbers []int
	for _, n := range list {
		numbers = append(numbers, int(n))
	}
	if len(numbers) == 0 {
		for i := range all {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

func readProfiles(s *sai.Settings, v parameter.Values, ports int) {
	type place struct{ port, queue int }
	at := map[place]int{}
	for i, m := range v.List("profiles") {
		p := sai.Profile{
			Name: fmt.Sprintf("profile-%d", i), Reserved: m.Int("reserved-bytes"), Limit: m.Int("limit-bytes"),
			Alpha: m.Number("alpha"), Lossless: m.Bool("lossless"),
		}
		if m.Word("action") == "trim" {
			p.Action = sai.DropAndTrim
		}
		s.Profiles = append(s.Profiles, p)
		for _, port := range chosen(m.Integers("ports"), ports) {
			for _, queue := range chosen(m.Integers("queues"), lastQueue+1) {
				b := sai.Binding{Port: PortName(port), Queue: queue, Profile: p.Name}
				if j, ok := at[place{port, queue}]; ok {
					s.Bindings[j] = b
					continue
				}
				at[place{port, queue}] = len(s.Bindings)
				s.Bindings = append(s.Bindings, b)
			}
		}
	}
}

func readMaps(s *sai.Settings, v parameter.Values, ports int) {
	maps := map[int]map[int]int{} // port → TC → DSCP
	for _, m := range v.List("tc-to-dscp") {
		for _, port := range chosen(m.Integers("ports"), ports) {
			if maps[port] == nil {
				maps[port] = map[int]int{}
			}
			maps[port][m.Int("tc")] = m.Int("dscp")
		}
	}
	for port := range ports {
		if maps[port] != nil {
			name := fmt.Sprintf("map-%d", port)
			s.Maps = append(s.Maps, sai.DSCPMap{Name: name, DSCP: maps[port]})
			s.PortMaps = append(s.PortMaps, sai.PortMap{Port: PortName(port), Map: name})
		}
		delete(maps, port)
	}
	for port := range maps { // Validate reports ports that the switch lacks
		s.PortMaps = append(s.PortMaps, sai.PortMap{Port: PortName(port), Map: ""})
	}
}

func readShapers(s *sai.Settings, v parameter.Values, ports int) {
	for _, m := range v.List("shapers") {
		for _, port := range chosen(m.Integers("ports"), ports) {
			for _, queue := range m.Integers("queues") {
				s.Shapers = append(s.Shapers, sai.Shaper{Port: PortName(port), Queue: int(queue), BPS: int64(m.Rate("rate-gbps"))})
			}
		}
	}
}

func readRules(s *sai.Settings, v parameter.Values) error {
	for i, m := range v.List("disable-trim") {
		if !m.Has("source") && !m.Has("destination") {
			return fmt.Errorf("disable-trim[%d]: give it a source or a destination host", i)
		}
		for _, v6 := range []bool{false, true} {
			if word := m.Word("ip"); word == "ipv4" && v6 || word == "ipv6" && !v6 {
				continue
			}
			r := sai.Rule{Name: fmt.Sprintf("rule-%d-ipv%d", i, map[bool]int{false: 4, true: 6}[v6]), Priority: 999 - i}
			if m.Has("source") {
				r.Source = hostPrefix(fabric.HostID(m.Int("source")), v6)
			}
			if m.Has("destination") {
				r.Dest = hostPrefix(fabric.HostID(m.Int("destination")), v6)
			}
			s.Rules = append(s.Rules, r)
		}
	}
	return nil
}

// SwitchSpec returns the fabric's description of the switch for v: buffer, queues and scheduler. The mechanism has the
// thresholds, because they can change during traffic.
func SwitchSpec(v parameter.Values) (fabric.SwitchSpec, error) {
	spec := fabric.SwitchSpec{Queues: make([]fabric.QueueSpec, lastQueue+1),
		Buffer: fabric.BufferSpec{Bytes: v.Int("buffer-bytes")}}
	spec.Scheduler.Kind = fabric.SchedulerKind(v.Word("scheduler"))
	weights := v.Integers("weights")
	if len(weights) > 0 {
		if len(weights) != lastQueue+1 {
			return fabric.SwitchSpec{}, fmt.Errorf("weights: %d given, want one for each of the %d queues", len(weights),
				lastQueue+1)
		}
		for _, w := range weights {
			spec.Scheduler.Weights = append(spec.Scheduler.Weights, int(w))
		}
	}
	var s sai.Settings
	s.DSCPTC, s.TCQueue = map[int]int{}, map[int]int{}
	readQoS(&s, v)
	spec.ClassOfDSCP = new([64]uint8)
	for dscp := range spec.ClassOfDSCP {
		spec.ClassOfDSCP[dscp] = uint8(s.QueueOf(dscp))
	}
	return spec, nil
}
