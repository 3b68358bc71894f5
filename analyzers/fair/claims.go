package fair

import (
	"fmt"
	"math"
	"math/bits"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/chance"
	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
	"candela.dev/candela/trace"
)

// near reports whether a claim, which is rounded, is a computed value.
func near(claim int64, value float64) bool {
	return math.Abs(float64(claim)-value) <= 1+1e-9*math.Abs(value)
}

// nearShare is near for rates that depend on labels and alpha, which may have been rounded before.
func nearShare(claim int64, value float64) bool {
	return math.Abs(float64(claim)-value) <= 3+closeTo*math.Abs(value) && (claim == 0) == (value < 0.5)
}

// judgeBypassed judges a packet that is too small to be measured and tested.
func (p *port) judgeBypassed(a *arrival) {
	if a.fate == excess {
		p.d.tell(a, droppedBypassed(p.place(a)))
	}
	if a.claim != nil && a.claim.Cause != fair.CauseBypassed {
		p.tell(a, claimedLabel(p.place(a), a.claim.Values[fair.ValueLabel], 0))
	}
}

// judgeClaims compares what the switch claims of a packet with what the taps give, and returns the label to go on with:
// that of the taps, or what the switch took instead, so that one fault is one finding.
func (p *port) judgeClaims(a *arrival, leaf *node, label float64, edge bool) float64 {
	c, at := a.claim, p.place(a)
	claimed := c.Values[fair.ValueLabel]
	if c.Cause != fair.CauseTested || !nearShare(claimed, label) {
		p.tell(a, claimedLabel(at, claimed, label))
		label = float64(claimed)
	}
	if claimed := c.Values[fair.ValueNode]; claimed != int64(a.node) {
		p.tell(a, claimedNode(at, claimed, a.node))
	}
	if claimed := c.Values[fair.ValueEdge] != 0; claimed != edge {
		p.tell(a, claimedEdge(at, claimed))
	}
	alpha := c.Values[fair.ValueAlpha]
	if !leaf.doubtAlpha && !nearShare(alpha, leaf.alpha) {
		p.find(a, claimedAlpha(at, alpha, leaf.alpha))
		leaf.doubtAlpha = true
	}
	if leaf.doubtAlpha {
		leaf.alpha, leaf.doubtAlpha = float64(alpha), false
	}
	p.judgeDrawn(a, label, leaf.alpha)
	return label
}

// judgeDrawn judges the claimed probability and random number of a packet beside each other, and what became of it.
func (p *port) judgeDrawn(a *arrival, label, alpha float64) {
	c, at := a.claim, p.place(a)
	want, _ := p.probability(label, alpha)
	claimed := float64(c.Values[fair.ValueProbability]) / 1e9
	slack := closeTo + 8/max(label, 8)
	exact := max(0, 1-alpha/max(label, 1))
	if p.d.set.Mode == fair.Dataplane { // the probability of the test, or that which it approximates
		slack += 1 / p.numbers()
		want = exact
	}
	if math.Abs(claimed-want) > slack {
		p.find(a, claimedProbability(at, claimed, want))
	}
	draw := c.Values[fair.ValueDraw]
	if p.lane == p.lanes[0] {
		p.drawn.see(p, a, draw)
	}
	if a.fate == tail || a.fate == elsewhere {
		return
	}
	must, doubtful := false, false
	if p.d.set.Mode == fair.Dataplane {
		// the very numbers of the test
		must = exceeds(uint64(draw), c.Values[fair.ValueLabel], uint64(1)<<p.d.set.DropBits-1, c.Values[fair.ValueAlpha])
	} else {
		u := float64(draw) / (1 << 53)
		must, doubtful = u < want, math.Abs(u-want) <= slack
	}
	if must != (a.fate == excess) && !doubtful {
		p.find(a, drewOther(at, must, share(want)))
	}
}

