package lock

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// place is a lock at a switch, with the packet at hand.
type place struct {
	who  cause.Switch
	lock uint32
	id   uint64
}

func (d *device) place(l *state, p *Packet) place { return place{d.who, l.id, p.ID} }

// exclusive judges N1: whoever holds the lock as it is granted, and could not share it, has lost the lease.
func (j *Judge) exclusive(d *device, l *state, r *request, p *Packet) {
	j.excludes(d, l, r, p)
	for i := range j.switches {
		if i != int(l.sw) {
			if other := j.lockOf(i, l.id); other != nil {
				j.excludes(d, other, r, p)
			}
		}
	}
}

// excludes judges it of those to whom one switch granted the lock.
func (j *Judge) excludes(d *device, l *state, r *request, p *Packet) {
	if l.xs == 0 && (r.mode == netlock.Shared || l.held == 0) {
		return
	}
	if may, _ := j.lapses(r); p.Time >= may {
		return // its own lease may have ended while it waited at the port
	}
	own := r.key
	for i := l.holders; i != none; {
		h := &j.requests[i]
		i = h.next
		if own.sw = h.key.sw; r.mode == netlock.Shared && h.mode == netlock.Shared || own == h.key {
			continue
		}
		if may, _ := j.lapses(h); p.Time >= may {
			j.lapsed(h)
			continue
		}
		if !j.facts.Complete || j.overrun || j.facts.Uncertainty >= max(d.Pipeline, 1) && j.facts.Uncertainty > 0 {
			j.unsure++
			continue
		}
		// A lock about which there is doubt is judged, too: both grants and no release were seen.
		j.tell(nil, overlapping(d.place(l, p), r.mode, h.mode, giver(d, j.switches[h.sw]), h.grant,
			cause.Span(p.Time.Sub(h.at))), p.Time, p.ID, h.grant)
	}
}

// twice reports more answers than requests (N2).
func (j *Judge) twice(d *device, l *state, r *request, p *Packet) {
	switch {
	case r.asks == 0:
		j.tell(l, unasked(d.place(l, p), p.Header.Op.String()), p.Time, p.ID)
	case r.linked:
		j.tell(l, grantedTwice(d.place(l, p), r.grant), p.Time, p.ID, r.grant, r.id)
	default:
		j.tell(l, tooMany(d.place(l, p), int64(r.answers)+1, int64(r.asks)), p.Time, p.ID, r.id)
	}
}

// unchanged judges that what leaves about a request is that request, in its mode and, if it came once, with its time
// stamp (N2).
func (j *Judge) unchanged(d *device, l *state, r *request, p *Packet) {
	h := &p.Header
	switch {
	case r.asks == 0:
	case h.Mode != r.mode:
		j.tell(l, otherMode(d.place(l, p), h.Mode, r.id, r.mode), p.Time, p.ID, r.id)
	case r.asks != 1 || len(j.switches) > 1:
	case l.lost > 0 && (r.returned || r.server || h.Op == netlock.GrantFromServer): // perhaps one that was taken for lost
	case h.Timestamp != r.stamp:
		j.tell(l, otherStamp(d.place(l, p), r.id), p.Time, p.ID, r.id)
	}
}

// takenOver judges N13.
func (j *Judge) takenOver(d *device, l *state, r *request, p *Packet) {
	if r.server {
		if p.Time < j.facts.NotBefore.Add(-j.facts.Uncertainty) {
			j.tell(l, begunEarly(d.place(l, p), cause.Span(j.facts.NotBefore.Sub(p.Time))), p.Time, p.ID)
		}
		if at, ok := j.servers[l.server]; ok && at != clock.Never && p.Src != l.server && d.Lease > 0 &&
			p.Time < at.Add(d.Lease-j.facts.Uncertainty) {
			j.tell(l, tooSoon(d.place(l, p), "its server had failed", cause.Span(p.Time.Sub(at)), cause.Span(d.Lease)),
				p.Time, p.ID)
		}
		return
	}
	began := r.inserted // it was decided no earlier
	if r.since != unknown {
		began = max(began, r.since.Add(-d.PipelineMost))
	}
	if d.Standby {
		if !j.failed {
			j.tell(l, unneeded(d.place(l, p)), p.Time, p.ID)
		}
		may, _ := j.lapses(r) // it may have been granted before, and lost the lock, as the grant waited at its port
		for i := range j.switches {
			if o := j.lockOf(i, l.id); o != nil && r.phase == waiting && r.asks == 1 && o.primary != unknown &&
				o.primary > r.inserted.Add(d.PipelineMost+j.facts.Uncertainty) && o.primaryAt < may {
				j.tell(l, bypassed(d.place(l, p), cause.Span(o.primary.Sub(r.inserted))), p.Time, p.ID, r.id)
			}
		}
	} else if d.restarted {
		if began > l.primary {
			l.primary, l.primaryAt = began, p.Time
		}
		j.besides(d, l, p, began)
	}
	if d.takeover != clock.Never && d.Lease > 0 && began > d.takeover &&
		p.Time < d.takeover.Add(d.Lease-j.facts.Uncertainty) {
		j.tell(l, tooSoon(d.place(l, p), "it took over", cause.Span(p.Time.Sub(d.takeover)), cause.Span(d.Lease)), p.Time,
			p.ID)
	}
}

