package rank

import (
	"cmp"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// WeightBits are the bits of fractions of virtual times of STFQ and HPIFO, and of AFQ's bids: a packet moves its flow,
// or a node that it is below, on by floor(2^WeightBits size / weight). Weights of flows are exact to a millionth.
const WeightBits = 20

// millionths are those of a weight of 1.
const millionths = 1_000_000

// moves returns by how much a packet moves its flow on.
func (a *arrival) moves() int64 { return a.size << WeightBits * millionths / a.weight }

func causeTree(who cause.Switch, id uint64, at clock.Time, node int, first uint64) cause.Cause {
	return cause.Of(ruleTree, "overtakes", "%v sent packet %v at %v; by node %v of its tree packet %v was to leave first.",
		who, packet(id), cause.Clock(at), cause.Count(node), packet(first))
}

func causeTreeDrop(who cause.Switch, id uint64, at clock.Time, last uint64) cause.Cause {
	return cause.Of(ruleTreeDrop, "other", "%v dropped packet %v at %v; packet %v was to leave last.", who, packet(id),
		cause.Clock(at), packet(last))
}

// hierarchy repeats HPIFO of a port. Its nodes have what waits below them, in no order.
type hierarchy struct {
	l      *line
	set    analyzers.Tree
	leaves map[uint32]int
	nodes  []level
	order  uint64
}

type level struct {
	virtual uint64           // rank of what was served last
	ends    map[child]uint64 // where children end
	limit   int              // of ends, before those that are behind are forgotten
	places  []place
}

// child is a node below an interior node, or a flow below a leaf.
type child struct {
	node int
	flow flowKey
}

// place is a packet as a node sees it.
type place struct {
	rank, order uint64
	of          child
	a           *arrival // of a leaf
}

func newHierarchy(l *line) *hierarchy {
	set := l.r.set.Tree
	h := &hierarchy{l: l, set: set, leaves: set.Leaves(), nodes: make([]level, len(set))}
	for i := range h.nodes {
		h.nodes[i] = level{ends: make(map[child]uint64), limit: 1024}
	}
	return h
}

// arrives judges what became of a packet, and which others it has displaced.
func (h *hierarchy) arrives(a *arrival) {
	h.push(a)
	for _, other := range a.evicted {
		if h.fits() && h.l.r.set.Limits != (Limits{}) {
			h.refused(other, a.at)
		}
		h.drop(other, a.at)
	}
	h.l.reasoned(a)
	switch {
	case a.fate == refused:
		if h.fits() && h.l.r.set.Limits != (Limits{}) {
			h.refused(a, a.at)
		}
		h.drop(a, a.at)
	case !h.fits():
		l := h.l
		l.r.tell(a, a.at, causeBound(l.r.who, a.id, packets(h.count()-1), packets(l.r.set.Packets)), "", "")
	}
	waiting := h.count()
	if a.fate == admitted {
		waiting--
	}
	h.l.claims(a, int64(a.rank), int64(waiting))
}

// count returns how many packets wait.
func (h *hierarchy) count() int { return len(h.nodes[0].places) }

// fits reports whether the queue may hold what waits.
func (h *hierarchy) fits() bool {
	set := h.l.r.set.Limits
	return (set.Packets == 0 || h.count() <= set.Packets) && (set.Bytes == 0 || h.l.bytes <= int64(set.Bytes))
}

func (h *hierarchy) refused(a *arrival, at clock.Time) {
	l := h.l
	l.r.tell(a, at, causeRefused(l.r.who, a.id, packets(h.count()-1), packets(l.r.set.Packets)), "", "")
}

func (h *hierarchy) leaf(a *arrival) int {
	if i, named := h.leaves[a.flow.src]; named {
		return i
	}
	return len(h.set) - 1
}

// enter adds a packet to a node and returns its rank there.
func (h *hierarchy) enter(node int, of child, moves uint64, a *arrival) uint64 {
	n := &h.nodes[node]
	start := max(n.virtual, n.ends[of])
	n.ends[of] = start + moves
	n.places = append(n.places, place{start, h.order, of, a})
	if len(n.ends) > n.limit {
		for k, end := range n.ends {
			if end <= n.virtual {
				delete(n.ends, k)
			}
		}
		n.limit = max(1024, 2*len(n.ends))
	}
	return start
}

func (h *hierarchy) push(a *arrival) {
	if h.order++; h.count() == 0 {
		h.l.since = a.at
	}
	a.inLine = true
	h.l.bytes += a.size
	length := uint64(a.size) << WeightBits
	i := h.leaf(a)
	h.enter(i, child{flow: a.flow}, uint64(a.moves()), a)
	for ; i != 0; i = h.set[i].Parent {
		a.rank = h.enter(h.set[i].Parent, child{node: i}, length/uint64(h.set[i].Weight), nil)
	}
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.order, b.order))
}

