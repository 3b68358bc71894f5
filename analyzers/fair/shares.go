package fair

import (
	"fmt"
	"math"

	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
)

// What the reference model demands of shares holds while demand is stationary: all this is chosen, so that the judge is
// silent rather than wrong.
const (
	slotUpdates = 20   // K_c in a slot: windows of shares are at least so long, and so much later than a change
	subSlots    = 4    // of a slot, for convergence
	steadiness  = 0.05 // by which labels, A and demands may differ from their means
	farBelow    = 0.8  // of its share: what demands less is never dropped, however its rate varies
	deviations  = 7    // standard deviations that chance explains: fewer than one of 10^11 windows has more
	fewPackets  = 4    // that begin in a window and end in the next
	mostSub     = 4096 // sub-slots that are remembered until demand is steady
	withinShare = 0.1  // of its share that a leaf differs from it while shares have not converged
)

// tolerances of section 7.
func (p *port) tolerance() float64 {
	if p.d.set.Mode == fair.Dataplane {
		return 0.06
	}
	return 0.02
}

// shares compares what the children of nodes get with the oracle, in slots of 20 K_c.
type shares struct {
	p       *port
	stopped bool
	unfit   string // why the settings do not allow it
	length  clock.Duration
	begins  clock.Time // of the slot
	leaves  map[flowKey]*leaf
	list    []*leaf
	spans   []span // of A, by node
	known   []bool // alpha, at the beginning of the slot
	alpha   []float64
	net     []float64 // by which a dataplane's alpha has changed in the slot, by node
	gross   []float64 // and how far it went to and fro
	bits    tallies   // of the slot
	run     *run
	last    *run // the run before
	sub     []subSlot
	began   clock.Time // of sub
	varying *varying
}

// tallies are of all packets.
type tallies struct {
	arrived, bypassed, largest float64
	tails, drops, packets      int
}

// span is the range of a rate, and its mean over packets.
type span struct {
	low, high, sum float64
	n              int
}

func (s *span) takes(x float64) {
	if s.n == 0 {
		s.low, s.high = x, x
	}
	s.low, s.high = min(s.low, x), max(s.high, x)
	s.sum += x
	s.n++
}

func (s *span) mean() float64 { return s.sum / float64(max(s.n, 1)) }

// narrow reports whether the range is near the mean.
func (s *span) narrow() bool {
	return s.n == 0 || s.high <= s.mean()*(1+steadiness) && s.low >= s.mean()*(1-steadiness)
}

// leaf is what a flow did in the slot.
type leaf struct {
	key    flowKey
	node   int
	weight float64
	index  int
	amount
	before float64 // bits that arrived in the slot before
	label  span
	life   amount // since the switch started
	since  clock.Time
	until  clock.Time
}

// amount is what a leaf sent and got, in bits.
type amount struct {
	arrived, got, lost, squares float64 // lost: to the drop test; squares: of the bits of packets
	own                         float64 // of arrived, what labels count
	packets                     int
}

func (m *amount) add(o *amount) {
	m.arrived += o.arrived
	m.own += o.own
	m.got += o.got
	m.lost += o.lost
	m.squares += o.squares
	m.packets += o.packets
}

// ratio is what a leaf takes of the link for each bit that its label counts: packets with shims take more. Leaves of a
// node get equal labels, and of the link so much more.
func (m *amount) ratio() float64 {
	if m.own == 0 {
		return 1
	}
	return m.arrived / m.own
}

// variance is that of what a leaf gets by random drops.
func (m *amount) variance() float64 {
	if m.arrived == 0 {
		return 0
	}
	q := m.lost / m.arrived
	return m.squares * q * (1 - q)
}

// subSlot is what leaves got in a part of a slot.
type subSlot struct{ arrived, got, variance []float64 }

// run is a row of steady slots.
type run struct {
	from, to clock.Time
	slots    int
	leaves   map[flowKey]*total
	list     []*total
	bits     tallies
	spans    []span
	told     bool
	granted  map[flowKey]float64
}

// total is a leaf in a run.
type total struct {
	leaf
	sum amount
}

