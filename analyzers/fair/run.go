package fair

import (
	"math"

	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
)

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
