package fair

import (
	"slices"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// faults are the seeded bugs that a switch has.
type faults struct {
	meters meterFaults

	reorders, duplicates, evenWeights, oneLeaf, noParent, evenNodes, idles, fills, strict, half, square, everyLevel,
	linkAlpha, noTest, oneBit, dropsEqual, keepsLabel, linkLabel, measuresAgain, keepsShim, hasty, oneStart,
	countsDropped, noDecay, noFloor, ignoresFloor, byArrivals, halves, noCeiling, lastChild, slowLabels, noFraming,
	coreState, noShimBytes,
	dropsShim, staleShim, shimUnits, ignoresChange, miscounts, keepsAlpha, cutsOn,
	siblingAlpha, oneAccepted, siblingArrivals bool
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

// flatBugs are those of both models.
func flatBugs() []fault {
	reorders := bug("reorders", "fair.fifo", "Packets of flows with odd numbers overtake the others.",
		func(f *faults) { f.reorders = true })
	reorders.distort = func(s *fabric.SwitchSpec) {
		s.Queues = append(s.Queues, s.Queues[0])
		s.Scheduler.Kind = fabric.Strict
	}
	deep := bug("deep-fifo", "fair.tail", "The FIFO holds four times the packets that it should.", func(*faults) {})
	deep.distort = func(s *fabric.SwitchSpec) { s.Queues[0].MaxPackets *= 4 }
	return []fault{
		reorders,
		bug("duplicates", "switch.unmatched-packet", "Every 500th packet leaves twice.",
			func(f *faults) { f.duplicates = true }),
		bug("ignores-weights", "fair.shares", "Labels are not divided by the weights of flows.",
			func(f *faults) { f.evenWeights = true }),
		bug("idles", "fair.work", "The capacity of the link is taken to be a tenth less.",
			func(f *faults) { f.idles = true }),
		bug("fills", "fair.tail", "The capacity of the link is taken to be more than it is.",
			func(f *faults) { f.fills = true }),
		bug("no-drop-test", "fair.tail", "Only the full FIFO drops.", func(f *faults) { f.noTest = true }),
		bug("drops-below-share", "fair.under-share", "Packets are tested against 0.8 alpha.",
			func(f *faults) { f.strict = true }),
		bug("half-probability", "fair.drop-test", "Packets are dropped with half their probability.",
			func(f *faults) { f.half = true }),
		bug("squared-probability", "fair.drop-test", "Packets are dropped with the square of their probability.",
			func(f *faults) { f.square = true }),
		bug("one-bit-test", "fair.drop-test", "In mode dataplane, the drop test has one bit, although more are drawn.",
			func(f *faults) { f.oneBit = true }),
		bug("drops-equal", "fair.drop-test", "In mode dataplane, the drop test drops at equality, too.",
			func(f *faults) { f.dropsEqual = true }),
		bug("keeps-label", "fair.label", "A hop does not lower labels to its alpha.",
			func(f *faults) { f.keepsLabel = true }),
		bug("measures-again", "fair.label", "Every hop labels packets anew.", func(f *faults) { f.measuresAgain = true }),
		bug("keeps-shim", "fair.label", "The last hop leaves the label in the packet.",
			func(f *faults) { f.keepsShim = true }),
		bug("drops-shim", "fair.label", "With shim: switches take off labels before the last hop, too.",
			func(f *faults) { f.dropsShim = true }),
		bug("stale-shim", "fair.label", "With shim: the label that has come is written, not the lower one that is recorded.",
			func(f *faults) { f.staleShim = true }),
		bug("shim-in-mbps", "fair.label", "With shim: the rate is written in Mb/s, not in kbit/s.",
			func(f *faults) { f.shimUnits = true }),
		bug("no-shim-bytes", "fair.estimator", "With shim: rates leave out the bytes of the shim.",
			func(f *faults) { f.noShimBytes = true }),
		bug("hasty", "fair.pacing", "Alpha changes after an eighth of K_c.", func(f *faults) { f.hasty = true }),
		bug("literal-sign", "fair.estimator", "Averages have e^(T/K), as equation 3.4 is printed.",
			func(f *faults) { f.meters.literalSign = true }),
		bug("starts-from-zero", "fair.estimator", "The first packet of an estimate counts nothing.",
			func(f *faults) { f.meters.zeroStart = true }),
		bug("skips-instant", "fair.estimator", "Of packets that arrive at one instant only the first counts.",
			func(f *faults) { f.meters.skipsInstant = true }),
		bug("last-gap", "fair.estimator", "An estimate is what the last gap says: nothing is averaged.",
			func(f *faults) { f.meters.lastGap = true }),
		bug("counts-dropped", "fair.estimator", "Dropped packets count in F.", func(f *faults) { f.countsDropped = true }),
		bug("no-decay", "fair.estimator", "F does not decay while all packets are dropped.",
			func(f *faults) { f.noDecay = true }),
		bug("no-floor", "fair.alpha", "An update may lower alpha by any factor.", func(f *faults) { f.noFloor = true }),
		bug("ignores-floor", "fair.alpha", "alpha-floor has no effect.", func(f *faults) { f.ignoresFloor = true }),
		bug("by-arrivals", "fair.alpha", "Alpha is multiplied by c/A instead of c/F.",
			func(f *faults) { f.byArrivals = true }),
		bug("no-ceiling", "fair.alpha", "Alpha may exceed the rate of the link.", func(f *faults) { f.noCeiling = true }),
		bug("halves", "fair.alpha", "In mode dataplane, alpha is halved instead of lowered by alpha/M.",
			func(f *faults) { f.halves = true }),
		bug("last-child", "fair.alpha", "Alpha of a node that is not congested follows the last packet, not the largest.",
			func(f *faults) { f.lastChild = true }),
		bug("no-framing", "fair.estimator", "Rates leave out what frames take on the link beyond their size.",
			func(f *faults) { f.noFraming = true }),
		bug("slow-labels", "fair.excess", "Flows are measured over 32 K.", func(f *faults) { f.slowLabels = true }),
		bug("ignores-change", "fair.alpha", "Parameters that change while traffic runs have no effect.",
			func(f *faults) { f.ignoresChange = true }),
		bug("core-state", "fair.state", "Switches that do not label keep something of each flow.",
			func(f *faults) { f.coreState = true }),
		bug("miscounts", "fair.state", "Every hundredth packet is not counted.", func(f *faults) { f.miscounts = true }),
		deep,
	}
}

// overflowBugs are those of CSFQ.
func overflowBugs() []fault {
	return []fault{bug("overflow-ignored", "fair.alpha", "A full FIFO does not lower alpha, although it should.",
		func(f *faults) { f.keepsAlpha = true }),
		bug("overflow-unlimited", "fair.alpha", "A full FIFO lowers alpha by more than a quarter in K_c.",
			func(f *faults) { f.cutsOn = true })}
}

// treeBugs are those of HCSFQ.
func treeBugs() []fault {
	return []fault{
		bug("one-leaf", "fair.shares", "All flows belong to the last node.", func(f *faults) { f.oneLeaf = true }),
		bug("even-nodes", "fair.shares", "The weights of nodes are ignored.", func(f *faults) { f.evenNodes = true }),
		bug("no-parent", "fair.isolation", "The capacity of a node does not depend on its parent's alpha.",
			func(f *faults) { f.noParent = true }),
		bug("sibling-alpha", "fair.isolation", "Packets are tested against alpha of the next node beside their parent.",
			func(f *faults) { f.siblingAlpha = true }),
		bug("one-accepted", "fair.isolation", "Nodes side by side share one F.", func(f *faults) { f.oneAccepted = true }),
		bug("sibling-arrivals", "fair.isolation", "The capacity of a node is limited by A of the next node beside it.",
			func(f *faults) { f.siblingArrivals = true }),
		bug("link-alpha", "fair.drop-test", "Packets are tested against the alpha of the link, not of their parent.",
			func(f *faults) { f.linkAlpha = true }),
		bug("every-level", "fair.drop-test", "Every node drops, not only the parent of the flow.",
			func(f *faults) { f.everyLevel = true }),
		bug("link-label", "fair.label", "Labels are lowered to the alpha of the link, not of their parent.",
			func(f *faults) { f.linkLabel = true }),
		bug("one-start-time", "fair.pacing", "All nodes share one start time, as algorithm 4 is printed.",
			func(f *faults) { f.oneStart = true }),
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
