package rank

import (
	"slices"

	"candela.dev/candela/analyzers"
	judge "candela.dev/candela/analyzers/rank"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Faults of HPIFO.
const (
	evenWeights  = "ignores-weights"
	plainLeaves  = "fifo-leaves"
	undoesRoot   = "undoes-root-only"
	oneLeaf      = "one-leaf"
	youngerFirst = "younger-first"
	hesitates    = "hesitates"
)

func hpifo() switches.Model {
	base := pifo()
	return switches.Model{
		Model: parameter.Model{Name: "hpifo",
			Doc: "A tree of PIFOs for each port, beside one store: each node ranks what waits below its children, and " +
				"each leaf " +
				"its flows, by start-time fair queueing with weights. A packet that leaves is the first of the first child, from " +
				"the link down. Without room the last of the last child is dropped, and counts nowhere as sent.",
			Parameters: append(slices.Clone(base.Parameters), switches.TreeParameter()),
			Bugs: []parameter.Bug{
				{Name: evenWeights, Doc: "All nodes weigh the same.", Rule: "rank.start"},
				{Name: sameWeights, Doc: "All flows of a leaf weigh the same.", Rule: "rank.tree"},
				{Name: noUndo, Doc: "A dropped packet counts as sent.", Rule: "rank.start"},
				{Name: noClock, Doc: "A child that was silent starts where it ended.", Rule: "rank.start"},
				{Name: oneLeaf, Doc: "All senders belong to the last leaf.", Rule: "rank.start"},
				{Name: plainLeaves, Doc: "Leaves serve in order of arrival.", Rule: "rank.tree"},
				{Name: undoesRoot, Doc: "A dropped packet counts as sent below the link.", Rule: "rank.tree"},
				{Name: youngerFirst, Doc: "Of equal ranks the youngest leaves first.", Rule: "rank.tree"},
				{Name: hesitates, Doc: "After each 16th packet a port sends nothing for 1 us.", Rule: "rank.idle"},
				{Name: tailDrops, Doc: "The packet that arrives is dropped.", Rule: "rank.tree-drop"},
				{Name: dropsFirst, Doc: "The packet that would leave next is dropped.", Rule: "rank.tree-drop"},
				{Name: dropsEarly, Doc: "Packets are dropped as soon as eight wait.", Rule: "rank.refused"},
				{Name: misrecords, Doc: "Decision records count a packet more that waits.", Rule: "rank.record"},
			}},
		Ranks: true, Weighs: true,
		Check: func(v parameter.Values, ports int, offered []switches.Frames) []switches.Problem {
			problems := append(lossy(v, ports, offered), switches.CheckTree(v)...)
			if v.Table().Find("bolt-src") >= 0 && v.Bool("bolt-src") {
				problems = append(problems, switches.Problem{Key: "bolt-src", What: "makes switches send packets of their own",
					Why: "the tree has no leaf for them: leave it out"})
			}
			return problems
		},
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) error {
			s.Queues = []fabric.QueueSpec{{MaxPackets: v.Int("queue-packets"), MaxBytes: v.Int("queue-bytes"), Chosen: true}}
			return nil
		},
		New: func(_ *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
			return newHPIFO(switches.TreeOf(v), faultsOf(bugs)), nil
		},
	}
}

// HPIFO serves by a tree of PIFOs (Sivaraman et al. 2016, 2.2): one for each node, whose elements are the packets below
// it. The queue of a port is the store.
type HPIFO struct {
	fabric.TailDrop
	set    analyzers.Tree
	leaves map[uint32]int
	ports  []*tree
	faults faults
}

func newHPIFO(set analyzers.Tree, f faults) *HPIFO {
	return &HPIFO{set: set, leaves: set.Leaves(), faults: f}
}

// tree is what waits at a port.
type tree struct {
	nodes  []node
	order  uint64 // of arrivals
	count  int    // packets
	faults faults

	sent    int        // of hesitates: packets
	resumes clock.Time // and when it sends again
}

