package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// mischief is the state of a queue pair's seeded faults.
type mischief struct {
	high      int64 // one past the highest request PSN sent
	acks      int   // ACKs sent or received
	requests  int   // requests received in order
	data      int   // data packets sent
	fresh     int   // requests sent for the first time
	oddAcks   int   // ACKs sent, of which every fourth may be modified
	atomics   int   // atomics executed, of which every other may be lost
	asked     int   // requests with AckReq, of which every third may be forgotten
	afterRNR  bool  // the pending restart follows an RNR NAK
	ghost     bool  // the next ACK repeats an old one
	atomicTwo bool  // the next atomic ACK is the second one
}

// intercept takes a received packet before the queue pair does and reports whether it is handled completely.
func (n *NIC) intercept(now clock.Time, q *QP, p *packet.Packet) bool {
	switch op := p.BTH.Opcode; {
	case q.state != stateReady || op == packet.CNP:
		return false
	case n.bugs.Has(BugDropsPadded) && p.BTH.PadCount > 0:
		n.counters.ICRCErrors++
		return true
	case n.bugs.Has(BugDropsMarked) && p.IP.ECN() == packet.CE:
		n.counters.ICRCErrors++
		return true
	case op.IsResponse():
		return q.req.mishear(now, p)
	default:
		return q.resp.misreceive(now, p)
	}
}

// badICRC is called for a packet dropped for its iCRC.
func (n *NIC) badICRC(now clock.Time, p *packet.Packet) {
	if q := n.lookup(p); q != nil && q.state == stateReady && n.bugs.Has(BugNackBadICRC) && p.BTH.Opcode.IsRequest() {
		q.resp.nak(now, packet.SyndromeNakSequence)
	}
}

// mishear handles a response with the requester's faults.
func (r *requester) mishear(now clock.Time, p *packet.Packet) bool {
	bugs := r.q.nic.bugs
	if p.BTH.Opcode != packet.Acknowledge {
		return false
	}
	other := *p
	if done := r.misjudge(p, &other) || r.mistake(now, p); done {
		return true
	}
	switch s := p.AETH.Syndrome; {
	case other.AETH.Syndrome != s:
	case s == packet.SyndromeNakSequence && bugs.Has(BugNackTakenForAck):
		other.AETH.Syndrome, other.BTH.PSN = packet.SyndromeAckNoCredit, p.BTH.PSN.Add(-1)
	case s.IsRNR() && bugs.Has(BugRNRNoWait):
		const tenMicroseconds = 1
		other.AETH.Syndrome = packet.SyndromeRNR | tenMicroseconds
	case s.IsRNR():
		r.q.mischief.afterRNR = true
		return false
	case s.IsAck() && bugs.Has(BugAckIgnored):
		r.q.mischief.acks++
		return r.q.mischief.acks%2 == 1
	default:
		return false
	}
	r.handle(now, &other)
	return true
}

// misreceive handles a request with the responder's faults.
func (r *responder) misreceive(now clock.Time, p *packet.Packet) bool {
	bugs, distance := r.q.nic.bugs, p.BTH.PSN.Sub(packet.NewPSN(r.expected))
	switch {
	case bugs.Has(BugNeverAcknowledges):
		r.handle(now, p)
		r.out.clear()
		r.q.schedule(now)
		return true
	case distance < 0:
		return r.misrepeat(now, p, r.expected+int64(distance))
	case distance > 0:
		return r.misgap(now, p, r.expected+int64(distance))
	case bugs.Has(BugNackUnprovoked):
		r.handle(now, p)
		if r.q.mischief.requests++; r.q.mischief.requests%8 == 0 {
			r.nak(now, packet.SyndromeNakSequence)
		}
		return true
	}
	return false
}

// misrepeat handles a duplicate with the responder's faults.
func (r *responder) misrepeat(now clock.Time, p *packet.Packet, psn int64) bool {
	bugs, verb := r.q.nic.bugs, p.BTH.Opcode.Verb()
	data := verb == packet.VerbSend || verb == packet.VerbWrite
	answer := response{psn: psn, ready: now.Add(r.q.nic.profile.NackGeneration)}
	switch {
	case data && bugs.Has(BugRNRForDuplicates):
		answer.syndrome = r.rnr()
	case data && bugs.Has(BugNackAccessOnDuplicate):
		answer.syndrome = packet.SyndromeNakAccess
	case data && bugs.Has(BugDuplicatesIgnored),
		verb == packet.VerbRead && bugs.Has(BugReadRepeatIgnored),
		verb == packet.VerbAtomic && bugs.Has(BugAtomicRepeatIgnored):
		return true
	case verb == packet.VerbAtomic && bugs.Has(BugAtomicExecutedTwice):
		r.repeatAnswer(now, psn, r.operate(p))
		return true
	case verb == packet.VerbAtomic && bugs.Has(BugAtomicReplaysLatest) && r.atomics.len() > 0:
		r.repeatAnswer(now, psn, r.atomics.at(r.atomics.len()-1).original)
		return true
	case bugs.Has(BugMSNCountsDuplicates) && p.BTH.Opcode.Ends():
		r.msn++
		return false
	case verb == packet.VerbRead && bugs.Has(BugReadReplayForgetsMessage):
		r.open = openMessage{}
		return false
	default:
		return false
	}
	r.push(now, answer)
	return true
}

// misgap handles a packet after a gap with the responder's faults.
func (r *responder) misgap(now clock.Time, p *packet.Packet, psn int64) bool {
	bugs := r.q.nic.bugs
	switch {
	case bugs.Has(BugNackEach):
		r.silent = false
	case bugs.Has(BugGapAccepted):
		r.expected = psn
	case bugs.Has(BugNackFatalOnGap):
		r.reject(now, packet.SyndromeNakInvalid)
		return true
	case bugs.Has(BugWrapTakesGapForDuplicate) && p.BTH.PSN < packet.NewPSN(r.expected):
		r.duplicate(now, p, psn)
		return true
	}
	return false
}

// requestAt returns the work request of psn, or nil.
func (r *requester) requestAt(psn int64) *sendRequest {
	for i := range r.out.len() {
		if w := r.out.at(i); psn <= w.last {
			return w
		}
	}
	return nil
}

// seek makes psn the next packet to send.
func (r *requester) seek(psn int64) {
	r.nxt, r.cursor, r.reads = psn, 0, 0
	for r.cursor < r.out.len() && r.out.at(r.cursor).last < psn {
		if r.out.at(r.cursor).fetches() {
			r.reads++
		}
		r.cursor++
	}
}

// loses reports whether to answer an atomic without executing it (BugAtomicLost).
func (r *responder) loses() bool {
	if !r.q.nic.bugs.Has(BugAtomicLost) {
		return false
	}
	r.q.mischief.atomics++
	return r.q.mischief.atomics%2 == 0
}

// forgets reports whether to omit the ACK of a request with AckReq (BugAckForgotten).
func (r *responder) forgets() bool {
	if !r.q.nic.bugs.Has(BugAckForgotten) {
		return false
	}
	r.q.mischief.asked++
	return r.q.mischief.asked%third == 0
}

const third = 3
