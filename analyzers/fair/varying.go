package fair

import (
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
)

// Demand that varies, as that of TCP does, is judged beside a fluid: what the flows are to get in a slot is the max-min
// share of their labels as they were, with one fair rate for each node. That a switch cannot follow demand at once is
// allowed for by a shadow, which does what the algorithm says with the same arrivals, and of each packet drops the
// fraction that is its probability. A slot in which the shadow is not near the shares is not judged, whatever the
// switch does: TCP answers to drops, but neither arrivals nor the shadow depend on which packets the switch dropped
// otherwise.
const (
	varyingTolerance = 0.10 // of shares of TCP (section 7, H3)
	nearFluid        = 0.04 // of its share that the shadow may differ
	nearPackets      = 2    // and packets, in a slot
	varyingSlots     = 16   // that are judged together at most
	finest           = 5    // bits of the mantissa by which labels are told apart: 3 %, so that a share is within 1.6 %
)

// labels is how many bits came with which label.
type labels struct {
	first int // bin of bits[0]
	bits  []float64
}

func binOf(rate float64) int { return int(math.Float64bits(max(rate, 1)) >> (52 - finest)) }

// middle is a rate of the bin.
func middle(bin int) float64 {
	low := math.Float64frombits(uint64(bin) << (52 - finest))
	return (low + math.Float64frombits(uint64(bin+1)<<(52-finest))) / 2
}

func (h *labels) takes(rate, bits float64) {
	bin := binOf(rate)
	switch {
	case len(h.bits) == 0:
		h.first = bin
	case bin < h.first:
		h.bits = append(make([]float64, h.first-bin), h.bits...)
		h.first = bin
	}
	for len(h.bits) <= bin-h.first {
		h.bits = append(h.bits, 0)
	}
	h.bits[bin-h.first] += bits
}

// below returns how many bits a constant fair rate lets through.
func (h *labels) below(alpha float64) (bits float64) {
	for i, b := range h.bits {
		if b > 0 {
			bits += b * min(1, alpha/middle(h.first+i))
		}
	}
	return bits
}

// child is a leaf or an interior node in a slot of varying demand.
type varyingChild struct {
	labels
	arrived, passed float64 // bits; passed: not dropped by the drop test
	expected        float64 // of the shadow
	variance        float64
	share           float64 // by the fluid
}

func (c *varyingChild) clear() {
	c.arrived, c.passed, c.expected, c.variance = 0, 0, 0, 0
	clear(c.bits)
}

// varying judges shares while demand varies.
type varying struct {
	s       *shares
	shadow  *port
	leaves  []*varyingChild // by index
	nodes   []*varyingChild
	sum     []varyingChild // of slots in a row: nodes, then leaves
	slots   int
	from    clock.Time
	largest float64 // packet of them
	unfit   bool
	warm    int // slots since the shadow was not near
}

func newVarying(s *shares) *varying {
	v := &varying{s: s}
	p := s.p
	v.shadow = &port{d: p.d, link: p.link, framing: p.framing, times: p.times, meters: p.meters, shares: nil,
		lane: &lane{of: p.of, nodes: append([]node(nil), p.nodes...)}}
	for range p.nodes {
		v.nodes = append(v.nodes, new(varyingChild))
	}
	v.unfit = s.unfit != "" || p.d.set.Overflow
	return v
}

// takes takes a packet with its label, after A has been updated at its nodes.
func (v *varying) takes(a *arrival, l *leaf, label, bits float64) {
	if v.unfit {
		return
	}
	sh := v.shadow
	var room [16]int
	path := sh.path(a.node, room[:])
	for _, i := range path {
		n := &sh.nodes[i]
		n.settle(a.at)
		n.before, n.arrivals = n.alpha, v.s.p.nodes[i].arrivals
	}
	own := &sh.nodes[path[len(path)-1]]
	q, _ := sh.probability(label, own.alpha)
	for len(v.leaves) <= l.index {
		v.leaves = append(v.leaves, new(varyingChild))
	}
	passed := bits
	if a.fate == excess {
		passed = 0
	}
	takes := func(c *varyingChild, rate float64) {
		c.takes(rate, bits)
		c.arrived += bits
		c.passed += passed
		c.expected += bits * (1 - q)
		c.variance += bits * bits * q * (1 - q)
	}
	takes(v.leaves[l.index], label)
	for at, i := range path {
		n := &sh.nodes[i]
		takes(v.nodes[i], n.arrivals.value/n.weight)
		n.accepted.update(a.at, bits*(1-q), sh.times.KAlpha, &sh.meters)
		child := label
		if at < len(path)-1 {
			c := &sh.nodes[path[at+1]]
			child = c.arrivals.value / c.weight
		}
		sh.adapt(a.at, i, child)
		if n.doubt != certain || n.doubtAlpha { // rounding decides: the shadow decides, too
			n.doubt, n.doubtAlpha, n.nextDoubt = certain, false, false
		}
	}
}