// node is a PIFO. Its times are bytes for each unit of weight, in steps of 2^-judge.WeightBits.
type node struct {
	parent  int
	weight  uint64
	virtual uint64          // rank of what was served last
	end     uint64          // at its parent
	items   []item          // by rank, then order
	head    int             // of items
	flows   map[flow]uint64 // of a leaf: where they end
	limit   int             // of flows, before those that are behind are forgotten
}

// item is a packet as a node sees it.
type item struct {
	rank, order uint64
	child       int            // it is below; of a leaf 0
	p           *fabric.Packet // of a leaf
}

func (m *HPIFO) port(i int) *tree {
	for len(m.ports) <= i {
		t := &tree{nodes: make([]node, len(m.set)), faults: m.faults}
		for j, n := range m.set {
			t.nodes[j] = node{parent: n.Parent, weight: uint64(n.Weight), flows: make(map[flow]uint64), limit: 1024}
			if m.faults[evenWeights] {
				t.nodes[j].weight = 1
			}
		}
		m.ports = append(m.ports, t)
	}
	return m.ports[i]
}

// leaf returns the node that a packet belongs to.
func (m *HPIFO) leaf(p *fabric.Packet) int {
	if i, named := m.leaves[uint32(p.Src)]; named && !m.faults[oneLeaf] {
		return i
	}
	return len(m.set) - 1
}

// start returns where something starts that ended at end.
func (t *tree) start(n *node, end uint64) uint64 {
	if t.faults[noClock] {
		return end
	}
	return max(n.virtual, end)
}

// push adds a packet, of a flow of a weight, to its leaf and to all nodes above, and ranks it by the link.
func (t *tree) push(leaf int, p *fabric.Packet, weight int64) {
	t.order++
	t.count++
	order, length := t.order, uint64(p.Size)<<judge.WeightBits
	if t.faults[youngerFirst] {
		order = -order
	}
	n, key := &t.nodes[leaf], flowOf(p)
	start := t.start(n, n.flows[key])
	if t.faults[sameWeights] {
		weight = fabric.WeightUnit
	}
	n.flows[key] = start + share(int64(p.Size), weight)
	n.forget()
	if t.faults[plainLeaves] {
		start = 0
	}
	n.insert(item{rank: start, order: order, p: p})
	for child := leaf; child != 0; {
		c := &t.nodes[child]
		n = &t.nodes[c.parent]
		start = t.start(n, c.end)
		c.end = start + length/c.weight
		n.insert(item{rank: start, order: order, child: child})
		child = c.parent
	}
	p.SetRank(start)
}

// pop takes the packet out that leaves next; nil: none waits.
func (t *tree) pop() *fabric.Packet {
	if t.count == 0 {
		return nil
	}
	t.count--
	for i := 0; ; {
		n := &t.nodes[i]
		it := n.items[n.head]
		n.head++
		n.virtual = it.rank
		if it.p != nil {
			return it.p
		}
		i = it.child
	}
}

// drop takes the packet out that would leave last, and what it has moved its leaf and flow on by.
func (t *tree) drop() *fabric.Packet {
	t.count--
	for i := 0; ; {
		n := &t.nodes[i]
		last := len(n.items) - 1
		it := n.items[last]
		n.items = n.items[:last]
		if undo := !t.faults[noUndo] && (i == 0 || !t.faults[undoesRoot]); it.p == nil {
			if undo {
				t.nodes[it.child].end = it.rank
			}
			i = it.child
			continue
		} else if undo && !t.faults[plainLeaves] {
			n.flows[flowOf(it.p)] = it.rank
		}
		return it.p
	}
}

// clear forgets what has waited: it is lost.
func (t *tree) clear() {
	for i := range t.nodes {
		n := &t.nodes[i]
		n.items, n.head = n.items[:0], 0
	}
	t.count = 0
}

