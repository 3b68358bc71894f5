package pfabric

import "candela.dev/candela/clock"

// receiver is the receiving end of a connection.
type receiver struct {
	Arrivals
	base  uint32          // all lower packets have arrived
	after map[uint32]bool // packets that have arrived after a gap
	top   uint32          // one above the highest number that has arrived
}

// arrived takes a data packet or a probe. Each is acknowledged; a probe brings nothing.
func (h *Host) arrived(now clock.Time, p *Packet) {
	k := key{p.From, p.Connection}
	if packets, done := h.complete[k]; done {
		h.answer(p, packets)
		return
	}
	r := h.known[k]
	if r == nil {
		r = new(receiver)
		h.known[k] = r
	}
	if p.Kind == Data {
		r.take(p)
	}
	if p.Total > 0 && r.base == p.Total {
		delete(h.known, k)
		h.complete[k] = r.base
	}
	cumulative := r.base
	if h.cfg.Bugs.Has(BugAcksBeyond) {
		cumulative = max(cumulative, r.top)
	}
	h.answer(p, cumulative)
	if p.Total > 0 && r.base == p.Total {
		h.report(now, Event{Kind: Received, Sender: p.From, Receiver: h.cfg.Address, Connection: p.Connection,
			Arrivals: r.Arrivals})
	}
}

// answer queues the ACK of p.
func (h *Host) answer(p *Packet, cumulative uint32) {
	number := p.Number
	if h.arrivals++; h.arrivals%8 == 0 && p.Kind == Data {
		switch {
		case h.cfg.Bugs.Has(BugForgetsAck):
			return
		case h.cfg.Bugs.Has(BugAcksNext):
			number++
		}
	}
	if p.Kind == Probe { // it says what has arrived in order, which may not include the packet probed for
		number = NoNumber
	}
	h.answers = append(h.answers, Packet{From: h.cfg.Address, To: p.From, Kind: Ack, Connection: p.Connection,
		Number: number, Total: cumulative})
}

// NoNumber is the number in the ACK of a probe: it is for no data packet.
const NoNumber = 1<<32 - 1

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
