package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// reservedSyndrome has the reserved class 10 (IBTA volume 1, table 44).
const reservedSyndrome packet.Syndrome = 0x45

// otherPKey is the key of a partition without queue pairs.
const otherPKey = 0x8001

// spoilData applies faults to a new request or READ response.
func (q *QP) spoilData(now clock.Time, p *packet.Packet, response bool) {
	if response {
		q.resp.spoilRead(p)
	} else {
		q.req.spoil(now, p)
	}
	q.spoilFields(p, response)
	if q.nic.bugs.Has(BugPadMissing) {
		p.BTH.PadCount = 0
	}
}

// spoilControl applies faults to an acknowledgement or a CNP that is about to be sent.
func (n *NIC) spoilControl(now clock.Time, p *packet.Packet) {
	op := p.BTH.Opcode
	if op != packet.CNP && (!op.IsResponse() || op.IsReadResponse()) {
		return
	}
	q := n.senderOf(p)
	switch {
	case q == nil:
	case op == packet.CNP:
		n.spoilCNP(q, p)
	default:
		q.resp.spoilAck(now, p)
		q.spoilAckFields(p)
		if n.bugs.Has(BugAckWrongQP) {
			p.BTH.DestQP = n.qps[(q.index+1)%len(n.qps)].remote.QPN
		}
	}
}

// senderOf returns the queue pair that sends p.
func (n *NIC) senderOf(p *packet.Packet) *QP {
	for _, q := range n.qps {
		if q.remote.QPN == p.BTH.DestQP && q.remote.IP == p.IP.Dst && q.cfg.LocalIP == p.IP.Src {
			return q
		}
	}
	return nil
}

func (n *NIC) spoilCNP(q *QP, p *packet.Packet) {
	if n.bugs.Has(BugCNPWrongQP) {
		p.BTH.DestQP = n.qps[(q.index+1)%len(n.qps)].remote.QPN
	}
	if n.bugs.Has(BugCNPNoBECN) {
		p.BTH.BECN = false
	}
	if n.bugs.Has(BugCNPDSCP) {
		p.IP.TOS = n.cfg.DSCP << 2
	}
	if n.bugs.Has(BugCNPNoPayload) {
		p.Payload = nil
	}
}

// spoil applies faults to a new request.
func (r *requester) spoil(now clock.Time, p *packet.Packet) {
	m := &r.q.mischief
	psn := r.nxt + int64(p.BTH.PSN.Sub(packet.NewPSN(r.nxt)))
	retransmission := psn < m.high
	m.high = max(m.high, r.high)
	w := r.requestAt(psn)
	if w == nil {
		return
	}
	if retransmission {
		r.spoilRepeat(now, p, w)
	} else {
		r.spoilFirst(now, p, w, psn)
	}
	r.spoilHeaders(p, w, psn)
}

// spoilRepeat applies faults to a retransmitted request.
func (r *requester) spoilRepeat(now clock.Time, p *packet.Packet, w *sendRequest) {
	bugs, m := r.q.nic.bugs, &r.q.mischief
	if bugs.Has(BugSelectiveRepeat) || bugs.Has(BugRNRResendsOne) && m.afterRNR {
		m.afterRNR = false
		r.seek(r.high)
		r.ackDue = r.high
		r.startTimer(now)
	}
	if p.BTH.Opcode == packet.ReadRequest {
		switch {
		case bugs.Has(BugReadRestartWhole):
			p.BTH.PSN = packet.NewPSN(w.first)
			p.RETH.VA, p.RETH.Length = w.wr.RemoteAddr, uint32(w.wr.Length)
		case bugs.Has(BugReadRestartAddress):
			p.RETH.VA = w.wr.RemoteAddr
		case bugs.Has(BugReadRestartLength):
			p.RETH.Length = uint32(w.wr.Length)
		}
	}
	if bugs.Has(BugKeyForgotten) && p.Headers&packet.HasRETH != 0 && p.BTH.Opcode != packet.ReadRequest {
		p.RETH.RKey++
	}
	if bugs.Has(BugImmediateLost) {
		switch p.BTH.Opcode {
		case packet.SendLastImm:
			setOpcode(p, packet.SendLast)
		case packet.WriteLastImm:
			setOpcode(p, packet.WriteLast)
		default:
		}
	}
	if bugs.Has(BugImmediateChanges) {
		p.ImmDt++
	}
	if bugs.Has(BugPayloadChanges) && len(p.Payload) > 0 {
		p.Payload = append([]byte{^p.Payload[0]}, p.Payload[1:]...) // a copy: the memory is shared
	}
	if bugs.Has(BugECNCleared) {
		p.IP.TOS &^= ecnBits
	}
	if bugs.Has(BugOperandChanges) {
		p.AtomicETH.Swap++
	}
	if bugs.Has(BugInvalidateLost) {
		switch p.BTH.Opcode {
		case packet.SendLastInv:
			setOpcode(p, packet.SendLast)
		case packet.SendOnlyInv:
			setOpcode(p, packet.SendOnly)
		default:
		}
	}
}