// exceeds reports whether a*b > c*d.
func exceeds(a uint64, b int64, c uint64, d int64) bool {
	high, low := bits.Mul64(a, uint64(max(b, 0)))
	otherHigh, otherLow := bits.Mul64(c, uint64(max(d, 0)))
	return high > otherHigh || high == otherHigh && low > otherLow
}

// judgeTest judges what became of a packet with a label, at a node with an alpha.
func (p *port) judgeTest(a *arrival, f *flow, label, alpha float64) {
	d, selected := p.d, a.fate == excess
	probability, sure := p.probability(label, alpha)
	at := p.place(a)
	switch {
	case !sure:
		if p.lane == p.lanes[0] {
			d.judge.coverage["unsure"]++
		}
		return
	case probability <= 0:
		if selected && label+3 < alpha*(1-4e-9) {
			p.find(a, belowShare(at, rate(label), rate(alpha)))
		}
		return
	case probability >= 1:
		if !selected {
			p.find(a, surelyDropped(at))
		}
		return
	case probability < 1e-6 && selected && p.d.set.Mode == fair.Ideal && label+3 < alpha*(1+1e-6):
		return // rounding
	}
	if p.all.See(probability, selected) {
		p.find(a, wrongShare(at, "of all flows", p.all.Selected, p.all.Seen, p.all.Expected))
	}
	if p.lane != p.lanes[0] {
		return
	}
	d.judge.coverage["draws"]++
	if f.wager == nil {
		f.wager = d.judge.wagers.Next()
	}
	if p.twins.See(f.wager.Seen, probability, selected) {
		p.find(a, equalDraws(at, "flows", p.twins.Alike))
	}
	if d.twins.See(int(a.sequence)-1, probability, selected) {
		p.find(a, equalDraws(at, "ports", d.twins.Alike))
	}
	if f.wager.See(probability, selected) {
		p.find(a, wrongShare(at, fmt.Sprintf("from host %d to host %d (flow %d)", a.key.src, a.key.dst, a.key.flow),
			f.wager.Selected, f.wager.Seen, f.wager.Expected))
	}
}

// claimOf returns what a switch claims to have changed at a node with a packet; nil: nothing.
func (a *arrival) claimOf(node int, overflow bool) *trace.Decision {
	for i := range a.states {
		s := &a.states[i]
		if s.Values[fair.ValueStateNode] == int64(node) && (s.Cause == fair.CauseOverflow) == overflow {
			return s
		}
	}
	return nil
}

// judgeUpdate compares a change of alpha that is due with what the switch claims.
func (p *port) judgeUpdate(a *arrival, u update) {
	n, at := &p.nodes[u.node], p.place(a)
	if a.claim == nil { // no records
		n.updated, n.looked = a.at, a.at
		return
	}
	s := a.claimOf(u.node, false)
	if s == nil {
		p.find(a, noUpdate(at, u.node, duration(u.since)))
		n.doubt, n.doubtAlpha = doubtEither, true
		return
	}
	claimed := func(value int) float64 { return float64(s.Values[value]) }
	p.judgeState(a, s, n)
	if (s.Cause == fair.CauseCongested) != u.congested {
		p.find(a, otherPhase(at, u.node, u.congested))
	}
	if !near(s.Values[fair.ValueCapacity], u.capacity) && !nearShare(s.Values[fair.ValueCapacity], u.capacity) {
		p.find(a, claimedState(at, "capacity", u.node, claimed(fair.ValueCapacity), u.capacity))
	}
	if !u.unsure && !nearShare(s.Values[fair.ValueBefore], u.before) {
		p.find(a, claimedState(at, "alpha before", u.node, claimed(fair.ValueBefore), u.before))
	}
	if !u.congested && !nearShare(s.Values[fair.ValueLargest], u.largest) {
		p.find(a, claimedState(at, "largest rate of a child", u.node, claimed(fair.ValueLargest), u.largest))
	}
	p.judgeAfter(a, s, u.node)
	p.adopt(a, s, n, u.after)
}

