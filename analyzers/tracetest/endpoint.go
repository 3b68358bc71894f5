package tracetest

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// endpoint is both ends of one connection. Places count from 0.
type endpoint struct {
	s     *sim
	index int
	total int64 // places of all messages

	// Requester.
	una, next, high int64
	pumping         bool
	rewindAt        int64 // instant of a pending restart; 0: none
	epoch           int   // of the timer; an expiry of an older epoch is stale
	asked           int64 // READ: place that an implied NAK asked for, −1: none
	retries         int
	dead            bool
	nakReceived     int64 // when the NAK that caused the pending restart arrived; 0: another cause

	// Responder.
	want   int64
	silent bool
	outAt  int64 // when the latest answer leaves
}

// maxRetries is the retry count of simulated requesters.
const maxRetries = 7

func newEndpoint(s *sim, index int) *endpoint {
	return &endpoint{s: s, index: index, total: int64(s.Messages) * int64(s.Packets), asked: -1}
}

func (e *endpoint) record(back bool, op packet.Opcode, place int64) trace.Record {
	r := trace.Record{
		Flow: trace.NewFlowID(e.index+1, back), Opcode: op, PSN: packet.NewPSN(int64(RequesterIPSN) + place),
		Flags: trace.Sent | trace.Passed, ICRC: packet.ICRCValid, ECN: packet.ECT0, PKey: trace.DefaultPKey,
	}
	if op == packet.CNP {
		r.PSN, r.PayloadLen = 0, packet.CNPPayloadLen
		r.Flags |= trace.BECN
	}
	return r
}

func (e *endpoint) place(r trace.Record) int64 {
	return e.una + int64(r.PSN.Sub(packet.NewPSN(int64(RequesterIPSN)+e.una)))
}

// message returns the first place of the message that place belongs to, and the one after its last.
func (e *endpoint) message(place int64) (first, end int64) {
	n := int64(e.s.Packets)
	first = place / n * n
	return first, first + n
}

// pump sends one request packet and schedules the next.
func (e *endpoint) pump() {
	e.pumping = false
	if e.dead || e.rewindAt > 0 && e.s.now < e.rewindAt {
		return
	}
	if e.rewindAt > 0 {
		if e.nakReceived > 0 {
			e.s.truth.Reaction = append(e.s.truth.Reaction, e.s.now-e.nakReceived)
			e.nakReceived = 0
		}
		e.rewindAt, e.next = 0, e.una
	}
	_, windowEnd := e.message(e.una)
	windowEnd += int64(e.s.Depth-1) * int64(e.s.Packets)
	if e.next >= min(windowEnd, e.total) {
		return
	}
	e.sendOne()
	e.wake(packetGap)
}

func (e *endpoint) wake(after int64) {
	if !e.pumping {
		e.pumping = true
		e.s.at(e.s.now+after, e.pump)
	}
}

func (e *endpoint) sendOne() {
	first, end := e.message(e.next)
	r := e.record(false, packet.WriteMiddle, e.next)
	next := e.next + 1
	switch {
	case e.s.Reads:
		r.Opcode = packet.ReadRequest
		r.DMALen = uint32(end-e.next) * MTU
		r.Flags |= trace.HasRETH
		next = end
	case e.next == first && next == end:
		r.Opcode = packet.WriteOnly
	case e.next == first:
		r.Opcode = packet.WriteFirst
	case next == end:
		r.Opcode = packet.WriteLast
	}
	if next == end {
		r.Flags |= trace.AckReq
	}
	if e.una == e.high {
		e.startTimer()
	}
	e.next, e.high = next, max(e.high, next)
	e.s.truth.Requester.Tx++
	e.s.transmit(0, r, e.request)
}

func (e *endpoint) startTimer() {
	e.epoch++
	epoch := e.epoch
	t := e.s.Timeout
	if e.s.Bug == EarlyTimeout {
		t /= 4
	}
	e.s.at(e.s.now+t, func() {
		if epoch != e.epoch || e.dead {
			return
		}
		e.s.truth.Requester.Timeouts++
		e.retry(ReactionLatency, 0)
		e.startTimer()
	})
}

// retry schedules a restart at una.
func (e *endpoint) retry(after, nakReceived int64) {
	if e.retries++; e.retries > maxRetries {
		e.dead = true
		return
	}
	e.rewind(after, nakReceived)
}

