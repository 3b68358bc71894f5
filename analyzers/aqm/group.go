package aqm

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

func duration(d clock.Duration) cause.Duration { return cause.Span(d) }

// order is what keeps its order: a flow's packets of a class that came by one port and leave by one.
type order struct {
	key     flowKey
	in, out int
	class   uint8
}

// sequence counts the packets of an order.
type sequence struct {
	arrived uint64
	newest  [2]leaver // of the packets that have left, by generation: the latest and the one before
}

// leaver is the youngest packet of a generation that has left.
type leaver struct {
	generation int
	sequence   uint64
	id         uint64
}

// judgeGroup judges the queue of a packet; one that is still inside gets the queue that it should have.
func (d *device) judgeGroup(a *arrival) {
	normal := min(int(a.class), d.set.Queues-1)
	table := d.firsts[a.in]
	if a.fate == inside {
		a.queue = normal
	}
	if table == nil || d.set.DPP.Class >= 0 && d.set.DPP.Class != int(a.class) {
		d.judgeClass(a, normal)
		if table != nil {
			d.enumerate(a, 0)
		}
		return
	}
	f, mouse := table.classify(a.at, a.key, a.size)
	d.enumerate(a, f.generation)
	if mouse && a.fate == inside {
		a.queue = d.set.Queues
	}
	if claim := d.claimed(a, valueIndex); claim >= 0 && claim != int64(f.index) {
		d.tell(a, claimedIndex(d.place(a), claim, f.index))
		return
	}
	switch sent := d.isMice(a.queue); {
	case !sent && !mouse:
		d.judgeClass(a, normal)
	case sent != mouse && d.otherAge(a, table, f):
		d.tell(a, wrongAge(d.place(a), f.index))
	case sent != mouse:
		d.tell(a, wrongGroup(d.place(a), f.index, mouse))
	}
}

// otherAge reports whether a wrong queue would be right if the flow had started again at another time.
func (d *device) otherAge(a *arrival, table *firsts, f *first) bool {
	sent := d.isMice(a.queue)
	return a.claim == nil && (f.generation > 0 && sent == table.mouse(f.unbroken) || sent && table.mouse(f.sincePause))
}

func (d *device) judgeClass(a *arrival, normal int) {
	if a.queue != normal && !d.isMice(a.queue) {
		d.tell(a, wrongClass(d.place(a), normal))
	} else if a.queue != normal {
		d.tell(a, wrongGroup(d.place(a), 0, false))
	}
}

// enumerate gives a packet its number in its order.
func (d *device) enumerate(a *arrival, generation int) {
	if a.port < 0 {
		return
	}
	s := d.flows[d.orderOf(a)]
	if s == nil {
		s = new(sequence)
		d.flows[d.orderOf(a)] = s
	}
	s.arrived++
	a.sequence, a.generation = s.arrived, generation
}

func (d *device) orderOf(a *arrival) order {
	return order{key: a.key, in: a.in, out: a.port, class: a.class}
}

// judgeOrder judges that a packet leaves after older ones of its flow. Packets that came after the flow had started
// again may overtake those from before.
func (d *device) judgeOrder(a *arrival) {
	s := d.flows[d.orderOf(a)]
	if s == nil {
		return
	}
	for i := range s.newest {
		if n := &s.newest[i]; n.generation == a.generation && n.sequence > a.sequence {
			d.tell(a, overtaken(d.place(a), n.id), n.id)
			return
		}
	}
	own := leaver{a.generation, a.sequence, a.id}
	switch first := &s.newest[0]; {
	case first.generation == a.generation:
		*first = own
	case first.generation < a.generation:
		s.newest[1], *first = *first, own
	case s.newest[1].generation == a.generation:
		s.newest[1] = own
	}
}
