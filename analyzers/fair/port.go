package fair

import (
	"math"

	"candela.dev/candela/analyzers/chance"
	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
	"candela.dev/candela/trace"
)

// port is what is known of a port with its tree.
type port struct {
	d       *device
	index   int
	link    float64 // C, bit/s
	framing int64
	last    bool // leads to a host
	retired bool // what the switch is set to is no longer known
	times   fair.Constants
	meters  constants
	*lane   // at hand
	lanes   []*lane
	flows   map[flowKey]*flow
	twins   *chance.Twins // of flows
	drawn   *stream

	arrived  uint64
	youngest *arrival // of those that have left
	room
	shares *shares
}

// measured is a flow that the edge measures, whatever the ports by which it goes.
type measured struct {
	meter
	unsure bool
}

// flow is a leaf.
type flow struct {
	wager  *chance.Wager
	excess excessBound
}

// node is an interior node. What the taps give of it: A and F always, as they depend on nothing else. When a comparison
// is so close that rounding decides it, phase and alpha may be unknown for some time.
type node struct {
	weight    float64
	parent    int
	arrivals  meter   // A
	accepted  meter   // F
	before    float64 // alpha before the packet at hand
	doubted   bool    // which is not known
	capacity  float64
	offered   float64 // the most that it may get
	unoffered bool    // which is not known
	overflows []overflow
	raised    clock.Time // when alpha was greater at an overflow than after the one before
	phase
}

// phase is how far alpha of a node is.
type phase struct {
	alpha     float64
	next      float64 // alpha that is being written
	when      clock.Time
	pending   bool
	nextDoubt bool    // next is not known
	largest   float64 // tmpAlpha
	congested bool
	start     clock.Time
	updated   clock.Time // the last State that the switch claims
	looked    clock.Time // the last one that was not for an overflow
	// doubt says what is unknown: alpha; congested and start, or start alone
	doubtAlpha bool
	doubt      doubt
}

// doubt is what is unknown of the phase of a node.
type doubt uint8

const (
	certain     doubt = iota
	doubtStart        // since when it is congested, or not
	doubtEither       // and whether it is
)

// closeTo is how near two rates are that are equal but for rounding. A label is rounded to bit/s, and an alpha that
// began as a small one and has grown since has grown by its error, too.
const closeTo = 1e-6

func newPort(d *device, index int, now clock.Time) *port {
	rate, framing := d.judge.view.Link(d.number, index)
	p := &port{d: d, index: index, link: float64(rate), framing: int64(framing), times: d.set.At(rate),
		flows: make(map[flowKey]*flow), lane: &lane{all: d.judge.wagers.Next()}, twins: chance.NewTwins(&d.judge.wagers)}
	p.lanes = []*lane{p.lane}
	p.meters = constants{d.set, p.times.Window}
	_, p.last = d.judge.view.HostAt(d.number, index)
	p.drawn = d.judge.newStream(d, index)
	nodes := 1
	if d.set.Scheme == fair.HCSFQ {
		nodes = len(d.set.Nodes)
	}
	for i := range nodes {
		n := node{weight: 1, parent: -1, capacity: p.link,
			phase: phase{alpha: p.link, start: now, updated: now, looked: now}}
		if i > 0 {
			n.parent, n.weight = d.set.Nodes[i].Parent, float64(max(1, d.set.Nodes[i].Weight))
			if d.set.InitialShare > 0 {
				n.alpha = p.link / float64(d.set.InitialShare)
			}
		}
		p.nodes = append(p.nodes, n)
	}
	for r := range manyReadings {
		if r&parentBefore == 0 || nodes > 1 && !d.set.ParentBefore {
			p.of |= 1 << r
		}
	}
	p.shares = newShares(p, now)
	if why := p.shares.unfit; why != "" {
		d.note(now, "what its ports share ("+ruleShares+", "+ruleIsolation+", "+ruleWork+", "+ruleTail+")", why)
	}
	return p
}

// retire ends the judgement of rates at the port.
func (p *port) retire() {
	p.retired = true
	p.shares.stop()
}

// lose forgets what depends on the fate of a packet that is not known.
func (p *port) lose() {
	p.retired = true
	p.shares.stop()
	p.d.note(p.d.began, "rates at the ports of a packet that went elsewhere than routed", "its fate came late")
}

