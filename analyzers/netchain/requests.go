package netchain

import (
	"slices"

	"candela.dev/candela/analyzers/cause"
	locks "candela.dev/candela/analyzers/lock"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// transaction is who asks for locks.
type transaction struct {
	client, number uint32
	thread         uint8
}

// key names a request.
type key struct {
	transaction
	lock uint32
}

// answer is what has become of a request.
type answer uint8

const (
	open      answer = iota
	overdue          // it should have an answer, and has none
	granted          // by the switch
	rejected         // by the switch
	sent             // to a server
	withdrawn        // the switch dropped it, and may
)

// request is one packet that asks for a lock.
type request struct {
	key       key
	cell      *cell // nil: its lock is not followed
	answer    answer
	mode      netlock.Mode
	timestamp uint64
	port      int
	at        clock.Time
	id        uint64
	by        uint64 // the packet that answers it
	byAt      clock.Time
	next      *request // a later copy
}

// asks follows an ACQUIRE that enters.
func (j *Judge) asks(d *device, p *locks.Packet) {
	j.measures.requests++
	h := &p.Header
	r := &request{key: j.keyOf(h, p.Src), mode: h.Mode, timestamp: h.Timestamp, port: p.Port, at: p.Time, id: p.ID}
	at := d.asked[r.key]
	if at == nil {
		d.asked[r.key] = r
	} else {
		for at.next != nil {
			at = at.next
		}
		at.next = r
	}
	d.open = append(d.open, r)
	if r.cell = j.cell(d, h.Lock); r.cell != nil {
		r.cell.events = append(r.cell.events, event{request: r})
	}
}

// releases follows a RELEASE that enters.
func (j *Judge) releases(d *device, p *locks.Packet) {
	j.measures.released++
	if c := j.cell(d, p.Header.Lock); c != nil {
		c.events = append(c.events, event{key: j.keyOf(&p.Header, p.Src), id: p.ID, at: p.Time})
		j.settle(d, c)
	}
}

// match returns the copy of a request that an answer is for, which left a port that had been busy since then: the first
// that it is in time for, or else the first. nil: there is none.
func (d *device) match(k key, h *netlock.Header, since clock.Time) (first *request) {
	for r := d.asked[k]; r != nil; r = r.next {
		if r.timestamp != h.Timestamp || r.mode != h.Mode {
			continue
		}
		if since == unknown || since <= r.at.Add(d.Pipeline) {
			return r
		}
		if first == nil {
			first = r
		}
	}
	return first
}

// refused returns the copy of a request whose answer found no room at its port, at an instant: the last, as the answers
// of those before wait there. nil: there is none, or the answer had waited, too.
func (d *device) refused(k key, h *netlock.Header, at clock.Time) (last *request) {
	for r := d.asked[k]; r != nil; r = r.next {
		if r.timestamp == h.Timestamp && r.mode == h.Mode && r.at.Add(d.Pipeline) >= at {
			last = r
		}
	}
	return last
}

// unlink forgets that a request has no answer.
func (d *device) unlink(r *request) {
	at := d.asked[r.key]
	switch {
	case at == r && r.next == nil:
		delete(d.asked, r.key)
	case at == r:
		d.asked[r.key] = r.next
	default:
		for at != nil && at.next != r {
			at = at.next
		}
		if at != nil {
			at.next = r.next
		}
	}
	r.next = nil
}

// answers follows a grant or a rejection that leaves.
func (j *Judge) answers(d *device, p *locks.Packet, since clock.Time) {
	h := &p.Header
	what := granted
	switch h.Op {
	case netlock.Acquire, netlock.PushBack:
		j.measures.granted++
	case netlock.Reject:
		j.measures.rejected++
		what = rejected
	default: // what servers send
		return
	}
	k := j.keyOf(h, p.Dst)
	var r *request
	if p.Stage == trace.Dropped && !p.Outage { // outages drop what waits
		r = d.refused(k, h, p.Time)
	}
	if r == nil {
		r = d.match(k, h, since)
	}
	if r == nil {
		j.tell(unasked(d.place(h.Lock, p.ID), h.Op.String()), p.Time, p.ID)
		return
	}
	if due := r.at.Add(d.Pipeline); since > due {
		j.tell(tooLate(d.place(h.Lock, p.ID), r.id, cause.Span(since.Sub(due))), p.Time, p.ID, r.id)
	}
	if int64(h.Lock) >= d.IDs && what == granted {
		j.tell(beyond(d.place(h.Lock, p.ID), d.IDs), p.Time, p.ID, r.id)
	}
	if what == granted && d.returned != unknown && r.at.Add(d.Pipeline) < d.returned.Add(d.Lease) {
		j.tell(tooSoon(d.place(h.Lock, p.ID), cause.Span(r.at.Sub(d.returned)), cause.Span(d.Lease)), p.Time, p.ID, r.id)
	}
	r.by, r.byAt = p.ID, p.Time
	j.measures.latency.Record(p.Time.Sub(r.at).Nanoseconds())
	j.close(d, r, what)
}

// close says what has become of a request.
func (j *Judge) close(d *device, r *request, what answer) {
	d.unlink(r)
	r.answer = what
	j.settle(d, r.cell)
}

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
	since    clock.Time // when the request came that it was granted for
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
	case c.status == held && own: // whether it has ended its other uses depends on when the switch looked
		c.take(r)
		c.more = true
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
	more := c.status == vague && (c.anybody || own)
	c.take(r)
	c.more = more
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
	return d.Lease > 0 && r.at.Add(d.Pipeline) >= c.since.Add(d.Lease)
}

// take gives the lock to whom it was granted.
func (c *cell) take(r *request) {
	c.status, c.owner, c.first, c.ids = held, r.key.transaction, r.key.lock, append(c.ids[:0], r.key.lock)
	c.since, c.grant, c.grantAt, c.more, c.anybody, c.aliens = r.at, r.by, r.byAt, false, false, false
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
