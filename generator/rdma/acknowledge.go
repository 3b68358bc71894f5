package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// handle takes a response packet: ACK, NAK, READ response or atomic ACK (IBTA 9.7.5, 9.7.6). It ignores responses to
// PSNs that are not outstanding (IBTA 9.7.5.1.3).
func (r *requester) handle(now clock.Time, p *packet.Packet) {
	psn := r.una + int64(p.BTH.PSN.Sub(packet.NewPSN(r.una)))
	if r.q.state != stateReady || psn < r.una || psn >= r.high {
		return
	}
	switch op := p.BTH.Opcode; {
	case op.IsReadResponse():
		r.readResponse(now, p, psn)
	case op == packet.AtomicAcknowledge:
		r.atomicAck(now, p, psn)
	case p.AETH.Syndrome.IsAck():
		r.acknowledge(now, psn+1)
	case p.AETH.Syndrome.IsRNR():
		r.rnr(now, psn, p.AETH.Syndrome.TimerCode())
	case p.AETH.Syndrome == packet.SyndromeNakSequence:
		r.sequenceNak(now, psn)
	default:
		r.fatalNak(now, psn, p.AETH.Syndrome)
	}
	r.q.schedule(now)
}

// acknowledge completes all requests before psn. A READ or atomic among them without its responses is an implied NAK,
// because the responder answers in order; acknowledge then returns false (IBTA 9.7.5.1.9).
func (r *requester) acknowledge(now clock.Time, psn int64) bool {
	before := r.una
	blocked := false
	for r.una < psn {
		w := r.out.at(0)
		if w.fetches() {
			blocked = true
			break
		}
		if w.last >= psn {
			r.una = psn
			break
		}
		r.una = w.last + 1
		r.completeOldest(now, 0)
	}
	if r.una != before {
		r.progress(now)
	}
	if blocked {
		r.impliedNak(now)
	}
	return !blocked
}

// completeOldest completes the oldest request successfully.
func (r *requester) completeOldest(now clock.Time, atomic uint64) {
	c := r.completion(now, &r.out.at(0).wr, generator.Success)
	c.Atomic = atomic
	r.q.nic.complete(c)
	r.pop()
	r.reload()
}

// acknowledgeBefore serves the positive part of a NAK for psn. It reports whether to serve the NAK itself: false if a
// READ response before psn is missing, which is requested first, or if the retransmission is already under way.
func (r *requester) acknowledgeBefore(now clock.Time, psn int64) bool {
	before := r.una
	served := r.acknowledge(now, psn)
	if r.una > before {
		r.reload()
	}
	return served && !r.rewind.pending && r.nxt > psn
}

// impliedNak requests the oldest missing READ response or atomic ACK again, once for each missing PSN, as a responder
// NAKs a gap once. If the repetition is lost, too, the timer recovers.
func (r *requester) impliedNak(now clock.Time) {
	if r.rewind.pending || r.impliedAt == r.una || r.nxt <= r.una || r.q.nic.bugs.Has(BugImpliedNakIgnored) {
		return
	}
	r.impliedAt = r.una
	r.q.nic.counters.ImpliedNakErr++
	r.retry(now, rewind{at: now.Add(r.q.nic.profile.ReadRerequestLatency), sendsOn: r.q.nic.profile.SendsOn})
}

// sequenceNak serves a NAK for psn: all earlier packets are acknowledged, transmission restarts at psn (IBTA
// 9.7.5.2.4).
func (r *requester) sequenceNak(now clock.Time, psn int64) {
	if !r.acknowledgeBefore(now, psn) {
		return
	}
	r.q.nic.counters.PacketSeqErr++
	r.retry(now, rewind{at: now.Add(r.q.nic.nackReaction(now)), sendsOn: r.q.nic.profile.SendsOn,
		skipFirst: r.q.nic.bugs.Has(BugRetransmitSkipsFirst)})
}

// rnr serves an RNR NAK for psn: the request is repeated after the responder's RNR timer. RNR retry count 7 means
// unlimited (IBTA 9.7.5.2.8).
func (r *requester) rnr(now clock.Time, psn int64, code uint8) {
	if !r.acknowledgeBefore(now, psn) {
		return
	}
	const forever = 7
	r.q.nic.counters.RNRNakReceived++
	if r.rnrRetries == 0 {
		r.q.fail(now, generator.ReceiverNotReadyExceed)
		return
	}
	if r.q.cfg.RNRRetry != forever {
		r.rnrRetries--
	}
	wait := clock.Duration(packet.RNRTimer(code)) * clock.Nanosecond
	r.schedule(rewind{at: now.Add(wait + r.q.nic.nackReaction(now))})
}

// fatalNak serves a NAK that is not retried: its request and the queue pair fail (IBTA 9.9.2.4).
func (r *requester) fatalNak(now clock.Time, psn int64, s packet.Syndrome) {
	status := generator.RemoteOperationError
	switch s {
	case packet.SyndromeNakInvalid:
		status = generator.RemoteInvalidRequest
	case packet.SyndromeNakAccess:
		status = generator.RemoteAccessError
	case packet.SyndromeNakOperation:
	default:
		return // reserved syndrome: ignored
	}
	if r.acknowledge(now, psn) {
		r.q.fail(now, status)
	}
}

// readResponse takes the READ response with this PSN. It acknowledges all earlier requests. If it is not the next
// missing response, those in between are lost.
func (r *requester) readResponse(now clock.Time, p *packet.Packet, psn int64) {
	if !r.acknowledge(now, psn) {
		return
	}
	w := r.out.at(0)
	if w.wr.Verb != generator.Read || !r.fitsRead(p, w, psn) && !r.q.nic.bugs.Has(BugBadResponseAccepted) {
		r.badResponse(now)
		return
	}
	offset := uint64(psn-w.first) * uint64(r.q.cfg.MTU)
	if !same(p.Payload, r.q.nic.memory.at(w.wr.RKey, w.wr.RemoteAddr+offset, len(p.Payload))) {
		r.q.nic.counters.DataErrors++
	}
	r.una++
	r.reload()
	if psn == w.last {
		r.completeOldest(now, 0)
	}
	r.progress(now)
}

// fitsRead reports whether a READ response has the length and the end-of-message opcode for its PSN. FIRST is not
// required after a repeated request, because Linux continues with MIDDLE and LAST.
func (r *requester) fitsRead(p *packet.Packet, w *sendRequest, psn int64) bool {
	want := r.q.cfg.MTU
	if psn == w.last {
		want = w.wr.Length - int(psn-w.first)*want
	}
	return p.BTH.Opcode.Ends() == (psn == w.last) && len(p.Payload) == want
}

func (r *requester) atomicAck(now clock.Time, p *packet.Packet, psn int64) {
	if !r.acknowledge(now, psn) {
		return
	}
	if !r.out.at(0).wr.Verb.IsAtomic() {
		r.badResponse(now)
		return
	}
	r.una++
	r.completeOldest(now, p.AtomicAckETH)
	r.progress(now)
}

// badResponse fails the queue pair because of a response that does not match its request (IBTA 9.9.2.3).
func (r *requester) badResponse(now clock.Time) {
	r.q.nic.counters.BadResponse++
	r.q.fail(now, generator.BadResponse)
}
