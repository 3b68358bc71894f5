package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// openMessage is a SEND or WRITE whose last packet has not arrived yet.
type openMessage struct {
	verb packet.Verb // VerbNone if there is none
	va   uint64      // address of a WRITE's next byte
	rkey uint32
	left int // missing bytes of a WRITE
	got  int // bytes received
}

// savedAtomic is the result of an executed atomic, kept for duplicates (IBTA 9.4.5).
type savedAtomic struct {
	psn      int64
	original uint64
}

// responder is the receiving half of a queue pair (IBTA 9.7.4, 9.7.5).
type responder struct {
	q        *QP
	expected int64  // PSN of the next request packet
	msn      uint32 // completed requests, modulo 2²⁴
	silent   bool   // a NAK was sent for expected: drop all later packets until it arrives
	batch    int    // out-of-sequence packets of the gap so far

	open     openMessage
	receives ring[generator.ReceiveRequest]
	current  generator.ReceiveRequest // request that the open SEND fills
	atomics  ring[savedAtomic]        // of the latest atomics, at most MaxReads
	reads    ring[response]           // in order of arrival, for BugReadReplayFromStart
	kept     []uint32                 // keys that should be invalid, for BugInvalidateIgnored
	words    map[uint64]uint64        // memory that atomics have changed; all others are 0
	out      responseQueue
}

func (r *responder) init(q *QP) {
	r.q = q
	r.expected = int64(q.remote.IPSN)
}

// handle takes a request packet.
func (r *responder) handle(now clock.Time, p *packet.Packet) {
	if r.q.state != stateReady {
		return
	}
	psn := r.expected + int64(p.BTH.PSN.Sub(packet.NewPSN(r.expected)))
	switch {
	case psn > r.expected:
		r.outOfSequence(now, psn)
	case psn < r.expected:
		r.duplicate(now, p, psn)
	default:
		r.expectedPacket(now, p)
	}
}

// outOfSequence NAKs a gap once: until the missing packet arrives the responder sends no other NAK (IBTA 9.7.5.2.4).
func (r *responder) outOfSequence(now clock.Time, psn int64) {
	n := r.q.nic
	if n.bugs.Has(BugAckBeyond) {
		r.push(now, response{psn: psn, syndrome: packet.SyndromeAckNoCredit, ready: now.Add(n.profile.AckLatency)})
		return
	}
	if r.silent {
		r.another(now)
		return
	}
	r.silent, r.batch = true, 1
	if n.bugs.Has(BugNoNack) {
		return
	}
	r.nak(now, packet.SyndromeNakSequence)
	if n.bugs.Has(BugDoubleNack) {
		r.nak(now, packet.SyndromeNakSequence)
	}
}

// nak queues a NAK for the expected packet.
func (r *responder) nak(now clock.Time, s packet.Syndrome) {
	psn := r.expected
	if s == packet.SyndromeNakSequence && r.q.nic.bugs.Has(BugNackPSNPlusOne) {
		psn++
	}
	r.push(now, response{psn: psn, syndrome: s, ready: r.nakReady(now, s)})
}

// push appends an answer to the queue.
func (r *responder) push(now clock.Time, a response) {
	a.msn = r.msn
	r.out.push(a)
	r.q.schedule(now)
}

// acknowledge queues an ACK of everything received so far. With coalescing it updates a queued ACK instead; a queued
// NAK for the expected packet needs no ACK, because it acknowledges the same packets.
func (r *responder) acknowledge(now clock.Time) {
	psn := r.expected - 1
	if tail := r.out.tail(); tail != nil && r.q.nic.profile.AckCoalescing && tail.kind == answerAck {
		if tail.syndrome.IsAck() {
			if tail.psn = psn; !r.q.nic.bugs.Has(BugMSNNotCoalesced) {
				tail.msn = r.msn
			}
			return
		}
		if tail.psn == r.expected {
			return
		}
	}
	r.push(now, response{psn: psn, syndrome: packet.SyndromeAckNoCredit, ready: now.Add(r.q.nic.profile.AckLatency)})
}