// classify returns the node that a flow is a leaf of, and its weight.
func (d *device) classify(k flowKey) (node int, weight float64) {
	for i := range d.set.Members {
		m := &d.set.Members[i]
		if i < len(d.set.Members)-1 && (!within(m.Hosts, int64(k.src)) || !within(m.Flows, int64(k.flow))) {
			continue
		}
		node, weight = m.Node, float64(max(1, m.Weight))
		break
	}
	if weight == 0 {
		weight = 1
	}
	if d.set.Scheme == fair.CSFQ {
		node = 0
	}
	return node, weight
}

// weightOf returns the weight of the flow of a packet: as the switch is set to, times that of the workload.
func (d *device) weightOf(a *arrival) float64 {
	_, weight := d.classify(a.key)
	return weight * float64(a.weight) / million
}

func within(ranges [][2]int64, n int64) bool {
	for _, r := range ranges {
		if r[0] <= n && n <= r[1] {
			return true
		}
	}
	return len(ranges) == 0
}

// path lists the nodes of a packet from the link down, in a buffer.
func (p *port) path(node int, buffer []int) []int {
	buffer = buffer[:0]
	for i := node; i >= 0; i = p.nodes[i].parent {
		buffer = append(buffer, i)
	}
	for i, j := 0, len(buffer)-1; i < j; i, j = i+1, j-1 {
		buffer[i], buffer[j] = buffer[j], buffer[i]
	}
	return buffer
}

// arrives judges a packet as it came, and lets it join the queue.
func (p *port) arrives(a *arrival) {
	p.arrived++
	a.sequence = p.arrived
	p.d.judge.measures.depth.Record(p.held)
	a.bypassed = a.size < int64(p.d.set.Bypass)
	a.taken = a.size + p.shimFor(a)
	p.judgeRoom(a)
	if a.fate == left || a.fate == withdrawn || a.fate == inside {
		a.waits = a.taken
		p.held += a.waits
		p.waiting++
	}
	if a.bypassed {
		p.shares.bypasses(p.bits(a))
		p.judgeBypassed(a)
		return
	}
	_, edge := p.d.judge.view.HostAt(p.d.number, a.in)
	f, label, known := p.labelled(a, edge)
	if !known || p.retired {
		a.unsure = true
		return
	}
	p.tested(a, f, label, edge)
}

// shimFor returns the bytes of the shim with which a packet has to leave.
func (p *port) shimFor(a *arrival) int64 {
	switch {
	case !p.d.set.Shim || p.last:
		return 0
	case a.bypassed:
		return a.shim
	}
	node, _ := p.d.classify(a.key)
	return int64(fair.ShimBytes(p.d.set.Layers(node)))
}

// labelled returns the flow of a packet and the label with which it is tested.
func (p *port) labelled(a *arrival, edge bool) (f *flow, label float64, known bool) {
	f = p.flows[a.key]
	if f == nil {
		f = new(flow)
		p.flows[a.key] = f
	}
	a.node, _ = p.d.classify(a.key)
	if edge {
		m := p.d.flows[a.key]
		if m == nil {
			m = new(measured)
			p.d.flows[a.key] = m
		}
		m.unsure = m.unsure || p.retired
		rate := m.update(a.at, p.ownBits(a), p.times.K, &p.meters)
		if m.unsure && !p.retired {
			p.lose()
		}
		return f, rate / p.d.weightOf(a), !m.unsure
	}
	if a.flags&trace.Ranked == 0 || p.d.set.Shim && a.flags&trace.Shimmed == 0 {
		p.lose()
		return f, 0, false
	}
	claimed, rate := fair.OfLabel(a.rank)
	if claimed >= len(p.nodes) || claimed != a.node {
		p.lose()
		return f, 0, false
	}
	return f, float64(rate), true
}

// bits are what a packet takes on the link.
func (p *port) bits(a *arrival) float64 { return float64(8 * (a.taken + p.framing)) }

// ownBits are those that labels count: without the shim.
func (p *port) ownBits(a *arrival) float64 { return float64(8 * (a.size + p.framing)) }

