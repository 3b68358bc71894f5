// Package deflect models switches that deflect packets: when a queue has no room, a packet goes out of another port to
// a switch instead of being dropped. Simple deflection and DIBS deflect what arrives, Vertigo pulls less important
// packets out of the queue, and preemptive deflection (PD) predicts which ones. Sections (§) are those of the reference
// model (deflection.md).
package deflect

import (
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/deflect"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Family declares the family.
func Family() switches.Family {
	return switches.Family{
		Name: "deflect", Decisions: decisions(), Counters: count, HostCounters: countHost, Deflects: true, Closed: true,
		RecordsMade: true, Deflected: deflected,
		Reasons: []analyzers.DropReason{
			{Name: deflect.ReasonNoPort, Doc: "There is no port to deflect the packet to.", Decided: true},
			{Name: deflect.ReasonEvicted, Doc: "A queue to which Vertigo deflects holds too much, and the packet is its least " +
				"important.", Decided: true, Evicts: true},
		},
		Models:   models(),
		Snapshot: snapshot,
		Settings: settingsOf,
	}
}

// schemes are those of models by name.
var schemes = map[string]deflect.Scheme{"ecmp": deflect.ECMP, "naive-deflection": deflect.Naive, "dibs": deflect.DIBS,
	"sd": deflect.SD, "vertigo": deflect.Vertigo, "pd": deflect.PD}

func models() []switches.Model {
	const routes, both = "routes", "power-of-two"
	marked := []string{"remaining", "las"}
	return []switches.Model{
		model("ecmp", "Baseline: one FIFO for each port; a packet that finds it full is dropped.",
			queues(routes), queueBugs(true)),
		model("naive-deflection", "A packet that finds its queue full is deflected to any port that leads to a switch, "+
			"even a full one.", slices.Concat(queues(routes), deflections()),
			slices.Concat(queueBugs(true), deflectionBugs(), fullBugs()[:1])),
		model("dibs", "DIBS: a packet that finds its queue full is deflected to a port at random, of those that lead to "+
			"switches and are not full.", slices.Concat(queues(routes), deflections(), information()),
			slices.Concat(queueBugs(true), deflectionBugs(), fullBugs(), dibsBugs(), informationBugs())),
		model("sd", "Simple deflection (SD): DIBS with a bitmap of full ports and one random number: the first port with "+
			"room from a random position on.", slices.Concat(queues(routes), deflections(), information(), bitmap()),
			slices.Concat(queueBugs(true), deflectionBugs(), fullBugs(), scanBugs(), informationBugs())),
		model("vertigo", "Vertigo: queues are sorted by priority values; for a packet that finds its queue full, less "+
			"important ones are pulled out and deflected to the shorter of two queues.",
			slices.Concat(queues(both), deflections(), sources(marked)),
			slices.Concat(queueBugs(false), vertigoBugs(), hostBugs())),
		model("pd", "Preemptive deflection (PD): the less important a packet is, the earlier it is deflected, to the "+
			"shorter queue of two that admit it, or dropped.",
			slices.Concat(queues(both), deflections(), information(), sources(append(marked, "class")), preemptive()),
			slices.Concat(queueBugs(true), deflectionBugs(), informationBugs(), pdBugs(), hostBugs())),
	}
}

func model(name, doc string, own parameter.Table, bugs []fault) switches.Model {
	scheme := schemes[name]
	m := switches.Model{
		Model:     parameter.Model{Name: name, Doc: doc, Parameters: own},
		OwnQueues: true, NoNIC: "it deflects among the ports of a switch",
		NeedsRanks: scheme == deflect.PD || scheme == deflect.Vertigo,
		ByBytes:    scheme == deflect.PD || scheme == deflect.Vertigo,
		Check: func(v parameter.Values, _ int, offered []switches.Frames) []switches.Problem {
			return check(scheme, v, offered)
		},
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) error {
			s.Queues = []fabric.QueueSpec{{MaxBytes: v.Int("queue-bytes") - 1}} // a queue is never quite full
			if scheme == deflect.Vertigo {                                      // but this one, as it takes victims
				s.Queues[0] = fabric.QueueSpec{MaxBytes: v.Int("queue-bytes"), Order: fabric.ByRank, RankShift: 32}
			}
			return nil
		},
		New: func(_ *fabric.Switch, v parameter.Values, names []string) (fabric.Mechanism, error) {
			return newMechanism(settings(scheme, v), faultsOf(bugs, names)), nil
		},
		Shim: func(_ *fabric.Host, v parameter.Values, names []string) (fabric.Shim, error) {
			if scheme != deflect.PD && scheme != deflect.Vertigo {
				return nil, nil
			}
			return NewShim(settings(scheme, v), faultsOf(bugs, names)), nil
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

// newMechanism returns the mechanism of a switch.
func newMechanism(set deflect.Settings, f faults) *Mechanism {
	if f.doubled {
		set.Alpha *= 2
	}
	if f.samplesLate {
		set.Sample++
	}
	if f.shortWindow {
		set.Window = max(1, set.Window/2)
	}
	return &Mechanism{set: set, faults: f}
}

// settingsOf returns a switch's settings for the judge. Which model it is shows in the parameters that it has.
func settingsOf(v parameter.Values, _ int) (any, error) {
	has := func(name string) bool { return v.Table().Find(name) >= 0 }
	scheme := deflect.ECMP
	switch {
	case has("alpha"):
		scheme = deflect.PD
	case has("priority"):
		scheme = deflect.Vertigo
	case has("congested-bytes"):
		scheme = deflect.SD
	case has("information"):
		scheme = deflect.DIBS
	case has("eligible"):
		scheme = deflect.Naive
	}
	return settings(scheme, v), nil
}

func snapshot(sw *fabric.Switch) (any, error) {
	m, ok := sw.Mechanism().(*Mechanism)
	if !ok {
		return deflect.Counters{}, fmt.Errorf("switch %s is out of service", sw.Name())
	}
	return m.Counters(), nil
}

// deflected counts the packets that a switch has deflected.
func deflected(sw *fabric.Switch) (sum int64) {
	m, ok := sw.Mechanism().(*Mechanism)
	if !ok { // out of service
		return 0
	}
	for i := range m.counts {
		sum += int64(m.counts[i].To)
	}
	return sum
}

// decisions declares what the switches record, in the order of package deflect.
func decisions() []trace.DecisionKind {
	none := trace.OutcomeNone
	value := func(name, unit, doc string) trace.DecisionValue {
		return trace.DecisionValue{Name: name, Unit: unit, Doc: doc}
	}
	fate := []trace.DecisionValue{
		value("egress", "", "Destination port."),
		value("ingress", "", "Port by which the packet has come in."),
		value("deflections", "", "How often it has been deflected, on all switches."),
		value("ttl", "", "Its TTL."),
		value("priority", "", "Its priority value."),
		value("stale", "", "Of tail: 1: the ingress saw room."),
	}
	end := func(name, doc string, outcome trace.Outcome) trace.DecisionKind {
		return trace.DecisionKind{Name: name, Doc: doc, Outcome: outcome, Causes: []string{""}, Values: fate}
	}
	return []trace.DecisionKind{
		{Name: "route", Doc: "A destination port is chosen of two.", Outcome: none, Causes: []string{"", "shorter", "tie"},
			Values: []trace.DecisionValue{
				value("first", "", "Port that was drawn first."),
				value("second", "", "Port that was drawn second."),
				value("seen-first", "bytes", "What waits at the first, as the ingress sees it."),
				value("seen-second", "bytes", "What waits at the second."),
				value("paths", "", "Equal paths."),
			}},
		{Name: "tested", Doc: "A port is asked whether it takes the packet.", Outcome: none,
			Causes: []string{"", "room", "full", "over"},
			Values: []trace.DecisionValue{
				value("seen", "bytes", "What waits there, as the ingress sees it."),
				value("priority", "", "Priority value of the packet; of dist-ewma in priority-unit."),
				value("numerator", "", "R times the denominator; of dist-exact and dist-ewma in billionths."),
				value("denominator", "", "Denominator of R; 0: R was not evaluated."),
				value("draw", "", "Of probabilistic: number at random, of 53 bits; -1: none."),
				value("sampled", "", "1: the packet enters the window, after R was evaluated."),
				value("state", "", "Of quantile: FNV-1a (64 bits, signed) of the window before the packet, each value as 8 "+
					"bytes, the lowest and the oldest first. Of dist-exact: sum of the values that wait. Of dist-ewma: M."),
				value("count", "", "Values in the window before the packet, or packets that wait; of sd the bit."),
			}},
		{Name: "pick", Doc: "A port is chosen to deflect to.", Outcome: none, Causes: []string{"", "chosen", "tie", "none"},
			Values: []trace.DecisionValue{
				value("egress", "", "Destination port."),
				value("eligible", "", "How many ports are eligible."),
				value("picks", "", "Of sd and naive-deflection a position at random, from 0; else how many ports were drawn."),
				value("first", "", "First candidate of pd and vertigo; -1: none."),
				value("second", "", "Second candidate; -1: none. Any others are in tested, unless one is the destination port."),
				value("bits", "", "Bit i, below 63: the eligible port at position i is full, as the ingress sees it. Eligible "+
					"ports are in the order of their numbers."),
				value("seen", "bytes", "What waits at the port, as the ingress sees it; -1: none was picked."),
				value("avoidable", "", "If none was picked: eligible ports that are not full."),
			}},
		end("extracted", "The packet is pulled out of its queue.", none),
		end("queued", "It waits at its destination port.", trace.OutcomeQueued),
		end("deflected", "It waits at another port.", trace.OutcomeQueued),
		end("no-port", "No port is left to deflect it to.", trace.OutcomeDropped),
		end("tail", "The queue has no room for it.", trace.OutcomeDropped),
		end("displaced", "It is the least important of a queue that holds too much.", trace.OutcomeDropped),
		{Name: "made", Doc: "The switch has made the packet (bolt-src), which goes to the port of its route.",
			Outcome: none, Causes: []string{""}, Copy: true, Values: []trace.DecisionValue{
				value("for", "", "Packet that it answers."),
				value("from", "", "Host that it says to come from."),
				value("to", "", "Host that it goes to."),
				value("ingress", "", "Port by which the packet that it answers has come in."),
			}},
	}
}

// count adds the counters.
func count(sw *fabric.Switch, add func(string, int64)) error {
	m, ok := sw.Mechanism().(*Mechanism)
	if !ok { // out of service
		return nil
	}
	for i, p := range m.Counters().Ports {
		for _, n := range []struct {
			name  string
			count uint64
		}{{"arrived", p.Arrived}, {"deflected-from", p.From}, {"deflected-to", p.To}, {"no-port", p.NoPort},
			{"tail", p.Tail}, {"displaced", p.Displaced}, {"avoidable", p.Avoidable}, {"preemptive", p.Preemptive},
			{"extracted", p.Extracted}, {"evaluations", p.Evaluations}, {"bounced-back", p.BouncedBack},
			{"deflected-again", p.SecondOrMore}} {
			add(fmt.Sprintf("port-%d.%s", i, n.name), int64(n.count))
		}
	}
	return nil
}

// countHost adds the counters of a shim.
func countHost(h *fabric.Host, add func(string, int64)) error {
	s, ok := h.Shim().(*Shim)
	if !ok {
		return nil
	}
	c := s.Counters()
	for _, n := range []struct {
		name  string
		count int64
	}{{"marked", int64(c.Marked)}, {"retransmitted", int64(c.Retransmitted)}, {"received", int64(c.Received)},
		{"reordered", int64(c.Reordered)}, {"held", int64(c.Held)}, {"timeouts", int64(c.Timeouts)},
		{"discarded", int64(c.Discarded)}, {"delivered", int64(c.Delivered)}, {"late", int64(c.Late)},
		{"longest-hold-ns", c.LongestHoldPS / 1000}} {
		add("shim."+n.name, n.count)
	}
	return nil
}
