package deflect

import (
	"slices"

	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// vertigo repeats what a switch does that moves what waits, record by record.
type vertigo struct {
	a      *arrival   // the latest that has come
	egress int        // its destination port; -1: not known yet
	pulled []*arrival // for it
	judged bool       // what was pulled out
	moving *arrival   // is being deflected, to port picked
	picked int
	latest map[uint64]uint8 // kind of the latest record about a packet's fate
}

// comes notes a packet.
func (d *device) comes(a *arrival) {
	d.update(a.at)
	d.judge.coverage.decisions++
	d.finishPulling()
	d.a, d.egress, d.pulled, d.judged, d.moving = a, -1, nil, false, nil
	if d.latest == nil {
		d.latest = make(map[uint64]uint8)
	}
}

// says repeats a record.
func (d *device) says(a *arrival, r *trace.Decision) {
	at := place{d.who, r.Port, a.id}
	if r.Port < 0 || r.Port >= len(d.ports) || d.a == nil {
		d.tellRecord(r, misordered(at))
		return
	}
	if a.made && a.line < 0 && r.Kind != deflect.Extracted && r.Kind != deflect.Displaced &&
		!slices.Contains(d.pulled, a) {
		d.saysMade(a, r)
		return
	}
	if r.Kind != deflect.Route && r.Kind != deflect.Pick && r.Kind != deflect.Tested {
		d.latest[a.id] = r.Kind
		if got := r.Values[deflect.FatePriority]; got != int64(a.priority) {
			d.tell(a, claimed(at, "priority value", got, int64(a.priority)))
		}
	}
	switch r.Kind {
	case deflect.Route:
		if to := d.candidates(a); a == d.a && to != nil && !d.broken(a.at) && slices.Contains(to, r.Port) {
			d.judgeRoute(a, r, to, r.Port)
		}
		d.egress = r.Port
		a.records = append(a.records, *r)
	case deflect.Extracted:
		d.pull(a, r)
	case deflect.Queued:
		if a != d.a || a.line >= 0 {
			d.tell(a, misordered(at))
			return
		}
		d.bound(a, int(r.Values[deflect.FateEgress]))
		if r.Port != a.egress {
			d.tell(a, claimed(at, "destination port", int64(a.egress), int64(r.Port)))
		}
		d.judgePulled(true)
		d.occupied(a, r)
		d.insert(a, r.Port)
	case deflect.Pick:
		d.picks(a, r)
	case deflect.Deflected:
		d.occupied(a, r)
		if a != d.moving || a.line >= 0 || r.Port != d.picked {
			d.tell(a, misordered(at))
			return
		}
		d.insert(a, r.Port)
		d.moving = nil
	case deflect.Displaced:
		d.displaces(a, r)
	case deflect.NoPort:
		if a == d.a && a.line < 0 {
			d.bound(a, int(r.Values[deflect.FateEgress]))
			d.judgePulled(false)
		}
		if list := d.eligible(d.a.at, a.in, a.egress); len(list) > 0 && !d.broken(d.a.at) {
			d.tell(a, dropped(at, list[0]))
		}
		d.moving = nil
	case deflect.Tail:
		if a == d.a && d.egress < 0 {
			d.bound(a, int(r.Values[deflect.FateEgress]))
		}
		if q := d.ports[r.Port]; q.bytes+a.size < int64(d.set.Queue) && !d.broken(d.a.at) {
			d.tell(a, hadRoom(at, q.bytes))
		}
		if a == d.a && d.full(a, r.Port) {
			d.tell(a, wrongVerdict(at, false, d.sees(a, r.Port).bytes, 0, 0))
		}
		d.judged = true
	default:
		d.tell(a, misordered(at))
	}
}

// bound notes the destination port of a packet that has come.
func (d *device) bound(a *arrival, egress int) {
	at := place{d.who, egress, a.id}
	if egress < 0 || egress >= len(d.ports) {
		d.tell(a, misordered(at))
		return
	}
	if d.egress >= 0 && d.egress != egress {
		d.tell(a, claimed(at, "destination port", int64(egress), int64(d.egress)))
	}
	a.egress, d.egress = egress, egress
	to := d.candidates(a)
	if to == nil || d.broken(a.at) {
		return
	}
	if !slices.Contains(to, egress) {
		d.tell(a, offRoute(at, egress))
	} else if len(a.records) == 0 { // no record of the route
		d.judgeRoute(a, nil, to, egress)
	}
}

// occupied judges the occupancy of a record.
func (d *device) occupied(a *arrival, r *trace.Decision) {
	held := d.ports[r.Port].bytes
	if a.line == r.Port { // without the packet itself
		held -= a.size
	}
	d.expect(a, place{d.who, r.Port, a.id}, "occupancy", r.Occupancy, held)
}

// pull takes a victim out of its queue.
func (d *device) pull(a *arrival, r *trace.Decision) {
	held := d.ports[r.Port].bytes - a.size
	less := held
	for _, v := range d.pulled {
		less -= v.size
	}
	if r.Occupancy != held { // all at once, or one after the other
		d.expect(a, place{d.who, r.Port, a.id}, "occupancy", r.Occupancy, less)
	}
	if a.line != r.Port || d.egress >= 0 && d.egress != r.Port || d.judged || a == d.a {
		d.tell(a, misordered(place{d.who, r.Port, a.id}))
		return
	}
	if d.egress < 0 {
		d.egress = r.Port
	}
	d.judge.coverage.victims++
	d.pulled = append(d.pulled, a)
	a.egress = r.Port // it is deflected from there
}

// victims returns what is to be pulled out of a queue, as it was when the packet came, if occ bytes wait there; not ok:
// not enough is less important.
func (d *device) victims(a *arrival, egress int, occ int64) (list []*arrival, ok bool) {
	free := int64(d.set.Queue) - occ
	q := d.ports[egress].waiting
	for i := len(q) - 1; i >= 0 && q[i].priority > a.priority; i-- {
		list = append(list, q[i])
		if free += q[i].size; free >= a.size {
			return list, true
		}
	}
	return nil, false
}

// judgePulled judges, before a packet is queued at its destination port or deflected, what was pulled out for it.
func (d *device) judgePulled(queued bool) {
	a := d.a
	if d.judged || a.egress < 0 {
		return
	}
	d.judged = true
	at := place{d.who, a.egress, a.id}
	s := d.sees(a, a.egress)
	switch full := d.full(a, a.egress); {
	case d.broken(a.at):
	case !full && (!queued || len(d.pulled) > 0):
		d.tell(a, needless(at, s.bytes))
	case !full:
	default:
		fits := false
		for _, occ := range []int64{d.ports[a.egress].bytes, s.bytes} { // which of them counts is not said if they differ
			want, ok := d.victims(a, a.egress, occ)
			fits = fits || ok == queued && (!ok || same(want, d.pulled))
		}
		if want, ok := d.victims(a, a.egress, d.ports[a.egress].bytes); !fits && queued && !ok && len(d.pulled) == 0 {
			d.tell(a, wrongVerdict(at, false, s.bytes, 0, 0))
		} else if !fits {
			d.tell(a, wrongVictims(at, len(d.pulled), len(want)))
		}
	}
	for _, v := range d.pulled {
		d.take(v)
	}
}

// finishPulling takes victims out for whom nothing was queued.
func (d *device) finishPulling() {
	if d.judged {
		return
	}
	for _, v := range d.pulled {
		d.take(v)
	}
}

func same(a, b []*arrival) bool {
	if len(a) != len(b) {
		return false
	}
	for _, v := range a {
		if !slices.Contains(b, v) {
			return false
		}
	}
	return true
}

// insert puts a packet into a queue by its priority value, behind equal ones.
func (d *device) insert(a *arrival, i int) {
	q := d.ports[i]
	at := len(q.waiting)
	for at > 0 && q.waiting[at-1].priority > a.priority {
		at--
	}
	q.waiting = slices.Insert(q.waiting, at, a)
	q.bytes += a.size
	q.sum += a.priority
	a.line = i
	if q.bytes > int64(d.set.Queue) {
		d.tell(a, overfull(place{d.who, i, a.id}, q.bytes-a.size, d.set.Queue))
	}
}

// take takes a packet out of its queue, and returns where it stood.
func (d *device) take(a *arrival) int {
	if a.line < 0 {
		return -1
	}
	q := d.ports[a.line]
	i := slices.Index(q.waiting, a)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.bytes -= a.size
		q.sum -= a.priority
	}
	a.line = -1
	return i
}

