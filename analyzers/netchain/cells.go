package netchain

import (
	"slices"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// event is what a lock has to process: a request, or a release.
type event struct {
	request *request // nil: a release, of which are the others
	key     key
	id      uint64
	at      clock.Time
}

// status is what is known of a lock.
type status uint8

const (
	free status = iota
	held
	vague // whether it is held is not known, or by whom
)

// cell is a lock of the switch.
type cell struct {
	events   []event // that wait for the answer of the first of them
	status   status
	owner    transaction
	first    uint32     // the id that it was granted for
	ids      []uint32   // that the owner uses
	since    clock.Time // when the request came that it was granted for: its lease begins
	earliest clock.Time // the lease may have begun then, if the owner asked again when it may have ended, or not
	next     clock.Time // the lease began no earlier than that, unless it began at earliest
	grant    uint64
	grantAt  clock.Time
	more     bool   // the owner may use other ids
	anybody  bool   // of a vague one: not only owner may hold it
	released bool   // its last owner has released it
	release  uint64 // the packet
	alien    uint64 // a release by another transaction than the owner, since its grant and the last rejection
	aliens   bool   // there was one
	// suspect was rejected after the last owner had released the lock. What happens to the next request shows why.
	suspect *request
}

// mostLocks bounds memory.
const mostLocks = 1 << 21

// cell returns the lock of an id; nil: none has the number, or it is not followed.
func (j *Judge) cell(d *device, id uint32) *cell {
	if int64(id) >= d.IDs {
		return nil
	}
	n := int64(id) / d.share
	c := d.cells[n]
	switch {
	case c == nil && len(d.cells) >= mostLocks:
		j.note("who has most locks", "there are too many locks")
	case c == nil:
		c = &cell{}
		d.cells[n] = c
	}
	return c
}

// settle has a lock process what is known.
func (j *Judge) settle(d *device, c *cell) {
	if c == nil {
		return
	}
	n := 0
	for i := range c.events {
		e := &c.events[i]
		if e.request == nil {
			j.freed(c, e)
		} else if e.request.answer == open {
			break
		} else {
			j.decided(d, c, e.request)
		}
		n++
	}
	c.events = slices.Delete(c.events, 0, n)
}

// decided follows what the switch decided about a request.
func (j *Judge) decided(d *device, c *cell, r *request) {
	switch r.answer {
	case granted:
		j.granted(d, c, r)
	case rejected:
		j.rejected(d, c, r)
	case overdue, sent: // it may have the lock, unless another has
		if c.status == free || c.owner == r.key.transaction {
			c.status, c.anybody = vague, true
		}
	case open, withdrawn:
	}
}

// granted judges who is granted a lock.
func (j *Judge) granted(d *device, c *cell, r *request) {
	own := c.owner == r.key.transaction
	if s := c.suspect; s != nil && !own && !c.lapsed(d, r) {
		j.tell(rejectedOnce(d.place(s.key.lock, s.by), s.id, c.release, r.id), s.byAt, s.by, s.id, c.release, r.by)
		c.suspect = nil
	}
	j.forgotten(d, c)
	switch {
	case c.status == held && own && !c.lapsed(d, r):
		if !slices.Contains(c.ids, r.key.lock) {
			c.ids = append(c.ids, r.key.lock)
		}
		return
	case c.status == held && own:
		c.renew(d, r)
		return
	case c.status == held && !c.lapsed(d, r):
		j.overlaps(d, d, c, r)
		switch {
		case !c.aliens:
			d.otherwise = true
		case len(d.suspects) < mostSuspects:
			d.suspects = append(d.suspects, suspect{*r, c.alien, c.grant})
		}
	case c.status == held:
		j.measures.lapsed++
	}
	switch {
	case c.status == vague && own && !c.anybody:
		c.renew(d, r)
	default:
		more := c.status == vague && c.anybody
		c.take(r)
		c.more = more
	}
	for _, other := range j.switches {
		if other == d || other.out || other.share != d.share {
			continue
		}
		c := other.cells[int64(r.key.lock)/d.share]
		if c != nil && c.status == held && len(c.events) == 0 && c.owner != r.key.transaction && !c.lapsed(other, r) {
			j.overlaps(d, other, c, r)
		}
	}
}

// suspect is a request that was granted while another transaction held the lock, after a release by a third one.
type suspect struct {
	request
	release, grant uint64
}

// mostSuspects bounds memory; what is found more often is one fault.
const mostSuspects = 1 << 10

// frees reports that releases freed locks of others, unless the switch granted held locks without such a release, too.
func (j *Judge) frees(d *device) {
	for i := range d.suspects {
		if s := &d.suspects[i]; !d.otherwise {
			j.tell(freedByAnother(d.place(s.key.lock, s.by), s.release, s.grant), s.byAt, s.by, s.release, s.grant)
		}
	}
}

// overlaps reports that a lock was granted while another transaction had it, from the same or another switch.
func (j *Judge) overlaps(d, giver *device, c *cell, r *request) {
	j.tell(overlapping(d.place(r.key.lock, r.by), giver.who, c.first, c.grant, cause.Span(r.byAt.Sub(c.grantAt))), r.byAt,
		r.by, c.grant)
}

// lapsed reports whether the lease of the owner may have ended as a request was decided.
func (c *cell) lapsed(d *device, r *request) bool {
	return d.Lease > 0 && r.at.Add(d.Pipeline) >= c.earliest.Add(d.Lease)
}

// take gives the lock to whom it was granted.
func (c *cell) take(r *request) {
	c.status, c.owner, c.first, c.ids = held, r.key.transaction, r.key.lock, append(c.ids[:0], r.key.lock)
	c.since, c.grant, c.grantAt, c.more, c.anybody, c.aliens = r.at, r.by, r.byAt, false, false, false
	c.earliest, c.next = r.at, r.at
}

// renew gives the lock to its owner. Whether that has other ids, and whether its lease begins anew, depends on when the
// switch looked whether the lease had ended.
func (c *cell) renew(d *device, r *request) {
	longest := d.Lease + d.Poll + d.Pipeline
	ended := func(began clock.Time) bool { return r.at > began.Add(longest) }
	earliest, next := c.earliest, c.next
	switch {
	case ended(c.since):
		earliest, next = r.at, r.at
	case ended(earliest):
		earliest = max(next, r.at.Add(-longest))
	case earliest == c.since:
		next = r.at
	}
	c.take(r)
	c.earliest, c.next, c.more = earliest, next, true
}

// rejected judges whether another had the lock.
func (j *Judge) rejected(d *device, c *cell, r *request) {
	if c.aliens = false; d.recovers(r.at) {
		return
	}
	j.forgotten(d, c)
	p := d.place(r.key.lock, r.by)
	switch {
	case c.status == free && c.released:
		c.status, c.anybody, c.suspect = vague, true, r
	case c.status == free:
		j.tell(rejectedFree(p, r.id), r.byAt, r.by, r.id)
		c.status, c.anybody = vague, true
	case c.status == held && c.owner == r.key.transaction:
		j.tell(rejectedOwner(p, r.id, c.grant), r.byAt, r.by, r.id, c.grant)
	case c.status == held && d.Lease > 0:
		if by := c.since.Add(d.Lease + d.Poll + d.Pipeline); r.at > by {
			j.tell(heldOn(p, r.id, c.grant, cause.Span(r.at.Sub(by))), r.byAt, r.by, r.id, c.grant)
		}
	}
}

// forgotten reports a rejection after which nothing shows that the switch knew of the release.
func (j *Judge) forgotten(d *device, c *cell) {
	if s := c.suspect; s != nil {
		j.tell(rejectedReleased(d.place(s.key.lock, s.by), s.id, c.release), s.byAt, s.by, s.id, c.release)
		c.suspect = nil
	}
}

// freed ends the use of an id.
func (j *Judge) freed(c *cell, e *event) {
	if c.status != held {
		return
	}
	if c.owner != e.key.transaction {
		c.alien, c.aliens = e.id, true
		return
	}
	if i := slices.Index(c.ids, e.key.lock); i >= 0 {
		c.ids = slices.Delete(c.ids, i, i+1)
	}
	switch {
	case len(c.ids) > 0:
	case c.more:
		c.status = vague
	default:
		c.status, c.released, c.release = free, true, e.id
		j.measures.held.Record(e.at.Sub(c.since).Nanoseconds())
	}
}
