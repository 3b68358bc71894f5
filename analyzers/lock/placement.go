package lock

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// home is where a lock lives that moves between a switch and its server (N10). What they tell each other shows it: the
// switch may grant once the server has said that its own queue is empty, and until it tells the server that it owns the
// lock; the server may grant at all other times.
type home struct {
	known bool
	moved clock.Time // when the switch began to take it; unknown: it has not since it gave it to the server
	base  uint64     // number of that move
	taken clock.Time // when the server said that the switch may have it; unknown: it has not
	left  clock.Time // when the switch told the server that it owns the lock, the last time; unknown: it never had it
	given uint32     // times that the switch has told the server so, also before it was out of service
	gave  clock.Time // left, but unknown if a switch that has restarted may have told the server so before
}

// handover is what a server has answered about a queue that it owns from then on.
type handover struct {
	number uint64
	at     clock.Time // unknown: it has answered nothing
}

// newHome returns where a lock lives of which nothing has been seen: at its server.
func (j *Judge) newHome(d *device) home {
	return home{known: j.follows(d) && j.gaps == 0 && !d.restarted, moved: unknown, taken: unknown, left: unknown,
		gave: unknown}
}

// away reports whether the switch has a lock, or takes it.
func (h *home) away() bool { return h.moved != unknown }

// follows reports whether it is known what switch and server tell each other as locks move.
func (j *Judge) follows(d *device) bool { return d.Marks && len(j.switches) == 1 }

// told follows a PUSH_REQ with a mark.
func (j *Judge) told(d *device, l *state, p *Packet) {
	h := &l.home
	switch {
	case !j.follows(d):
	case p.Header.Mark == netlock.Failover:
		if !h.away() || h.base != p.Header.Sent {
			h.moved, h.base, h.taken = p.Time, p.Header.Sent, unknown
		}
		if !h.known { // of what left before nothing is known
			h.known, h.left = true, p.Time
		}
	default:
		if h.given++; h.away() {
			h.moved, h.taken, h.left, h.gave = unknown, unknown, p.Time, p.Time
		}
	}
}

// handsAgain judges a PUSH_REQ that tells a server that it owns a lock: a switch that has heard that the server knows
// does not have the lock any more. A later move has another number.
func (j *Judge) handsAgain(d *device, l *state, c *class, p *Packet) {
	if of := &c.handed; of.at != unknown && of.number == p.Header.Sent && d.decided(j, p) > of.at {
		j.tell(l, handedAgain(d.place(l, p), cause.Span(p.Time.Sub(of.at))), p.Time, p.ID)
	}
}

// given follows a server that gives a lock to the switch. It may say so again, also when it has got the lock back.
func (j *Judge) given(l *state, p *Packet) {
	if h := &l.home; h.away() && h.taken == unknown && p.Header.Sent == h.base {
		h.taken = p.Time
	}
}

// servesOwn judges a grant of a server as it comes: after the server has given the lock to the switch, or, before, of a
// request that it was to buffer as the lock moves. r is that request; nil: it is not known.
func (j *Judge) servesOwn(d *device, l *state, r *request, p *Packet) {
	h := &l.home
	switch {
	case j.replaced:
	case h.known && h.taken != unknown && p.Time > h.taken.Add(j.facts.Uncertainty):
		j.tell(l, byServer(d.place(l, p)), p.Time, p.ID)
	case r != nil && r.buffered == h.given+1 && r.parks == r.asks && r.handed == 0:
		j.tell(l, grantedBuffered(d.place(l, p), r.id), p.Time, p.ID, r.id)
	}
}

// grantsOwn judges a grant of the switch: before the server has given it the lock, or after the switch has given that
// back.
func (j *Judge) grantsOwn(d *device, l *state, p *Packet, since clock.Time) {
	h := &l.home
	if !h.known || h.taken != unknown && p.Time >= h.taken.Add(-j.facts.Uncertainty) {
		return
	}
	if h.left == unknown || since != unknown && since > h.left.Add(d.PipelineMost+j.facts.Uncertainty) {
		j.tell(l, bySwitch(d.place(l, p)), p.Time, p.ID)
	}
}

// sendsOwn judges a request that the switch sends to the server as one for a lock of the server.
func (j *Judge) sendsOwn(d *device, l *state, r *request, p *Packet) {
	if h := &l.home; h.known && h.away() && r.asks == 1 && r.arrived > h.moved.Add(j.facts.Uncertainty) {
		j.tell(l, sentAway(d.place(l, p)), p.Time, p.ID, r.id)
	}
}

// misplaced judges N10 where locks stay, or the control plane tells when they move.
func (j *Judge) misplaced(d *device, l *state, p *Packet, server bool) {
	if !d.Placed || d.out || d.restarted || d.Moves || p.Time <= d.changed.Add(d.Settled) {
		return
	}
	slots := d.Locks[l.id]
	if (slots > 0) == !server {
		return
	}
	switch {
	case p.Header.Op == netlock.Acquire && p.Header.Mark == netlock.Owned:
		j.tell(l, sentAway(d.place(l, p)), p.Time, p.ID)
	case server:
		j.tell(l, byServer(d.place(l, p)), p.Time, p.ID)
	default:
		j.tell(l, bySwitch(d.place(l, p)), p.Time, p.ID)
	}
}
