package aqm

import (
	"slices"

	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// faults are the seeded bugs that a switch has.
type faults struct {
	etrap etrapFaults
	afd   afdFaults
	dpp   dppFaults

	mice, blind, half, square, belowFair, regular, portTotal, dropsMarked, marksMice, sparesFull, systemLast, otherScope,
	overfills, refuses, miscounts, doubleThreshold, lowWeight, deeper, quarterMost, favours, recountsMarks,
	recordsLate, marksIncapable, recordsTail, equalDraws, saturates bool
}

// distorted is a policy with the seeded bugs of its settings.
func (m *Mechanism) distorted(p aqm.Policy, link clock.BitRate) aqm.Policy {
	if m.faults.deeper {
		if p.DesiredBytes == 0 {
			p.DesiredBytes = aqm.DesiredDepth(link)
		}
		p.DesiredBytes *= 2
	}
	if m.faults.quarterMost {
		p.MaxDrop /= 4
	}
	if m.faults.lowWeight {
		p.Weight /= 4
	}
	return p
}

// fault is a seeded bug.
type fault struct {
	parameter.Bug
	set     func(f *faults)
	distort func(s *fabric.SwitchSpec) // of the network's description
}

func afdBugs() []fault {
	b := func(name, rule, doc string, set func(f *faults)) fault {
		return fault{Bug: parameter.Bug{Name: name, Doc: doc, Rule: rule}, set: set}
	}
	return []fault{
		b("drops-mice", "aqm.mouse", "Mice with a measured rate are dropped as elephants are.",
			func(f *faults) { f.mice = true }),
		b("flow-blind", "aqm.flow-awareness", "RED decides instead of AFD.", func(f *faults) { f.blind = true }),
		b("drops-below-fair-rate", "aqm.below-fair-rate", "Flows just below the fair rate are dropped, too.",
			func(f *faults) { f.belowFair = true }),
		b("favours-flows", "aqm.fairness", "Flows of hosts with even numbers are dropped with a quarter of the probability.",
			func(f *faults) { f.favours = true }),
		b("half-probability", "aqm.probability", "Packets are dropped with half their probability.",
			func(f *faults) { f.half = true }),
		b("squared-probability", "aqm.probability", "Packets are dropped with the square of their probability.",
			func(f *faults) { f.square = true }),
		b("regular-drops", "aqm.probability", "Instead of at random, every so many packets one is dropped.",
			func(f *faults) { f.regular = true }),
		b("low-d-max", "aqm.probability", "The greatest probability is a quarter of d-max.",
			func(f *faults) { f.quarterMost = true }),
		b("fair-rate-per-packet", "aqm.fair-rate", "The fair rate changes with every packet.",
			func(f *faults) { f.afd.perPacket = true }),
		b("double-ki", "aqm.fair-rate", "The gain ki is doubled.", func(f *faults) { f.afd.doubleGain = true }),
		b("no-greatest-fair-rate", "aqm.fair-rate", "The fair rate exceeds that of the port.",
			func(f *faults) { f.afd.noLimit = true }),
		b("whole-port-as-queue", "aqm.fair-rate", "AFD takes all that waits at the port for its queue.",
			func(f *faults) { f.portTotal = true }),
		b("system-over-interface", "aqm.fair-rate", "The system's policy overrides that of an interface.",
			func(f *faults) { f.systemLast = true }),
		b("deeper-queue", "aqm.steady-queue", "The queue is controlled to twice its desired depth.",
			func(f *faults) { f.deeper = true }),
		b("drops-marked", "aqm.ecn", "ECN-capable packets are dropped instead of marked.",
			func(f *faults) { f.dropsMarked = true }),
		b("marks-incapable", "aqm.ecn", "Packets that are not ECN-capable are marked instead of dropped.",
			func(f *faults) { f.marksIncapable = true }),
		b("recounts-marks", "aqm.counters", "Marks are counted twice.",
			func(f *faults) { f.recountsMarks = true }),
		b("records-late", "aqm.buffer", "Records hold what waits at the port with the packet, not before it.",
			func(f *faults) { f.recordsLate = true }),
		b("records-tail", "aqm.record", "Records of early drops say that there was no room.",
			func(f *faults) { f.recordsTail = true }),
		b("equal-draws", "aqm.probability", "The random numbers of all flows are the same.",
			func(f *faults) { f.equalDraws = true }),
		b("marks-mice", "aqm.mouse", "Mice in a deep queue are marked or dropped.", func(f *faults) { f.marksMice = true }),
		b("gives-up", "aqm.headroom", "Nothing is dropped early while the port holds much more than the desired depth.",
			func(f *faults) { f.sparesFull = true }),
		b("late-promotion", "aqm.etrap", "A flow is an elephant one packet too late.",
			func(f *faults) { f.etrap.late = true }),
		b("evicts-at-threshold", "aqm.etrap", "A flow that sends just the threshold starts again.",
			func(f *faults) { f.etrap.evictsMore = true }),
		b("never-evicts", "aqm.etrap", "Idle elephants remain elephants.", func(f *faults) { f.etrap.keepsIdle = true }),
		b("keeps-bytes", "aqm.etrap", "An idle elephant keeps its byte count.",
			func(f *faults) { f.etrap.keepsBytes = true }),
		b("other-scope", "aqm.etrap", "There is one table where there should be several, and several instead of one.",
			func(f *faults) { f.otherScope = true }),
		b("stale-rate", "aqm.rate", "The rate of a flow is measured once.", func(f *faults) { f.etrap.staleRate = true }),
	}
}

func dppBugs() []fault {
	return []fault{
		{Bug: parameter.Bug{Name: "one-mouse-more", Rule: "aqm.mice-group",
			Doc: "One packet more of each flow goes to the queue of mice."}, set: func(f *faults) { f.dpp.oneMore = true }},
		{Bug: parameter.Bug{Name: "never-expires", Rule: "aqm.mice-age", Doc: "A flow that was idle does not start again."},
			set: func(f *faults) { f.dpp.neverExpires = true }},
		{Bug: parameter.Bug{Name: "expires-early", Rule: "aqm.mice-age",
			Doc: "A flow starts again after half the age period."}, set: func(f *faults) { f.dpp.expiresEarly = true }},
		{Bug: parameter.Bug{Name: "weighted-mice", Rule: "aqm.mice-first",
			Doc: "The queue of mice has a weight instead of priority."}, distort: func(s *fabric.SwitchSpec) {
			s.Scheduler.Kind = fabric.DWRR
			s.Scheduler.Weights[len(s.Scheduler.Weights)-1] = 1
		}},
		{Bug: parameter.Bug{Name: "mice-last", Rule: "aqm.mice-order", Doc: "The queue of mice is served last."},
			distort: func(s *fabric.SwitchSpec) {
				s.Scheduler.Kind = fabric.DWRR
				for i := range s.Scheduler.Weights {
					s.Scheduler.Weights[i] = 0
				}
				s.Scheduler.Weights[len(s.Scheduler.Weights)-1] = 1
			}},
		{Bug: parameter.Bug{Name: "pauses", Rule: "aqm.mice-delay", Doc: "Ports pause for 40 byte times after each frame."},
			distort: func(s *fabric.SwitchSpec) { s.Gap = 40 }},
	}
}

func redBugs() []fault {
	return []fault{{Bug: parameter.Bug{Name: "slow-mean", Rule: "aqm.mean-queue",
		Doc: "The mean queue follows the queue four times as slowly."}, set: func(f *faults) { f.lowWeight = true }},
		{Bug: parameter.Bug{Name: "regular-drops", Rule: "aqm.probability",
			Doc: "Instead of at random, every so many packets one is dropped."}, set: func(f *faults) { f.regular = true }}}
}

func thresholdBugs() []fault {
	return []fault{{Bug: parameter.Bug{Name: "double-threshold", Rule: "aqm.threshold",
		Doc: "Packets are marked from twice the threshold on."}, set: func(f *faults) { f.doubleThreshold = true }}}
}

// bufferBugs are those of every model.
func bufferBugs() []fault {
	return []fault{
		{Bug: parameter.Bug{Name: "overfills-port", Rule: "aqm.buffer", Doc: "A port takes half as much again."},
			set: func(f *faults) { f.overfills = true },
			distort: func(s *fabric.SwitchSpec) {
				for i := range s.Queues {
					s.Queues[i].MaxBytes += s.Queues[i].MaxBytes / 2
				}
			}},
		{Bug: parameter.Bug{Name: "refuses-with-room", Rule: "aqm.room", Doc: "A port takes three quarters of what it may."},
			set: func(f *faults) { f.refuses = true }},
		{Bug: parameter.Bug{Name: "saturates", Rule: "aqm.counters",
			Doc: "Counters of what was sent stay at their greatest value instead of beginning with 0 again."},
			set: func(f *faults) { f.saturates = true }},
		{Bug: parameter.Bug{Name: "miscounts", Rule: "aqm.counters",
			Doc: "Drops for want of room, and some marks, are not counted."}, set: func(f *faults) { f.miscounts = true }},
	}
}

// faultsOf returns the seeded bugs of a model by their names.
func faultsOf(all []fault, names []string) (f faults) {
	for i := range all {
		if all[i].set != nil && slices.Contains(names, all[i].Name) {
			all[i].set(&f)
		}
	}
	return f
}
