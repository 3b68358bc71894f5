package observer

import "candela.dev/candela/packet"

// What a responder may have received or sent that the tap did not see.

// miss adds what follows from a frame that the tap did not see.
func (p *responder) miss(st *receiverStep, n receiverNode) {
	if n.state.failed {
		return
	}
	p.missResponse(st, n)
	if n.state.owes != owesNothing && n.state.owes != owesSequenceNak {
		return
	}
	p.outOfOrder(st, n)
	if first := p.x.requests.at(n.state.expect); first == nil {
		p.missUnknown(st, n)
	} else if first.psn == n.state.expect {
		p.inOrder(st, n, first)
	}
	p.missDuplicates(st, n)
}

func (p *responder) missResponse(st *receiverStep, n receiverNode) {
	s := &n.state
	switch s.owes {
	case owesReadResponses, owesAtomicAck:
		s.respond(s.at)
	case owesSequenceNak, owesRNRNak:
		s.owes, s.silent = owesNothing, true
		s.acknowledge(s.expect - 1)
	case owesFatalNak:
		if st.goal != nil {
			return // nothing can follow
		}
		s.failed = true
	case owesNothing:
		s.respond(s.expect - 1)
	}
	st.add(n)
}

// missDuplicates adds unseen duplicates that lead to the goal. One frame just before the goal suffices.
func (p *responder) missDuplicates(st *receiverStep, n receiverNode) {
	if st.goal == nil {
		return
	}
	r := &p.x.requests
	low := max(0, r.low)
	if p.x.midway {
		low = r.low
	}
	last := min(st.goal.psn, n.state.expect-1)
	for psn := max(low, last-maxReach); psn <= last; psn++ {
		first := r.at(psn)
		if first != nil && !demands(first.op) || psn < last-2 {
			continue
		}
		switch {
		case first == nil:
			if n.state.owes == owesNothing {
				p.missUnknownDuplicates(st, n, psn)
			}
		case first.op == packet.ReadRequest:
			for end := psn + 1; end <= min(first.end, psn+maxReach); end++ {
				part := *first
				part.psn, part.end = psn, end
				if end < first.end && first.tail != unknownTail {
					part.tail = p.x.full
				}
				p.duplicate(st, n, &part)
			}
		default:
			p.duplicate(st, n, first)
		}
	}
	for psn := last; psn >= max(low, last-maxReach); psn-- {
		if first := r.at(psn); first == nil || !demands(first.op) {
			n.state.duplicate = psn
			st.add(n)
			return
		}
	}
}

// missUnknownDuplicates adds unseen READ and atomic duplicates at PSNs where no request was seen.
func (p *responder) missUnknownDuplicates(st *receiverStep, n receiverNode, psn int64) {
	m := n
	m.state.owes, m.state.at = owesAtomicAck, psn
	st.add(m)
	for end := psn + 1; end <= n.state.expect && p.x.requests.at(end-1) == nil; end++ {
		m := n
		m.state.owes, m.state.first, m.state.at, m.state.end, m.state.readTail = owesReadResponses, psn, psn, end, unknownTail
		st.add(m)
	}
}

// missUnknown adds what the expected request may have been if no frame shows it.
func (p *responder) missUnknown(st *receiverStep, n receiverNode) {
	s, r := &n.state, &p.x.requests
	psn := s.expect
	s.silent, s.duplicate = false, none
	if s.owes == owesSequenceNak {
		s.owes = owesNothing
	}
	p.refuse(st, n)
	plain := func(message stretch, rest int32, msn int64) {
		m := n
		m.state.expect, m.state.message, m.state.rest, m.state.msn = psn+1, message, rest, msn
		st.add(m)
		if p.x.limits.AtRest {
			m.state.acks = psn + 1
			st.add(m)
		}
	}
	plain(inSomething, -1, s.msn)
	plain(betweenMessages, 0, s.msn+1)
	if s.message == inSend || s.message == inWrite {
		return
	}
	s.msn++
	s.message, s.acks = betweenMessages, none
	m := n
	m.state.expect, m.state.owes, m.state.at = psn+1, owesAtomicAck, psn
	st.add(m)
	for end := psn + 1; end <= min(r.high+2, psn+maxReach); end++ {
		m := n
		m.state.expect = end
		m.state.owes, m.state.first, m.state.at, m.state.end, m.state.readTail = owesReadResponses, psn, psn, end, unknownTail
		st.add(m)
		if r.at(end) != nil {
			break
		}
	}
}