func newShares(p *port, now clock.Time) *shares {
	s := &shares{p: p, length: slotUpdates * p.times.KC, begins: now, leaves: make(map[flowKey]*leaf), began: now}
	n := len(p.nodes)
	s.spans, s.known, s.alpha = make([]span, n), make([]bool, n), make([]float64, n)
	s.net, s.gross = make([]float64, n), make([]float64, n)
	packet := clock.BitRate(p.link).Serialise(1500)
	switch set := p.d.set; {
	case set.Mode == fair.Ideal && p.layers() > mostLayers, p.layers() > mostLayers+1:
		s.unfit = "the loops of so many layers of nodes act on each other"
	case set.Mode == fair.Ideal && p.times.KC < 2*p.times.KAlpha:
		s.unfit = "K_c is below twice K_alpha"
	case set.Mode == fair.Dataplane && p.times.KC < p.times.Window:
		s.unfit = "K_c is below W"
	case set.Mode == fair.Ideal && min(p.times.K, p.times.KAlpha) < 40*packet,
		set.Mode == fair.Dataplane && p.times.Window < 40*packet:
		s.unfit = "rates are averaged over fewer than 40 packets of 1500 bytes"
	case set.Mode == fair.Dataplane && set.AverageShift == 0:
		s.unfit = "windows are not averaged, which oscillates"
	case set.Mode == fair.Dataplane && (set.DropBits < 4 || set.Decrease < 16 || set.Increase < 256):
		s.unfit = "the dataplane is coarse: fewer than 4 bits of random numbers, M below 16 or delta above C/256"
	}
	s.varying = newVarying(s)
	return s
}

// mostLayers is how many layers of nodes, the link included, the reference model measured (4.4). With three, the
// loops of nodes in series chase each other: a node may get twice its share for long, although K_c is twice K_alpha.
const mostLayers = 2

// layers returns how many nodes are above a flow, at most.
func (p *port) layers() int {
	most := 0
	for i := range p.nodes {
		depth := 1
		for at := p.nodes[i].parent; at >= 0; at = p.nodes[at].parent {
			depth++
		}
		most = max(most, depth)
	}
	return most
}

// stop ends the judgement of shares.
func (s *shares) stop() { s.stopped = true }

// bypasses takes a packet that is not measured.
func (s *shares) bypasses(bits float64) { s.bits.bypassed += bits }

// arrives takes a packet with its label, before it changes alpha.
func (s *shares) arrives(a *arrival, label, alpha float64) {
	if s.stopped {
		return
	}
	s.advance(a.at)
	l := s.leaves[a.key]
	if l == nil {
		l = &leaf{key: a.key, node: a.node, index: len(s.list)}
		l.weight = s.p.d.weightOf(a)
		l.since = a.at
		s.leaves[a.key] = l
		s.list = append(s.list, l)
	}
	bits := s.p.bits(a)
	one := amount{arrived: bits, own: s.p.ownBits(a), squares: bits * bits, packets: 1}
	switch a.fate {
	case excess:
		one.lost = bits
		s.bits.drops++
	case tail:
		s.bits.tails++
	case left, withdrawn, inside, unknown, elsewhere:
		one.got = bits
	}
	l.add(&one)
	l.label.takes(label)
	s.bits.packets++
	s.bits.arrived += bits
	s.bits.largest = max(s.bits.largest, bits)
	for i := a.node; i >= 0; i = s.p.nodes[i].parent {
		s.spans[i].takes(s.p.nodes[i].arrivals.value)
	}
	if n := len(s.sub); n > 0 {
		sub := &s.sub[n-1]
		for len(sub.got) <= l.index {
			sub.arrived, sub.got = append(sub.arrived, 0), append(sub.got, 0)
			sub.variance = append(sub.variance, 0)
		}
		sub.arrived[l.index] += bits
		sub.got[l.index] += one.got
		if label > 0 {
			q := max(0, 1-alpha/label)
			sub.variance[l.index] += bits * bits * q * (1 - q)
		}
	}
	l.life.add(&one)
	l.until = a.at
	s.varying.takes(a, l, label, bits)
}

// advance ends the slots that are over.
func (s *shares) advance(now clock.Time) {
	for now >= s.begins.Add(s.length) {
		s.closeSlot()
		s.begins = s.begins.Add(s.length)
		if idle := now.Sub(s.begins); idle >= 2*s.length { // nothing came for long
			s.end()
			s.begins = s.begins.Add(idle / s.length * s.length)
		}
	}
	at := int(now.Sub(s.began) / (s.length / subSlots))
	if at >= mostSub {
		s.sub, s.began = s.sub[:0], now
		at = 0
	}
	for len(s.sub) <= at {
		s.sub = append(s.sub, subSlot{})
	}
}