// fill gives the children of a node their shares of what it gets, in bits.
func (v *varying) fill(i int, gets float64) {
	nodes := v.s.p.nodes
	var children []*varyingChild
	for k := range nodes {
		if k > 0 && nodes[k].parent == i {
			children = append(children, v.nodes[k])
		}
	}
	for _, l := range v.s.list {
		if l.node == i && l.index < len(v.leaves) {
			children = append(children, v.leaves[l.index])
		}
	}
	arrived := 0.0
	for _, c := range children {
		arrived += c.arrived
	}
	alpha := math.Inf(1)
	if arrived > gets {
		low, high := 0.0, 2*v.s.p.link
		for range 50 {
			alpha = (low + high) / 2
			sum := 0.0
			for _, c := range children {
				sum += c.below(alpha)
			}
			if sum > gets {
				high = alpha
			} else {
				low = alpha
			}
		}
	}
	for _, c := range children {
		if c.share = c.arrived; !math.IsInf(alpha, 1) {
			c.share = c.below(alpha)
		}
	}
	for k := range nodes {
		if k > 0 && nodes[k].parent == i {
			v.fill(k, v.nodes[k].share)
		}
	}
}

// each calls do for each child that sent, with its number in sum.
func (v *varying) each(do func(i int, c *varyingChild)) {
	for i, c := range v.nodes {
		if c.arrived > 0 {
			do(i, c)
		}
	}
	for i, c := range v.leaves {
		if c.arrived > 0 {
			do(len(v.nodes)+i, c)
		}
	}
}

// near reports whether the shadow gave, in the slot, what the fluid gives.
func (v *varying) near() bool {
	s := v.s
	if s.bits.packets == 0 || s.bits.bypassed > s.p.link*seconds(s.length)/100 ||
		s.p.d.set.TailIgnored && s.bits.tails > s.bits.packets/1000 {
		return false
	}
	gets := s.p.d.set.Phi * s.p.link * seconds(s.length)
	root := v.nodes[0]
	root.share = min(root.arrived, gets)
	v.fill(0, gets)
	near := v.settled()
	v.each(func(_ int, c *varyingChild) {
		near = near && math.Abs(c.expected-c.share) <= nearFluid*c.share+nearPackets*s.bits.largest
	})
	return near
}

// settled reports whether a dataplane has had the time for its steps, after fill: as shares.settled, but an alpha that
// nothing presses on must let the labels of its children through as they were.
func (v *varying) settled() bool {
	s := v.s
	if s.p.d.set.Mode != fair.Dataplane {
		return true
	}
	for i, n := range v.nodes {
		switch {
		case n.arrived == 0:
		case n.share < n.arrived:
			if s.toOneSide(i) {
				return false
			}
		case !s.known[i] || v.clipped(i):
			return false
		}
	}
	return true
}

// clipped reports whether alpha at the beginning of the slot takes something from the children of a node.
func (v *varying) clipped(i int) bool {
	s := v.s
	takes := func(c *varyingChild) bool { return c.below(s.alpha[i]) < (1-steadiness)*c.arrived }
	for k := range s.p.nodes {
		if k > 0 && s.p.nodes[k].parent == i && takes(v.nodes[k]) {
			return true
		}
	}
	for _, l := range s.list {
		if l.node == i && l.index < len(v.leaves) && takes(v.leaves[l.index]) {
			return true
		}
	}
	return false
}

// closeSlot judges a slot; steady ones are judged more sharply elsewhere.
func (v *varying) closeSlot(steady bool) {
	if v.unfit {
		return
	}
	switch {
	case steady:
		v.end()
		v.warm++
	case !v.near():
		v.end()
		v.warm = 0
	case v.warm == 0:
		v.warm = 1
	default:
		v.add()
	}
	v.clear()
}

func (v *varying) clear() {
	for _, c := range v.nodes {
		c.clear()
	}
	for _, c := range v.leaves {
		c.clear()
	}
}

// add adds the slot to those before.
func (v *varying) add() {
	v.s.p.d.judge.coverage["varying"]++
	if v.slots == 0 {
		v.from = v.s.begins
	}
	v.slots++
	v.largest = max(v.largest, v.s.bits.largest)
	for len(v.sum) < len(v.nodes)+len(v.leaves) {
		v.sum = append(v.sum, varyingChild{})
	}
	v.each(func(i int, c *varyingChild) {
		t := &v.sum[i]
		t.arrived, t.passed, t.share = t.arrived+c.arrived, t.passed+c.passed, t.share+c.share
		t.variance += c.variance
	})
	if v.slots == varyingSlots {
		v.end()
	}
}

// end judges the slots in a row, and forgets them.
func (v *varying) end() {
	if v.slots > 0 {
		v.judge()
	}
	clear(v.sum)
	v.slots, v.largest = 0, 0
}

// judge compares what came through with the shares.
func (v *varying) judge() {
	s := v.s
	lasted := clock.Duration(v.slots) * s.length
	for i := range v.sum {
		t := &v.sum[i]
		if math.Abs(t.passed-t.share) <= varyingTolerance*t.share+deviations*math.Sqrt(t.variance)+
			(fewPackets+nearPackets*float64(v.slots))*v.largest {
			continue
		}
		name := "all flows"
		if i > 0 {
			name = s.name(i)
		}
		s.p.d.tellAt(v.from, variedShare(s.place(), name, rate(t.passed/seconds(lasted)), rate(t.share/seconds(lasted)),
			duration(lasted)))
		return
	}
}
