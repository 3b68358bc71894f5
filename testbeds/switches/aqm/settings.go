package aqm

import (
	"fmt"

	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
)

// Scheme is what a model adds to tail drop.
type scheme struct {
	scheme aqm.Scheme
	dpp    bool
}

// settings returns what a switch is set to.
func (s scheme) settings(v parameter.Values) aqm.Settings {
	set := aqm.Settings{Scheme: s.scheme, Queues: dataQueues(v), Interfaces: v.Word("attach") == "interfaces",
		System: aqm.Policy{Port: -1, Queue: -1, PortBytes: v.Int("port-buffer-bytes")}}
	switch s.scheme {
	case aqm.AFD:
		set.Etrap = trapSettings(v)
		set.System.Period = profiles()[v.Word("etrap-profile")].fair
		if v.Has("afd-period-us") {
			set.System.Period = v.Duration("afd-period-us")
		}
		set.System.LeastRate = v.Rate("fmin-mbps")
		if v.Word("drop-function") == "excess" {
			set.System.Function = aqm.Excess
		}
	case aqm.RED:
		set.System.Weight = v.Number("queue-weight")
	case aqm.Threshold:
		set.System.ECN = true
	case aqm.TailDrop:
	}
	if s.dpp {
		set.DPP = prioritySettings(v)
	}
	read(v, &set.System)
	for _, item := range v.List("policies") {
		p := aqm.Policy{Port: -1, Queue: -1}
		if item.Has("port") {
			p.Port = item.Int("port")
		}
		if item.Has("queue") {
			p.Queue = item.Int("queue")
		}
		read(item, &p)
		set.Policies = append(set.Policies, p)
	}
	commonSettings(v, &set)
	return set
}

// commonSettings reads the settings that every model has.
func commonSettings(v parameter.Values, set *aqm.Settings) {
	has := func(name string) bool { return v.Table().Find(name) >= 0 }
	if bits := v.Int("counter-bits"); bits < 64 {
		set.CounterBits = bits
	}
	set.QueueBytes = make([]int, set.Queues)
	for i := range set.QueueBytes {
		if v.Has("data-queue-bytes") {
			set.QueueBytes[i] = v.Int("data-queue-bytes")
		}
	}
	if !has("queues") { // the table of the model alone
		return
	}
	for _, item := range v.List("per-queue") {
		if q := item.Int("queue"); item.Has("max-bytes") && q < set.Queues {
			set.QueueBytes[q] = item.Int("max-bytes")
		}
	}
	set.SharedBuffer = v.Int("buffer-bytes") > 0
	set.OtherMarks = v.Int("ecn-max-bytes") > 0 || v.Int("ecn-threshold-bytes") > 0 || v.Int("ecn-threshold-packets") > 0
	for _, class := range v.Integers("pfc-classes") {
		set.Lossless |= 1 << class
	}
}

// profile is a pair of periods.
type profile struct{ age, fair clock.Duration }

func profiles() map[string]profile {
	const us = clock.Microsecond
	return map[string]profile{"source": {500 * us, 25 * us}, "mesh": {20 * us, 10 * us}, "burst": {50 * us, 25 * us},
		"ultra-burst": {100 * us, 50 * us}}
}

func trapSettings(v parameter.Values) aqm.Etrap {
	e := aqm.Etrap{ByteCount: int64(v.Int("etrap-byte-count")), AgePeriod: profiles()[v.Word("etrap-profile")].age,
		Threshold: int64(v.Int("etrap-bandwidth-threshold-bytes")), Inclusive: v.Word("etrap-limits") == "inclusive",
		Weight: v.Number("etrap-weight"), EvictHold: v.Duration("etrap-evict-hold-us"),
		MiceNeverAge: v.Word("etrap-mouse-ageing") == "never", PerSwitch: v.Word("etrap-scope") == "switch",
		TableSize: v.Int("etrap-table-size"), HashBits: v.Int("etrap-hash-bits")}
	if v.Has("etrap-age-period-us") {
		e.AgePeriod = v.Duration("etrap-age-period-us")
	}
	return e
}

func prioritySettings(v parameter.Values) *aqm.DPP {
	d := &aqm.DPP{MaxPackets: v.Int("dpp-max-packets"), Exclusive: v.Word("dpp-first") == "exclusive",
		AgePeriod: v.Duration("dpp-age-period-us"), Class: -1, DataOnly: v.Word("dpp-counts") == "data",
		PerSwitch: v.Word("dpp-scope") == "switch", HashBits: v.Int("dpp-hash-bits")}
	if v.Has("dpp-class") {
		d.Class = v.Int("dpp-class")
	}
	return d
}