// end judges the run, as far as it went, and forgets the slot.
func (s *shares) end() {
	s.breakRun()
	s.varying.end()
	s.forget()
	for _, l := range s.list {
		l.before = 0
	}
	s.last = nil
}

// finish ends what a port did until the switch stopped or the run ended.
func (s *shares) finish() {
	s.end()
	for _, l := range s.list {
		if lasted := l.until.Sub(l.since); lasted > 0 {
			s.p.d.judge.measures.rate.Record(int64(l.life.got / seconds(lasted)))
		}
	}
}

func (s *shares) place() place { return place{s.p.d.who, s.p.index, 0} }

// name names a child of the tree: a node or a flow.
func (s *shares) name(i int) string {
	if i < len(s.p.nodes) {
		return fmt.Sprintf("node %d", i)
	}
	k := &s.list[i-len(s.p.nodes)].key
	return fmt.Sprintf("flow %d from host %d to host %d", k.flow, k.src, k.dst)
}

func (s *shares) breakRun() {
	if r := s.run; r != nil {
		s.judge(r, true)
		s.isolation(r)
		s.last, s.run = r, nil
	}
}

// forget begins a slot anew.
func (s *shares) forget() {
	s.bits = tallies{}
	for i := range s.spans {
		s.spans[i] = span{}
		n := &s.p.nodes[i]
		s.known[i], s.alpha[i] = !n.doubtAlpha, n.alpha
		s.net[i], s.gross[i] = 0, 0
	}
	for _, l := range s.list {
		l.amount, l.label = amount{}, span{}
	}
}

// closeSlot adds the slot to a run if demand was steady.
func (s *shares) closeSlot() {
	coverage := s.p.d.judge.coverage
	coverage["slots"]++
	steady := s.steady()
	s.varying.closeSlot(steady)
	if steady {
		coverage["steady"]++
		s.extend()
	} else {
		s.breakRun()
	}
	for _, l := range s.list {
		l.before = l.arrived
	}
	s.forget()
}

// demand is what a leaf sends, in bit/s of the link.
type demand struct{ rate, ratio float64 }

// tree returns the oracle's tree: interior nodes, then leaves with demands.
func (s *shares) tree(demands []demand) []waterfill.Node {
	var tree []waterfill.Node
	for i := range s.p.nodes {
		n := &s.p.nodes[i]
		tree = append(tree, waterfill.Node{Parent: n.parent, Weight: n.weight})
	}
	for i, l := range s.list {
		if i < len(demands) {
			of := &demands[i]
			tree = append(tree, waterfill.Node{Parent: l.node, Weight: l.weight * of.ratio, Demand: of.rate})
		}
	}
	return tree
}

// fill returns the oracle's shares.
func (s *shares) fill(demands []demand) []waterfill.Share {
	filled, err := waterfill.Fill(s.p.d.set.Phi*s.p.link, s.tree(demands))
	if err != nil { // rates and weights are finite
		panic(err)
	}
	return filled
}

// steady reports whether demand in the slot was that of the slot before, and even.
func (s *shares) steady() bool {
	if s.unfit != "" || s.bits.packets == 0 || s.bits.bypassed > s.p.link*seconds(s.length)/100 {
		return false
	}
	demands := make([]demand, len(s.list))
	for i, l := range s.list {
		demands[i] = demand{l.arrived / seconds(s.length), l.ratio()}
		if math.Abs(l.arrived-l.before) > steadiness*l.before+2*s.bits.largest || (l.before == 0) != (l.arrived == 0) {
			return false
		}
	}
	filled := s.fill(demands)
	inner := len(s.p.nodes)
	for i, l := range s.list {
		far := l.label.high <= farBelow*filled[l.node].Fair && filled[l.node].Granted < filled[l.node].Arrival
		rate := demands[i].rate
		even := l.label.narrow() && math.Abs(l.label.mean()*l.weight*demands[i].ratio-rate) <= steadiness*rate
		if rate > 0 && !far && !even {
			return false
		}
	}
	phi := s.p.d.set.Phi * s.p.link
	for i := range inner {
		n := &s.p.nodes[i]
		if n.parent < 0 {
			between := filled[0].Arrival > 0.95*phi && filled[0].Arrival < 1.02*phi
			overloaded := filled[0].Arrival >= phi
			if between || !s.spans[0].narrow() || overloaded && s.spans[0].low <= phi || !overloaded && s.spans[0].high >= phi {
				return false
			}
		} else if f := &filled[n.parent]; !s.spans[i].narrow() &&
			(f.Granted >= f.Arrival || s.spans[i].high > farBelow*f.Fair*n.weight) {
			return false
		}
	}
	return s.settled(filled)
}