// spoilFirst applies faults to the first transmission of a request.
func (r *requester) spoilFirst(now clock.Time, p *packet.Packet, w *sendRequest, psn int64) {
	bugs, m := r.q.nic.bugs, &r.q.mischief
	if m.fresh++; m.fresh%4 == 0 && bugs.Has(BugPKeyChanges) {
		p.BTH.PKey = otherPKey
	}
	if w.fetches() {
		return
	}
	if m.data++; m.data == 64 && bugs.Has(BugRateCutUnasked) {
		r.rate.cut(now)
	}
	if bugs.Has(BugPSNSkip) && psn == w.first+1 && psn+2 <= w.last {
		r.seek(psn + 2)
	}
	if bugs.Has(BugSendsLastTwice) && p.BTH.Opcode.Ends() {
		r.seek(psn)
	}
}

// spoilHeaders applies faults to every transmission of a request.
func (r *requester) spoilHeaders(p *packet.Packet, w *sendRequest, psn int64) {
	bugs := r.q.nic.bugs
	const space = 1 << 24
	if bugs.Has(BugWrapSkipsZero) && psn >= space {
		p.BTH.PSN = p.BTH.PSN.Next()
	}
	if w.fetches() {
		return
	}
	op := p.BTH.Opcode
	if bugs.Has(BugSolicitedEverywhere) {
		p.BTH.Solicited = true
	}
	if bugs.Has(BugLastAsMiddle) && op == packet.SendLast {
		setOpcode(p, packet.SendMiddle)
	}
	if bugs.Has(BugShortPayload) && op.Starts() && !op.Ends() {
		p.Payload = p.Payload[:len(p.Payload)-4]
	}
	if bugs.Has(BugWrongDMALength) && p.Headers&packet.HasRETH != 0 {
		p.RETH.Length += 4
	}
}

func setOpcode(p *packet.Packet, op packet.Opcode) {
	p.BTH.Opcode = op
	p.Headers = packet.HasBTH | op.Headers()
}

// spoilAck applies faults to an ACK, NAK or atomic ACK.
func (r *responder) spoilAck(now clock.Time, p *packet.Packet) {
	bugs, m := r.q.nic.bugs, &r.q.mischief
	if p.BTH.Opcode == packet.AtomicAcknowledge {
		r.spoilAtomicAck(now, p)
		return
	}
	switch s := p.AETH.Syndrome; {
	case s == packet.SyndromeNakSequence && bugs.Has(BugNackPSNMinusOne):
		p.BTH.PSN = p.BTH.PSN.Add(-1)
	case s.IsRNR() && bugs.Has(BugRNRNamesNext):
		p.BTH.PSN = p.BTH.PSN.Next()
	case s.IsRNR() && bugs.Has(BugRNRTimerShort):
		const tenMicroseconds = 1
		p.AETH.Syndrome = packet.SyndromeRNR | tenMicroseconds
	case !s.IsAck():
	case bugs.Has(BugAckPSNPlusOne):
		p.BTH.PSN = p.BTH.PSN.Next()
	case bugs.Has(BugReservedSyndrome):
		if m.acks++; m.acks%2 == 1 {
			p.AETH.Syndrome = reservedSyndrome
		}
	case bugs.Has(BugAckGoesBack):
		if m.ghost = !m.ghost; m.ghost {
			r.push(now, response{psn: r.expected - 2, syndrome: s, ready: now})
		}
	}
}

func (r *responder) spoilAtomicAck(now clock.Time, p *packet.Packet) {
	m := &r.q.mischief
	if !r.q.nic.bugs.Has(BugAtomicTwice) {
		return
	}
	if m.atomicTwo = !m.atomicTwo; m.atomicTwo {
		psn := r.expected + int64(p.BTH.PSN.Sub(packet.NewPSN(r.expected)))
		r.push(now, response{kind: answerAtomic, psn: psn, end: psn + 1, original: p.AtomicAckETH, replay: true, ready: now})
	}
}

// spoilRead applies faults to a READ response. Its answer is still at the head of the queue unless this response was
// the last.
func (r *responder) spoilRead(p *packet.Packet) {
	bugs := r.q.nic.bugs
	if p.BTH.Opcode.Starts() {
		switch {
		case bugs.Has(BugReadShort):
			p.Payload = p.Payload[:max(0, len(p.Payload)-4)]
		case bugs.Has(BugReadSyndrome):
			p.AETH.Syndrome = reservedSyndrome
		case bugs.Has(BugReadOpcode) && p.BTH.Opcode == packet.ReadResponseFirst:
			setOpcode(p, packet.ReadResponseMiddle)
		}
	}
	if p.BTH.Opcode.Ends() || r.out.len() == 0 {
		return
	}
	a := r.out.at(0)
	switch {
	case a.kind != answerRead:
	case a.replay:
		if bugs.Has(BugReadReplayContinues) && p.BTH.Opcode.Starts() {
			setOpcode(p, packet.ReadResponseMiddle)
		}
	case bugs.Has(BugReadLastMissing) && a.psn+1 == a.end:
		r.out.pop()
	case bugs.Has(BugReadSkipsOne) && p.BTH.Opcode.Starts() && a.psn+1 < a.end:
		a.psn++
		a.va += uint64(r.q.cfg.MTU)
		a.left -= r.q.cfg.MTU
	}
}