// picks judges the port that a victim is deflected to.
func (d *device) picks(a *arrival, r *trace.Decision) {
	at := place{d.who, r.Port, a.id}
	if a == d.a {
		d.bound(a, int(r.Values[deflect.PickEgress]))
		d.judgePulled(false)
	} else if !slices.Contains(d.pulled, a) || !d.judged {
		d.tell(a, misordered(at))
		return
	}
	d.moving, d.picked = a, r.Port
	list := d.eligible(d.a.at, a.in, a.egress)
	d.expect(a, at, "destination port", r.Values[deflect.PickEgress], int64(a.egress))
	d.expect(a, at, "eligible ports", r.Values[deflect.PickEligible], int64(len(list)))
	if d.broken(d.a.at) {
		return
	}
	if len(list) == 0 {
		if r.Cause != deflect.PickNone {
			d.tell(a, ineligible(at))
		}
		return
	}
	first, second := int(r.Values[deflect.PickFirst]), int(r.Values[deflect.PickSecond])
	for _, port := range []int{first, second} {
		if !slices.Contains(list, port) && (port == first || len(list) > 1) {
			d.tell(a, badCandidate(place{d.who, port, a.id}))
			return
		}
	}
	if first == second {
		d.tell(a, badCandidate(place{d.who, second, a.id}))
		return
	}
	if len(list) == 1 {
		if r.Port != first {
			d.tell(a, notCandidate(at))
		}
		return
	}
	for _, port := range list {
		d.draw(a, bet{of: ofCandidate, port: port}, 2/float64(len(list)), port == first || port == second)
	}
	d.pair(a, list, first, second)
	// What the ingress sees is that of the pipe by which the packet has come that is decided about.
	x, y := d.sees(d.a, first).bytes, d.sees(d.a, second).bytes
	switch {
	case r.Port != first && r.Port != second:
		d.tell(a, notCandidate(at))
		return
	case x < y && r.Port == second:
		d.tell(a, notShortest(at, y, x))
	case y < x && r.Port == first:
		d.tell(a, notShortest(at, x, y))
	case x == y && !d.set.TieFirst:
		d.draw(a, bet{of: ofTie, port: min(first, second)}, 0.5, r.Port == min(first, second))
	case x == y && r.Port != first:
		d.tell(a, notFirst(at, first))
	}
	d.expectSeen(a, at, r.Values[deflect.PickSeen], d.sees(d.a, r.Port).bytes)
}