func (e *endpoint) rewind(after, nakReceived int64) {
	e.rewindAt, e.nakReceived = e.s.now+after, nakReceived
	e.s.at(e.rewindAt, e.pump)
}

// response takes what arrives at the requester.
func (e *endpoint) response(r trace.Record) {
	c := &e.s.truth.Requester
	c.Rx++
	place := e.place(r)
	if e.dead || place < e.una || place >= e.high {
		return
	}
	switch {
	case r.Opcode == packet.ReadResponseMiddle && place == e.una:
		e.progress(place + 1)
	case e.s.Reads && place > e.una: // earlier responses are missing: an implied NAK
		if e.asked != e.una && e.rewindAt == 0 {
			e.asked = e.una
			c.ImpliedNak++
			e.retry(ReactionLatency, 0)
		}
	case r.Syndrome.IsAck():
		e.progress(place + 1)
	case r.Syndrome.IsRNR():
		e.progress(place)
		if e.rewindAt == 0 {
			c.RNRReceived++
			wait := packet.RNRTimer(RNRCode)
			if e.s.Bug == ImpatientRNR {
				wait = 0
			}
			e.rewind(wait+ReactionLatency, 0)
			e.startTimer()
		}
	default:
		e.progress(place)
		if e.rewindAt == 0 {
			c.PacketSeqErr++
			e.retry(ReactionLatency, e.s.now)
		}
	}
}

func (e *endpoint) progress(una int64) {
	if una <= e.una {
		return
	}
	e.una, e.retries = una, 0
	e.next = max(e.next, una)
	e.epoch++ // stops the timer
	if e.una < e.high {
		e.startTimer()
	} else {
		e.rewindAt = 0
	}
	e.wake(packetGap)
}

// request takes what arrives at the responder.
func (e *endpoint) request(r trace.Record) {
	c := &e.s.truth.Responder
	c.Rx++
	if r.Opcode.IsData() {
		e.s.marked(e, r.Event == trace.EventECN)
	}
	place := e.place(r)
	switch {
	case place > e.want:
		if !e.silent {
			e.silent = true
			c.OutOfSequence++
			e.s.truth.Generation = append(e.s.truth.Generation, NackLatency)
			e.answer(packet.Acknowledge, packet.SyndromeNakSequence, e.want, NackLatency)
		}
	case place < e.want:
		c.Duplicates++
		e.serveDuplicate(r, place)
	case e.s.rng.Float64() < e.s.NotReady:
		c.RNRSent++
		e.silent = true
		e.answer(packet.Acknowledge, packet.SyndromeRNR|RNRCode, place, AckLatency)
	default:
		e.silent = false
		e.serve(r, place)
	}
}

func (e *endpoint) serve(r trace.Record, place int64) {
	if r.Opcode == packet.ReadRequest {
		_, e.want = e.message(place)
		e.respond(place, e.want)
		return
	}
	e.want = place + 1
	if r.Has(trace.AckReq) {
		e.answer(packet.Acknowledge, packet.SyndromeAckNoCredit, place, AckLatency)
	}
}

func (e *endpoint) serveDuplicate(r trace.Record, place int64) {
	if r.Opcode == packet.ReadRequest {
		_, end := e.message(place)
		e.respond(place, end)
		return
	}
	e.answer(packet.Acknowledge, packet.SyndromeAckNoCredit, e.want-1, AckLatency)
}

func (e *endpoint) respond(from, to int64) {
	for p := from; p < to; p++ {
		e.answer(packet.ReadResponseMiddle, 0, p, AckLatency)
	}
}

// answer sends a response after all earlier ones.
func (e *endpoint) answer(op packet.Opcode, s packet.Syndrome, place, after int64) {
	at := max(e.s.now+after, e.outAt+packetGap)
	if op == packet.Acknowledge && s == packet.SyndromeNakSequence {
		e.s.truth.Generation[len(e.s.truth.Generation)-1] = at - e.s.now
	}
	e.outAt = at
	r := e.record(true, op, place)
	r.Syndrome = s
	e.s.at(at, func() {
		e.s.truth.Responder.Tx++
		e.s.transmit(1, r, func(r trace.Record) {
			if r.Opcode.IsData() && r.Event == trace.EventECN {
				e.s.truth.Requester.Marked++ // and no notification point there
			}
			e.response(r)
		})
	})
}