// settled reports whether a dataplane, which changes alpha by steps, has had the time for it: alpha goes to and fro,
// and not one way for most of the slot.
func (s *shares) settled(filled []waterfill.Share) bool {
	if s.p.d.set.Mode != fair.Dataplane {
		return true
	}
	for i := range s.p.nodes {
		if filled[i].Arrival == 0 {
			continue
		}
		if filled[i].Granted < filled[i].Arrival {
			if s.toOneSide(i) {
				return false
			}
		} else if !s.known[i] || s.alpha[i] < filled[i].Fair*(1+steadiness) && s.p.d.set.Additive ||
			s.alpha[i] < filled[i].Fair*(1-steadiness) {
			return false
		}
	}
	return true
}

// toOneSide reports whether alpha of a node, a dataplane's, goes one way for most of the slot.
func (s *shares) toOneSide(node int) bool {
	return s.gross[node] == 0 || 2*math.Abs(s.net[node]) > s.gross[node]
}

// adapted takes a change of a dataplane's alpha.
func (s *shares) adapted(node int, by float64) {
	s.net[node] += by
	s.gross[node] += math.Abs(by)
}

// extend adds the slot to the run.
func (s *shares) extend() {
	r := s.run
	fresh := r == nil
	if fresh {
		r = &run{from: s.begins, leaves: make(map[flowKey]*total), spans: make([]span, len(s.p.nodes))}
		s.run = r
	}
	r.slots++
	r.to = s.begins.Add(s.length)
	for _, l := range s.list {
		if l.packets == 0 {
			continue
		}
		t := r.leaves[l.key]
		if t == nil {
			t = &total{leaf: *l}
			r.leaves[l.key] = t
			r.list = append(r.list, t)
		} else {
			t.label.merge(&l.label)
		}
		t.sum.add(&l.amount)
	}
	for i := range s.spans {
		r.spans[i].merge(&s.spans[i])
	}
	b := &r.bits
	b.tails, b.drops, b.packets = b.tails+s.bits.tails, b.drops+s.bits.drops, b.packets+s.bits.packets
	b.arrived += s.bits.arrived
	b.largest = max(b.largest, s.bits.largest)
	if fresh {
		s.converged(r)
		s.sub, s.began = s.sub[:0], r.to
	} else if n := len(s.sub); n > 2*subSlots { // of what was before a change only the last slots
		s.sub, s.began = s.sub[:0], r.to
	}
	if r.slots&(r.slots-1) == 0 {
		s.judge(r, false)
	}
}

func (s *span) merge(o *span) {
	if o.n == 0 {
		return
	}
	if s.n == 0 {
		*s = *o
		return
	}
	s.low, s.high, s.sum, s.n = min(s.low, o.low), max(s.high, o.high), s.sum+o.sum, s.n+o.n
}

// totals returns the demands of all leaves in a run, by the index of the leaf.
func (s *shares) totals(r *run) []demand {
	demands := make([]demand, len(s.list))
	for i := range demands {
		demands[i].ratio = 1
	}
	for _, t := range r.list {
		demands[t.index] = demand{t.sum.arrived / seconds(r.to.Sub(r.from)), t.sum.ratio()}
	}
	return demands
}

// child is a child of a node in a run.
type child struct {
	got, variance float64
	slack         float64
}