// fields are the settings of policies, by their names.
var fields = []struct {
	name  string
	field aqm.Fields
	read  func(v parameter.Values, name string, p *aqm.Policy)
}{
	{"off", aqm.FieldOff, func(v parameter.Values, n string, p *aqm.Policy) { p.Off = v.Bool(n) }},
	{"ecn", aqm.FieldECN, func(v parameter.Values, n string, p *aqm.Policy) { p.ECN = v.Bool(n) }},
	{"queue-desired-bytes", aqm.FieldDesired,
		func(v parameter.Values, n string, p *aqm.Policy) { p.DesiredBytes = v.Int(n) }},
	{"kp", aqm.FieldKp, func(v parameter.Values, n string, p *aqm.Policy) { p.Kp = v.Number(n) }},
	{"ki", aqm.FieldKi, func(v parameter.Values, n string, p *aqm.Policy) { p.Ki = v.Number(n) }},
	{"d-max", aqm.FieldMaxDrop, func(v parameter.Values, n string, p *aqm.Policy) { p.MaxDrop = v.Number(n) }},
	{"gate", aqm.FieldGate, func(v parameter.Values, n string, p *aqm.Policy) { p.Gate = v.Bool(n) }},
	{"min-bytes", aqm.FieldMin, func(v parameter.Values, n string, p *aqm.Policy) { p.MinBytes = v.Int(n) }},
	{"max-bytes", aqm.FieldMax, func(v parameter.Values, n string, p *aqm.Policy) { p.MaxBytes = v.Int(n) }},
	{"max-probability", aqm.FieldMaxProbability,
		func(v parameter.Values, n string, p *aqm.Policy) { p.MaxProbability = v.Number(n) }},
	{"threshold-bytes", aqm.FieldThreshold,
		func(v parameter.Values, n string, p *aqm.Policy) { p.ThresholdBytes = v.Int(n) }},
	{"port-buffer-bytes", aqm.FieldPort, func(v parameter.Values, n string, p *aqm.Policy) { p.PortBytes = v.Int(n) }},
}

// read reads the settings of a policy that v has.
func read(v parameter.Values, p *aqm.Policy) {
	for _, f := range fields {
		if v.Table().Find(f.name) >= 0 && v.Has(f.name) {
			f.read(v, f.name, p)
			p.Set |= f.field
		}
	}
}

// override writes the settings that over has into p.
func override(p *aqm.Policy, over *aqm.Policy) {
	for field, set := range map[aqm.Fields]func(){
		aqm.FieldOff: func() { p.Off = over.Off }, aqm.FieldECN: func() { p.ECN = over.ECN },
		aqm.FieldDesired: func() { p.DesiredBytes = over.DesiredBytes }, aqm.FieldKp: func() { p.Kp = over.Kp },
		aqm.FieldKi: func() { p.Ki = over.Ki }, aqm.FieldMaxDrop: func() { p.MaxDrop = over.MaxDrop },
		aqm.FieldGate: func() { p.Gate = over.Gate }, aqm.FieldMin: func() { p.MinBytes = over.MinBytes },
		aqm.FieldMax:            func() { p.MaxBytes = over.MaxBytes },
		aqm.FieldMaxProbability: func() { p.MaxProbability = over.MaxProbability },
		aqm.FieldThreshold:      func() { p.ThresholdBytes = over.ThresholdBytes },
		aqm.FieldPort:           func() { p.PortBytes = over.PortBytes },
	} {
		if over.Set&field != 0 {
			set()
		}
	}
}

// policyOf returns what a queue of a port is set to: the system's, then what overrides it, policies of the interface
// last.
func policyOf(set *aqm.Settings, port, queue int, systemLast bool) aqm.Policy {
	p := set.System
	own := !set.Interfaces
	apply := func(interfaces bool) {
		for i := range set.Policies {
			if over := &set.Policies[i]; over.Port >= 0 == interfaces && (over.Port < 0 || over.Port == port) &&
				(over.Queue < 0 || over.Queue == queue) {
				override(&p, over)
				own = own || interfaces
			}
		}
	}
	apply(systemLast)
	apply(!systemLast)
	if systemLast { // the seeded bug: the system's policy goes first
		override(&p, &set.System)
	}
	p.Off = p.Off || !own
	return p
}

// check returns settings with which a switch cannot do its task.
func (s scheme) check(v parameter.Values, ports int, _ []switches.Frames) (problems []switches.Problem) {
	set := s.settings(v)
	for i := range set.Policies {
		p, key := &set.Policies[i], fmt.Sprintf("policies[%d]", i)
		switch {
		case p.Port >= ports:
			problems = append(problems, switches.Problem{Key: key + ".port", What: fmt.Sprintf("there is no port %d", p.Port),
				Why: fmt.Sprintf("the largest switch has the ports 0 to %d", ports-1)})
		case p.Queue >= set.Queues:
			problems = append(problems, switches.Problem{Key: key + ".queue", What: fmt.Sprintf("there is no queue %d", p.Queue),
				Why: fmt.Sprintf("queues is %d", set.Queues)})
		case p.Queue >= 0 && p.Set&aqm.FieldPort != 0:
			problems = append(problems, switches.Problem{Key: key + ".port-buffer-bytes", What: "is of a port, not of a queue",
				Why: "leave out queue"})
		}
	}
	if s.scheme != aqm.RED || len(problems) > 0 {
		return problems
	}
	for port := range ports {
		for queue := range set.Queues {
			p := policyOf(&set, port, queue, false)
			if (p.MinBytes == 0) != (p.MaxBytes == 0) || p.MinBytes > 0 && p.MinBytes >= p.MaxBytes {
				what := fmt.Sprintf("queue %d of port %d has min-bytes %d and max-bytes %d", queue, port, p.MinBytes, p.MaxBytes)
				return []switches.Problem{{Key: "min-bytes", What: what,
					Why: "give both, max-bytes above min-bytes, or neither"}}
			}
		}
	}
	return nil
}

// dataQueues returns the number of queues of data at each port.
func dataQueues(v parameter.Values) int {
	if v.Table().Find("queues") < 0 {
		return 1
	}
	return v.Int("queues")
}