// update is a change of alpha that is due.
type update struct {
	node                                                int
	congested                                           bool
	arrival, accepted, capacity, before, after, largest float64
	since                                               clock.Duration
	unsure                                              bool // not whether it is due, but its values
}

// tested judges a packet that the drop test sees, by each reading of the specification.
func (p *port) tested(a *arrival, f *flow, label float64, edge bool) {
	var room [16]int
	path := p.path(a.node, room[:])
	parted := p.split(a.at, path)
	greatest, doubtful, own := 0.0, false, label
	for _, p.lane = range p.lanes {
		leaf := &p.nodes[path[len(path)-1]]
		p.arriving(a, path)
		greatest, doubtful = max(greatest, leaf.alpha), doubtful || leaf.doubtAlpha
		label = p.replayed(a, f, path, own, edge)
	}
	if p.lane = p.lanes[0]; edge { // others do not know over which time labels were averaged
		f.excess.takes(p, a, label, greatest, doubtful)
	}
	p.sift(a)
	if parted {
		p.merge()
	}
	p.bounds(a, path[len(path)-1], label)
}

// arriving updates A of the nodes of a packet.
func (p *port) arriving(a *arrival, path []int) {
	for _, i := range path {
		n := &p.nodes[i]
		n.settle(a.at)
		n.before, n.doubted = n.alpha, n.doubtAlpha
		n.arrivals.update(a.at, p.bits(a), p.times.KAlpha, &p.meters)
	}
}

// replayed judges a packet by the reading at hand and takes it to its nodes. It returns the label to go on with.
func (p *port) replayed(a *arrival, f *flow, path []int, own float64, edge bool) (label float64) {
	leaf := &p.nodes[path[len(path)-1]]
	first := p.lane == p.lanes[0]
	if label = own; a.claim != nil {
		label = p.judgeClaims(a, leaf, label, edge)
	}
	if !leaf.doubtAlpha {
		p.judgeTest(a, f, label, leaf.alpha)
	} else if first {
		p.d.judge.coverage["unsure"]++
	}
	if first {
		p.shares.arrives(a, own, leaf.alpha)
	}
	for at, i := range path {
		n := &p.nodes[i]
		switch {
		case a.fate == excess:
			n.accepted.decay(a.at, p.d.set.KF, p.times.KAlpha, &p.meters)
		case a.fate == tail && p.d.set.TailIgnored:
		default:
			n.accepted.update(a.at, p.bits(a), p.times.KAlpha, &p.meters)
		}
		child := label
		if at < len(path)-1 {
			c := &p.nodes[path[at+1]]
			child = c.arrivals.value / c.weight
		}
		if u, due := p.adapt(a.at, i, child); due {
			p.judgeUpdate(a, u)
		} else {
			p.judgeNoUpdate(a, i)
		}
	}
	p.judgeOverflow(a, path)
	return label
}

// settle makes an alpha that has been written be read.
func (n *node) settle(now clock.Time) {
	if n.pending && now >= n.when {
		n.alpha, n.pending = n.next, false
		n.doubtAlpha = n.nextDoubt
	}
}

// relabels says with which label a packet leaves.
func (n *node) relabels(label float64) bound {
	if n.doubtAlpha {
		return bound{high: label}
	}
	return bound{low: min(label, n.alpha), high: min(label, n.alpha)}
}

