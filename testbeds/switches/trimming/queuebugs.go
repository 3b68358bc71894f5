package trimming

import (
	"slices"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// queueFault is a seeded bug of queues, buffer, scheduler or options of every model: the switch has something else than
// its test declares.
type queueFault struct {
	parameter.Bug
	distort func(s *fabric.SwitchSpec)
}

func queueFaults() []queueFault { return slices.Concat(ofQueues(), ofBolt(), ofRoutes()) }

// ofBolt are faults of the options bolt-src, bolt-pru and bolt-sm.
func ofBolt() []queueFault {
	bug := func(fault fabric.BoltFault, name, rule, doc string) queueFault {
		return queueFault{parameter.Bug{Name: "bolt-" + name, Doc: doc, Rule: "boltswitch." + rule},
			func(s *fabric.SwitchSpec) { s.Bolt.Fault = fault }}
	}
	return []queueFault{
		bug(fabric.BoltEarlySRC, "early-src", "src-unfounded", "Half the threshold counts as congestion."),
		bug(fabric.BoltForgetsSRC, "forgets-src", "src-missing", "Every 4th SRC packet is not sent."),
		bug(fabric.BoltDoublesSRC, "doubles-src", "src-twice", "Every 4th SRC packet is sent twice."),
		bug(fabric.BoltIgnoresDEC, "ignores-dec", "src-unfounded",
			"Data is answered by an SRC packet although an earlier switch has done that."),
		bug(fabric.BoltWrongQueue, "wrong-queue", "src-content", "SRC packets have half of the bytes that wait."),
		bug(fabric.BoltWrongRate, "wrong-rate", "src-content", "SRC packets have twice the rate of the link."),
		bug(fabric.BoltWrongTime, "wrong-time", "src-content", "SRC packets have the time of the switch."),
		bug(fabric.BoltKeepsInc, "keeps-inc", "mark", "Congestion leaves INC as it is."),
		bug(fabric.BoltForgetsDec, "forgets-dec", "mark", "Congestion does not set DEC."),
		bug(fabric.BoltCountsFirst, "counts-first", "grant", "Packets with FIRST and LAST add PRU tokens."),
		bug(fabric.BoltForgetsPRU, "forgets-pru", "refusal", "Packets with LAST add no PRU tokens."),
		bug(fabric.BoltSpendsNoPRU, "spends-no-pru", "grant", "Grants take no PRU token."),
		bug(fabric.BoltUncappedSM, "uncapped-sm", "grant", "SM tokens grow beyond an MTU."),
		bug(fabric.BoltForgetsDemand, "forgets-demand", "grant", "Packets take nothing of the SM tokens."),
		bug(fabric.BoltForgetsSM, "forgets-sm", "refusal", "SM tokens grant nothing."),
	}
}

// ofRoutes are faults of routes.
func ofRoutes() []queueFault {
	bug := func(fault fabric.RouteFault, rule, doc string) queueFault {
		return queueFault{parameter.Bug{Name: string(fault), Doc: doc, Rule: "switch." + rule},
			func(s *fabric.SwitchSpec) { s.Routing = fault }}
	}
	return []queueFault{
		bug(fabric.KeepsFailed, "wrong-port", "Routes never avoid a trunk that fails."),
		bug(fabric.IgnoresReturn, "path-unused", "A trunk that comes back is not used again."),
		bug(fabric.LeadsAway, "wrong-port", "Routes include ports that lead no closer."),
		bug(fabric.ReroutesLate, "wrong-port", "Routes avoid a failed trunk only after 20 more packets are lost."),
		bug(fabric.StaysDown, "trunk-in-service", "A trunk that comes back carries nothing; what is routed to it is lost."),
		bug(fabric.ForgetsRoutes, "path-missed", "After a trunk has failed, every other switch is unreachable."),
	}
}

func ofQueues() []queueFault {
	each := func(f func(q *fabric.QueueSpec)) func(*fabric.SwitchSpec) {
		return func(s *fabric.SwitchSpec) {
			for i := range s.Queues {
				f(&s.Queues[i])
			}
		}
	}
	return []queueFault{
		{parameter.Bug{Name: "overfills-buffer", Doc: "The shared buffer takes half as much again.", Rule: "queue.buffer"},
			func(s *fabric.SwitchSpec) { s.Buffer.Bytes += s.Buffer.Bytes / 2 }},
		{parameter.Bug{Name: "overfills-queue", Doc: "Queues take half as much again.", Rule: "queue.limit"},
			each(func(q *fabric.QueueSpec) { q.MaxBytes += q.MaxBytes / 2; q.MaxPackets += q.MaxPackets / 2 })},
		{parameter.Bug{Name: "ignores-alpha", Doc: "Queues have no dynamic threshold.", Rule: "queue.threshold"},
			each(func(q *fabric.QueueSpec) { q.Alpha = 0 })},
		{parameter.Bug{Name: "double-alpha", Doc: "Dynamic thresholds have twice their alpha.", Rule: "queue.threshold"},
			each(func(q *fabric.QueueSpec) { q.Alpha *= 2 })},
		{parameter.Bug{Name: "refuses-with-room", Doc: "Queues take only three quarters of what they may.",
			Rule: "queue.refused"},
			each(func(q *fabric.QueueSpec) { q.MaxBytes -= q.MaxBytes / 4; q.Alpha *= 0.75 })},
		{parameter.Bug{Name: "idles", Doc: "Ports pause for 40 byte times after each frame.", Rule: "queue.idle"},
			func(s *fabric.SwitchSpec) { s.Gap = 40 }},
		{parameter.Bug{Name: "sends-early", Doc: "Ports shorten the gap between frames by 20 byte times.",
			Rule: "queue.rate"},
			func(s *fabric.SwitchSpec) { s.Gap = -20 }},
		{parameter.Bug{Name: "ignores-priority", Doc: "Queues are served by arrival.", Rule: "queue.priority"},
			func(s *fabric.SwitchSpec) { s.Scheduler.Kind = fabric.FIFO }},
		{parameter.Bug{Name: "reversed-weights", Doc: "The weights of queues are in reverse order.", Rule: "queue.share"},
			func(s *fabric.SwitchSpec) { slices.Reverse(s.Scheduler.Weights) }},
		{parameter.Bug{Name: "weights-in-packets", Doc: "Weights are of packets instead of bytes.", Rule: "queue.share"},
			func(s *fabric.SwitchSpec) { s.Scheduler.Kind = fabric.WRR }},
	}
}

func queueBugs() []parameter.Bug {
	var bugs []parameter.Bug
	for _, f := range queueFaults() {
		bugs = append(bugs, f.Bug)
	}
	return bugs
}

// distort is [switches.Model.Distort].
func distort(bugs []string, s *fabric.SwitchSpec) {
	for _, f := range queueFaults() {
		if slices.Contains(bugs, f.Name) {
			f.distort(s)
		}
	}
}
