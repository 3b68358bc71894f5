package oracle

import "candela.dev/candela/packet"

// What a responder may have sent or received that the tap missed.

// sendUnseen adds what follows from a response that the tap missed.
func (r *responder) sendUnseen(s responderState, add func(responderState)) {
	switch s.owes {
	case readResponses:
		r.responded(&s, s.at)
	case atomicAck:
		r.responded(&s, s.at)
	case sequenceNak, rnrNak:
		s.owes, s.silent = nothing, true
		r.covered(&s, s.expect-1)
	case fatalNak:
		s.failed = true
	case nothing:
		r.responded(&s, s.expect-1)
	}
	add(s)
}

// receiveUnseen adds what follows from a request that the tap missed.
func (r *responder) receiveUnseen(s responderState, add func(responderState)) {
	if s.owes != nothing && s.owes != sequenceNak {
		return
	}
	c := &r.x.contents
	r.outOfOrder(s, nil, add)
	if p := c.at(int(s.expect)); p != nil && p.PSN == int(s.expect) {
		r.inOrder(s, p, add)
	} else if p == nil {
		r.unknownInOrder(s, add)
	}
	for psn := max(0, c.base+1); psn < int(s.expect); psn++ {
		p := c.at(psn)
		if p != nil && answersItself(p.Op) {
			if p.Op != packet.ReadRequest {
				r.duplicate(s, p, add)
				continue
			}
			for end := psn + 1; end <= p.PSN+p.packets(); end++ {
				part := *p
				part.PSN, part.Count = psn, end-psn
				if end < p.PSN+p.packets() {
					part.Short = 0
				} else if p.Count == 0 {
					part.Count = 0
				}
				r.duplicate(s, &part, add)
			}
			continue
		}
		n := s
		n.duplicate = int32(psn)
		add(n)
		if p == nil && s.owes == nothing {
			n = s
			n.owes, n.at = atomicAck, int32(psn)
			add(n)
			for end := psn + 1; end <= int(s.expect) && c.at(end-1) == nil; end++ {
				n := s
				n.owes, n.start, n.at, n.end, n.lacks = readResponses, int32(psn), int32(psn), int32(end), -1
				add(n)
			}
		}
	}
}

// unknownInOrder is the expected request where no packet shows what it is.
func (r *responder) unknownInOrder(s responderState, add func(responderState)) {
	c := &r.x.contents
	psn := s.expect
	s.silent, s.duplicate = false, none
	if s.owes == sequenceNak {
		s.owes = nothing
	}
	if r.nextIs(s, psn, packet.Syndrome.IsRNR) {
		n := s
		n.owes, n.silent = rnrNak, true
		add(n)
	}
	if r.nextIs(s, psn, fatal) {
		n := s
		n.owes, n.at = fatalNak, psn
		add(n)
	}
	n := s // a packet inside a message
	n.expect, n.mid, n.rest = psn+1, inAny, -1
	add(n)
	n.acks = psn + 1
	add(n)
	if s.msn != anyMSN {
		s.msn++
	}
	n = s // the last of a SEND or WRITE
	n.expect, n.mid, n.rest, n.short = psn+1, between, 0, 0
	add(n)
	n.acks = psn + 1
	add(n)
	if s.mid == inSend || s.mid == inWrite {
		return
	}
	n = s
	n.mid, n.acks, n.expect, n.owes, n.at, n.newest = between, none, psn+1, atomicAck, psn, psn
	add(n)
	last := c.base + len(c.of) + 1
	for end := int(psn) + 1; end <= last; end++ {
		n := s
		n.mid, n.acks, n.expect, n.newest = between, none, int32(end), psn
		n.owes, n.start, n.at, n.end, n.lacks = readResponses, psn, psn, int32(end), -1
		add(n)
		if c.at(end) != nil {
			break
		}
	}
}
