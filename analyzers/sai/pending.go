package sai

import "candela.dev/candela/sai"

// pending is the arrivals in order, found by signature.
type pending struct {
	slots []slot
	free  []int32
	by    map[uint64]crowd
	first int32
	last  int32
	size  int
}

type slot struct {
	entry
	next, prev int32 // in order of arrival
	twin       int32 // the next one with the same signature
}

// crowd is the arrivals with one signature that were inside together, until none is left. It is unknown which of them a
// departure is.
type crowd struct {
	head, tail int32
	mixed      bool    // several were inside at the same time
	unlike     bool    // and they differ in what is seen of them or set for them
	blurred    bool    // and that in what they count as
	looks      []entry // if so, one of each kind
}

const none = -1

func (p *pending) init() { p.by, p.first, p.last = map[uint64]crowd{}, none, none }

func (p *pending) add(e *entry) {
	var i int32
	if n := len(p.free); n > 0 {
		i, p.free = p.free[n-1], p.free[:n-1]
	} else {
		i = int32(len(p.slots))
		p.slots = append(p.slots, slot{})
	}
	p.slots[i] = slot{entry: *e, next: none, prev: p.last, twin: none}
	if p.last != none {
		p.slots[p.last].next = i
	} else {
		p.first = i
	}
	p.last = i
	p.size++
	in, ok := p.by[e.Signature]
	if !ok {
		p.by[e.Signature] = crowd{head: i, tail: i}
		return
	}
	p.slots[in.tail].twin = i
	in.join(e, &p.slots[in.head].entry)
	in.tail = i
	p.by[e.Signature] = in
}

// join records how an arrival differs from those inside.
func (c *crowd) join(e, other *entry) {
	c.mixed = true
	if !c.unlike && e.alike(other) {
		return
	}
	if !c.unlike {
		c.unlike, c.looks = true, append(c.looks, *other)
	}
	for i := range c.looks {
		if c.looks[i].alike(e) {
			return
		}
	}
	c.looks = append(c.looks, *e)
	c.blurred = c.blurred || !e.countsAs(other)
}

// countsAs reports whether all counts are the same whichever of two arrivals a departure is.
func (e *entry) countsAs(o *entry) bool {
	return e.Length == o.Length && e.DSCP == o.DSCP && e.Src == o.Src && e.Dst == o.Dst && e.settings == o.settings &&
		e.other == o.other
}

// alike reports whether two arrivals differ only in time.
func (e *entry) alike(o *entry) bool {
	a, b := *e, *o
	for _, x := range []*entry{&a, &b} {
		x.ID, x.TimePS, x.Port, x.ahead, x.around = 0, 0, 0, 0, 0
	}
	return a == b
}

// take removes the arrival of a departure: of several the one that fits best.
func (a *Analyzer) take(o *sai.Observation) (entry, crowd, bool) {
	p := &a.pending
	in, ok := p.by[o.Signature]
	if !ok {
		return entry{}, crowd{}, false
	}
	before := int32(none)
	if in.unlike {
		before = a.closest(&in, o)
	}
	e, in := p.remove(o.Signature, before)
	return e, in, true
}

// closest returns the arrival before the one, among those with a signature, that fits a departure best.
func (a *Analyzer) closest(in *crowd, o *sai.Observation) int32 {
	proper, found := int32(none), false
	for before, i := int32(none), in.head; i != none; before, i = i, a.pending.slots[i].twin {
		e := &a.pending.slots[i].entry
		if !a.fits(e, o) {
			continue
		}
		if e.Length == o.Length && e.DSCP == o.DSCP {
			return before
		}
		if !found {
			proper, found = before, true
		}
	}
	return proper
}

// remove removes the arrival with a signature that comes after another, or the first of them.
func (p *pending) remove(signature uint64, before int32) (entry, crowd) {
	in := p.by[signature]
	i := in.head
	if before == none {
		in.head = p.slots[i].twin
	} else {
		i = p.slots[before].twin
		p.slots[before].twin = p.slots[i].twin
	}
	if in.tail == i {
		in.tail = before
	}
	if in.head == none {
		delete(p.by, signature)
	} else {
		p.by[signature] = in
	}
	p.unlink(i)
	return p.slots[i].entry, in
}

// oldest removes the oldest arrival.
func (p *pending) oldest() (entry, crowd) { return p.remove(p.slots[p.first].Signature, none) }

func (p *pending) unlink(i int32) {
	s := &p.slots[i]
	if s.prev == none {
		p.first = s.next
	} else {
		p.slots[s.prev].next = s.next
	}
	if s.next == none {
		p.last = s.prev
	} else {
		p.slots[s.next].prev = s.prev
	}
	p.free = append(p.free, i)
	p.size--
}

// fitsAny reports whether a departure is a proper one of any of these arrivals.
func (a *Analyzer) fitsAny(looks []entry, o *sai.Observation) bool {
	for i := range looks {
		if a.fits(&looks[i], o) {
			return true
		}
	}
	return false
}

// fits reports whether a departure can be that of an arrival by all rules except those about time.
func (a *Analyzer) fits(e *entry, o *sai.Observation) bool {
	if e.queue < 0 || e.queue >= queues {
		return true
	}
	if e.out >= 0 && e.out != o.Port && o.Dst == e.Dst {
		return false
	}
	a.trying, a.refuted = true, false
	switch a.classify(e, o) {
	case whole:
		a.checkWhole(e, o)
	case copied:
		a.checkCopy(e, o, true)
	case unclear:
	}
	a.trying = false
	return !a.refuted
}

// blur records that counts of the queues of different packets with one signature may be attributed to the wrong queue.
func (a *Analyzer) blur(port int, in *crowd) {
	if !in.blurred {
		return
	}
	for i := range in.looks {
		if q := in.looks[i].queue; q >= 0 && q < queues {
			a.ports[port].queues[q].blurred = true
		}
	}
}
