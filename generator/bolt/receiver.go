package bolt

import "candela.dev/candela/clock"

// receiver is the receiving end of a connection.
type receiver struct {
	Arrivals
	base  uint32          // all lower packets have arrived
	after map[uint32]bool // packets that have arrived after a gap
	top   uint32          // one above the highest number that has arrived
}

// arrived takes a data packet, which is acknowledged.
func (h *Host) arrived(now clock.Time, p *Packet) {
	k := key{p.From, p.Connection}
	if packets, done := h.complete[k]; done {
		h.answer(now, p, packets)
		return
	}
	r := h.known[k]
	if r == nil {
		r = new(receiver)
		h.known[k] = r
	}
	r.take(p)
	through := p.Total > 0 && r.base == p.Total
	if through {
		delete(h.known, k)
		h.complete[k] = r.base
	}
	cumulative := r.base
	if h.cfg.Bugs.Has(BugAcksBeyond) {
		cumulative = max(cumulative, r.top)
	}
	h.answer(now, p, cumulative)
	if through {
		h.report(now, Event{Kind: Received, Sender: p.From, Receiver: h.cfg.Address, Connection: p.Connection,
			Arrivals: r.Arrivals})
	}
}

// answer queues the ACK of p, which repeats its flags and its time.
func (h *Host) answer(now clock.Time, p *Packet, cumulative uint32) {
	a := Packet{From: h.cfg.Address, To: p.From, Kind: Ack, Flags: p.Flags, Connection: p.Connection, Number: p.Number,
		Total: cumulative, SentNS: p.SentNS}
	if h.arrivals++; h.arrivals%8 == 0 {
		switch {
		case h.cfg.Bugs.Has(BugForgetsAck):
			return
		case h.cfg.Bugs.Has(BugAcksNext):
			a.Number++
		}
	}
	switch {
	case h.cfg.Bugs.Has(BugForgetsFlags):
		a.Flags &^= Inc | Dec
	case h.cfg.Bugs.Has(BugOwnTime):
		a.SentNS = stamp(now)
	}
	h.answers.push(a)
}

// take records a data packet.
func (r *receiver) take(p *Packet) {
	if p.Number < r.base || r.after[p.Number] {
		r.Duplicates++
		return
	}
	r.Packets++
	r.Bytes += uint64(p.Payload)
	if p.Number < r.top {
		r.Reordered++
	}
	r.top = max(r.top, p.Number+1)
	if p.Number != r.base {
		if r.after == nil {
			r.after = make(map[uint32]bool)
		}
		r.after[p.Number] = true
		return
	}
	for r.base++; r.after[r.base]; r.base++ {
		delete(r.after, r.base)
	}
}
