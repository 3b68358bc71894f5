package fair

import (
	"fmt"

	"candela.dev/candela/fair"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
)

// maxTime is an upper limit of durations in us, beyond any real switch.
const maxTime = 1_000_000

// parameters are those of both models.
func parameters() parameter.Table {
	period := func(name, doc string) parameter.Parameter {
		return parameter.Parameter{Name: name, Kind: parameter.Duration, Unit: "us", Optional: true, Min: 1, Max: maxTime,
			Doc: doc}
	}
	return parameter.Table{
		{Name: "mode", Kind: parameter.Word, Words: []string{"ideal", "dataplane"}, Default: "ideal",
			Doc: "ideal: exponential averages and real numbers; dataplane: windows, a drop test with integers, additive " +
				"increase and multiplicative decrease (AIMD), and recirculation, as programmable switches can do."},
		period("k-us", "K: averaging of flows, in mode ideal; by default k-alpha-us."),
		period("k-alpha-us", "K_alpha: averaging of nodes, in mode ideal; by default 100 us or the time of 40 packets of "+
			"1500 bytes, whichever is longer."),
		period("k-c-us", "K_c: least time between updates of a fair rate; by default twice k-alpha-us, in mode dataplane "+
			"window-us. Below twice k-alpha-us two levels oscillate."),
		{Name: "k-f-us", Kind: parameter.Duration, Unit: "us", Default: "20", Max: maxTime,
			Doc: "The accepted rate decays after that time, if packets are dropped and none is accepted; 0: never. Of " +
				"mode ideal."},
		{Name: "clock-ns", Kind: parameter.Duration, Unit: "ns", Default: "0", Max: 1_000_000,
			Doc: "Resolution of the clock by which the switch measures: times are rounded down to it; 0: exact."},
		{Name: "phi", Kind: parameter.Number, Default: "0.985", Max: 2,
			Doc: "Share of the link that is given to flows; 1: the source, with which the queue does not drain."},
		{Name: "min-factor", Kind: parameter.Number, Default: "0.75", Max: 1,
			Doc: "No update in mode ideal multiplies a fair rate by less."},
		{Name: "alpha-floor", Kind: parameter.Number, Default: "0", Max: 1,
			Doc: "An update gives a node that is not congested at least this share of what it may get: of phi times the " +
				"link rate, below the link of its weight times its parent's fair rate; 0: the specification; the published " +
				"simulator: 0.1."},
		{Name: "initial-share", Kind: parameter.Integer, Default: "1", Min: 1, Max: 1 << 20,
			Doc: "The fair rates of nodes below the link start from the link rate divided by this; the artefact: 32."},
		{Name: "parent-alpha", Kind: parameter.Word, Words: []string{"current", "before"}, Default: "current",
			Doc: "Fair rate of its parent that a node sees: with or without the update by the packet at hand. Judges accept " +
				"either of a switch that is not set to before."},
		{Name: "tail-drops", Kind: parameter.Word, Words: []string{"accepted", "ignored"}, Default: "accepted",
			Doc: "Whether a packet that finds the FIFO full counts in the accepted rate."},
		{Name: "queue-packets", Kind: parameter.Integer, Unit: "packets", Default: "320", Min: 1, Max: 1 << 30,
			Doc: "Packets that may wait in the FIFO."},
		{Name: "queue-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: 1 << 40,
			Doc: "Bytes that may wait there; 0: no limit but queue-packets."},
		{Name: "bypass-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: 1 << 16,
			Doc: "Smaller packets are neither measured nor tested; 125, for pure ACKs, is meant for TCP."},
		{Name: "shim", Kind: parameter.Boolean, Default: "false",
			Doc: "Between switches, packets carry their labels in a shim after the IP header: 4 bytes and 2 for each node " +
				"from the link to the flow's parent, which links and queues carry. By default labels are metadata and take " +
				"no room."},
		{Name: "flows", Kind: parameter.List,
			Doc: "Weights and parents of flows; the first entry that applies counts. All others have " +
				"weight 1. The weight of the workload multiplies either.",
			Items: parameter.Table{
				{Name: "hosts", Kind: parameter.Ranges, Max: 1 << 16, Doc: "Senders; by default all."},
				{Name: "numbers", Kind: parameter.Ranges, Max: 1 << 31, Doc: "Numbers of flows; by default all."},
				{Name: "node", Kind: parameter.Integer, Optional: true, Max: 1 << 10,
					Doc: "Their parent in the tree, 0 being the link; by default the node with their host."},
				{Name: "weight", Kind: parameter.Integer, Default: "1", Min: 1, Max: 1 << 16,
					Doc: "What each gets beside its siblings, times the weight that the workload gives it."},
			}},
		period("window-us", "W: window in which bytes are counted, in mode dataplane; by default 100 us or the time of 40 "+
			"packets of 1500 bytes, whichever is longer."),
		{Name: "window-sample", Kind: parameter.Word, Words: []string{"elapsed", "window"}, Default: "elapsed",
			Doc: "What the bytes of a window are divided by: the time since it began, or its length."},
		{Name: "average-shift", Kind: parameter.Integer, Default: "3", Max: 16,
			Doc: "A window has the weight 2^-shift in the average; 0: it replaces it, which oscillates."},
		{Name: "drop-bits", Kind: parameter.Integer, Unit: "bits", Default: "7", Min: 1, Max: 16,
			Doc: "Bits of the random number of the drop test in mode dataplane; the artefact: 4."},
		{Name: "decrease-divisor", Kind: parameter.Integer, Default: "128", Min: 1, Max: 1 << 20,
			Doc: "M: AIMD lowers a fair rate by its M-th part."},
		{Name: "increase-divisor", Kind: parameter.Integer, Default: "4096", Min: 1, Max: 1 << 30,
			Doc: "AIMD raises a fair rate by the link rate divided by this (delta)."},
		{Name: "uncongested", Kind: parameter.Word, Words: []string{"largest", "additive"}, Default: "largest",
			Doc: "How the fair rate of a node without congestion follows in mode dataplane: it is the largest rate of a " +
				"child, or grows as in congestion."},
		{Name: "recirculation-ns", Kind: parameter.Duration, Unit: "ns", Default: "500", Max: 1_000_000,
			Doc: "Time until a new fair rate is read, in mode dataplane."},
	}
}

