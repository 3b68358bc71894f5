package gbn_test

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// simResponder answers requests. Responses leave through a queue in the order of their requests.
type simResponder struct {
	s        *simulation
	expected int64
	nacked   bool
	msn      int64
	acked    int64
	lazy     int  // how readily ACKs are coalesced
	eager    int  // acknowledge every so many packets without being asked, 0: never
	ownPSN   bool // duplicates are acknowledged with their own PSN
	rnrs     int
	lateMSN  bool // a READ counts as completed with its last response, not with its first
	queue    []simPacket
	busy     bool
	owed     bool // a coalesced ACK is owed
}

func (b *simResponder) push(p simPacket) {
	b.queue = append(b.queue, p)
	b.wake()
}

func (b *simResponder) wake() {
	if !b.busy && len(b.queue) > 0 {
		b.busy = true
		b.s.after(b.s.rng.Int64N(400)+1, b.pump)
	}
}

func (b *simResponder) pump() {
	b.busy = false
	p := b.queue[0]
	b.queue = b.queue[1:]
	b.s.send(false, p)
	b.wake()
}

func (b *simResponder) respond(rel int64, syndrome packet.Syndrome) {
	msn := b.msn
	switch b.s.cfg.bug {
	case bugMSNStuck:
		b.s.fired = b.s.fired || msn > 1
		msn = min(msn, 1)
	case bugMSNEager:
		msn, b.s.fired = msn+1, true
	}
	b.push(simPacket{rel: rel, Record: trace.Record{
		Opcode: packet.Acknowledge, Syndrome: syndrome, MSN: uint32(msn & 0xffffff), Flags: trace.HasAETH,
	}})
}

// flush sends the ACK that is owed.
func (b *simResponder) flush() {
	if b.owed {
		b.owed = false
		if b.s.cfg.bug == bugAckNever && b.expected == b.s.a.end {
			b.s.fired = true
			return
		}
		b.respond(b.expected-1, packet.SyndromeAckNoCredit)
		b.acked = b.expected - 1
	}
}

// ack acknowledges what was received now or, coalesced, later.
func (b *simResponder) ack() {
	if b.owed {
		return
	}
	b.owed = true
	if b.lazy == 0 {
		b.flush()
		return
	}
	b.s.after(b.s.rng.Int64N(int64(b.lazy)*2000)+1, b.flush)
}

func (b *simResponder) receive(p simPacket) {
	n := int64(1)
	if p.Opcode == packet.ReadRequest {
		n = max(1, (int64(p.DMALen)+mtu-1)/mtu)
	}
	switch {
	case p.rel == b.expected:
		b.accept(p, n)
	case p.rel < b.expected:
		b.duplicate(p, n)
	case !b.nacked:
		b.gap()
	}
}

func (b *simResponder) gap() {
	b.flush()
	b.nacked = true
	rel := b.expected
	switch b.s.cfg.bug {
	case bugAckLost:
		b.nacked, b.s.fired = false, true
		b.expected++
		b.respond(b.expected-1, packet.SyndromeAckNoCredit)
		return
	case bugNakNever:
		b.s.fired = true
		return
	case bugNakNext:
		rel, b.s.fired = rel+1, true
	case bugNakPrevious:
		if rel > 1 {
			rel, b.s.fired = rel-1, true
		}
	case bugNakTwice:
		b.s.fired = true
		b.respond(rel, packet.SyndromeNakSequence)
	}
	b.respond(rel, packet.SyndromeNakSequence)
}

func (b *simResponder) accept(p simPacket, n int64) {
	if b.rnrs > 0 && p.Opcode.Verb() == packet.VerbSend && b.s.rng.IntN(3) == 0 {
		b.rnrs--
		b.flush()
		b.nacked = true
		b.respond(p.rel, packet.SyndromeRNR|packet.Syndrome(1+b.s.rng.IntN(4)))
		return
	}
	b.nacked = false
	if p.Opcode == packet.ReadRequest || p.Opcode.Verb() == packet.VerbAtomic {
		b.flush()
	}
	b.expected += n
	if p.Opcode.Ends() {
		b.msn++
	}
	switch {
	case p.Opcode == packet.ReadRequest:
		b.stream(p, n, false)
	case p.Opcode.Verb() == packet.VerbAtomic:
		b.atomic(p.rel)
	case p.Has(trace.AckReq), b.eager > 0 && p.rel%int64(b.eager) == 0:
		b.ack()
		if b.s.cfg.bug == bugAckOld && p.rel > 6 && b.lazy == 0 {
			b.s.fired = true
			b.respond(p.rel-4, packet.SyndromeAckNoCredit)
		}
	}
}

func (b *simResponder) atomic(rel int64) {
	b.push(simPacket{rel: rel, Record: trace.Record{
		Opcode: packet.AtomicAcknowledge, Syndrome: packet.SyndromeAckNoCredit, MSN: uint32(b.msn), Flags: trace.HasAETH,
	}})
}

func (b *simResponder) stream(p simPacket, n int64, repeated bool) {
	left := int64(p.DMALen)
	for i := range n {
		r := simPacket{rel: p.rel + i}
		size := min(left, mtu)
		left -= size
		first, last := i == 0, i == n-1
		r.Opcode = packet.ReadResponseMiddle
		switch {
		case first && last:
			r.Opcode = packet.ReadResponseOnly
		case first:
			r.Opcode = packet.ReadResponseFirst
		case last:
			r.Opcode = packet.ReadResponseLast
		}
		if repeated && b.s.cfg.kernel && first && p.rel != b.s.messageAt(p.rel).first {
			r.Opcode = packet.ReadResponseMiddle
			if last {
				r.Opcode = packet.ReadResponseLast
			}
		}
		r.PayloadLen, r.PadCount = uint16(size), uint8(-size&3)
		if r.Opcode != packet.ReadResponseMiddle {
			r.Flags, r.Syndrome, r.MSN = trace.HasAETH, packet.SyndromeAckNoCredit, uint32(b.msn)
			if b.lateMSN && !repeated && !last {
				r.MSN--
			}
		}
		if b.spoil(&r, i, n) {
			b.push(r)
		}
	}
}

// spoil applies the READ bugs and reports whether r is sent at all.
func (b *simResponder) spoil(r *simPacket, i, n int64) bool {
	switch b.s.cfg.bug {
	case bugReadShort:
		if i == 1 && n > 2 {
			r.PayloadLen, b.s.fired = r.PayloadLen-4, true
		}
	case bugReadSkip:
		if i == 1 && n > 2 && !b.s.fired {
			b.s.fired = true
			return false
		}
	case bugReadOpcode:
		if i == 1 && n > 2 {
			r.Opcode, b.s.fired = packet.ReadResponseLast, true
		}
	}
	return true
}

func (b *simResponder) duplicate(p simPacket, n int64) {
	b.flush()
	switch {
	case p.Opcode == packet.ReadRequest:
		b.stream(p, n, true)
	case p.Opcode.Verb() == packet.VerbAtomic:
		b.atomic(p.rel)
	case b.s.cfg.bug == bugNakDuplicate:
		b.s.fired = true
		b.respond(p.rel, packet.SyndromeNakSequence)
	case b.s.cfg.bug == bugAckNever && b.expected == b.s.a.end:
		b.s.fired = true
	case b.ownPSN:
		b.respond(p.rel, packet.SyndromeAckNoCredit)
	default:
		b.respond(b.expected-1, packet.SyndromeAckNoCredit)
	}
}