// judgeAfter judges the alpha after an update by what the switch claims to have computed it from.
func (p *port) judgeAfter(a *arrival, s *trace.Decision, node int) {
	claimed := func(value int) float64 { return float64(s.Values[value]) }
	congested := s.Cause == fair.CauseCongested
	before, accepted := claimed(fair.ValueBefore), claimed(fair.ValueAccepted)
	capacity, got := claimed(fair.ValueCapacity), claimed(fair.ValueAfter)
	n := &p.nodes[node]
	least, most := n.offered-closeTo*n.offered-2*n.weight, n.offered+closeTo*n.offered+2*n.weight
	if n.unoffered {
		least, most = 0, n.weight*p.link
	}
	after := func(accepted, capacity, before, offered float64) float64 {
		return p.law(congested, accepted, capacity, before, claimed(fair.ValueLargest), offered)
	}
	exact := after(accepted, capacity, before, n.offered)
	low, high := after(accepted+1, capacity-1, before-1, least), after(max(accepted-1, 0), capacity+1, before+1, most)
	if p.d.set.Mode == fair.Dataplane && congested {
		low, high = min(low, high, exact), max(low, high, exact)
		if math.Abs(accepted-capacity) > 2 {
			low, high = exact, exact
		}
	}
	if got < low-3-4e-9*low || got > high+3+4e-9*high {
		p.find(a, claimedState(p.place(a), "alpha after the update", node, got, exact))
	}
}

// judgeState judges what a record claims of A, F and time.
func (p *port) judgeState(a *arrival, s *trace.Decision, n *node) {
	at, i := p.place(a), int(s.Values[fair.ValueStateNode])
	if got := s.Values[fair.ValueArrival]; !near(got, n.arrivals.value) {
		p.tell(a, claimedEstimate(at, "A", i, rate(got), rate(n.arrivals.value)))
	}
	if got := s.Values[fair.ValueAccepted]; !near(got, n.accepted.value) {
		p.tell(a, claimedEstimate(at, "F", i, rate(got), rate(n.accepted.value)))
	}
	since := a.at.Sub(n.updated)
	if got := s.Values[fair.ValueSinceUpdateNS]; math.Abs(float64(got-since.Nanoseconds())) > 1 {
		p.find(a, claimedSince(at, i, duration(clock.Duration(got)*clock.Nanosecond), duration(since)))
	}
	if since := a.at.Sub(n.looked); s.Cause != fair.CauseOverflow && !p.due(since, s.Cause == fair.CauseCongested) {
		p.find(a, tooEarly(at, i, duration(since), duration(p.times.KC)))
	}
}

// adopt goes on with what the switch claims, so that one fault is one finding.
func (p *port) adopt(a *arrival, s *trace.Decision, n *node, own float64) {
	n.updated, n.looked, n.start, n.largest = a.at, a.at, a.at, 0
	n.congested, n.doubt = s.Cause == fair.CauseCongested, certain
	if got := s.Values[fair.ValueAfter]; n.doubtAlpha || n.pending && n.nextDoubt || !nearShare(got, own) {
		n.alpha, n.doubtAlpha = float64(s.Values[fair.ValueBefore]), false
		p.set(a.at, n, float64(got), true)
	}
}

// judgeNoUpdate judges that a switch claims no change where none is due.
func (p *port) judgeNoUpdate(a *arrival, i int) {
	s := a.claimOf(i, false)
	if s == nil {
		return
	}
	n := &p.nodes[i]
	p.judgeState(a, s, n)
	if n.doubt == certain && p.due(a.at.Sub(n.looked), s.Cause == fair.CauseCongested) {
		p.find(a, notDue(p.place(a), i, duration(a.at.Sub(n.start))))
	}
	p.judgeAfter(a, s, i)
	p.adopt(a, s, n, math.NaN())
}

