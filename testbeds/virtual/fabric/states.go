package fabric

import "sync/atomic"

// States is a family's state for every packet, because headers have no room for it. The state of a new packet is the
// zero value. So is that of a copy; its maker copies what it needs. A packet's state is lost when the packet ends.
// States are indexed by the packet's recycled memory, so that nothing is allocated per packet once the network has
// filled up. Switches of different partitions may share one States.
type States[T any] struct {
	tables [maxSlabs / tableSlabs]atomic.Pointer[table[T]]
}

// tableSlabs is the number of packet slabs per table.
const tableSlabs = 512

type table[T any] struct {
	slabs [tableSlabs]atomic.Pointer[[slab]stateOf[T]]
}

type stateOf[T any] struct {
	packet uint64 // ID; with another ID, the state belongs to a packet that has ended
	value  T
}

// NewStates returns states for the packets of one network.
func NewStates[T any]() *States[T] { return new(States[T]) }

// Of returns the state of a packet. It may be kept as long as the packet may be kept.
func (s *States[T]) Of(p *Packet) *T {
	i := p.number / slab
	of := made(&made(&s.tables[i/tableSlabs]).slabs[i%tableSlabs])
	state := &of[p.number%slab]
	if state.packet != p.ID {
		*state = stateOf[T]{packet: p.ID}
	}
	return &state.value
}

// made returns the value that p points to, and creates it on first use.
func made[T any](p *atomic.Pointer[T]) *T {
	if at := p.Load(); at != nil {
		return at
	}
	p.CompareAndSwap(nil, new(T))
	return p.Load()
}