func (n *node) insert(it item) {
	if n.head > 64 && 2*n.head > len(n.items) {
		n.items = n.items[:copy(n.items, n.items[n.head:])]
		n.head = 0
	}
	i := len(n.items)
	for i > n.head && (n.items[i-1].rank > it.rank || n.items[i-1].rank == it.rank && n.items[i-1].order > it.order) {
		i--
	}
	n.items = slices.Insert(n.items, i, it)
}

// forget drops flows that have ended before what is served.
func (n *node) forget() {
	if len(n.flows) <= n.limit {
		return
	}
	for k, end := range n.flows {
		if end <= n.virtual {
			delete(n.flows, k)
		}
	}
	n.limit = max(1024, 2*len(n.flows))
}

func (m *HPIFO) admit(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) {
	m.record(now, sw, p, v, causeAdmitted)
}

func (m *HPIFO) record(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict, cause int) {
	if sw.Decides() {
		q := sw.Port(int(v.Port)).Queue(0)
		record(now, sw, p, v, cause, q.Bytes(), int64(p.Rank), int64(q.Packets())+number(m.faults[misrecords]))
	}
}

// refuse is a fault: it drops a packet as it comes.
func (m *HPIFO) refuse(now clock.Time, sw *fabric.Switch, t *tree, p *fabric.Packet,
	v fabric.Verdict) fabric.Verdict {
	p.SetRank(t.nodes[0].virtual)
	m.record(now, sw, p, v, causeFull)
	return v.Drop(fabric.ReasonTail)
}

// Ingress implements fabric.Mechanism: one queue for all classes.
func (m *HPIFO) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	v.Queue = 0
	port, t := sw.Port(int(v.Port)), m.port(int(v.Port))
	if port.Queue(0).Packets() == 0 && t.count > 0 { // the trunk has failed
		t.clear()
	}
	if m.faults[dropsEarly] && t.count >= 8 {
		return m.refuse(now, sw, t, p, v)
	}
	if sw.Fits(port, 0, p) {
		t.push(m.leaf(p), p, sw.Weight(p))
		m.admit(now, sw, p, v)
	}
	return v
}

// Choose implements fabric.Chooser.
func (m *HPIFO) Choose(now clock.Time, sw *fabric.Switch, port *fabric.Port, _ int) *fabric.Packet {
	t := m.port(port.Index())
	if m.faults[hesitates] {
		if t.sent++; t.sent == 17 {
			t.resumes = now.Add(clock.Microsecond)
			sw.Wake(t.resumes, uint64(port.Index()))
		}
		if t.sent > 16 && now < t.resumes {
			return nil
		} else if t.sent > 16 {
			t.sent = 1
		}
	}
	return t.pop()
}

// HandleTimer implements fabric.Timed, of a fault.
func (m *HPIFO) HandleTimer(now clock.Time, sw *fabric.Switch, token uint64) {
	sw.Serve(now, sw.Port(int(token)))
}

// Overflow implements fabric.Mechanism: the packet joins the tree, and what would leave last is dropped until there is
// room.
func (m *HPIFO) Overflow(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	port, t := sw.Port(int(v.Port)), m.port(int(v.Port))
	if m.faults[tailDrops] {
		return m.refuse(now, sw, t, p, v)
	}
	if m.faults[dropsFirst] && t.count > 0 {
		q := t.pop()
		sw.Extract(now, port, 0, q)
		sw.Discard(now, q, v.Drop(Evicted))
		t.push(m.leaf(p), p, sw.Weight(p))
		m.admit(now, sw, p, v)
		return v
	}
	t.push(m.leaf(p), p, sw.Weight(p))
	for {
		q := t.drop()
		if q == p {
			m.record(now, sw, p, v, causeFull)
			return v.Drop(fabric.ReasonTail)
		}
		sw.Extract(now, port, 0, q)
		sw.Discard(now, q, v.Drop(Evicted))
		if sw.Fits(port, 0, p) {
			m.admit(now, sw, p, v)
			return v
		}
	}
}
