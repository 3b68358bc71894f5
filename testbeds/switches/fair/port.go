package fair

import (
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
)

// node is what a port keeps of an interior node: A, F and alpha, and when and how alpha changes next.
type node struct {
	arrival, accepted       meter
	alpha, capacity, weight float64
	largest                 float64 // tmpAlpha
	start                   clock.Time
	parent                  int32
	congested               bool
	pends                   bool // a new alpha recirculates
	pending                 float64
	visible                 clock.Time // when it is read
	updated                 clock.Time
}

// port is the state of an egress port.
type port struct {
	set      *fair.Settings
	rates    averaging // of nodes
	labels   averaging // of flows
	period   clock.Duration
	capacity float64 // of the link, C
	nodes    []node
	paths    [][]int32 // from the link to each node
	faults   *faults

	// of overflow
	cutSince clock.Time
	cutFrom  float64

	updates []update // with the packet at hand
	alphas  []float64
}

// update is a change of alpha.
type update struct {
	node                                              int32
	cause                                             uint8
	arrival, accepted, capacity, before, after, large float64
	since                                             clock.Duration
}

// verdict is what a port does with a packet.
type verdict struct {
	alpha, probability float64 // as tested
	draw               uint64
	relabel            uint64
	dropped            bool
}

// newPort returns the state of a port at the start of its switch.
func newPort(now clock.Time, set *fair.Settings, link clock.BitRate, f *faults) *port {
	p := &port{set: set, capacity: float64(link), faults: f, nodes: make([]node, len(set.Nodes)),
		paths: make([][]int32, len(set.Nodes)), cutSince: now}
	p.tune()
	deepest := 0
	for i, n := range set.Nodes {
		p.nodes[i] = node{alpha: p.capacity, capacity: p.capacity, weight: float64(n.Weight), parent: int32(n.Parent),
			start: now, updated: now}
		if i > 0 {
			p.nodes[i].alpha /= float64(set.InitialShare)
			p.paths[i] = append(p.paths[i], p.paths[n.Parent]...)
		}
		p.paths[i] = append(p.paths[i], int32(i))
		deepest = max(deepest, len(p.paths[i]))
	}
	p.updates, p.alphas = make([]update, 0, deepest), make([]float64, deepest)
	p.cutFrom = p.capacity
	return p
}

// tune computes what follows from the settings.
func (p *port) tune() {
	times := p.set.At(clock.BitRate(p.capacity))
	if p.faults.slowLabels {
		times.K *= 32
	}
	p.period = times.KC
	common := averaging{window: times.Window, divides: p.set.WindowDivides, weight: math.Ldexp(1, -p.set.AverageShift),
		windowed: p.set.Mode == fair.Dataplane, faults: &p.faults.meters}
	p.rates, p.labels = common.over(times.KAlpha), common.over(times.K)
}

// arrive takes a packet of a flow below parent, with its label and a number at random; room says that the FIFO can hold
// it (4.3).
func (p *port) arrive(now clock.Time, parent int, label uint64, bits float64, draw uint64, room bool) verdict {
	path := p.paths[parent]
	p.updates = p.updates[:0]
	for _, i := range path {
		n := &p.nodes[i]
		n.arrival.add(now, bits, &p.rates)
		if n.pends && now >= n.visible {
			n.alpha, n.pends = n.pending, false
		}
	}
	leaf := &p.nodes[parent]
	v := verdict{alpha: leaf.alpha}
	if label > 0 {
		v.probability = max(0, 1-leaf.alpha/float64(label))
	}
	v.dropped, v.draw = p.test(path, label, draw)
	for depth, i := range path {
		p.alphas[depth] = p.nodes[i].alpha
	}
	for depth, i := range path {
		n := &p.nodes[i]
		p.accept(now, n, bits, v.dropped, room)
		most := p.limit(n, depth, path)
		if n.arrival.rate > n.capacity {
			p.congested(now, n, i)
			continue
		}
		p.uncongested(now, n, i, p.child(path, depth, label), most)
	}
	v.relabel = p.relabel(label, leaf)
	return v
}

