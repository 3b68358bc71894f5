package netchain

import (
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
