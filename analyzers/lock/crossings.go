package lock

import (
	"cmp"
	"net/netip"
	"slices"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// crossing names an answer of another switch that is inside the switch of the key. It may wait there until the lease of
// what it grants has ended, so it is kept apart from the request, which is then forgotten.
type crossing struct {
	key key
	op  netlock.Op
}

// crossed is how many such answers are inside, and the last that came.
type crossed struct {
	times uint16
	peer  bool // it came from the other switch of a pair, and is for a client
	id    uint64
	at    clock.Time
}

// crosses follows an answer as it enters, and reports whether it only passes. What comes from another switch was judged
// as it left there.
func (j *Judge) crosses(d *device, p *Packet) bool {
	h := &p.Header
	trunk, peer := d.trunk(p.Port), d.peer(p.Port)
	switch {
	case p.DstPort == netlock.ReplyPort && peer && answers(h):
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
	c := crossing{j.keyOf(d, &p.Header, client), p.Header.Op}
	j.crossings[c] = crossed{j.crossings[c].times + 1, d.peer(p.Port) && !j.toDatabase(p), p.ID, p.Time}
}

// crossingLeaves reports whether an answer that leaves, or is lost, is one of another switch, which had come.
func (j *Judge) crossingLeaves(k key, op netlock.Op) bool {
	c := crossing{k, op}
	of := j.crossings[c]
	switch of.times {
	case 0:
		return false
	case 1:
		delete(j.crossings, c)
	default:
		of.times--
		j.crossings[c] = of
	}
	return true
}

// kept judges, at the end, that a switch has forwarded the answers of the other one of its pair (N3). What comes from a
// switch of another kind may be for this one.
func (j *Judge) kept() {
	var list []crossing
	for c, of := range j.crossings {
		if d := j.switches[c.key.sw]; of.peer && j.gaps == 0 && !d.out && !d.Pauses && len(d.ports) > 0 &&
			j.allQuietSince(d) > of.at.Add(d.PipelineMost+j.facts.Uncertainty) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b crossing) int {
		return cmp.Or(cmp.Compare(j.crossings[a].at, j.crossings[b].at), cmp.Compare(j.crossings[a].id, j.crossings[b].id))
	})
	for _, c := range list {
		of, lock := j.crossings[c], c.key.lock
		j.tell(j.lockOf(int(c.key.sw), lock), keptAnswer(place{j.switches[c.key.sw].who, lock, of.id}, c.op.String(),
			cause.Span(j.now.Sub(of.at))), j.now, of.id)
	}
}

// crossingLost reports whether what a switch drops is an answer of another switch.
func (j *Judge) crossingLost(d *device, p *Packet) bool {
	switch {
	case j.toDatabase(p):
		return j.crossingLeaves(j.keyOf(d, &p.Header, p.Src), p.Header.Op)
	case p.DstPort == netlock.ReplyPort:
		return j.crossingLeaves(j.keyOf(d, &p.Header, p.Dst), p.Header.Op)
	}
	return false
}

// answers reports whether a packet to a client is an answer of a switch. What a server returns has an index.
func answers(h *netlock.Header) bool {
	return h.Op == netlock.Acquire || h.Op == netlock.Reject || h.Op == netlock.PushBack && h.Index == 0
}

// answering reports whether an answer to a request may be on its way.
func answering(r *request) bool { return r.asks > 0 || r.linked }
