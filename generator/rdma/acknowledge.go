package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// handle takes a response packet: ACK, NAK, READ response or atomic ACK (IBTA 9.7.5, 9.7.6). Responses to PSNs that are
// not outstanding are ghosts of earlier rounds and are ignored (IBTA 9.7.5.1.3).
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

// acknowledge completes everything before psn. If a READ or an atomic among it still lacks responses, they are lost:
// the responder answers in order. That is an implied NAK; acknowledge then reports false (IBTA 9.7.5.1.9).
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

// acknowledgeBefore serves the positive part of a NAK for psn. It reports whether the NAK itself is to be served: not
// if a READ response before psn is missing, which is asked for first, and not if the repetition is under way already.
func (r *requester) acknowledgeBefore(now clock.Time, psn int64) bool {
	before := r.una
	served := r.acknowledge(now, psn)
	if r.una > before {
		r.reload()
	}
	return served && !r.rewind.pending && r.nxt > psn
}

// impliedNak asks again for the oldest missing READ response or atomic ACK. Like a responder, which NAKs a gap once, it
// asks once for each missing PSN; if the repetition is lost, too, the timer recovers.
func (r *requester) impliedNak(now clock.Time) {
	if r.rewind.pending || r.impliedAt == r.una || r.nxt <= r.una || r.q.nic.bugs.Has(BugImpliedNakIgnored) {
		return
	}
	r.impliedAt = r.una
	r.q.nic.counters.ImpliedNakErr++
	r.retry(now, rewind{at: now.Add(r.q.nic.profile.ReadRerequestLatency), sendsOn: r.q.nic.profile.SendsOn})
}

// sequenceNak serves a NAK that asks for psn: everything before is acknowledged, transmission restarts there (IBTA
// 9.7.5.2.4).
func (r *requester) sequenceNak(now clock.Time, psn int64) {
	if !r.acknowledgeBefore(now, psn) {
		return
	}
	r.q.nic.counters.PacketSeqErr++
	r.retry(now, rewind{at: now.Add(r.q.nic.nackReaction(now)), sendsOn: r.q.nic.profile.SendsOn,
		skipFirst: r.q.nic.bugs.Has(BugRetransmitSkipsFirst)})
}

// rnr serves a receiver-not-ready NAK for psn: the request is repeated after the time that the responder asks for; of
// the retry counts only 7 means for ever (IBTA 9.7.5.2.8).
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

// fatalNak serves a NAK that no repetition can cure: the request that it names fails, the queue pair with it (IBTA
// 9.9.2.4).
func (r *requester) fatalNak(now clock.Time, psn int64, s packet.Syndrome) {
	status := generator.RemoteOperationError
	switch s {
	case packet.SyndromeNakInvalid:
		status = generator.RemoteInvalidRequest
	case packet.SyndromeNakAccess:
		status = generator.RemoteAccessError
	case packet.SyndromeNakOperation:
	default:
		return // reserved syndrome: drop silently
	}
	if r.acknowledge(now, psn) {
		r.q.fail(now, status)
	}
}

// readResponse takes the READ response with this PSN. It acknowledges all earlier requests; if it is not the next one
// missing, the responses between are lost.
func (r *requester) readResponse(now clock.Time, p *packet.Packet, psn int64) {
	if !r.acknowledge(now, psn) {
		return
	}
	w := r.out.at(0)
	if w.wr.Verb != generator.Read || !r.fitsRead(p, w, psn) {
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

// fitsRead reports whether a READ response has the length and the end-of-message position that its PSN demands. It does
// not insist on FIRST after a repeated request: Linux goes on with MIDDLE and LAST.
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

// badResponse fails the queue pair because of a response that does not belong to its request (IBTA 9.9.2.3).
func (r *requester) badResponse(now clock.Time) {
	r.q.nic.counters.BadResponse++
	r.q.fail(now, generator.BadResponse)
}
