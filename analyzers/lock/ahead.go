package lock

// What a switch has sent to a server to be buffered comes before what comes later, until the switch knows that it is
// back or lost. It can know neither before a server tells it, and that is seen. So whoever comes meanwhile goes to the
// server, too, whatever is lost on its way, and whoever gives up (N5).

// sentAhead follows a request that leaves to be buffered.
func (c *class) sentAhead(p *Packet) {
	if c.aheadAt == unknown {
		c.ahead, c.aheadAt = p.ID, p.Time
	}
}

// comesBehind notes what is ahead of a request that comes. Of its copies any may be the one that is granted.
func (j *Judge) comesBehind(l *state, r *request, p *Packet) {
	c := l.class(r)
	switch {
	case c.aheadAt == unknown || p.Time <= c.aheadAt.Add(j.facts.Uncertainty):
		r.epoch = 0
	case r.loose == 0 || r.epoch == c.epoch:
		r.behind, r.epoch = c.ahead, c.epoch
	}
	r.loose++
}

// comesBack notes that a request may be queued whatever is ahead: the server has returned it, or it holds the lock.
func (r *request) comesBack() {
	r.epoch = 0
	r.loose++
}

// leavesOne notes that a copy of a request has left.
func (r *request) leavesOne() {
	if r.loose = max(r.loose, 1) - 1; r.loose == 0 {
		r.epoch = 0
	}
}

// tells follows a packet from which the switch may know what became of all that was sent to be buffered.
func (j *Judge) tells(l *state, c *class, p *Packet) {
	c.aheadAt = unknown
	if j.facts.Uncertainty == 0 {
		return
	}
	for k := range min(int(l.turn), len(l.recent)) { // they may have come later
		if i := l.recent[k]; int(i) < len(j.requests) {
			if r := &j.requests[i]; r.arrived >= p.Time.Add(-j.facts.Uncertainty) {
				r.epoch = 0
			}
		}
	}
}

// moves follows a lock that moves, or is lost: what was sent before does not count any more, also if it leaves later.
func (j *Judge) moves(l *state) {
	l.classes(func(c *class) {
		c.aheadAt = unknown
		c.epoch++
	})
}

// passed judges at a grant of the switch that the request went to the server, as what was ahead of it had (N5).
func (j *Judge) passed(d *device, l *state, r *request, p *Packet) {
	if r.epoch == l.class(r).epoch && !r.crowded {
		j.tell(l, passedBuffer(d.place(l, p), r.id, r.behind), p.Time, p.ID, r.id, r.behind)
	}
	r.leavesOne()
}
