package lock

import (
	"cmp"
	"net/netip"
	"slices"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// serving is what is known of the server that grants a lock. It decides out of sight, but not before all that its
// decision depends on, and, if it is known how long a server takes, not long after.
type serving struct {
	by      netip.Addr // who granted last
	decided clock.Time // when that was decided, at the earliest
	// free is when the last hold has ended, at the earliest, and freeX when the last exclusive one has.
	free, freeX clock.Time
	// ended and endedX are when at the latest, as due of requests.
	ended, endedX clock.Time
	leaving       [2]int32   // releases of each mode that have come and not left for the server
	passing       [2]int32   // its grants of each mode that have come and not left
	held          clock.Time // until when it may be held by whom it is not known to have it
	run           int64      // shared grants since the last exclusive hold
}

func newServing() serving {
	return serving{decided: unknown, free: unknown, freeX: unknown, ended: unknown, endedX: unknown}
}

// frees follows the end of a hold at a time, or before, by its lease.
func (v *serving) frees(mode netlock.Mode, at, lapses clock.Time) {
	at = min(at, lapses)
	v.free = max(v.free, at)
	if mode == netlock.Exclusive {
		v.freeX = max(v.freeX, at)
	}
}

// ends notes when the server knows of the end of a hold, at the latest.
func (v *serving) ends(mode netlock.Mode, due clock.Time) {
	v.ended = max(v.ended, due)
	if mode == netlock.Exclusive {
		v.endedX, v.run = max(v.endedX, due), 0
	}
}

// decides notes, as a grant of a server comes, when that was decided at the earliest: a correct one grants in the order
// of its decisions, and to nobody before those that it excludes have ended. It got the lock since a time, or always had
// it.
func (v *serving) decides(r *request, by netip.Addr, since clock.Time) {
	if v.by != by {
		v.by, v.decided = by, unknown
	}
	at := v.freeX
	if r.mode == netlock.Exclusive {
		at = v.free
	}
	v.decided = max(v.decided, at, r.earliest(), since)
	if !r.onWay { // of two the first may wait at its port
		r.decided, r.onWay = v.decided, true
	}
}

// desk is the server at a port: when it has processed all that has left for it, at the latest and without the way, and
// how long the packets have taken on the wire that have come by the port. What a packet causes has come by the first at
// that time, less the second then, plus the second now, plus the way: answers leave in order.
type desk struct {
	processed clock.Time
	answers   clock.Duration
}

// comesBy counts a packet that comes by a port.
func (j *Judge) comesBy(d *device, p *Packet) {
	if j.facts.ServersTimed && p.Port >= 0 && p.Port < len(d.ports) {
		of := &d.ports[p.Port]
		of.desk.answers += max(j.facts.ServerGap, of.takes(p.Size))
	}
}

// leavesFor counts a packet that leaves for a server.
func (j *Judge) leavesFor(d *device, p *Packet) {
	if _, server := j.servers[p.Dst]; !server || !j.facts.ServersTimed || p.DstPort != netlock.Port || p.Port < 0 ||
		p.Port >= len(d.ports) {
		return
	}
	of := &d.ports[p.Port]
	of.desk.processed = max(of.desk.processed, p.Time.Add(of.takes(p.Size))).Add(j.facts.ServerTakes)
}

// due returns by when the server at a port has processed all that has left for it, less what has come by the port;
// unknown: there is no telling.
func (j *Judge) dueBy(d *device, port int) clock.Time {
	if !j.facts.ServersTimed || port < 0 || port >= len(d.ports) || d.ports[port].trunk || d.ports[port].rate <= 0 ||
		d.Pauses {
		return unknown
	}
	return d.ports[port].desk.processed.Add(-d.ports[port].desk.answers)
}

// dueOf returns the same of what a server does at an instant of its own.
func (d *device) dueOf(at clock.Time, port int32) clock.Time {
	if at != clock.Never && port >= 0 && int(port) < len(d.ports) {
		at = at.Add(-d.ports[port].desk.answers)
	}
	return at
}

// allowed returns by when the server has granted a request, whose lock nobody else has had since; unknown: there is no
// telling.
func (j *Judge) allowed(d *device, l *state, r *request) clock.Time {
	v := &l.serving
	moved := d.Moves && (!l.home.known || l.home.away() || l.home.left != unknown)
	switch {
	case !j.facts.ServersTimed || !j.facts.Lossless || len(j.switches) > 1 || j.replaced || j.failed || moved:
		return unknown
	case r.asks != 1 || r.due == unknown || r.arrived < j.facts.NotBefore:
		return unknown
	case l.xs > 0 || v.leaving[netlock.Exclusive]+v.passing[netlock.Exclusive] > 0:
		return unknown
	case r.mode == netlock.Exclusive && (l.held > 0 || v.leaving[netlock.Shared]+v.passing[netlock.Shared] > 0):
		return unknown
	}
	at := v.endedX
	if r.mode == netlock.Exclusive {
		at = v.ended
	}
	return max(at, r.due).Add(d.ports[r.out].desk.answers + j.facts.ServerWay + j.facts.Uncertainty)
}

// servesLate judges a grant of a server as it comes: nobody waits for a lock that nobody has (N3), and the shared
// requests that lead the queue are granted together (N7).
func (j *Judge) servesLate(d *device, l *state, r *request, p *Packet) {
	v := &l.serving
	defer func() { v.passing[p.Header.Mode&1]++ }()
	if r == nil || r.phase != owned || r.answers > 0 || r.onWay || p.Port != int(r.out) {
		return
	}
	if by := j.allowed(d, l, r); by != unknown && p.Time > by {
		c := idleAtServer(d.place(l, p), r.id, cause.Span(p.Time.Sub(by)))
		if r.mode == netlock.Shared && v.run > 0 {
			c = oneByOne(d.place(l, p), r.id, cause.Span(p.Time.Sub(by)))
		}
		j.tell(l, c, p.Time, p.ID, r.id)
	}
	if r.mode == netlock.Shared {
		v.run++
	}
}

// neglected judges, at the end, that a server has granted the first that waits there for a lock that nobody has, unless
// a frame that has not come yet keeps the answer waiting.
func (j *Judge) neglected(d *device, l *state, r *request) {
	by := j.allowed(d, l, r)
	if by == unknown || r.onWay {
		return
	}
	const mostFrame = 1 << 16
	if by = by.Add(d.ports[r.out].takes(mostFrame)); by < j.now {
		j.tell(l, neglectedByServer(place{d.who, l.id, r.id}, cause.Span(j.now.Sub(by))), j.now, r.id)
	}
}

// servesTwice judges a grant of a server of a request that it has granted: of copies that come while the request is
// queued, or holds the lock, it takes one (N2).
func (j *Judge) servesTwice(d *device, l *state, r *request, p *Packet) {
	if !j.facts.ServersDedup || len(j.switches) > 1 || j.replaced || r.answers == 0 || r.early {
		return
	}
	if p.Time < r.lapses && (r.linked && r.server || !r.linked && r.sealed) {
		j.tell(l, grantedAgain(d.place(l, p), r.grant), p.Time, p.ID, r.grant, r.id)
	}
}

// mayHoldAgain follows a grant of a server of a request that it has granted before: it may have taken a copy for a new
// request, which holds the lock until its lease ends, whatever is released.
func (j *Judge) mayHoldAgain(d *device, l *state, r *request, p *Packet) {
	until := clock.Never
	if lease, poll := j.lease(r.sw, true); lease > 0 {
		until = p.Time.Add(lease + poll)
	}
	l.serving.held = max(l.serving.held, until)
	l.serving.ends(r.mode, d.dueOf(until, r.out))
}

// seals notes, as a server's grant is released, whether all copies of the request have left for the server: then none
// is granted any more, unless the lease ended before.
func (j *Judge) seals(r *request) {
	r.sealed = r.server && !r.unclear && r.handed == r.asks-r.answers && r.parks == 0
}

// departure is the release of what a server granted that has come and has to leave for the server.
type departure struct {
	key    key
	mode   netlock.Mode
	id     uint64
	at     clock.Time
	lapses clock.Time // the lease has ended by then; clock.Never: it does not
	out    int32      // the port of the request
	ended  bool       // its lease may have ended before
	copies int        // which have come and not left
	last   uint64     // of them
}

// departs follows such a release as it comes.
func (j *Judge) departs(d *device, l *state, r *request, p *Packet) {
	k := r.key
	k.sw = uint8(d.number)
	of, ok := j.departing[k]
	if d.out || d.Pauses || len(j.departing) == mostRequests || ok && of.last == p.ID {
		return
	}
	if of.copies++; !ok {
		_, has := j.lapses(r)
		of = departure{r.key, r.mode, p.ID, p.Time, has, r.out, r.expired, 1, p.ID}
		l.serving.leaving[r.mode]++
	}
	of.last = p.ID
	j.departing[k] = of
}

// departed follows a release that leaves a switch, or that it drops and shows.
func (j *Judge) departed(d *device, p *Packet) {
	k := j.keyOf(d, &p.Header, p.Src)
	of, ok := j.departing[k]
	if !ok {
		return
	}
	if of.copies--; of.copies > 0 {
		j.departing[k] = of
		return
	}
	delete(j.departing, k)
	l := j.lockOf(int(of.key.sw), of.key.lock)
	if l == nil {
		return
	}
	l.serving.leaving[of.mode] = max(0, l.serving.leaving[of.mode]-1) // if it was forgotten meanwhile
	due := j.dueBy(d, p.Port)
	if p.Stage != trace.Left {
		due = d.dueOf(of.lapses, of.out)
	}
	l.serving.ends(of.mode, due)
}

// swallowed judges, at the end, that releases of what servers granted have left for the server (N3).
func (j *Judge) swallowed() {
	for _, k := range j.undeparted() {
		of, d := j.departing[k], j.switches[k.sw]
		if of.ended || d.out || len(d.ports) == 0 {
			continue
		}
		if since := j.allQuietSince(d); since > of.at.Add(d.PipelineMost+j.facts.Uncertainty) {
			j.tell(j.lockOf(int(of.key.sw), k.lock), keptRelease(place{d.who, k.lock, of.id}, cause.Span(j.now.Sub(of.at))),
				j.now, of.id)
		}
	}
}

// undeparted lists those that have not left, in the order in which they came.
func (j *Judge) undeparted() (list []key) {
	for k := range j.departing {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b key) int { return cmp.Compare(j.departing[a].id, j.departing[b].id) })
	return list
}
