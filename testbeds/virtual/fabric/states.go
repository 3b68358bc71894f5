package fabric

import "sync/atomic"

// States is state of a family beside every packet: headers have no room for more. A packet begins with the zero value,
// and so does a copy, whose maker copies what it needs; what was noted of a packet that has ended is gone. The state of
// a packet is found by the packet's place in memory, which is recycled: nothing is allocated per packet once the
// network has filled up. Switches of different partitions may share it.
type States[T any] struct {
	tables [maxSlabs / tableSlabs]atomic.Pointer[table[T]]
}

// tableSlabs is how many slabs of packets a table has.
const tableSlabs = 512

type table[T any] struct {
	slabs [tableSlabs]atomic.Pointer[[slab]stateOf[T]]
}

type stateOf[T any] struct {
	packet uint64 // ID; the state of another is of a packet that has ended
	value  T
}

// NewStates returns states for the packets of one network.
func NewStates[T any]() *States[T] { return new(States[T]) }

// Of returns the state of a packet. It may be kept as long as the packet may.
func (s *States[T]) Of(p *Packet) *T {
	i := p.number / slab
	of := made(&made(&s.tables[i/tableSlabs]).slabs[i%tableSlabs])
	state := &of[p.number%slab]
	if state.packet != p.ID {
		*state = stateOf[T]{packet: p.ID}
	}
	return &state.value
}

// made returns what p points to, which the first to ask makes.
func made[T any](p *atomic.Pointer[T]) *T {
	if at := p.Load(); at != nil {
		return at
	}
	p.CompareAndSwap(nil, new(T))
	return p.Load()
}
