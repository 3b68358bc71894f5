package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

type answerKind uint8

const (
	answerAck    answerKind = iota // ACK or NAK
	answerRead                     // READ responses
	answerAtomic                   // atomic ACK
)

// response is a queued answer: one packet, or all responses to one READ request.
type response struct {
	kind     answerKind
	syndrome packet.Syndrome // of an ACK or NAK
	first    bool            // the next READ response is the first to its request
	replay   bool            // answers a duplicate
	late     bool            // queued by a duplicate, after answers to requests with later PSNs
	rkey     uint32          // of a READ
	msn      uint32
	psn      int64      // of the next packet
	end      int64      // one past the last PSN of a READ or atomic
	ready    clock.Time // earliest transmission
	va       uint64     // of the next READ response
	left     int        // bytes not yet read
	original uint64     // result of an atomic
}

// responseQueue holds a queue pair's answers in the order of the requests. The requester must get them in this order,
// because a response acknowledges all earlier requests (IBTA 9.7.5.1).
type responseQueue struct{ ring[response] }

// tail returns the newest answer, or nil.
func (q *responseQueue) tail() *response {
	if q.len() == 0 {
		return nil
	}
	return q.at(q.len() - 1)
}

// replay appends the answer to a duplicate READ or atomic: requests are answered in order of arrival. If the answer to
// the same request is still queued, and no answer to an earlier request was queued again after it, that answer is
// reused. A reused READ restarts from the PSN of the duplicate, so that useless responses do not delay the missing
// ones.
func (q *responseQueue) replay(a response) {
	for i := q.len() - 1; i >= 0; i-- {
		w := q.at(i)
		if w.kind == a.kind && w.end == a.end {
			if a.kind == answerRead {
				a.late = w.late
				*w = a
				q.raiseMSN(i, a.msn)
			}
			return
		}
		if w.late && w.psn < a.psn {
			break
		}
	}
	a.late = true
	q.push(a)
}

// raiseMSN sets the MSN of the answers from the i-th on: MSNs must not decrease.
func (q *responseQueue) raiseMSN(i int, msn uint32) {
	for ; i < q.len(); i++ {
		q.at(i).msn = msn
	}
}

// withdrawNak removes an unsent NAK whose packet has arrived in the meantime: a NAK must name the expected PSN (IBTA
// 9.7.5.2).
func (q *responseQueue) withdrawNak() {
	for i := q.len() - 1; i >= 0; i-- {
		if a := q.at(i); a.kind == answerAck && !a.syndrome.IsAck() {
			q.remove(i)
		}
	}
}

// fetches counts the queued READs and atomics that are not replays.
func (q *responseQueue) fetches() int {
	n := 0
	for i := range q.len() {
		if a := q.at(i); a.kind != answerAck && !a.replay {
			n++
		}
	}
	return n
}

// eligibleAt returns when the oldest answer may be sent, and whether it is a control packet.
func (r *responder) eligibleAt() (at clock.Time, control bool) {
	if r.out.len() == 0 {
		return clock.Never, true
	}
	a := r.out.at(0)
	if a.kind == answerRead {
		return max(a.ready, r.q.req.rate.gate, r.q.class.gate()), false
	}
	if r.q.responsesInPipe > 0 {
		return clock.Never, true // an answer must not overtake READ responses to earlier requests
	}
	return a.ready, true
}

// pollControl fills p with the oldest answer if it is an eligible control packet.
func (r *responder) pollControl(now clock.Time, p *packet.Packet) bool {
	at, control := r.eligibleAt()
	if at > now || !control {
		return false
	}
	a := r.out.pop()
	*p = r.q.frame
	p.BTH.Opcode = packet.Acknowledge
	p.BTH.PSN = packet.NewPSN(a.psn)
	if a.kind == answerAtomic {
		p.BTH.Opcode = packet.AtomicAcknowledge
		p.AtomicAckETH = a.original
		a.syndrome = packet.SyndromeAckNoCredit
	}
	p.Headers |= p.BTH.Opcode.Headers()
	p.AETH = r.aeth(a.syndrome, a.msn)
	r.noteNak(now, a.syndrome)
	return true
}

// noteNak updates the counters for a NAK that is sent and triggers a CNP if so configured. A withdrawn NAK has no
// effect.
func (r *responder) noteNak(now clock.Time, s packet.Syndrome) {
	switch {
	case s == packet.SyndromeNakSequence:
		r.q.nic.counters.OutOfSequence++
		r.q.nic.notify.nacked(now, r.q)
	case s.IsRNR():
		r.q.nic.counters.OutOfBuffer++
	}
}

// pollRead fills p with the next READ response, which must be eligible.
func (r *responder) pollRead(now clock.Time, p *packet.Packet) {
	a := r.out.at(0)
	n := min(a.left, r.q.cfg.MTU)
	*p = r.q.frame
	p.BTH.Opcode = readOpcodes.at(a.first, a.psn+1 == a.end)
	p.BTH.PSN = packet.NewPSN(a.psn)
	p.BTH.PadCount = uint8(-n & 3)
	p.Headers |= p.BTH.Opcode.Headers()
	if p.Headers&packet.HasAETH != 0 {
		p.AETH = r.aeth(packet.SyndromeAckNoCredit, a.msn)
	}
	p.Payload = r.q.nic.memory.at(a.rkey, a.va, n)
	a.first = false
	a.psn++
	a.va += uint64(n)
	a.left -= n
	if a.psn == a.end {
		r.out.pop()
	}
	r.q.req.rate.sent(now, p.Len())
	r.q.class.sent(now, p.Len())
}

var readOpcodes = opcodeSet{first: packet.ReadResponseFirst, middle: packet.ReadResponseMiddle,
	last: packet.ReadResponseLast,
	only: packet.ReadResponseOnly}

func (r *responder) aeth(s packet.Syndrome, msn uint32) packet.AETH {
	if r.q.nic.bugs.Has(BugMSNStuck) {
		msn = 0
	}
	return packet.AETH{Syndrome: s, MSN: msn}
}