func overflows() parameter.Table {
	return parameter.Table{{Name: "overflow-heuristic", Kind: parameter.Boolean, Default: "false",
		Doc: "Each packet that finds the FIFO full lowers the fair rate by 1 %, in K_c by 25 % at most."}}
}

func trees() parameter.Table { return parameter.Table{switches.TreeParameter()} }

// settings returns what a switch is set to.
func settings(v parameter.Values) fair.Settings {
	s := fair.Settings{
		KF: v.Duration("k-f-us"), Phi: v.Number("phi"), MinFactor: v.Number("min-factor"),
		AlphaFloor:   v.Number("alpha-floor"),
		InitialShare: v.Int("initial-share"), ParentBefore: v.Word("parent-alpha") == "before",
		TailIgnored: v.Word("tail-drops") == "ignored", Packets: v.Int("queue-packets"), Bytes: v.Int("queue-bytes"),
		Bypass: v.Int("bypass-bytes"), WindowDivides: v.Word("window-sample") == "window",
		AverageShift: v.Int("average-shift"), DropBits: v.Int("drop-bits"), Decrease: v.Int("decrease-divisor"),
		Increase: v.Int("increase-divisor"), Additive: v.Word("uncongested") == "additive",
		Recirculation: v.Duration("recirculation-ns"), Tick: v.Duration("clock-ns"), Shim: v.Bool("shim"),
	}
	if v.Word("mode") == "dataplane" {
		s.Mode = fair.Dataplane
	}
	for name, at := range map[string]*int64{"k-us": (*int64)(&s.K), "k-alpha-us": (*int64)(&s.KAlpha),
		"k-c-us": (*int64)(&s.KC), "window-us": (*int64)(&s.Window)} {
		if v.Has(name) {
			*at = int64(v.Duration(name))
		}
	}
	hierarchy(v, &s)
	return s
}

