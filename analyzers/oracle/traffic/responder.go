package traffic

import (
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/packet"
)

// responder executes requests in order and answers them. Its responses leave in that order, some time later.
type responder struct {
	*stream
	expect  int
	msn     int
	silent  bool  // a NAK is out
	refused bool  // by its own NAK
	busy    int64 // when the latest response leaves
	// owed is a delayed acknowledgement: the PSN at least to name; negative: none.
	owed    int
	epoch   int // of the delayed acknowledgement
	results map[int]uint64
	memory  uint64
	patient bool // waits with a NAK, in case that the missing request comes
	nakDue  bool // and waits just now
}

func newResponder(n *stream) *responder {
	return &responder{
		stream: n, owed: -1, msn: n.MSN, results: map[int]uint64{}, memory: uint64(n.rng.IntN(100)),
		patient: n.chance(0.2),
	}
}

func (r *responder) failed() bool { return r.dead[r.host(true)] }

// receive takes a request. It must not be called with a lost one.
func (r *responder) receive(p oracle.Packet) {
	switch {
	case r.failed():
	case p.PSN == r.expect:
		r.inOrder(p)
	case p.PSN > r.expect:
		r.gap()
	default:
		r.duplicate(p)
	}
}

func (r *responder) gap() {
	if r.silent {
		return
	}
	r.silent, r.nakDue = true, true
	if !r.patient {
		r.nak()
		return
	}
	expect := r.expect
	r.at(r.now+r.upTo(2*r.ProcessMax), func() {
		if r.expect == expect && !r.failed() {
			r.nak()
		}
	})
}

// nak sends the NAK that is due; responses to later requests wait for it.
func (r *responder) nak() {
	if r.nakDue {
		r.nakDue = false
		r.acknowledge(packet.SyndromeNakSequence, r.expect)
	}
}

func (r *responder) inOrder(p oracle.Packet) {
	r.nakDue = false
	switch {
	case r.chance(r.Refused):
		naks := []packet.Syndrome{packet.SyndromeNakInvalid, packet.SyndromeNakAccess, packet.SyndromeNakOperation}
		r.acknowledge(naks[r.rng.IntN(len(naks))], p.PSN)
		r.refused, r.dead[r.host(true)] = true, true
		return
	case r.chance(r.NotReady):
		r.silent = true
		codes := 2
		if r.LongWaits {
			codes = 20
		}
		r.acknowledge(packet.SyndromeRNR|packet.Syndrome(1+r.rng.IntN(codes)), p.PSN)
		return
	}
	r.silent = false
	if p.Op == packet.ReadRequest || p.Op.Verb() == packet.VerbAtomic {
		if r.owed >= 0 && r.chance(0.5) { // else the response says it
			r.acknowledge(r.ack(), r.expect-1)
		}
		r.owed = -1
		r.epoch++
	}
	if p.Op.Ends() {
		r.msn++
	}
	switch {
	case p.Op == packet.ReadRequest:
		r.expect += max(1, p.Count)
		r.read(p)
	case p.Op.Verb() == packet.VerbAtomic:
		r.expect++
		r.results[p.PSN] = r.memory
		r.memory += 1 + uint64(r.rng.IntN(9))
		r.atomic(p.PSN)
	default:
		r.expect++
		if p.AckReq {
			r.acknowledgeLater(p.PSN)
		} else if r.chance(0.05) {
			r.acknowledge(r.ack(), p.PSN) // not requested, but allowed
		}
	}
}

// acknowledgeLater coalesces acknowledgements that are due at the same time.
func (r *responder) acknowledgeLater(psn int) {
	r.owed = psn
	r.epoch++
	epoch := r.epoch
	r.at(r.now+r.upTo(r.ProcessMax), func() {
		if epoch == r.epoch && r.owed >= 0 && !r.failed() {
			r.nak()
			if r.owed >= 0 {
				r.acknowledge(r.ack(), r.expect-1)
			}
		}
	})
}

// duplicate answers a duplicate without executing it.
func (r *responder) duplicate(p oracle.Packet) {
	r.nak()
	latest := r.expect - 1
	switch {
	case p.Op == packet.ReadRequest, p.Op.Verb() == packet.VerbAtomic:
		if r.owed >= 0 {
			r.acknowledge(r.ack(), latest)
		}
		if p.Op == packet.ReadRequest {
			r.read(p)
		} else {
			r.atomic(p.PSN)
		}
	case r.owed >= 0:
		r.acknowledge(r.ack(), latest)
	case r.chance(0.3):
		r.acknowledge(r.ack(), p.PSN)
	default:
		r.acknowledge(r.ack(), p.PSN+r.rng.IntN(r.expect-p.PSN))
	}
}

func (r *responder) acknowledge(s packet.Syndrome, psn int) {
	r.owed = -1
	r.epoch++
	r.answer(oracle.Packet{Op: packet.Acknowledge, Syndrome: s, PSN: psn, MSN: r.msn})
}

func (r *responder) atomic(psn int) {
	r.answer(oracle.Packet{
		Op: packet.AtomicAcknowledge, Syndrome: r.ack(), PSN: psn, MSN: r.msn, VA: r.results[psn],
	})
}

func (r *responder) read(p oracle.Packet) {
	n := max(1, p.Count)
	for i := range n {
		op := packet.ReadResponseMiddle
		switch {
		case n == 1:
			op = packet.ReadResponseOnly
		case i == 0:
			op = packet.ReadResponseFirst
		case i == n-1:
			op = packet.ReadResponseLast
		}
		q := oracle.Packet{Op: op, PSN: p.PSN + i}
		if op.Headers()&packet.HasAETH != 0 {
			q.Syndrome, q.MSN = r.ack(), r.msn
		}
		if i == n-1 {
			q.Lacks = n*oracle.MTU - (p.Count*oracle.MTU - p.Short)
		}
		r.answer(q)
	}
}

// answer sends p after all earlier responses.
func (r *responder) answer(p oracle.Packet) {
	p.Back = true
	r.busy = max(r.now+r.upTo(r.ProcessMax/2), r.busy+1)
	r.at(r.busy, func() {
		if r.refused || !r.failed() { // what precedes its own NAK still leaves
			r.transmit(p, r.requester.receive)
		}
	})
}

// ack returns the syndrome of an acknowledgement. A credit count of 12 or more grants 64 requests at least (IBTA volume
// 1, 9.7.7.2, table 45).
func (r *responder) ack() packet.Syndrome {
	if !r.Credits || r.chance(0.2) {
		return packet.SyndromeAckNoCredit
	}
	return packet.Syndrome(12 + r.rng.IntN(19))
}