// walk follows the tree from the link to a packet, at each node by the place that choose returns. It returns the first
// node at which that leads elsewhere than to a, −1: none.
func (h *hierarchy) walk(a *arrival, choose func([]place, func(a, b place) int) place) (leads *arrival, differs int) {
	differs = -1
	for i := 0; ; {
		p := choose(h.nodes[i].places, comparePlaces)
		if differs < 0 && !h.below(a, i, p) {
			differs = i
		}
		if p.a != nil {
			return p.a, differs
		}
		i = p.of.node
	}
}

// below reports whether a place of a node is that of a packet, or of the child that it is below.
func (h *hierarchy) below(a *arrival, node int, p place) bool {
	if p.a != nil {
		return p.a == a
	}
	for i := h.leaf(a); i != 0; i = h.set[i].Parent {
		if h.set[i].Parent == node {
			return p.of.node == i
		}
	}
	return false
}

// serves judges that a packet is sent.
func (h *hierarchy) serves(now clock.Time, a *arrival) {
	if !a.inLine {
		return
	}
	h.l.ranked(a, now)
	if first, node := h.walk(a, slices.MinFunc); node >= 0 {
		h.l.r.tell(a, now, causeTree(h.l.r.who, a.id, now, node, first.id), "", "", first.id)
	}
	h.take(a, func(n *level, i int) { n.virtual = n.places[i].rank }, slices.MinFunc)
}

// drop judges that a packet is dropped, and takes back what it has moved its leaf and flow on by.
func (h *hierarchy) drop(a *arrival, at clock.Time) {
	if !a.inLine || a.port != h.l.port { // the judge of routes blames it
		return
	}
	h.l.ranked(a, at)
	if last, node := h.walk(a, slices.MaxFunc); node >= 0 {
		h.l.r.tell(a, at, causeTreeDrop(h.l.r.who, a.id, at, last.id), "", "", last.id)
	}
	h.take(a, func(n *level, i int) { n.ends[n.places[i].of] = n.places[i].rank }, slices.MaxFunc)
}

// lost takes a packet out that nobody has served or dropped.
func (h *hierarchy) lost(a *arrival) { h.take(a, func(*level, int) {}, slices.MinFunc) }

// take removes a packet from its leaf, and from each node above the first or last place of the child that it is below.
func (h *hierarchy) take(a *arrival, note func(*level, int), choose func([]place, func(a, b place) int) place) {
	if !a.inLine {
		return
	}
	a.inLine = false
	h.l.bytes -= a.size
	remove := func(node int, of func(place) bool) {
		n := &h.nodes[node]
		var own []place
		for _, p := range n.places {
			if of(p) {
				own = append(own, p)
			}
		}
		chosen := choose(own, comparePlaces)
		i := slices.Index(n.places, chosen)
		note(n, i)
		n.places = slices.Delete(n.places, i, i+1)
	}
	i := h.leaf(a)
	remove(i, func(p place) bool { return p.a == a })
	for ; i != 0; i = h.set[i].Parent {
		remove(h.set[i].Parent, func(p place) bool { return p.of.node == i })
	}
}
