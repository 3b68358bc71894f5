package lock

// stay is a request at a server that buffers it: of copies that come before the switch asks for more, the server keeps
// one.
type stay struct {
	questions uint32 // of its queue as the first copy left
	copies    uint16 // that left
	surplus   uint16 // of these, which the server has certainly dropped
	returns   uint16
}

// buffers follows a request that leaves to be buffered.
func (r *request) buffers(c *class) {
	v := &r.stay
	switch {
	case r.parks == 0:
		*v = stay{questions: c.questions, copies: 1}
	case v.questions == c.questions:
		v.copies++
		v.surplus++
	default:
		v.copies++
	}
}

// returnsCopies judges that a server returns none of the copies of a request that came while it had the request (N2).
func (j *Judge) returnsCopies(d *device, l *state, r *request, p *Packet) {
	v := &r.stay
	if v.returns++; v.returns > v.copies-v.surplus && v.copies > 0 && j.facts.ServersDedup && len(j.switches) == 1 &&
		!j.replaced && !d.Moves {
		j.tell(l, returnedAgain(d.place(l, p), r.id), p.Time, p.ID, r.id)
	}
}

// homeless judges that a request is not sent to be buffered after the server has said that it owns the lock (N9).
func (j *Judge) homeless(d *device, l *state, r *request, p *Packet) {
	h := &l.home
	if !j.follows(d) || !h.known || h.away() || h.left == unknown || r.asks != 1 || p.Header.Sent != 0 {
		return
	}
	gone := true
	l.classes(func(c *class) {
		of := &c.handed
		gone = gone && of.at != unknown && of.number == c.sent && r.arrived > of.at.Add(d.PipelineMost+j.facts.Uncertainty)
	})
	if gone {
		j.tell(l, bufferedForeign(d.place(l, p)), p.Time, p.ID, r.id)
	}
}

// asksForAll judges that a switch whose queue is empty asks for as many requests as it has slots for (N9; section 6.2).
func (j *Judge) asksForAll(d *device, l *state, p *Packet) {
	slots := d.Locks[l.id]
	if d.Placed && !d.Moves && d.Priorities <= 1 && slots > 0 && int64(p.Header.Avail) != int64(slots) &&
		p.Time > d.changed.Add(d.Settled) {
		j.tell(l, askedForOthers(d.place(l, p), int64(p.Header.Avail), int64(slots)), p.Time, p.ID)
	}
}