// child returns the rate, for a unit of weight, of what comes from below a node of the path.
func (p *port) child(path []int32, depth int, label uint64) float64 {
	if depth+1 == len(path) {
		return float64(label)
	}
	c := &p.nodes[path[depth+1]]
	return c.arrival.rate / c.weight
}

// test decides by chance whether a packet is dropped, and returns what it has drawn.
func (p *port) test(path []int32, label, draw uint64) (dropped bool, drawn uint64) {
	alpha := p.nodes[path[len(path)-1]].alpha
	f := p.faults
	switch {
	case f.strict:
		alpha *= 0.8
	case f.linkAlpha:
		alpha = p.nodes[0].alpha
	case f.siblingAlpha:
		alpha = p.nodes[p.sibling(path[len(path)-1])].alpha
	}
	if p.set.Mode == fair.Dataplane {
		n := p.set.DropBits
		if f.oneBit {
			drawn = draw >> (64 - n)
			return float64(drawn>>(n-1))*float64(label) > alpha, drawn
		}
		drawn, alpha := draw>>(64-n), uint64(math.Round(alpha))
		if f.dropsEqual {
			return drawn*label >= (1<<n-1)*alpha, drawn
		}
		return drawn*label > (1<<n-1)*alpha, drawn
	}
	drawn = draw >> 11
	u, probability := float64(drawn)*0x1p-53, 1-alpha/max(1, float64(label))
	switch {
	case f.noTest:
		return false, drawn
	case f.half:
		probability /= 2
	case f.square:
		probability *= max(0, probability)
	case f.everyLevel:
		pass := 1.0
		for depth, i := range path {
			pass *= min(1, p.nodes[i].alpha/max(1, p.child(path, depth, label)))
		}
		probability = 1 - pass
	}
	return u < probability, drawn
}

// accept updates F.
func (p *port) accept(now clock.Time, n *node, bits float64, dropped, room bool) {
	switch {
	case !dropped && (room || !p.set.TailIgnored) || p.faults.countsDropped:
		n.accepted.add(now, bits, &p.rates)
	case dropped && !p.rates.windowed && p.set.KF > 0 && n.accepted.seen && !p.faults.noDecay &&
		now.Sub(n.accepted.last) >= p.set.KF:
		n.accepted.add(now, 0, &p.rates)
	}
	for k := range p.nodes {
		if p.faults.oneAccepted && p.nodes[k].parent == n.parent {
			p.nodes[k].accepted = n.accepted
		}
	}
}

// sibling returns the next node beside one, of seeded bugs.
func (p *port) sibling(node int32) int32 {
	for k := range int32(len(p.nodes)) {
		next := (node + 1 + k) % int32(len(p.nodes))
		if p.nodes[next].parent == p.nodes[node].parent {
			return next
		}
	}
	return node
}

// limit updates c, and returns what the node may get, whatever arrives.
func (p *port) limit(n *node, depth int, path []int32) (most float64) {
	if depth == 0 {
		n.capacity = p.set.Phi * p.capacity
		if p.faults.fills {
			n.capacity = 1.05 * p.capacity
		} else if p.faults.idles {
			n.capacity *= 0.9
		}
		return n.capacity
	}
	parent := p.nodes[path[depth-1]].alpha
	if p.set.ParentBefore {
		parent = p.alphas[depth-1]
	}
	if p.faults.noParent {
		parent = p.capacity
	}
	weight := n.weight
	if p.faults.evenNodes {
		weight = 1
	}
	most = weight * parent
	n.capacity = min(most, n.arrival.rate)
	if p.faults.siblingArrivals {
		n.capacity = min(most, p.nodes[p.sibling(path[depth])].arrival.rate)
	}
	return most
}

