package trace

import "candela.dev/candela/packet"

// IterTracker follows ITER, the round of transmission, as the injector does in connection scope (spec §3): per flow and
// PSN space, a data packet whose PSN is not later than its predecessor's starts a new round. Memory is a few bytes per
// connection.
type IterTracker struct {
	connections *Connections
	states      []iterState // by 2·flow + space
}

type iterState struct {
	last  packet.PSN
	iter  int64
	place int64 // relative PSN of the last packet, unwrapped
	// follows says that place is that of last.
	follows bool
}

// NewIterTracker returns a tracker at the start of a trace.
func NewIterTracker(c *Connections) *IterTracker {
	t := &IterTracker{connections: c, states: make([]iterState, 4*c.Len())}
	for i := range t.states {
		flow, space := FlowID(i/2), packet.Space(i&1)
		t.states[i] = iterState{last: c.InitialPSN(flow, space).Add(-1), iter: 1}
	}
	return t
}

// Observe follows r and returns its ITER and its relative PSN across wraps. Control packets have ITER 0 and do not
// change it, nor do packets that were only seen after the injector. Packets of no connection have neither.
func (t *IterTracker) Observe(r *Record) (iter, relPSN int64) {
	space := r.Opcode.Space()
	i := 2*int(r.Flow) + int(space)
	if i < 0 || i >= len(t.states) {
		return 0, 0
	}
	s := &t.states[i]
	if r.Opcode == packet.CNP {
		return 0, 0 // outside the PSN stream
	}
	if r.PSN == s.last.Next() && s.follows && r.Opcode.IsData() && r.Has(Sent) {
		s.last, s.place = r.PSN, s.place+1
		return s.iter, s.place
	}
	relPSN = t.connections.RelPSNNear(r.Flow, space, r.PSN, s.place)
	s.place, s.follows = relPSN, false
	if !r.Opcode.IsData() || !r.Has(Sent) {
		return 0, relPSN
	}
	if r.PSN.Sub(s.last) <= 0 {
		s.iter++
	}
	s.last, s.follows = r.PSN, true
	return s.iter, relPSN
}
