package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// A switch that trims cuts the payload off a packet that it has no room for and forwards the headers. A NIC that knows
// nothing of that drops what arrives, because its iCRC cannot hold or because it is shorter than its headers announce,
// and counts it as it counts any damage; recovery waits for the next packet's NAK, or behind the last packet for the
// timer.
//
// A NIC with [Profile.TrimReaction] looks for the mark first: the DSCP that the switch gives to trimmed packets. What
// carries it and is not whole (a switch may give it to packets that are too short to be cut, too) is a trimmed header.
// Its addresses, QPN and PSN name the loss, so the NIC asks for the packet at once instead of waiting for another to
// arrive. Nothing else in it is believed, for no check covers it: it neither delivers nor acknowledges anything.

// takesTrimmed serves p if it is a trimmed header that the NIC reacts to, and reports whether it is one.
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

// trimmed takes the header of a request whose payload was cut off. If it names the expected packet, that one is lost,
// for the second time if it has been NAKed before; if a later one, everything from the expected packet on is. A header
// of something received before says nothing new.
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

// nakTrimmed queues a NAK for the expected packet, which a trimmed header showed to be lost.
func (r *responder) nakTrimmed(now clock.Time) {
	n := r.q.nic
	psn := r.expected
	if n.bugs.Has(BugTrimNackWrongPSN) {
		psn++
	}
	r.push(now, response{psn: psn, syndrome: packet.SyndromeNakSequence, ready: now.Add(n.profile.TrimLatency)})
}

// acceptTrimmed is BugTrimAccepted: the header counts for the whole packet, whose payload is taken for zeros.
func (r *responder) acceptTrimmed(now clock.Time, p *packet.Packet) {
	if p.IsRoCE() {
		whole := *p
		whole.Payload = make([]byte, p.PayloadLen())
		r.handle(now, &whole)
	}
}

// trimmedResponse takes the header of a READ response whose payload was cut off: the READ is asked for again from the
// oldest missing response on. For one gap that is done once, as for a response out of order; but if the header names
// the oldest missing response itself, that one was lost again.
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