// due reports whether more than K_c have passed.
func (p *port) due(now clock.Time, n *node) bool {
	if p.faults.oneStart {
		return now.Sub(p.nodes[0].start) > p.period
	}
	if p.faults.hasty {
		return now.Sub(n.start) > p.period/8
	}
	return now.Sub(n.start) > p.period
}

func (p *port) restart(now clock.Time, n *node) {
	n.start = now
	if p.faults.oneStart {
		p.nodes[0].start = now
	}
}

func (p *port) congested(now clock.Time, n *node, i int32) {
	if !n.congested {
		n.congested = true
		p.restart(now, n)
		return
	}
	if !p.due(now, n) {
		return
	}
	p.restart(now, n)
	accepted := max(1, n.accepted.rate)
	var alpha float64
	switch {
	case p.set.Mode == fair.Ideal:
		factor := max(p.set.MinFactor, n.capacity/accepted)
		if p.faults.noFloor {
			factor = n.capacity / accepted
		}
		if p.faults.byArrivals {
			factor = max(p.set.MinFactor, n.capacity/max(1, n.arrival.rate))
		}
		alpha = n.alpha * factor
	case accepted > n.capacity:
		alpha = n.alpha - n.alpha/float64(p.set.Decrease)
		if p.faults.halves {
			alpha = n.alpha / 2
		}
	default:
		alpha = n.alpha + p.capacity/float64(p.set.Increase)
	}
	p.assign(now, n, i, alpha, fair.CauseCongested)
}

func (p *port) uncongested(now clock.Time, n *node, i int32, child, most float64) {
	switch {
	case n.congested:
		n.congested, n.largest = false, 0
		p.restart(now, n)
	case !p.due(now, n):
		if n.largest = max(n.largest, child); p.faults.lastChild {
			n.largest = child
		}
	default:
		alpha := n.alpha
		if p.set.Mode == fair.Dataplane && p.set.Additive {
			alpha += p.capacity / float64(p.set.Increase)
		} else if n.largest > 0 {
			alpha = n.largest
		}
		if !p.faults.ignoresFloor {
			alpha = max(alpha, p.set.AlphaFloor*most)
		}
		p.assign(now, n, i, alpha, fair.CauseUncongested)
		n.largest = 0
		p.restart(now, n)
	}
}

// assign gives a node a new alpha.
func (p *port) assign(now clock.Time, n *node, i int32, alpha float64, cause uint8) {
	alpha = max(alpha, fair.LeastAlpha)
	if !p.faults.noCeiling {
		alpha = min(alpha, p.capacity)
	}
	p.updates = append(p.updates, update{node: i, cause: cause, arrival: n.arrival.rate, accepted: n.accepted.rate,
		capacity: n.capacity, before: n.alpha, after: alpha, large: n.largest, since: now.Sub(n.updated)})
	n.updated = now
	if p.set.Mode == fair.Dataplane && p.set.Recirculation > 0 {
		n.pending, n.visible, n.pends = alpha, now.Add(p.set.Recirculation), true
		return
	}
	n.alpha = alpha
}

// relabel returns the label of a packet for the next hop.
func (p *port) relabel(label uint64, leaf *node) uint64 {
	switch {
	case p.faults.keepsLabel:
		return label
	case p.faults.linkLabel:
		leaf = &p.nodes[0]
	}
	return min(label, uint64(leaf.alpha))
}

// overflow is 4.5: the FIFO has no room for a packet that has passed the test.
func (p *port) overflow(now clock.Time) {
	n := &p.nodes[0]
	if now.Sub(p.cutSince) > p.period {
		p.cutSince, p.cutFrom = now, n.alpha
	}
	p.updates = p.updates[:0]
	if alpha := 0.99 * n.alpha; alpha >= 0.75*p.cutFrom || p.faults.cutsOn {
		p.assign(now, n, 0, alpha, fair.CauseOverflow)
	}
}