// duplicate serves a packet that was received before (IBTA 9.7.5.1.4). A SEND or WRITE is not executed; the ACK has the
// PSN of the last packet received in order. A READ is executed again. An atomic is answered with its saved result. The
// expected PSN and an open message do not change.
func (r *responder) duplicate(now clock.Time, p *packet.Packet, psn int64) {
	r.q.nic.counters.DuplicateRequest++
	switch p.BTH.Opcode.Verb() {
	case packet.VerbRead:
		r.replayRead(now, p, psn)
	case packet.VerbAtomic:
		r.replayAtomic(now, psn)
	case packet.VerbSend, packet.VerbWrite:
		if r.q.nic.bugs.Has(BugNackDuplicates) {
			r.nak(now, packet.SyndromeNakSequence)
			return
		}
		r.acknowledge(now)
	case packet.VerbNone:
	}
}

// replayRead executes a duplicate READ request. It may start anywhere in the original, but must end before the expected
// PSN.
func (r *responder) replayRead(now clock.Time, p *packet.Packet, psn int64) {
	job := r.readJob(now, p, psn)
	if job.end > r.expected || !r.allowed(p.RETH.RKey, p.RETH.VA, uint64(p.RETH.Length)) {
		return // IBTA 9.7.5.1.5: an invalid duplicate is dropped silently
	}
	job.replay = true
	if r.q.nic.bugs.Has(BugReadReplayFromStart) {
		job = r.fromStart(job)
	}
	r.q.nic.counters.ReadRequests++
	r.out.replay(job)
	r.q.schedule(now)
}

// fromStart extends a replay to the whole original READ (BugReadReplayFromStart).
func (r *responder) fromStart(job response) response {
	for i := range r.reads.len() {
		if orig := r.reads.at(i); orig.end == job.end {
			job.psn, job.va, job.left = orig.psn, orig.va, orig.left
		}
	}
	return job
}

func (r *responder) replayAtomic(now clock.Time, psn int64) {
	for i := range r.atomics.len() {
		if a := r.atomics.at(i); a.psn == psn {
			r.repeatAnswer(now, psn, a.original)
			return
		}
	}
}

// repeatAnswer answers a duplicate atomic.
func (r *responder) repeatAnswer(now clock.Time, psn int64, original uint64) {
	r.out.replay(response{kind: answerAtomic, psn: psn, end: psn + 1, msn: r.msn, original: original, replay: true,
		ready: now.Add(r.q.nic.profile.AckLatency)})
	r.q.schedule(now)
}

// expectedPacket serves the packet with the expected PSN.
func (r *responder) expectedPacket(now clock.Time, p *packet.Packet) {
	if r.silent {
		r.silent = false
		r.out.withdrawNak()
	}
	if syndrome, ok := r.validate(p); !ok && !(r.q.nic.broken && r.overlooks(p, syndrome)) {
		r.reject(now, syndrome)
		return
	}
	switch p.BTH.Opcode.Verb() {
	case packet.VerbRead:
		r.executeRead(now, p)
		return
	case packet.VerbAtomic:
		r.executeAtomic(now, p)
		return
	case packet.VerbSend:
		r.receiveSend(now, p)
	case packet.VerbWrite:
		r.receiveWrite(now, p)
	case packet.VerbNone:
	}
	r.expected++
	if p.BTH.AckReq && !r.forgets() {
		r.acknowledge(now)
	}
}

// reject NAKs an expected packet that can't be executed. An RNR NAK changes nothing else; all others move the queue
// pair to the error state (IBTA 9.9.3).
func (r *responder) reject(now clock.Time, s packet.Syndrome) {
	r.silent = true
	if r.q.nic.broken && r.misreject(now, s) {
		return
	}
	r.nak(now, s)
	if s.IsRNR() {
		return
	}
	r.q.fail(now, generator.Success)
}

// receiveSend takes a valid SEND packet.
func (r *responder) receiveSend(now clock.Time, p *packet.Packet) {
	op := p.BTH.Opcode
	if op.Starts() {
		r.current = r.receives.pop()
		r.open = openMessage{verb: packet.VerbSend}
	}
	if !same(p.Payload, r.q.nic.memory.send(r.q.qpn, p.BTH.PSN, len(p.Payload))) {
		r.q.nic.counters.DataErrors++
	}
	r.open.got += len(p.Payload)
	if op.Ends() {
		if p.Headers&packet.HasIETH != 0 {
			r.invalidate(p.IETH)
		}
		r.received(now, r.current, p)
	}
}

// invalidate revokes the memory key, as a SEND with invalidate requests. The application re-registers the memory with
// the next key as soon as it gets the completion.
func (r *responder) invalidate(rkey uint32) {
	if r.q.nic.bugs.Has(BugInvalidateIgnored) {
		r.kept = append(r.kept, rkey)
	}
	r.q.region.RKey = generator.TurnedRKey(rkey, 1)
}

