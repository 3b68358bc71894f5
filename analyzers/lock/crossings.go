package lock

import (
	"net/netip"

	"candela.dev/candela/packet/netlock"
)

// crossing names an answer of another switch that is inside the switch of the key. It may wait there until the lease of
// what it grants has ended, so it is kept apart from the request, which is then forgotten.
type crossing struct {
	key key
	op  netlock.Op
}

// crosses follows an answer as it enters, and reports whether it only passes. What comes from another switch was judged
// as it left there.
func (j *Judge) crosses(d *device, p *Packet) bool {
	h := &p.Header
	trunk, peer := d.trunk(p.Port), d.peer(p.Port)
	switch {
	case p.DstPort == netlock.ReplyPort && peer && answers(h), h.Op == netlock.Reject && peer:
		j.inside(d, p, p.Dst)
		return true
	case p.DstPort == netlock.ReplyPort && (trunk && !peer || h.Op == netlock.Acquire):
		if h.Op != netlock.PushEmpty && j.elsewhere(j.keyOf(d, h, p.Dst), answering) != nil {
			j.inside(d, p, p.Dst)
		}
		return true
	}
	return false
}

// inside notes that an answer to a client, or a question to a database, of another switch is inside.
func (j *Judge) inside(d *device, p *Packet, client netip.Addr) {
	if len(j.crossings) >= mostRequests {
		j.giveUp("there are too many answers of other switches that do not leave")
	}
	j.crossings[crossing{j.keyOf(d, &p.Header, client), p.Header.Op}]++
}

// crossed reports whether an answer that leaves, or is lost, is one of another switch, which had come.
func (j *Judge) crossed(k key, op netlock.Op) bool {
	c := crossing{k, op}
	switch j.crossings[c] {
	case 0:
		return false
	case 1:
		delete(j.crossings, c)
	default:
		j.crossings[c]--
	}
	return true
}

// crossingLost reports whether what a switch drops is an answer of another switch.
func (j *Judge) crossingLost(d *device, p *Packet) bool {
	switch {
	case j.toDatabase(p):
		return j.crossed(j.keyOf(d, &p.Header, p.Src), p.Header.Op)
	case p.DstPort == netlock.ReplyPort:
		return j.crossed(j.keyOf(d, &p.Header, p.Dst), p.Header.Op)
	}
	return false
}

// answers reports whether a packet to a client is an answer of a switch. What a server returns has an index.
func answers(h *netlock.Header) bool {
	return h.Op == netlock.Acquire || h.Op == netlock.Reject || h.Op == netlock.PushBack && h.Index == 0
}

// answering reports whether an answer to a request may be on its way.
func answering(r *request) bool { return r.asks > 0 || r.linked }
