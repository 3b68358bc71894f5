package lock

import "candela.dev/candela/packet/netlock"

// forwardsRightly judges a request that leaves for a lock server: it goes to the server that the client asked, as it
// came, and not more often than it came (N2, N10).
func (j *Judge) forwardsRightly(d *device, l *state, r *request, p *Packet) {
	h := &p.Header
	if r.asks == 0 || h.Mark != netlock.Owned && h.Mark != netlock.BufferOnly {
		return
	}
	if r.forwards++; r.forwards > r.asks {
		j.tell(l, forwardedAgain(d.place(l, p), r.id), p.Time, p.ID, r.id)
	}
	if r.target != 0 && j.hosts[p.Dst] != r.target {
		j.tell(l, otherServer(d.place(l, p), r.id), p.Time, p.ID, r.id)
	}
	if r.asks == 1 && (h.Priority != r.priority || h.Tenant != r.tenant) {
		j.tell(l, otherFields(d.place(l, p), r.id), p.Time, p.ID, r.id)
	}
}

// targets notes which server a client asks; once it has asked several, it is not known which one is to get a copy.
func (j *Judge) targets(r *request, p *Packet) {
	switch to := j.host(p.Dst); {
	case r.asks <= 1:
		r.target = to
	case r.target != to:
		r.target = 0
	}
}

// returnsRightly judges a request that a server pushes back: it belongs into the queue of the priority that it has
// (N2).
func (j *Judge) returnsRightly(d *device, l *state, r *request, p *Packet) {
	if r.asks == 1 && r.priority != p.Header.Priority {
		j.tell(l, returnedOtherwise(d.place(l, p), r.id), p.Time, p.ID, r.id)
	}
}

// endsRightly judges a release that leaves for a server: that it is for a lock of the server, as nobody buffers
// releases (N10). What another switch has marked only passes.
func (j *Judge) endsRightly(d *device, p *Packet) {
	if h := &p.Header; (h.Mark == netlock.BufferOnly || h.Mark == netlock.Failover) && !d.transits() {
		j.tell(j.lockOf(d.number, h.Lock), releaseMarked(d.who, h.Lock, p.ID, h.Mark), p.Time, p.ID)
	}
}

// transits reports whether packets that another switch has marked may pass.
func (d *device) transits() bool {
	for i := range d.ports {
		if d.ports[i].trunk && !d.ports[i].peer {
			return true
		}
	}
	return false
}

// asksRightly judges that a grant goes to the database of its lock (section 5.3).
func (j *Judge) asksRightly(d *device, p *Packet) {
	of := j.facts.Databases
	if own := of[p.Header.Lock%uint32(len(of))]; own != p.Dst {
		j.tell(nil, otherDatabase(d, p, own), p.Time, p.ID)
	}
}
