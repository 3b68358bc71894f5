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
	even    int       // slots in a row, of the demand that the one before them had
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

// steady reports whether demand in the slot was that of the slot before, and even, and whether alpha could follow it.
func (s *shares) steady() bool {
	filled := s.evenly()
	if filled == nil {
		s.even = 0
		return false
	}
	s.even++
	return s.settled(filled)
}

// evenly returns the shares in the slot if demand was even and that of the slot before; otherwise nil.
func (s *shares) evenly() []waterfill.Share {
	if s.unfit != "" || s.bits.packets == 0 || s.bits.bypassed > s.p.link*seconds(s.length)/100 {
		return nil
	}
	demands := make([]demand, len(s.list))
	for i, l := range s.list {
		demands[i] = demand{l.arrived / seconds(s.length), l.ratio()}
		if math.Abs(l.arrived-l.before) > steadiness*l.before+2*s.bits.largest || (l.before == 0) != (l.arrived == 0) {
			return nil
		}
	}
	filled := s.fill(demands)
	inner := len(s.p.nodes)
	for i, l := range s.list {
		far := l.label.high <= farBelow*filled[l.node].Fair && filled[l.node].Granted < filled[l.node].Arrival
		rate := demands[i].rate
		even := l.label.narrow() && math.Abs(l.label.mean()*l.weight*demands[i].ratio-rate) <= steadiness*rate
		if rate > 0 && !far && !even {
			return nil
		}
	}
	phi := s.p.d.set.Phi * s.p.link
	for i := range inner {
		n := &s.p.nodes[i]
		if n.parent < 0 {
			between := filled[0].Arrival > 0.95*phi && filled[0].Arrival < 1.02*phi
			overloaded := filled[0].Arrival >= phi
			if between || !s.spans[0].narrow() || overloaded && s.spans[0].low <= phi || !overloaded && s.spans[0].high >= phi {
				return nil
			}
		} else if f := &filled[n.parent]; !s.spans[i].narrow() &&
			(f.Granted >= f.Arrival || s.spans[i].high > farBelow*f.Fair*n.weight) {
			return nil
		}
	}
	return filled
}

// fallen reports whether alpha, of which one update in K_c keeps MinFactor at least, can have come from the rate of the
// link to the fair rates before the slot: to those of flows with great weights it is far.
func (s *shares) fallen(filled []waterfill.Share) bool {
	updates := 0.9 * slotUpdates * float64(s.even)
	for i := range s.p.nodes {
		if f := &filled[i]; f.Granted < f.Arrival &&
			f.Fair < s.p.link*math.Pow(s.p.d.set.MinFactor, updates) {
			return false
		}
	}
	return true
}

// settled reports whether alpha has had the time for its changes. A dataplane changes it by steps: it goes to and fro,
// and not one way for most of the slot. That balance takes F below c: there are (alpha/M)/delta steps up for one down,
// so that F exceeds c seldom. With M = 128 and delta = C/4096 it takes 2 to 5 % in each layer, as random trees in an
// independent simulator show. That is the algorithm's, and so its shadow has to be near the shares.
func (s *shares) settled(filled []waterfill.Share) bool {
	if s.p.d.set.Mode != fair.Dataplane {
		return s.fallen(filled)
	}
	if !s.varying.near() {
		return false
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