// displaces judges what is dropped at a queue that a victim joins.
func (d *device) displaces(a *arrival, r *trace.Decision) {
	at := place{d.who, r.Port, a.id}
	v := d.moving
	if v == nil || r.Port != d.picked || a != v && a.line != r.Port {
		d.tell(a, misordered(at))
		return
	}
	d.occupied(a, r)
	q := d.ports[r.Port]
	if q.bytes+v.size <= int64(d.set.Queue) {
		d.tell(a, hadRoom(at, q.bytes))
	}
	largest := v
	if n := len(q.waiting); n > 0 && q.waiting[n-1].priority > v.priority {
		largest = q.waiting[n-1]
	}
	if largest.priority > a.priority {
		d.tell(a, wrongDisplaced(at, a.priority, largest.priority), largest.id)
	}
	if a == v {
		d.moving = nil
		return
	}
	d.take(a)
}

// goes judges that a packet leaves or is dropped.
func (d *device) goes(t *trace.SwitchTap, a *arrival, arriving bool) {
	d.update(t.Time)
	a.port = t.Port
	last, said := d.latest[a.id]
	delete(d.latest, a.id)
	if t.Stage == trace.Left {
		switch {
		case !said && !d.recorded:
			d.giveUp(t.Time, "Vertigo keeps no records: the taps do not show where packets wait")
			return
		case a.line != t.Port:
			d.tell(a, otherFate(place{d.who, t.Port, a.id}, last, left, t.Port))
			d.take(a)
			return
		}
		q := d.ports[t.Port]
		first := q.waiting[0]
		if first != a {
			d.tell(a, overtakes(d.placeOf(a), t.Time, first.id), first.id)
		}
		d.take(a)
		q.written = seen{bytes: q.bytes, bit: q.bytes >= int64(d.set.Congested)}
		return
	}
	r := d.reason(t)
	switch {
	case r.Outage:
	case r.Unseen || r.Name == "ttl" || r.Name == "no-route":
	case r.Name == deflect.ReasonEvicted && last == deflect.Displaced && said,
		r.Name == deflect.ReasonNoPort && last == deflect.NoPort && said,
		(r.Name == "tail" || r.Name == "headroom") && last == deflect.Tail && said:
	case !d.recorded:
		d.giveUp(t.Time, "Vertigo keeps no records: the taps do not show where packets wait")
		return
	case a.line >= 0:
		d.tell(a, thrown(d.placeOf(a), r.Name))
	default:
		d.tell(a, otherFate(place{d.who, t.Port, a.id}, last, refused, t.Port))
	}
	d.take(a)
}
