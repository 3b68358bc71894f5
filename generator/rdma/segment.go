package rdma

import (
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// opcodeSet are the opcodes of one verb by position in the message (IBTA 9.7.2).
type opcodeSet struct {
	first, middle, last, only packet.Opcode
	imm, inv                  bool // last and only carry an immediate, or a remote key to invalidate
}

var opcodeSets = [...]opcodeSet{
	generator.Write: {packet.WriteFirst, packet.WriteMiddle, packet.WriteLast, packet.WriteOnly, false, false},
	generator.WriteImm: {packet.WriteFirst, packet.WriteMiddle, packet.WriteLastImm, packet.WriteOnlyImm, true,
		false},
	generator.Send:           {packet.SendFirst, packet.SendMiddle, packet.SendLast, packet.SendOnly, false, false},
	generator.SendImm:        {packet.SendFirst, packet.SendMiddle, packet.SendLastImm, packet.SendOnlyImm, true, false},
	generator.SendInvalidate: {packet.SendFirst, packet.SendMiddle, packet.SendLastInv, packet.SendOnlyInv, false, true},
}

func (s *opcodeSet) at(first, last bool) packet.Opcode {
	switch {
	case first && last:
		return s.only
	case first:
		return s.first
	case last:
		return s.last
	}
	return s.middle
}

// fill makes p the packet of w with PSN nxt. A retransmission equals the original except for the IP Identification.
func (r *requester) fill(p *packet.Packet, w *sendRequest) {
	*p = r.q.frame
	p.BTH.PSN = packet.NewPSN(r.nxt)
	switch w.wr.Verb {
	case generator.Read:
		r.fillRead(p, w)
	case generator.CompareSwap, generator.FetchAdd:
		r.fillAtomic(p, w)
	default:
		r.fillData(p, w)
	}
}

// fillData makes p a SEND or WRITE packet. Only the last packet of a message has AckReq: the responder may acknowledge
// a message as a whole, and every retransmission ends with AckReq.
func (r *requester) fillData(p *packet.Packet, w *sendRequest) {
	offset := int(r.nxt-w.first) * r.q.cfg.MTU
	n := min(w.wr.Length-offset, r.q.cfg.MTU)
	set := &opcodeSets[w.wr.Verb]
	first, last := r.nxt == w.first, r.nxt == w.last
	p.BTH.Opcode = set.at(first, last)
	p.Headers |= p.BTH.Opcode.Headers()
	p.BTH.AckReq = last
	p.BTH.PadCount = uint8(-n & 3)
	if last && set.imm {
		p.ImmDt = w.wr.Imm
		p.BTH.Solicited = true
	}
	if last && set.inv {
		p.IETH = w.wr.Invalidate
	}
	if w.wr.Verb.Wire() == packet.VerbSend {
		p.Payload = r.q.nic.memory.send(r.q.remote.QPN, p.BTH.PSN, n)
		return
	}
	if first {
		p.RETH = packet.RETH{VA: w.wr.RemoteAddr, RKey: w.wr.RKey, Length: uint32(w.wr.Length)}
	}
	p.Payload = r.q.nic.memory.at(w.wr.RKey, w.wr.RemoteAddr+uint64(offset), n)
}

// fillRead makes p a READ request for w from PSN nxt on: the whole READ first, the remaining part when repeated. IBTA
// 9.7.5.1.9 requires address and length to match the PSN.
func (r *requester) fillRead(p *packet.Packet, w *sendRequest) {
	offset := int(r.nxt-w.first) * r.q.cfg.MTU
	p.BTH.Opcode, p.BTH.AckReq = packet.ReadRequest, true
	p.Headers |= packet.HasRETH
	p.RETH = packet.RETH{VA: w.wr.RemoteAddr + uint64(offset), RKey: w.wr.RKey, Length: uint32(w.wr.Length - offset)}
}

func (r *requester) fillAtomic(p *packet.Packet, w *sendRequest) {
	p.BTH.Opcode, p.BTH.AckReq = packet.FetchAdd, true
	if w.wr.Verb == generator.CompareSwap {
		p.BTH.Opcode = packet.CmpSwap
	}
	p.Headers |= packet.HasAtomicETH
	p.AtomicETH = packet.AtomicETH{VA: w.wr.RemoteAddr, RKey: w.wr.RKey, Swap: w.wr.SwapAdd, Compare: w.wr.Compare}
}
