package lock

import (
	"slices"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// toDatabase reports whether a database is asked.
func (j *Judge) toDatabase(p *Packet) bool { return slices.Contains(j.facts.Databases, p.Dst) }

// asksDatabase follows a packet to a database, which a switch or server sends as a grant. Those of clients are marked.
func (j *Judge) asksDatabase(d *device, p *Packet, since clock.Time) {
	h := &p.Header
	grants := h.Op == netlock.Acquire || h.Op == netlock.PushBack || h.Op == netlock.GrantFromServer
	if d.OneRTT && grants && h.Mark == netlock.Unmarked {
		j.asksRightly(d, p)
		j.granted(d, p, j.keyOf(d, h, p.Src), since)
	}
}

// oneTrip judges where a grant goes of a switch that asks the database itself (section 5.3). Of copies it is not known
// which one was granted.
func (j *Judge) oneTrip(d *device, l *state, r *request, p *Packet, waiting bool) {
	if !d.OneRTT || r.server {
		return
	}
	toDatabase := j.toDatabase(p)
	if toDatabase {
		j.measures.toDatabase++
	}
	if !waiting || r.asks != 1 || r.inserted == unknown {
		return
	}
	slack := d.PipelineMost + j.facts.Uncertainty
	switch by, _, _ := j.due(d, l, r); {
	case toDatabase:
		if r.returned || r.since != unknown && r.since > r.inserted.Add(slack) {
			j.tell(l, queuedQuery(d.place(l, p), cause.Span(p.Time.Sub(r.inserted))), p.Time, p.ID, r.id)
		}
	case r.present == 0 && !r.over && !r.returned && by <= r.inserted && d.exactly(j) && d.Placed && !d.Moves &&
		d.Locks[l.id] > 0 && d.takeover == clock.Never && !l.tainted:
		j.tell(l, lostQuery(d.place(l, p)), p.Time, p.ID, r.id)
	}
}
