package rdma

import (
	"slices"

	"candela.dev/candela/packet"
)

// validate checks the expected request packet before its execution and returns the syndrome of the NAK if it is invalid
// (IBTA 9.7.4.1: opcode sequence, then length, then access rights, then resources).
func (r *responder) validate(p *packet.Packet) (packet.Syndrome, bool) {
	op := p.BTH.Opcode
	verb := op.Verb()
	continues := !op.Starts()
	if verb == packet.VerbNone || continues != (r.open.verb != packet.VerbNone) || continues && verb != r.open.verb {
		return packet.SyndromeNakInvalid, false
	}
	switch verb {
	case packet.VerbSend:
		return r.validateSend(p)
	case packet.VerbWrite:
		return r.validateWrite(p)
	case packet.VerbRead:
		return r.validateRead(p)
	case packet.VerbAtomic:
		return r.validateAtomic(p)
	case packet.VerbNone:
	}
	return packet.SyndromeNakInvalid, false
}

// fitsPosition reports whether the payload length fits the packet's position in the message: exactly the path MTU
// unless the packet ends the message, at least one byte if it is the last of several (IBTA 9.7.4.1.6).
func (r *responder) fitsPosition(p *packet.Packet) bool {
	op, n := p.BTH.Opcode, len(p.Payload)
	switch {
	case !op.Ends():
		return n == r.q.cfg.MTU
	case !op.Starts() && n == 0:
		return false
	}
	return n <= r.q.cfg.MTU
}

func (r *responder) validateSend(p *packet.Packet) (packet.Syndrome, bool) {
	if !r.fitsPosition(p) {
		return packet.SyndromeNakInvalid, false
	}
	buffer := r.current.Length
	if p.BTH.Opcode.Starts() {
		if r.receives.len() == 0 {
			return r.rnr(), false
		}
		buffer = r.receives.at(0).Length
	}
	if r.open.got+len(p.Payload) > buffer {
		return packet.SyndromeNakInvalid, false
	}
	if p.Headers&packet.HasIETH != 0 && p.IETH != r.q.region.RKey {
		return packet.SyndromeNakAccess, false // no such key: a protection error (IBTA 9.4.1.1.3)
	}
	return 0, true
}

func (r *responder) validateWrite(p *packet.Packet) (packet.Syndrome, bool) {
	left := r.open.left
	if p.BTH.Opcode.Starts() {
		left = int(p.RETH.Length)
	}
	if left > maxMessage {
		return packet.SyndromeNakInvalid, false
	}
	ends := p.BTH.Opcode.Ends()
	if !r.fitsPosition(p) || ends && len(p.Payload) != left || !ends && len(p.Payload) >= left {
		return packet.SyndromeNakInvalid, false
	}
	if p.BTH.Opcode.Starts() && !r.allowed(p.RETH.RKey, p.RETH.VA, uint64(p.RETH.Length)) {
		return packet.SyndromeNakAccess, false
	}
	if p.Headers&packet.HasImmDt != 0 && r.receives.len() == 0 {
		return r.rnr(), false
	}
	return 0, true
}

func (r *responder) validateRead(p *packet.Packet) (packet.Syndrome, bool) {
	switch {
	case p.RETH.Length > maxMessage, len(p.Payload) > 0, r.out.fetches() >= r.q.cfg.MaxReads:
		return packet.SyndromeNakInvalid, false
	case !r.allowed(p.RETH.RKey, p.RETH.VA, uint64(p.RETH.Length)):
		return packet.SyndromeNakAccess, false
	}
	return 0, true
}

func (r *responder) validateAtomic(p *packet.Packet) (packet.Syndrome, bool) {
	const word = 8
	switch {
	case p.AtomicETH.VA%word != 0, len(p.Payload) > 0, r.out.fetches() >= r.q.cfg.MaxReads:
		return packet.SyndromeNakInvalid, false
	case !r.allowed(p.AtomicETH.RKey, p.AtomicETH.VA, word):
		return packet.SyndromeNakAccess, false
	}
	return 0, true
}

// allowed reports whether the peer may access length bytes at va. IBTA 9.7.4.1.5 exempts zero-length operations from
// R_Key validation.
func (r *responder) allowed(rkey uint32, va, length uint64) bool {
	reg := &r.q.region
	if length == 0 {
		return true
	}
	known := rkey == reg.RKey || slices.Contains(r.kept, rkey)
	return known && va >= reg.Base && length <= reg.Length && va-reg.Base <= reg.Length-length
}

// rnr returns the syndrome of an RNR NAK.
func (r *responder) rnr() packet.Syndrome {
	return packet.SyndromeRNR | packet.Syndrome(r.q.cfg.MinRNRTimer)
}