// hierarchy reads nodes and members. Without a tree flows are children of the link.
func hierarchy(v parameter.Values, s *fair.Settings) {
	s.Nodes = []fair.Node{{Parent: -1, Weight: 1}}
	var hosts []fair.Member // by the tree
	if v.Table().Find("tree") < 0 {
		s.Overflow = v.Bool("overflow-heuristic")
	} else if s.Scheme = fair.HCSFQ; len(v.List("tree")) > 0 {
		s.Nodes = s.Nodes[:0]
		for i, n := range switches.TreeOf(v) {
			s.Nodes = append(s.Nodes, fair.Node{Parent: n.Parent, Weight: n.Weight})
			if len(n.Hosts) > 0 {
				hosts = append(hosts, fair.Member{Hosts: v.List("tree")[i-1].Spans("hosts"), Node: i})
			}
		}
	}
	hosts = append(hosts, fair.Member{Node: len(s.Nodes) - 1})
	for _, item := range v.List("flows") {
		f := fair.Member{Hosts: item.Spans("hosts"), Flows: item.Spans("numbers"), Weight: item.Int("weight")}
		if item.Has("node") {
			f.Node = item.Int("node")
			s.Members = append(s.Members, f)
			continue
		}
		for _, m := range hosts { // those of its flows that each node has
			if len(f.Hosts) == 0 || len(m.Hosts) == 0 {
				m.Hosts = append(m.Hosts, f.Hosts...)
			} else if m.Hosts = common(f.Hosts, m.Hosts); len(m.Hosts) == 0 {
				continue
			}
			m.Flows, m.Weight = f.Flows, f.Weight
			s.Members = append(s.Members, m)
		}
	}
	for _, m := range hosts {
		m.Weight = 1
		s.Members = append(s.Members, m)
	}
}

// common returns what two sets have in common.
func common(a, b [][2]int64) (both [][2]int64) {
	for _, x := range a {
		for _, y := range b {
			if first, last := max(x[0], y[0]), min(x[1], y[1]); first <= last {
				both = append(both, [2]int64{first, last})
			}
		}
	}
	return both
}

// check returns settings with which the model cannot do its task.
func check(v parameter.Values, _ int, _ []switches.Frames) (problems []switches.Problem) {
	own := func(name string) bool { return v.Table().Find(name) >= 0 }
	if own("pfc-classes") && len(v.Integers("pfc-classes")) > 0 {
		problems = append(problems, switches.Problem{Key: "pfc-classes", What: "makes classes lossless",
			Why: "the model drops packets of every class: leave it out"})
	}
	if own("bolt-src") && v.Bool("bolt-src") {
		problems = append(problems, switches.Problem{Key: "bolt-src", What: "makes switches send packets of their own",
			Why: "they have no flow: leave it out"})
	}
	if own("overflow-heuristic") && v.Bool("overflow-heuristic") && v.Word("mode") == "dataplane" {
		problems = append(problems, switches.Problem{Key: "overflow-heuristic", What: "lowers alpha at every tail drop",
			Why: "a data plane writes it by recirculation, at most once in K_c: leave it out, or set mode to ideal"})
	}
	if v.Number("phi") == 0 {
		problems = append(problems, switches.Problem{Key: "phi", What: "is 0", Why: "flows need some of the link"})
	}
	if own("tree") && v.Bool("shim") {
		layers := []int{1}
		for i, item := range v.List("tree") {
			parent := item.Int("parent")
			if parent > i { // an error of the tree
				break
			}
			if layers = append(layers, layers[parent]+1); layers[i+1] > fair.MostLayers {
				problems = append(problems, switches.Problem{Key: "shim",
					What: fmt.Sprintf("has no room for the %d nodes from the link to node %d", layers[i+1], i+1),
					Why:  fmt.Sprintf("it names at most %d: make the tree less deep, or leave shim out", fair.MostLayers)})
				break
			}
		}
	}
	parents := make(map[int]bool)
	if own("tree") {
		for _, item := range v.List("tree") {
			parents[item.Int("parent")] = true
		}
	}
	nodes := 0
	if own("tree") {
		nodes = len(v.List("tree"))
	}
	named := make(map[int]bool)
	for i, item := range v.List("flows") {
		if !item.Has("node") {
			continue
		}
		named[item.Int("node")] = true
		switch n := item.Int("node"); {
		case n > nodes:
			problems = append(problems, switches.Problem{Key: fmt.Sprintf("flows[%d].node", i),
				What: fmt.Sprintf("is %d, which does not exist", n), Why: fmt.Sprintf("the tree has the nodes 1 to %d", nodes)})
		case nodes > 0 && (n == 0 || parents[n]):
			problems = append(problems, switches.Problem{Key: fmt.Sprintf("flows[%d].node", i),
				What: fmt.Sprintf("is %d, which has nodes below it", n), Why: "a node has either flows or nodes"})
		}
	}
	if own("tree") {
		for _, p := range switches.CheckTree(v) {
			var i int
			if n, _ := fmt.Sscanf(p.Key, "tree[%d]", &i); n == 1 && p.Key == fmt.Sprintf("tree[%d]", i) && named[i+1] {
				continue // its flows are named
			}
			problems = append(problems, p)
		}
	}
	return problems
}