// judge compares a run with the oracle.
func (s *shares) judge(r *run, ended bool) {
	filled := s.fill(s.totals(r))
	inner, span := len(s.p.nodes), seconds(r.to.Sub(r.from))
	all := make([]child, inner+len(s.list))
	for _, t := range r.list {
		c := child{got: t.sum.got, variance: t.sum.variance()}
		all[inner+t.index] = c
		for i := t.node; i >= 0; i = s.p.nodes[i].parent {
			all[i].got += c.got
			all[i].variance += c.variance
		}
	}
	s.slacken(r, filled, all)
	s.rooms(r, filled, all)
	if r.granted == nil {
		r.granted = make(map[flowKey]float64)
	}
	tree := s.tree(s.totals(r))
	for i := 1; i < len(all); i++ {
		want := filled[i].Granted * span
		if filled[i].Arrival == 0 || !s.kept(r) {
			continue
		}
		allowed := want*(s.p.tolerance()+s.leak(r)+all[tree[i].Parent].slack) + deviations*math.Sqrt(all[i].variance) +
			fewPackets*r.bits.largest
		if math.Abs(all[i].got-want) > allowed && !r.told {
			r.told = true
			s.p.d.tellAt(r.from, otherShare(s.place(), s.name(i), rate(all[i].got/span), rate(want/span),
				duration(r.to.Sub(r.from))))
		}
	}
	for _, t := range r.list {
		r.granted[t.key] = filled[inner+t.index].Granted
		if f := filled[t.node].Fair; t.label.high <= 0.95*f*(1-all[t.node].slack) &&
			filled[t.node].Granted < filled[t.node].Arrival &&
			t.sum.lost > 0.01*t.sum.arrived+fewPackets*r.bits.largest {
			s.p.d.tellAt(r.from, lostBelow(s.place(), s.name(inner+t.index), share(t.sum.lost/t.sum.arrived),
				rate(t.label.high), rate(f)))
		}
	}
	if ended {
		s.p.d.judge.measures.run(s, r, filled, all)
	}
}

// slacken gives the children of a node slack if a demand of one is near its share: what its variations lose others get.
func (s *shares) slacken(r *run, filled []waterfill.Share, all []child) {
	inner := len(s.p.nodes)
	near := func(x *span, fair float64) float64 {
		if x.n == 0 || x.high < 0.9*fair || x.low > 1.1*fair {
			return 0
		}
		return (x.high - x.low) / x.mean()
	}
	for i := range inner {
		if p := s.p.nodes[i].parent; p >= 0 {
			all[p].slack = max(all[p].slack, near(&r.spans[i], filled[p].Fair*s.p.nodes[i].weight))
		}
	}
	for _, t := range r.list {
		all[t.node].slack = max(all[t.node].slack, near(&t.label, filled[t.node].Fair))
	}
	for i := 1; i < inner; i++ {
		all[i].slack += all[s.p.nodes[i].parent].slack
	}
}

// rooms judges that the link is used, and that the FIFO does not drop in place of the drop test.
func (s *shares) rooms(r *run, filled []waterfill.Share, all []child) {
	p := s.p
	if r.told {
		return
	}
	set, span := p.d.set, seconds(r.to.Sub(r.from))
	least := set.Phi * p.link * (1 - p.tolerance() - s.leak(r) - all[0].slack)
	if filled[0].Arrival > 1.02*p.link &&
		(all[0].got+deviations*math.Sqrt(all[0].variance)+fewPackets*r.bits.largest)/span < least &&
		s.kept(r) {
		r.told = true
		p.d.tellAt(r.from, idle(s.place(), rate(all[0].got/span), rate(filled[0].Arrival), rate(least)))
	}
	if !s.deep(r) {
		return
	}
	if set.Mode == fair.Dataplane && span < s.drains() {
		return
	}
	if lost := r.bits.drops + r.bits.tails; lost >= 1000 && r.bits.tails > lost/100+fewPackets {
		r.told = true
		p.d.tellAt(r.from, leakage(s.place(), r.bits.tails, lost))
	}
}

// drains returns how long a FIFO needs to become empty that has filled before the drop test knew alpha, in seconds.
// Until then the steps of a dataplane's alpha make it overflow now and then.
func (s *shares) drains() float64 {
	set := s.p.d.set
	bits := float64(set.Packets) * 12000
	if set.Bytes > 0 {
		bits = min(bits, 8*float64(set.Bytes))
	}
	return bits / (max(1-set.Phi, 0.001) * s.p.link)
}