// besides judges that nobody has the lock from the backup when the switch that has returned decides to grant it, also
// if they could share it.
func (j *Judge) besides(d *device, l *state, p *Packet, decided clock.Time) {
	for i, other := range j.switches {
		of := j.lockOf(i, l.id)
		if !other.Standby || of == nil {
			continue
		}
		for at := of.holders; at != none; at = j.requests[at].next {
			h := &j.requests[at]
			if may, _ := j.lapses(h); !h.server && h.at < decided && may > p.Time {
				j.tell(l, besideBackup(d.place(l, p), h.grant, cause.Span(p.Time.Sub(h.at))), p.Time, p.ID, h.grant)
				return
			}
		}
	}
}

// overfull judges that the lock had a slot for a request (N9). All that were granted before came before it, so that of
// those that were granted all were there but those that had been released by then, or whose leases may have ended.
func (j *Judge) overfull(d *device, l *state, r *request, p *Packet) {
	slots := d.Locks[l.id]
	c := l.class(r)
	if !d.Placed || d.Moves || slots == 0 || r.crowded || r.first <= max(c.before.order, c.within.order) {
		return
	}
	if had := c.grants - r.dequeues + 1; had > int64(slots) {
		j.tell(l, overflowed(d.place(l, p), had, int64(slots)), p.Time, p.ID, r.id)
	}
}

// justified judges that a request that is sent to be buffered found no slot (N9).
func (j *Judge) justified(d *device, l *state, r *request, p *Packet) {
	if !d.Placed || d.out || d.restarted || d.Moves || r.asks != 1 || l.tainted || r.phase != waiting {
		return
	}
	slots := d.Locks[l.id]
	if slots == 0 {
		j.tell(l, bufferedForeign(d.place(l, p)), p.Time, p.ID)
		return
	}
	if d.Priorities > 1 {
		slots = 1 // how a lock's slots are divided among its queues is the switch's choice
	}
	// What happened within the uncertainty of time stamps may have happened in another order. What left to be buffered
	// since the request came may have waited at its port before.
	sure := r.inserted.Add(-j.facts.Uncertainty)
	c := l.class(r)
	if !r.over && l.parked == 0 && max(c.back, c.parkedAt) < sure && (l.ended < sure || j.facts.Uncertainty == 0) &&
		int(max(r.present, l.copies-1)) < slots {
		j.tell(l, bufferedEarly(d.place(l, p), int64(r.present), int64(slots)), p.Time, p.ID, r.id)
	}
}

// counted judges what a server says that it has received to be buffered: at most what was sent since it was to forget
// what it had (N5), and what was then on its way from another switch.
func (j *Judge) counted(d *device, l *state, c *class, p *Packet) {
	most := max(c.base+c.parkings, c.sent)
	for i := range j.switches {
		if o := j.lockOf(i, l.id); o != nil && o != l {
			of := o.classAt(classOf(d, &p.Header))
			most += of.everSent - of.everArrived
		}
	}
	if c.base > 0 && p.Header.Received > most && !l.doubt {
		j.tell(l, keptBuffer(d.place(l, p), int64(p.Header.Received-c.base), int64(most-c.base)), p.Time, p.ID)
	}
}

// emptied is what a server that has nothing to return has said first.
type emptied struct {
	sent, index uint64
	id          uint64
	at          clock.Time // unknown: it has said nothing
}

// says follows such an answer.
func (e *emptied) says(p *Packet) {
	h := &p.Header
	if h.Received == h.Index && (e.at == unknown || e.sent != h.Sent || e.index != h.Index) {
		*e = emptied{h.Sent, h.Index, p.ID, p.Time}
	}
}

// asksInVain judges that a switch asks no more for what the server does not have (N9): by the formula of section 6.2
// all that was sent before the question has then been returned, or is lost.
func (j *Judge) asksInVain(d *device, l *state, c *class, p *Packet) {
	if e := &c.emptied; e.at != unknown && e.sent == p.Header.Sent && e.index == p.Header.Index && len(j.switches) == 1 &&
		d.decided(j, p) > e.at.Add(d.PipelineMost+j.facts.Uncertainty) {
		j.tell(l, askedInVain(d.place(l, p), e.id), p.Time, p.ID, e.id)
	}
}

// miscounted judges that a server that has nothing to return has returned all that it says to have received (N3).
func (j *Judge) miscounted(d *device, l *state, c *class, p *Packet) {
	if h := &p.Header; h.Received > h.Index && !c.none && !c.restarted {
		j.tell(l, miscountedBy(d.place(l, p), int64(h.Received), int64(h.Index)), p.Time, p.ID)
	}
}