// receiveWrite takes a valid WRITE packet.
func (r *responder) receiveWrite(now clock.Time, p *packet.Packet) {
	op := p.BTH.Opcode
	if op.Starts() {
		r.open = openMessage{verb: packet.VerbWrite, va: p.RETH.VA, rkey: p.RETH.RKey, left: int(p.RETH.Length)}
	}
	if !same(p.Payload, r.q.nic.memory.at(r.open.rkey, r.open.va, len(p.Payload))) {
		r.q.nic.counters.DataErrors++
	}
	r.open.va += uint64(len(p.Payload))
	r.open.left -= len(p.Payload)
	r.open.got += len(p.Payload)
	if !op.Ends() {
		return
	}
	r.q.nic.counters.WriteRequests++
	if p.Headers&packet.HasImmDt != 0 {
		r.received(now, r.receives.pop(), p)
		return
	}
	r.finish()
}

// finish counts the open message as completed.
func (r *responder) finish() {
	r.open = openMessage{}
	r.msn = (r.msn + 1) & 0xffffff
}

// received completes the receive request that a SEND or a WRITE with immediate consumed.
func (r *responder) received(now clock.Time, rr generator.ReceiveRequest, p *packet.Packet) {
	c := r.completion(now, rr, generator.Success)
	c.Length = r.open.got
	c.HasImm, c.Imm = p.Headers&packet.HasImmDt != 0, p.ImmDt
	c.HasInv, c.Invalid = p.Headers&packet.HasIETH != 0, p.IETH
	r.q.nic.complete(c)
	r.finish()
}

func (r *responder) completion(now clock.Time, rr generator.ReceiveRequest, s generator.Status) generator.Completion {
	return generator.Completion{ID: rr.ID, Context: r.q.cfg.Context, QPN: r.q.qpn, Receive: true, Status: s, At: now}
}

// readJob returns the responses to the READ request p with this PSN.
func (r *responder) readJob(now clock.Time, p *packet.Packet, psn int64) response {
	length := int(p.RETH.Length)
	n := int64(generator.Read.PSNs(length, r.q.cfg.MTU))
	return response{kind: answerRead, psn: psn, end: psn + n, msn: r.msn, va: p.RETH.VA, rkey: p.RETH.RKey, left: length,
		first: true, ready: now.Add(r.q.nic.profile.ReadResponseLatency)}
}

func (r *responder) executeRead(now clock.Time, p *packet.Packet) {
	r.q.nic.counters.ReadRequests++
	r.finish() // a READ is complete once it is accepted (IBTA 9.7.7.1)
	job := r.readJob(now, p, r.expected)
	r.expected = job.end
	if r.q.nic.bugs.Has(BugReadReplayFromStart) {
		r.reads.push(job)
	}
	r.push(now, job)
}

func (r *responder) executeAtomic(now clock.Time, p *packet.Packet) {
	r.q.nic.counters.AtomicRequests++
	r.finish()
	original := r.operate(p)
	if r.atomics.len() == r.q.cfg.MaxReads {
		r.atomics.pop()
	}
	r.atomics.push(savedAtomic{r.expected, original})
	r.push(now, response{kind: answerAtomic, psn: r.expected, end: r.expected + 1, original: original,
		ready: now.Add(r.q.nic.profile.AckLatency)})
	r.expected++
}

// operate executes the atomic p and returns the original value.
func (r *responder) operate(p *packet.Packet) (original uint64) {
	if r.words == nil {
		r.words = make(map[uint64]uint64)
	}
	a := &p.AtomicETH
	original = r.words[a.VA]
	switch {
	case r.loses():
	case p.BTH.Opcode == packet.FetchAdd:
		r.words[a.VA] = original + a.Swap
	case original == a.Compare:
		r.words[a.VA] = a.Swap
	}
	return original
}

// flush completes all receive requests as flushed.
func (r *responder) flush(now clock.Time) {
	if r.open.verb == packet.VerbSend {
		r.q.nic.complete(r.completion(now, r.current, generator.WorkRequestFlushed))
	}
	r.open = openMessage{}
	for r.receives.len() > 0 {
		r.q.nic.complete(r.completion(now, r.receives.pop(), generator.WorkRequestFlushed))
	}
}