// overflow is a packet for which the FIFO had no room, and alpha before.
type overflow struct {
	at    clock.Time
	alpha float64
	cuts  bool // it lowered alpha
}

// mostCuts is how many of 1 % there are in K_c: 28 come to a quarter, and a new K_c may begin in between.
const mostCuts = 56

// judgeOverflow takes what a full FIFO does to alpha (4.5). When the K_c begin in which it may be lowered by a quarter
// is not said: near the quarter it may be lowered by less than 1 %.
func (p *port) judgeOverflow(a *arrival, path []int) {
	if a.fate != tail || !p.d.set.Overflow {
		return
	}
	for _, i := range path {
		n := &p.nodes[i]
		s := a.claimOf(i, true)
		before := n.alpha
		if s != nil {
			before = float64(s.Values[fair.ValueBefore])
		}
		if k := len(n.overflows) - 1; k >= 0 && before > 0.99*n.overflows[k].alpha*(1+closeTo)+2 { // an update raised it
			n.raised = a.at
		}
		recent, highest, cuts := n.overflows[:0], before, 0
		for _, o := range n.overflows {
			if a.at.Sub(o.at) <= 2*p.times.KC {
				recent = append(recent, o)
				highest = max(highest, o.alpha)
			}
			if o.cuts && a.at.Sub(o.at) < p.times.KC {
				cuts++
			}
		}
		lower := s != nil && s.Values[fair.ValueAfter] < s.Values[fair.ValueBefore]
		n.overflows = append(recent, overflow{a.at, before, lower})
		// from a greater alpha than the one at which K_c began there are more
		if lower && cuts >= mostCuts && (n.raised == 0 || a.at.Sub(n.raised) > 2*p.times.KC) {
			p.find(a, cutOften(p.place(a), i, cuts+1))
		}
		few := 0.99*before > 0.7501*highest
		if s == nil {
			switch {
			case a.claim != nil && few:
				p.find(a, noOverflow(p.place(a), i))
			case a.claim != nil:
			case few:
				p.set(a.at, n, max(fair.LeastAlpha, 0.99*n.alpha), !n.doubtAlpha)
			default:
				n.doubtAlpha = true
			}
			continue
		}
		p.judgeState(a, s, n)
		least, most := max(fair.LeastAlpha, 0.99*before), before
		if few {
			most = least
		}
		if got := s.Values[fair.ValueAfter]; float64(got) < least-3-4e-9*least || float64(got) > most+3+4e-9*most {
			p.find(a, claimedState(p.place(a), "alpha after an overflow", i, float64(got), least))
		}
		n.updated = a.at
		p.set(a.at, n, float64(s.Values[fair.ValueAfter]), true)
	}
}

// room is what is known of the FIFO of a port.
type room struct {
	now     clock.Time
	left    clock.Time // when a packet last left
	sending int64      // bytes of that
	crowded *arrival   // that joined a full FIFO, which a packet may yet leave at that instant
	since   clock.Time
	waiting int   // packets
	held    int64 // bytes
}

// judgeRoom judges that the FIFO has room for a packet that joins it, and none for one that is dropped for want of it.
// What happens at one instant may have happened in another order, and a frame on the wire may count as one that waits.
// When real ones go there is not exact.
func (p *port) judgeRoom(a *arrival) {
	set := p.d.set
	p.overcrowded()
	if p.retired || p.d.altered || analyzers.OnRealFrames(p.d.judge.view) {
		return
	}
	switch r := &p.room; {
	case a.fate == tail:
		if p.arrived > 1 && r.left == r.now {
			return
		}
		if r.waiting+1 < set.Packets && (set.Bytes == 0 || r.held+r.sending+a.taken <= int64(set.Bytes)) {
			p.d.tell(a, tooSoon(p.place(a), r.waiting, r.held))
		}
	case a.fate != left && a.fate != withdrawn && a.fate != inside:
	case r.waiting > set.Packets || set.Bytes > 0 && r.held >= int64(set.Bytes):
		p.d.tell(a, overfull(p.place(a), r.waiting, r.held))
	case r.waiting == set.Packets:
		r.crowded, r.since = a, r.now
	}
}

