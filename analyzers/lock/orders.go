package lock

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// decided returns when a switch decided to send a packet, at the earliest; unknown: there is no telling.
func (d *device) decided(j *Judge, p *Packet) clock.Time {
	if p.Port < 0 || p.Port >= len(d.ports) || d.ports[p.Port].rate <= 0 || d.Pauses {
		return unknown
	}
	return d.ports[p.Port].since.Add(-d.PipelineMost - j.facts.Uncertainty)
}

// prematurely judges that a switch asks for what is buffered only once its own queue is empty (N5).
func (j *Judge) prematurely(d *device, l *state, c *class, p *Packet) {
	decided := d.decided(j, p)
	if d.restarted || l.tainted || c.pending() || decided == unknown {
		return
	}
	c.asked, c.askedBy = decided, p.Time
	for i := l.holders; i != none; i = j.requests[i].next {
		h := &j.requests[i]
		if may, _ := j.lapses(h); l.class(h) != c || h.server || h.expired || may <= p.Time ||
			h.inserted >= decided || h.inserted == unknown || h.asks == 0 {
			continue
		}
		j.tell(l, askedEarly(d.place(l, p), h.grant), p.Time, p.ID, h.grant)
		return
	}
}

// askedFor judges at a grant that the request did not wait in the switch when that asked the server for more (N5).
func (j *Judge) askedFor(d *device, l *state, r *request, p *Packet) {
	may, _ := j.lapses(r) // unless its lease ended while its grant waited at the port
	if c := l.class(r); c.asked != unknown && r.inserted != unknown && c.asked > r.inserted && c.askedBy < may {
		j.tell(l, askedEarly(d.place(l, p), p.ID), p.Time, p.ID, r.id)
	}
}

// inOrder judges N4 and N5: who is granted now was not overtaken.
func (j *Judge) inOrder(d *device, l *state, r *request, p *Packet) {
	c := l.class(r)
	may, _ := j.lapses(r)
	expired := may <= p.Time // perhaps as it waited at the port: others were granted before and after
	if c.batch != l.batch || r.mode == netlock.Exclusive && !expired {
		c.before = latest(c.before, c.within)
		c.within, c.batch = granted{}, l.batch
	}
	j.measures.orders++
	slack := j.facts.Uncertainty
	overtook := func(g *granted) bool {
		return g.order > r.last && (slack == 0 || g.arrived > r.arrived.Add(slack))
	}
	own := granted{order: r.first, arrived: r.came, at: p.Time, id: r.id, shared: r.mode == netlock.Shared}
	if p.Stage == trace.Dropped { // perhaps as it came from a server
		own.at = own.at.Add(d.PipelineMost)
	}
	// Of two that share the lock, which was granted first is not known if the grant may have waited at its port.
	after := func(g *granted) bool {
		return r.since != unknown && r.since.Add(-d.PipelineMost) > g.at.Add(slack-d.Pipeline)
	}
	switch {
	case overtook(&c.before) && c.before.at < may && (!own.shared || !c.before.shared || after(&c.before)):
		j.overtaken(d, l, r, p, c.before.id)
	case !own.shared:
	case overtook(&c.within) && d.Processing == lock.ChainLock && after(&c.within):
		j.overtaken(d, l, r, p, c.within.id)
	}
	switch {
	case expired:
	case r.mode == netlock.Exclusive:
		l.batch++
		c.batch = l.batch
		c.before = latest(c.before, own)
	default:
		c.within = latest(c.within, own)
	}
}

func latest(a, b granted) granted {
	if b.order > a.order {
		return b
	}
	return a
}

func (j *Judge) overtaken(d *device, l *state, r *request, p *Packet, by uint64) {
	switch {
	case r.server:
		j.tell(l, overtakenAtServer(d.place(l, p), r.id, by), p.Time, p.ID, r.id, by)
	case r.returned:
		j.tell(l, overtakenInBuffer(d.place(l, p), r.id, by), p.Time, p.ID, r.id, by)
	default:
		j.tell(l, overtakenInSwitch(d.place(l, p), r.id, by), p.Time, p.ID, r.id, by)
	}
}

// preferred judges N6: while it waited, nothing was decided in favour of a lower priority.
func (j *Judge) preferred(d *device, l *state, r *request, p *Packet) {
	if len(l.all) == 0 {
		return
	}
	for i := int(r.class) + 1; i < len(l.all); i++ {
		if c := &l.all[i]; c.event != unknown && c.event > r.inserted.Add(j.facts.Uncertainty) && r.since != unknown &&
			r.since.Add(-d.PipelineMost) > c.eventAt.Add(j.facts.Uncertainty-d.Pipeline) {
			j.tell(l, notPreferred(d.place(l, p), r.class, uint8(i), c.eventID), p.Time, p.ID, c.eventID, r.id)
			break
		}
	}
	event, leased := l.ended, l.endedLeased
	if r.mode == netlock.Shared {
		event, leased = l.exclusive, l.exclusiveLeased
	}
	if event == unknown || event < r.inserted {
		event, leased = r.inserted, false
	}
	if c := l.class(r); !leased && event > c.event {
		c.event, c.eventAt, c.eventID = event, p.Time, p.ID
	}
}
