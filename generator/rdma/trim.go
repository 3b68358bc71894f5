package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// A trimming switch cuts the payload off a packet that does not fit its queue, and forwards the headers. A NIC that
// does not support trimming drops such a packet as damaged: its iCRC is invalid or it is shorter than announced.
// Recovery then waits for the NAK that the next packet causes or, for the last packet, for the timer.
//
// A NIC with [Profile.TrimReaction] checks the DSCP of trimmed packets first. A packet with this DSCP and an invalid
// iCRC is a trimmed header; a whole packet may have the DSCP, too, if it was too short to be trimmed. Addresses, QPN
// and PSN name the loss, so the NIC requests the packet at once. No checksum covers the header, so nothing else in it
// is used: it neither delivers nor acknowledges anything.

// takesTrimmed reports whether p is a trimmed header that the NIC reacts to, and serves it.
func (n *NIC) takesTrimmed(now clock.Time, p *packet.Packet) bool {
	if !n.profile.TrimReaction || int(p.IP.DSCP()) != n.profile.TrimDSCP || p.CheckICRC() == packet.ICRCValid {
		return false
	}
	q := n.lookup(p)
	if q == nil {
		n.counters.Invalid++
		return true
	}
	n.counters.TrimmedReceived++
	switch op := p.BTH.Opcode; {
	case q.state != stateReady, n.bugs.Has(BugTrimIgnored), op.IsReadResponse() && n.bugs.Has(BugTrimReadIgnored):
	case op.IsReadResponse():
		q.req.trimmedResponse(now, p.BTH.PSN)
	case op.IsRequest():
		q.resp.trimmed(now, p)
	}
	return true
}

// trimmed takes the header of a trimmed request. If it names the expected packet, that packet is lost, possibly once
// more after a NAK. If it names a later one, the expected packet is lost, too. An earlier PSN is ignored.
func (r *responder) trimmed(now clock.Time, p *packet.Packet) {
	bugs, ahead := r.q.nic.bugs, p.BTH.PSN.Sub(packet.NewPSN(r.expected))
	switch {
	case bugs.Has(BugTrimAccepted):
		r.acceptTrimmed(now, p)
		return
	case ahead < 0 && !bugs.Has(BugTrimNackDuplicate), ahead > 0 && r.silent:
		return
	case bugs.Has(BugTrimNackFatal):
		r.reject(now, packet.SyndromeNakInvalid)
		return
	}
	r.silent = true
	r.nakTrimmed(now)
	if bugs.Has(BugTrimNackTwice) {
		r.nakTrimmed(now)
	}
}

// nakTrimmed queues a NAK for the expected packet, which a trimmed header has shown to be lost.
func (r *responder) nakTrimmed(now clock.Time) {
	n := r.q.nic
	psn := r.expected
	if n.bugs.Has(BugTrimNackWrongPSN) {
		psn++
	}
	r.push(now, response{psn: psn, syndrome: packet.SyndromeNakSequence, ready: now.Add(n.profile.TrimLatency)})
}

// acceptTrimmed is BugTrimAccepted: the header is handled as the whole packet, with a payload of zeros.
func (r *responder) acceptTrimmed(now clock.Time, p *packet.Packet) {
	if p.IsRoCE() {
		whole := *p
		whole.Payload = make([]byte, p.PayloadLen())
		r.handle(now, &whole)
	}
}

// trimmedResponse takes the header of a trimmed READ response. The READ is repeated from the oldest missing response
// on, once per gap, as after a response out of order. If the header names the oldest missing response itself, that one
// was lost again and the READ is repeated once more.
func (r *requester) trimmedResponse(now clock.Time, p packet.PSN) {
	psn := r.una + int64(p.Sub(packet.NewPSN(r.una)))
	if psn < r.una || psn >= r.high || r.out.len() == 0 || r.out.at(0).wr.Verb.Wire() != packet.VerbRead {
		return
	}
	if r.rewind.pending || r.nxt <= r.una || r.impliedAt == r.una && psn != r.una {
		return
	}
	r.impliedAt = r.una
	r.q.nic.counters.ImpliedNakErr++
	r.retry(now, rewind{at: now.Add(r.q.nic.profile.TrimLatency), sendsOn: r.q.nic.profile.SendsOn})
	r.q.schedule(now)
}