// overcrowded reports a packet that joined a full FIFO, once it is clear that no other left at that instant.
func (p *port) overcrowded() {
	if a := p.crowded; a != nil && p.now > p.since {
		p.crowded = nil
		p.d.tell(a, overfull(p.place(a), p.d.set.Packets, p.held))
	}
}

// judgeOrder judges that packets leave in the order in which they came.
func (p *port) judgeOrder(a *arrival) {
	if a.neverOrdered {
		return
	}
	if y := p.youngest; y != nil && y.sequence > a.sequence {
		p.d.tell(a, overtaken(p.place(a), y.id), y.id)
		return
	}
	p.youngest = a
}

// judgeLabel judges the label with which a packet leaves.
func (p *port) judgeLabel(a *arrival) {
	at := p.place(a)
	switch {
	case p.last:
		if a.leftRanked || a.leftRank != 0 || a.leftShim != 0 {
			p.d.tell(a, keptLabel(at))
		}
		return
	case a.bypassed:
		if a.leftRanked && a.flags&trace.Ranked == 0 || a.leftShim != a.shim {
			p.d.tell(a, labelledBypassed(at))
		}
		return
	case !a.leftRanked:
		if !a.unsure {
			p.d.tell(a, noLabel(at))
		}
		return
	}
	if want := p.shimFor(a); a.leftShim != want {
		p.d.tell(a, wrongShim(at, int(a.leftShim), int(want)))
		return
	}
	node, got := fair.OfLabel(a.leftRank)
	if a.flags&trace.Ranked != 0 {
		if _, before := fair.OfLabel(a.rank); got > before {
			p.d.tell(a, raisedLabel(at, rate(got), rate(before)))
		}
	}
	if a.claim != nil && a.claim.Cause == fair.CauseTested && a.claim.Values[fair.ValueRelabel] != int64(got) {
		p.d.tell(a, otherLabel(at, rate(got), rate(a.claim.Values[fair.ValueRelabel])))
		return
	}
	if a.unsure {
		return
	}
	if node != a.node {
		p.d.tell(a, otherNode(at, node, a.node))
	}
	fits := func(b *bound) bool {
		low, high := b.low-2-closeTo*b.low, b.high+2+closeTo*b.high
		if p.d.set.Shim {
			low = min(math.Floor(low/fair.ShimUnit)*fair.ShimUnit, mostInShim)
		}
		return float64(got) >= low && float64(got) <= high
	}
	if p.d.set.Shim && got%fair.ShimUnit != 0 || !p.keep(func(l *lane) bool { return l.labelled(a, fits) }) {
		p.d.tell(a, wrongLabel(at, rate(got), rate(a.bound.low), rate(a.bound.high)))
	}
}

// mostInShim is the greatest rate in a shim: 32 bits in units.
const mostInShim = (1<<32 - 1) * fair.ShimUnit

// stream is the random numbers of a port, as records show them.
type stream struct {
	d     *device
	port  int
	life  int
	first []int64
	dice  *chance.Dice
}

// firstDraws is how many numbers of ports are compared.
const firstDraws = 16

func (j *Judge) newStream(d *device, port int) *stream {
	return &stream{d: d, port: port, life: d.lives, dice: chance.NewDice(&j.wagers)}
}