// adapt takes a packet to a node, as algorithm 4 does after the drop test, and returns the update that is due.
func (p *port) adapt(now clock.Time, i int, child float64) (update, bool) {
	n := &p.nodes[i]
	bound, sure := p.d.set.Phi*p.link, true
	if n.parent >= 0 {
		parent := &p.nodes[n.parent]
		alpha, doubtful := parent.alpha, parent.doubtAlpha
		if p.d.set.ParentBefore || p.reads(parentBefore) {
			alpha, doubtful = parent.before, parent.doubted
		}
		bound, sure = n.weight*alpha, !doubtful
	}
	n.offered, n.unoffered = bound, !sure
	rate := n.arrivals.value
	n.capacity = min(bound, rate)
	if i == 0 {
		n.capacity = bound
	}
	if !sure || math.Abs(rate-bound) <= closeTo*bound+2*n.weight {
		if n.doubt = doubtEither; now.Sub(n.start) >= p.times.KC {
			n.doubtAlpha = true
		}
		return update{}, false
	}
	congested := rate > bound
	if n.doubt == doubtEither {
		n.congested, n.doubt = congested, doubtStart
	} else if n.congested != congested {
		n.congested, n.start, n.doubt = congested, now, certain
		n.largest = 0
		return update{}, false
	}
	due := p.due(now.Sub(n.start), congested)
	if n.doubt == doubtStart {
		n.doubtAlpha = n.doubtAlpha || due
		return update{}, false
	}
	if !due {
		if !congested {
			n.largest = max(n.largest, child)
		}
		return update{}, false
	}
	u := update{node: i, congested: congested, arrival: rate, accepted: n.accepted.value, capacity: n.capacity,
		before: n.alpha, largest: n.largest, since: now.Sub(n.updated), unsure: n.doubtAlpha}
	known := !n.doubtAlpha || !congested && (p.d.set.Mode == fair.Ideal || !p.d.set.Additive) && n.largest > 0
	u.after = p.law(u.congested, u.accepted, u.capacity, u.before, u.largest, bound)
	n.start, n.largest = now, 0
	if p.d.set.Mode == fair.Dataplane && u.after != u.before && p.shares != nil && p.lane == p.lanes[0] {
		p.shares.adapted(i, u.after-u.before)
	}
	p.set(now, n, u.after, known)
	return u, true
}

// due reports whether a node may change alpha so long after it did, or its phase began.
func (p *port) due(since clock.Duration, congested bool) bool {
	question := dueUncongested
	if congested {
		question = dueCongested
	}
	return since > p.times.KC || since == p.times.KC && p.reads(question)
}

// set makes a node have another alpha, if that is known.
func (p *port) set(now clock.Time, n *node, alpha float64, known bool) {
	if p.d.set.Mode == fair.Dataplane && p.d.set.Recirculation > 0 {
		n.next, n.when, n.pending, n.nextDoubt = alpha, now.Add(p.d.set.Recirculation), true, !known
		return
	}
	n.alpha, n.doubtAlpha = alpha, !known
}

// law is the alpha that follows an update of a node that may get offered at most.
func (p *port) law(congested bool, accepted, capacity, before, largest, offered float64) float64 {
	s := p.d.set
	after := before
	switch {
	case s.Mode == fair.Ideal && congested:
		after = before * max(s.MinFactor, capacity/max(accepted, 1))
	case s.Mode == fair.Dataplane && congested && accepted > capacity:
		after = before - before/float64(max(1, s.Decrease))
	case s.Mode == fair.Dataplane && (congested || s.Additive):
		after = before + p.link/float64(max(1, s.Increase))
	case largest > 0:
		after = largest
	}
	if !congested && after < s.AlphaFloor*offered {
		after = s.AlphaFloor * offered
	}
	return min(max(after, fair.LeastAlpha), p.link)
}

// probability returns with which probability a packet is dropped; a dataplane counts of 2^n numbers those that drop it.
// sure says that rounding does not matter.
func (p *port) probability(label, alpha float64) (probability float64, sure bool) {
	if p.d.set.Mode == fair.Ideal {
		if label <= 0 {
			return 0, true
		}
		return max(0, 1-alpha/label), true
	}
	low, high := p.countDrops(label-1, alpha+1), p.countDrops(label+1, alpha-1)
	return low / p.numbers(), low == high
}

// numbers returns how many random numbers there are.
func (p *port) numbers() float64 { return float64(uint64(1) << p.d.set.DropBits) }

// countDrops returns how many R of 0 to 2^n-1 there are with R*label > (2^n-1)*alpha.
func (p *port) countDrops(label, alpha float64) float64 {
	most := p.numbers() - 1
	if label <= 0 {
		return 0
	}
	return max(0, most-math.Floor(most*max(0, alpha)/label))
}

// leaves judges a packet that leaves the queue, or is lost as the switch stops.
func (p *port) leaves(a *arrival) {
	p.overcrowded()
	p.held -= a.waits
	p.waiting--
	p.crowded, p.left, p.sending = nil, p.now, a.waits
	if a.fate == withdrawn {
		return
	}
	p.judgeOrder(a)
	p.judgeLabel(a)
}