// deep reports whether the FIFO is one of which the reference model expects that it is seldom full: that was measured
// with at most two layers. More of them vary more.
func (s *shares) deep(r *run) bool {
	set := s.p.d.set
	if set.TailIgnored || s.p.layers() > mostLayers { // F is what the FIFO takes: alpha falls slowly while it is full
		return false
	}
	packet := r.bits.arrived / float64(max(1, r.bits.packets))
	room := 0.8 * s.p.link * seconds(max(s.p.times.KAlpha, s.p.times.Window)) // bits
	return set.Phi <= 0.985 && (set.Bytes == 0 || 8*float64(set.Bytes) >= room) &&
		float64(set.Packets)*packet >= room
}

// kept reports whether hardly a packet was lost for want of room, or none was to be.
func (s *shares) kept(r *run) bool { return r.bits.tails <= r.bits.packets/1000 || s.deep(r) }

// leak is which part the full FIFO may take away.
func (s *shares) leak(r *run) float64 {
	if s.deep(r) {
		return 0.01
	}
	return 0
}

// isolation compares a run with the one before: if demand has changed under one node only, others get what they got.
func (s *shares) isolation(r *run) {
	b := s.last
	if b == nil || r.slots < 2 || b.slots < 2 {
		return
	}
	changed := -1
	rates := func(r *run, k flowKey) float64 {
		if t := r.leaves[k]; t != nil {
			return t.sum.arrived / seconds(r.to.Sub(r.from))
		}
		return 0
	}
	for _, l := range s.list {
		before, now := rates(b, l.key), rates(r, l.key)
		switch {
		case math.Abs(now-before) <= 0.01*before:
		case changed >= 0 && changed != l.node:
			return
		default:
			changed = l.node
		}
	}
	if changed < 0 || !s.kept(r) || !s.kept(b) {
		return
	}
	for _, t := range r.list {
		was := b.leaves[t.key]
		if was == nil {
			continue
		}
		below := false
		for i := t.node; i >= 0; i = s.p.nodes[i].parent {
			below = below || i == changed
		}
		if below {
			continue
		}
		before, now := seconds(b.to.Sub(b.from)), seconds(r.to.Sub(r.from))
		moved := t.sum.got/now - was.sum.got/before - (r.granted[t.key] - b.granted[t.key])
		chance := math.Sqrt(t.sum.variance()/(now*now) + was.sum.variance()/(before*before))
		slack := s.p.tolerance() + s.leak(r) + s.leak(b) + 2*steadiness*nearness(t, r.granted[t.key])
		if math.Abs(moved) > slack*max(r.granted[t.key], b.granted[t.key])+deviations*chance+
			fewPackets*r.bits.largest*(1/before+1/now) {
			s.p.d.tellAt(r.from, disturbed(s.place(), s.name(len(s.p.nodes)+t.index), rate(was.sum.got/before),
				rate(t.sum.got/now),
				changed))
			return
		}
	}
}

// nearness is 1 if the demand of a leaf is near what it gets, else 0.
func nearness(t *total, granted float64) float64 {
	if x := t.label.mean() * t.weight * t.sum.ratio(); x < 1.1*granted {
		return 1
	}
	return 0
}

// converged measures how long shares took to become those of a run that begins.
func (s *shares) converged(r *run) {
	if s.last == nil || len(s.sub) == 0 {
		return
	}
	filled := s.fill(s.totals(r))
	inner, step := len(s.p.nodes), s.length/subSlots
	first, latest := -1, -1
	value := func(list []float64, i int) float64 {
		if i < len(list) {
			return list[i]
		}
		return 0
	}
	for at := range s.sub {
		if s.began.Add(clock.Duration(at)*step) >= r.to {
			break
		}
		sub := &s.sub[at]
		for i, l := range s.list {
			was := 0.0
			if t := s.last.leaves[l.key]; t != nil {
				was = t.sum.arrived / seconds(s.last.to.Sub(s.last.from)) * seconds(step)
			}
			if first < 0 && math.Abs(value(sub.arrived, i)-was) > 2*steadiness*was+2*r.bits.largest {
				first = at
			}
			want := filled[inner+i].Granted * seconds(step)
			if first >= 0 && math.Abs(value(sub.got, i)-want) > withinShare*want+4*math.Sqrt(value(sub.variance, i))+
				2*r.bits.largest {
				latest = at
			}
		}
	}
	if first >= 0 {
		s.p.d.judge.measures.convergence.Record((clock.Duration(max(0, latest+1-first)) * step).Nanoseconds())
	}
}
