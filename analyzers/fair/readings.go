package fair

import (
	"math/bits"
	"slices"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/chance"
	"candela.dev/candela/clock"
)

// The specification leaves open whether a node reads alpha of its parent as it was before the packet (4.3), and whether
// what happens exactly K_c after a change is early or late. Whoever reads it one way does so always: a port is judged
// by each reading that its packets have not refuted, and blamed when they refute all.

// reading is one way to read it: a sum of the following.
const (
	parentBefore   = 1 << iota // alpha of the parent is that before the packet
	dueCongested               // a congested node changes alpha after K_c, not only after more
	dueUncongested             // and so does another
	manyReadings   = 1 << iota
)

// readings is a set of readings.
type readings uint8

// first returns the one by which the set is judged.
func (r readings) first() int { return bits.TrailingZeros8(uint8(r)) }

// like returns those that agree with the first about a question.
func (r readings) like(question int) (same readings) {
	for i := range manyReadings {
		if r>>i&1 != 0 && i&question == r.first()&question {
			same |= 1 << i
		}
	}
	return same
}

// lane is what a port is by some readings, of which the packets so far do not tell which it is.
type lane struct {
	of    readings
	nodes []node
	all   *chance.Wager // of all flows
	found []cause.Cause // about the packet at hand
}

// reads reports whether the lane reads the specification so.
func (l *lane) reads(question int) bool { return l.of.first()&question != 0 }

// clone returns a lane that goes on from l with other readings.
func (l *lane) clone(of readings) *lane {
	wager := *l.all
	c := &lane{of: of, nodes: slices.Clone(l.nodes), all: &wager}
	for i := range c.nodes {
		c.nodes[i].overflows = slices.Clone(c.nodes[i].overflows)
	}
	return c
}

// question returns about what readings may differ with a packet of a path.
func (p *port) question(l *lane, now clock.Time, path []int) (question int) {
	for depth, i := range path {
		since := now.Sub(l.nodes[i].start)
		if since == p.times.KC {
			question |= dueCongested | dueUncongested
		}
		if n := &l.nodes[i]; depth < len(path)-1 && (since >= p.times.KC || n.doubt != certain || n.doubtAlpha) {
			question |= parentBefore
		}
	}
	return question
}

// split parts the readings that may differ with a packet, and reports whether any do.
func (p *port) split(now clock.Time, path []int) (parted bool) {
	for i := 0; i < len(p.lanes); i++ {
		l := p.lanes[i]
		if l.of&(l.of-1) == 0 {
			continue
		}
		if same := l.of.like(p.question(l, now, path)); same != l.of {
			p.lanes = append(p.lanes, l.clone(l.of&^same))
			l.of = same
			parted = true
		}
	}
	return parted
}

// find takes what the lane at hand finds wrong with a packet.
func (p *port) find(a *arrival, c cause.Cause) {
	if len(p.lanes) == 1 {
		p.d.tell(a, c)
		return
	}
	p.found = append(p.found, c)
}

// tell reports what is wrong by any reading, once.
func (p *port) tell(a *arrival, c cause.Cause) {
	if p.lane == p.lanes[0] {
		p.d.tell(a, c)
	}
}

// sift forgets the readings that a packet refutes. If it refutes all, the switch is at fault.
func (p *port) sift(a *arrival) {
	if len(p.lanes) == 1 {
		return
	}
	if p.keep(func(l *lane) bool { return len(l.found) == 0 }) {
		return
	}
	for _, c := range p.lanes[0].found {
		p.d.tell(a, c)
	}
	for _, l := range p.lanes {
		l.found = nil
	}
}

// keep keeps the lanes that are right, if any is.
func (p *port) keep(right func(l *lane) bool) bool {
	first := p.lanes[0]
	if !slices.ContainsFunc(p.lanes, right) {
		return false
	}
	p.lanes = slices.DeleteFunc(p.lanes, func(l *lane) bool { return !right(l) })
	if p.lane = p.lanes[0]; p.lane != first { // what was counted by the probabilities of another reading
		p.twins = chance.NewTwins(&p.d.judge.wagers)
		for _, f := range p.flows {
			f.wager = nil
		}
	}
	return true
}

// merge makes lanes that agree again one.
func (p *port) merge() {
	for i := 0; i < len(p.lanes); i++ {
		for k := len(p.lanes) - 1; k > i; k-- {
			if l, o := p.lanes[i], p.lanes[k]; l.equal(o) {
				l.of |= o.of
				p.lanes = slices.Delete(p.lanes, k, k+1)
			}
		}
	}
}

func (l *lane) equal(o *lane) bool {
	return slices.EqualFunc(l.nodes, o.nodes, func(x, y node) bool {
		return x.phase == y.phase && len(x.overflows) == len(y.overflows)
	})
}

// bound is which labels a packet may leave with, by some readings.
type bound struct {
	of        readings
	low, high float64
}

// bounds adds those of the lanes to a packet.
func (p *port) bounds(a *arrival, leaf int, label float64) {
	for i, l := range p.lanes {
		b := l.nodes[leaf].relabels(label)
		if b.of = l.of; i == 0 {
			a.bound = b
		} else {
			a.others = append(a.others, b)
		}
	}
}

// labelled reports whether the lane can have given a packet its label.
func (l *lane) labelled(a *arrival, fits func(b *bound) bool) bool {
	if a.bound.of&l.of != 0 && fits(&a.bound) {
		return true
	}
	return slices.ContainsFunc(a.others, func(b bound) bool { return b.of&l.of != 0 && fits(&b) })
}
