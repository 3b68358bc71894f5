package deflect

import (
	"slices"

	"candela.dev/candela/deflect"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// faults are the seeded bugs that a switch, or a host's shim, has.
type faults struct {
	// of switches
	reorders, duplicates, keepsTTL, misrecords, longer, sprays, toHosts, early, givesUp, blind, firstFree, fiveBits,
	wholeBitmap, late, sees, doubled, strict, countsArriving, countsGreater, countsEqual, switchWindow, samplesLate,
	shortWindow, otherDenominator, evaluatesFull, retests, important, longest, noBoost, smallestVictim, equalVictims,
	dropsVictim, hidesMade bool
	// of hosts
	keepsRet, totalRFS, firstAlways, holdsLong, neverHolds, losesHeld, discardsLate, letsGo, keepsHeld, stopsShort bool
}

// fault is a seeded bug.
type fault struct {
	parameter.Bug
	set     func(f *faults)
	distort func(s *fabric.SwitchSpec)
}

func bug(name, rule, doc string, set func(f *faults)) fault {
	return fault{Bug: parameter.Bug{Name: name, Doc: doc, Rule: rule}, set: set}
}

const unmatched = "switch.unmatched-packet"

// queueBugs are those of every model.
func queueBugs(fifo bool) []fault {
	list := []fault{
		bug("longer-path", deflect.RuleForwarding, "Power-of-two forwarding takes the longer queue.",
			func(f *faults) { f.longer = true }),
		bug("sprays", deflect.RuleForwarding, "With forwarding by routes, each packet of a flow takes a path of its own.",
			func(f *faults) { f.sprays = true }),
		bug("hides-made", deflect.RuleRecord, "With bolt-src, no record says that the switch has made a packet.",
			func(f *faults) { f.hidesMade = true }),
	}
	if fifo {
		reorders := bug("reorders", deflect.RuleOrder, "Packets of flows with odd numbers overtake the others.",
			func(f *faults) { f.reorders = true })
		reorders.distort = func(s *fabric.SwitchSpec) {
			s.Queues = append(s.Queues, s.Queues[0])
			s.Scheduler.Kind = fabric.Strict
		}
		list = append(list, reorders)
	}
	return list
}

// deflectionBugs are those of models that deflect what arrives.
func deflectionBugs() []fault {
	return []fault{
		bug("misrecords", deflect.RuleRecord, "Records of tests count 64 bytes more than wait.",
			func(f *faults) { f.misrecords = true }),
		bug("duplicates", unmatched, "Every 50th deflected packet is deflected twice.",
			func(f *faults) { f.duplicates = true }),
		bug("keeps-ttl", deflect.RulePath, "A deflection restores the TTL.", func(f *faults) { f.keepsTTL = true }),
		bug("to-hosts", deflect.RuleTarget, "Ports to hosts are deflected to, too.", func(f *faults) { f.toHosts = true }),
	}
}

// fullBugs are those of models that deflect as queues are full.
func fullBugs() []fault {
	return []fault{
		bug("deflects-early", deflect.RuleNeedless, "A queue that is half full counts as full.",
			func(f *faults) { f.early = true }),
		bug("gives-up", deflect.RuleRoom, "A packet is dropped if the first port that is tried is full.",
			func(f *faults) { f.givesUp = true }),
		bug("blind", deflect.RuleTarget, "Ports are chosen as if none were full.", func(f *faults) { f.blind = true }),
	}
}

func dibsBugs() []fault {
	return []fault{bug("first-free", deflect.RuleChoice, "Of ports with room the first is taken.",
		func(f *faults) { f.firstFree = true })}
}

func scanBugs() []fault {
	return []fault{
		bug("five-bits", deflect.RuleChoice, "The position is a number of 5 bits; from a position behind the last port the "+
			"scan goes on at the first.", func(f *faults) { f.fiveBits = true }),
		bug("whole-bitmap", deflect.RuleChoice, "The bitmap has all ports; the bits of those to hosts are 1.",
			func(f *faults) { f.wholeBitmap = true }),
	}
}

// informationBugs are those of models that may see queues late.
func informationBugs() []fault {
	return []fault{
		bug("sees-late", deflect.RuleStale, "With information other than exact, ingress pipelines see what was up to 1.5 "+
			"periods before.", func(f *faults) { f.late = true }),
		bug("sees-at-once", deflect.RuleStale, "With information other than exact, ingress pipelines see queues and "+
			"registers as they are.", func(f *faults) { f.sees = true }),
	}
}

func pdBugs() []fault {
	return []fault{
		bug("double-alpha", deflect.RuleVerdict, "Alpha is twice what it is set to.", func(f *faults) { f.doubled = true }),
		bug("counts-arriving", deflect.RuleVerdict, "The arriving packet counts in the queue.",
			func(f *faults) { f.countsArriving = true }),
		bug("counts-greater", deflect.RuleVerdict, "The quantile counts larger priority values.",
			func(f *faults) { f.countsGreater = true }),
		bug("counts-equal", deflect.RuleVerdict, "The quantile counts equal priority values, too.",
			func(f *faults) { f.countsEqual = true }),
		bug("other-denominator", deflect.RuleVerdict, "The quantile is divided by what the window holds if it is set to be "+
			"divided by its length, and the other way round.", func(f *faults) { f.otherDenominator = true }),
		bug("strict-threshold", deflect.RuleVerdict, "The threshold is at Q (1 - alpha), whatever R is.",
			func(f *faults) { f.strict = true }),
		bug("switch-window", deflect.RuleWindow, "All ports share one window.", func(f *faults) { f.switchWindow = true }),
		bug("samples-late", deflect.RuleWindow, "One packet more passes between two that enter the window.",
			func(f *faults) { f.samplesLate = true }),
		bug("short-window", deflect.RuleWindow, "The window has half of its places.",
			func(f *faults) { f.shortWindow = true }),
		bug("evaluates-full", deflect.RuleWindow, "R is evaluated, and the window advances, also if the port is full.",
			func(f *faults) { f.evaluatesFull = true }),
		bug("tests-again", deflect.RuleWindow, "A destination port that is drawn as a candidate is tested again.",
			func(f *faults) { f.retests = true }),
		bug("no-first", deflect.RuleImportant, "Packets with the priority value 0 are the least important.",
			func(f *faults) { f.important = true }),
		bug("one-try", deflect.RuleDropped, "A packet is dropped if the first candidate refuses it.",
			func(f *faults) { f.givesUp = true }),
		bug("longest-candidate", deflect.RuleChoice, "Of candidates that take the packet the one with the longest queue is "+
			"taken.", func(f *faults) { f.longest = true }),
		bug("no-boost", deflect.RuleVerdict, "Retransmissions are not boosted.", func(f *faults) { f.noBoost = true }),
	}
}

func vertigoBugs() []fault {
	return []fault{
		bug("smallest-victim", deflect.RuleVictim, "Of less important packets the most important ones are pulled out.",
			func(f *faults) { f.smallestVictim = true }),
		bug("equal-victims", deflect.RuleVictim, "Packets of equal priority values are pulled out, too.",
			func(f *faults) { f.equalVictims = true }),
		bug("drops-victim", deflect.RuleOrder, "Where a victim finds no room it is dropped, whatever else waits there.",
			func(f *faults) { f.dropsVictim = true }),
		bug("keeps-ttl", deflect.RulePath, "A deflection restores the TTL.", func(f *faults) { f.keepsTTL = true }),
		bug("to-hosts", deflect.RuleTarget, "Ports to hosts are deflected to, too.", func(f *faults) { f.toHosts = true }),
		bug("longest-candidate", deflect.RuleChoice, "Of two candidates the one with the longer queue is taken.",
			func(f *faults) { f.longest = true }),
	}
}

// hostBugs are those of marks and ordering.
func hostBugs() []fault {
	return []fault{
		bug("keeps-ret", deflect.RuleMark, "Hosts mark retransmissions as they marked the original.",
			func(f *faults) { f.keepsRet = true }),
		bug("total-rfs", deflect.RuleMark, "Hosts mark every packet with the length of its message.",
			func(f *faults) { f.totalRFS = true }),
		bug("first-always", deflect.RuleMark, "Hosts mark every packet as the first of its message.",
			func(f *faults) { f.firstAlways = true }),
		bug("holds-long", deflect.RuleShim, "Receivers hold packets for twice hold-us.",
			func(f *faults) { f.holdsLong = true }),
		bug("never-holds", deflect.RuleShim, "Receivers pass on packets as they come.",
			func(f *faults) { f.neverHolds = true }),
		bug("loses-held", deflect.RuleShim, "Receivers discard what they have held for hold-us.",
			func(f *faults) { f.losesHeld = true }),
		bug("discards-late", deflect.RuleShim, "Receivers discard a packet with bytes before those that they have passed on.",
			func(f *faults) { f.discardsLate = true }),
		bug("lets-go", deflect.RuleShim, "Receivers hold packets for a quarter of hold-us at most.",
			func(f *faults) { f.letsGo = true }),
		bug("keeps-held", deflect.RuleShim, "Receivers pass on what they hold only after hold-us.",
			func(f *faults) { f.keepsHeld = true }),
		bug("stops-short", deflect.RuleShim, "After hold-us receivers pass on what came before a packet, but not what "+
			"follows it without a gap.", func(f *faults) { f.stopsShort = true }),
	}
}

// faultsOf returns the seeded bugs of a model by their names.
func faultsOf(all []fault, names []string) (f faults) {
	for i := range all {
		if slices.Contains(names, all[i].Name) {
			all[i].set(&f)
		}
	}
	return f
}
