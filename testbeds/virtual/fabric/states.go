package fabric

// States is state of a family beside every packet: headers have no room for more. A packet begins with the zero value,
// and so does a copy, whose maker copies what it needs; what was noted of a packet that has ended is gone. The state of
// a packet is found by the packet's place in memory, which is recycled: nothing is allocated per packet once the
// network has filled up.
type States[T any] struct {
	slabs []*[slab]stateOf[T]
}

type stateOf[T any] struct {
	packet uint64 // ID; the state of another is of a packet that has ended
	value  T
}

// NewStates returns states for the packets of one network.
func NewStates[T any]() *States[T] { return new(States[T]) }

// Of returns the state of a packet. It may be kept as long as the packet may.
func (s *States[T]) Of(p *Packet) *T {
	i := int(p.number / slab)
	for i >= len(s.slabs) {
		s.slabs = append(s.slabs, new([slab]stateOf[T]))
	}
	state := &s.slabs[i][p.number%slab]
	if state.packet != p.ID {
		*state = stateOf[T]{packet: p.ID}
	}
	return &state.value
}
