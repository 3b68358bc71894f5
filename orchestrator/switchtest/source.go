package switchtest

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Streamed reports whether flows are made as they start and forgotten as they end: not everything is judged.
func (p *Plan) Streamed() bool { return p.Test.Judge != nil && !p.Test.Judge.Full() }

// Count returns how many flows there are.
func (p *Plan) Count() int { return p.total }

// All returns the flows by number. If they are streamed, each is valid until the next.
func (p *Plan) All() iter.Seq[*Flow] {
	return func(yield func(*Flow) bool) {
		if !p.Streamed() {
			for i := range p.Flows {
				if !yield(&p.Flows[i]) {
					return
				}
			}
			return
		}
		for item := range p.Test.Workload {
			c, err := p.cursor(item)
			if err != nil {
				return // expand has reported it
			}
			for c.next() {
				if !yield(&c.flow) {
					return
				}
			}
		}
	}
}

// expand counts the flows, and keeps them unless they are streamed.
func (p *Plan) expand() error {
	p.total, p.bases, p.Flows = 0, nil, nil
	for item := range p.Test.Workload {
		where := func(err error) error {
			return fmt.Errorf("%s: %w", p.Test.Where(fmt.Sprintf("workload[%d]", item)), err)
		}
		p.bases = append(p.bases, p.total)
		c, err := p.cursor(item)
		if err != nil {
			return where(err)
		}
		for c.next() {
			if f := &c.flow; f.Src == f.Dst && !c.transport.ToItself {
				return where(fmt.Errorf("hairpin: a host of the transport %s can't send to itself; sender %d would",
					c.transport.Name, c.index-1))
			}
			p.total++
			if !p.Streamed() {
				p.Flows = append(p.Flows, c.flow)
			}
		}
		if v := p.Test.Workload[item].Values; c.kind.Counted && c.index != v.Int("flows") {
			return where(fmt.Errorf("the file has changed: %d flows, want %d", c.index, v.Int("flows")))
		}
		if err := p.check(item, c.kind, c.transport); err != nil {
			return where(err)
		}
	}
	return nil
}

// cursor is a place among the flows of an item.
type cursor struct {
	p         *Plan
	item      int
	kind      *workload.Kind
	transport *transport.Transport
	body      int64 // payload of a full packet
	index     int   // of the next flow, from 0
	list      []workload.Flow
	draw      func() (workload.Flow, bool)
	flow      Flow
}

func (p *Plan) cursor(item int) (*cursor, error) {
	w := &p.Test.Workload[item]
	c := &cursor{p: p, item: item, kind: workload.Find(w.Kind)}
	var err error
	if c.transport, err = findTransport(cmp.Or(c.kind.Transport, p.Test.TransportOf(&w.Offer))); err != nil {
		return nil, err
	}
	c.body = int64(p.Test.PacketSizeOf(&w.Offer) - c.transport.HeaderSize(w.Offer.IP == 6))
	scope := p.Test.Scope(item)
	if c.kind.Stream != nil {
		c.draw = c.kind.Stream(w.Values, scope)
	} else {
		c.list = c.kind.Flows(w.Values, scope)
	}
	return c, nil
}

// next completes the next flow with what the item's flows have in common.
func (c *cursor) next() bool {
	var of workload.Flow
	switch more := false; {
	case c.draw != nil:
		if of, more = c.draw(); !more {
			return false
		}
	case c.index == len(c.list):
		return false
	default:
		of = c.list[c.index]
	}
	t, o := c.p.Test, &c.p.Test.Workload[c.item].Offer
	f := Flow{
		Flow: of, Number: c.p.bases[c.item] + c.index + 1, Item: c.item, Transport: c.transport.Name,
		Src: fabric.HostID(of.Src), Dst: fabric.HostID(of.Dst), PacketSize: t.PacketSizeOf(o),
		Start:  clock.Time(0).Add(o.Start + clock.Duration(c.index)*o.Stagger + of.Start),
		Mark:   stack.Mark{DSCP: uint8(o.DSCP), IPv6: o.IP == 6, ECN: packet.ECN(ecnOf(t))},
		Weight: 1,
	}
	c.index++
	if o.Stop != nil {
		f.Stop = f.Start.Add(*o.Stop)
	}
	f.Rank = o.Ranking().From(f.Start)
	if o.Rate != nil {
		f.Rate = *o.Rate
	}
	if o.Tenant != nil {
		f.Tenant = *o.Tenant
	}
	if o.Weight != nil {
		f.Weight = float64(*o.Weight) / config.WeightUnit
	}
	if o.Class != nil {
		f.Mark.Class = uint8(*o.Class)
	} else {
		f.Mark.Class = uint8(o.DSCP) >> 3 // class selector (RFC 2474): what a switch without a map of its own goes by
	}
	switch {
	case f.Kind != Transfer || c.body <= 0:
	case of.Bytes > 0:
		f.Packets, f.Payload = (of.Bytes+c.body-1)/c.body, of.Bytes
	case o.Packets != nil:
		f.Packets, f.Payload = *o.Packets, *o.Packets*c.body
	case o.Bytes != nil:
		f.Packets, f.Payload = (*o.Bytes+c.body-1)/c.body, *o.Bytes
	}
	c.flow = f
	return true
}

// source hands out the flows of all items in the order of their start; those of one instant by number.
type source struct {
	cursors  cursors
	byNumber bool // in the order of their numbers instead
}

// newSource returns a source of all flows.
func newSource(p *Plan, byNumber bool) (*source, error) {
	s := &source{byNumber: byNumber}
	for item := range p.Test.Workload {
		c, err := p.cursor(item)
		if err != nil {
			return nil, err
		}
		if c.next() {
			s.cursors = append(s.cursors, c)
		}
	}
	if !byNumber {
		heap.Init(&s.cursors)
	}
	return s, nil
}

// before returns the next flow that starts before an instant; nil: none.
func (s *source) before(end clock.Time) *Flow {
	if len(s.cursors) == 0 || s.cursors[0].flow.Start >= end {
		return nil
	}
	c := s.cursors[0]
	f := c.flow
	switch more := c.next(); {
	case s.byNumber && more:
	case s.byNumber:
		s.cursors = s.cursors[1:]
	case more:
		heap.Fix(&s.cursors, 0)
	default:
		heap.Pop(&s.cursors)
	}
	return &f
}

// empty reports whether no flow is left.
func (s *source) empty() bool { return len(s.cursors) == 0 }

type cursors []*cursor

func (h cursors) Len() int { return len(h) }
func (h cursors) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].flow.Start, h[j].flow.Start), cmp.Compare(h[i].flow.Number, h[j].flow.Number)) < 0
}
func (h cursors) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(c any)   { *h = append(*h, c.(*cursor)) }
func (h *cursors) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// shownFlows is how many flows an explanation lists.
const shownFlows = 1000

// explainFlows writes the flows, of many the first.
func (p *Plan) explainFlows(e *explanation) {
	e.line("  flows     %d", p.total)
	for item := range p.Test.Workload {
		w := &p.Test.Workload[item]
		if k := workload.Find(w.Kind); k.Explain != nil {
			e.line("    workload[%d]  %s", item, k.Explain(w.Values, p.Test.Scope(item)))
		}
	}
	most := p.total
	if p.Streamed() {
		most = min(most, shownFlows)
	}
	for f := range p.All() {
		if f.Number > most {
			e.line("    %5s  and %d more", "", p.total-most)
			return
		}
		e.line("    %5d  %s", f.Number, f.Text())
	}
}