// see takes the random number of a packet.
func (s *stream) see(p *port, a *arrival, draw int64) {
	j := p.d.judge
	width := 53
	if p.d.set.Mode == fair.Dataplane {
		width = p.d.set.DropBits
	}
	if draw < 0 || draw >= 1<<width {
		p.d.tell(a, drawOutside(p.place(a), draw, width))
		return
	}
	face := int(draw)
	if width > chance.DiceBits {
		face = int(draw >> (width - chance.DiceBits))
	} else {
		face = face << (chance.DiceBits - width)
	}
	if width >= chance.DiceBits && s.dice.See(face) {
		p.d.tell(a, unevenDraws(p.place(a), s.dice.Seen))
	}
	if s.life != 1 || len(s.first) == firstDraws {
		return
	}
	if s.first = append(s.first, draw); len(s.first) < firstDraws {
		return
	}
	for _, o := range j.streams {
		if o.equal(s) {
			p.d.tell(a, sameDraws(p.place(a), o.d.who, o.port))
			break
		}
	}
	j.streams = append(j.streams, s)
}

func (s *stream) equal(o *stream) bool {
	for i := range s.first {
		if s.first[i] != o.first[i] {
			return false
		}
	}
	return true
}

// counter returns what the counters of a port should be.
func (d *device) counter(port int) *fair.PortCounters {
	for len(d.counted) <= port {
		d.counted = append(d.counted, fair.PortCounters{})
	}
	return &d.counted[port]
}

// count counts what the counters of a switch should count, when the fate of a packet shows.
func (d *device) count(t *trace.SwitchTap, a *arrival) {
	c := d.counter(t.Port)
	switch d.fateOf(t) {
	case excess:
		c.Excess++
	case tail:
		c.Tail++
	case left:
	case unknown, inside, withdrawn, elsewhere:
		d.astray = true
		return
	}
	c.Packets++
	_, edge := d.judge.view.HostAt(d.number, a.in)
	labelled := a.flags&trace.Ranked != 0 && (!d.set.Shim || a.flags&trace.Shimmed != 0)
	if a.size < int64(d.set.Bypass) || !edge && !labelled {
		c.Bypassed++
	}
}

// compareCounters compares the registers and counters of a switch with those that it should have.
func (d *device) compareCounters(now clock.Time) {
	if d.out {
		return
	}
	snapshot, err := d.judge.view.Counters(d.number)
	if err != nil {
		d.note(now, "its counters", err.Error())
		return
	}
	counters, ok := snapshot.(fair.Counters)
	if !ok {
		return
	}
	for i := range counters.Ports {
		if i >= len(d.ports) {
			break
		}
		c, p := &counters.Ports[i], d.ports[i]
		own := fair.PortCounters{}
		if i < len(d.counted) {
			own = d.counted[i]
		}
		if want := 3 * len(p.nodes); c.Registers != want {
			d.tellAt(now, registers(d.who, i, c.Registers, want))
		}
		differs := func(name string, got, want uint64) {
			if got != want {
				d.tellAt(now, counted(d.who, i, name, got, want))
			}
		}
		differs("drops by the drop test", c.Excess, own.Excess)
		differs("drops of the full FIFO", c.Tail, own.Tail)
		if d.states > 0 {
			differs("updates of alpha", c.Updates, own.Updates)
		}
		within := func(name string, got, least uint64) { // packets that are still inside are not counted yet
			if !d.astray && !d.altered && (got < least || got > least+uint64(len(d.inside))) {
				d.tellAt(now, counted(d.who, i, name, got, least))
			}
		}
		within("packets", c.Packets, own.Packets)
		within("packets without label", c.Bypassed, own.Bypassed)
	}
}

// compareFlows compares how many flows the edge of a switch measures with those that have sent, at the end of the run.
func (d *device) compareFlows(now clock.Time) {
	snapshot, err := d.judge.view.Counters(d.number)
	if counters, ok := snapshot.(fair.Counters); err == nil && ok && !d.out && !d.astray && !d.altered {
		if got, least := counters.Flows, len(d.flows); got < least || got > least+len(d.inside) {
			d.tellAt(now, measuredFlows(d.who, got, least))
		}
	}
}
