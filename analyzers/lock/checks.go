package lock

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
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
	case r.asks == 1 && len(j.switches) == 1 && h.Timestamp != r.stamp:
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
		for i := range j.switches {
			if o := j.lockOf(i, l.id); o != nil && r.phase == waiting && r.asks == 1 && o.primary != unknown &&
				o.primary > r.inserted.Add(d.PipelineMost+j.facts.Uncertainty) {
				j.tell(l, bypassed(d.place(l, p), cause.Span(o.primary.Sub(r.inserted))), p.Time, p.ID, r.id)
			}
		}
	} else if d.restarted {
		l.primary = max(l.primary, began)
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

// early judges that the shared requests that waited for an exclusive one are granted a pass each (N7). With priorities
// a pass that is under way may find another request than the one for which it began.
func (j *Judge) early(d *device, l *state, r *request, p *Packet) {
	from := l.exclusive
	if r.mode != netlock.Shared || from == unknown || from <= r.inserted.Add(j.facts.Uncertainty) {
		return
	}
	passes := int64(d.Passes) + l.chained
	if l.runs { // its next pass is this chain's first
		passes = l.chained
	}
	l.chained++
	if d.tookOver(l, r) || l.exclusiveLeased || d.Recirculation == 0 || d.Priorities > 1 {
		return
	}
	took := clock.Duration(passes)*d.Recirculation + d.Pipeline
	if p.Time < from.Add(took-j.facts.Uncertainty) {
		j.tell(l, tooEarly(d.place(l, p), cause.Times(passes), cause.Span(p.Time.Sub(from)), cause.Span(took)), p.Time, p.ID,
			r.id)
	}
}

// running returns until when the chain that began with the last exclusive release may have run: each of its passes but
// the last one was for a grant.
func (l *state) running(d *device) clock.Time {
	return l.exclusive.Add(clock.Duration(int64(d.Passes)+l.chain+1) * d.RecirculationMost)
}

// stirs notes that a pass may begin, or go on.
func (l *state) stirs(d *device, at clock.Time) {
	switch {
	case d.Priorities <= 1:
	case l.stirred != unknown && at <= l.calm(d):
		l.steps += int64(d.Passes)
	default:
		l.stirred, l.steps = at, 0
	}
}

// calm returns when the passes have ended: each but the first ones was for a grant.
func (l *state) calm(d *device) clock.Time {
	return l.stirred.Add(clock.Duration(int64(d.Passes)+l.steps) * d.RecirculationMost)
}

// due returns by when the switch has to have decided to grant a request, if nobody else holds the lock.
func (j *Judge) due(d *device, l *state, r *request) (by clock.Time, passes int64, leased bool) {
	by = r.inserted
	if l.stirred != unknown && l.calm(d) > by {
		by, passes = l.calm(d), int64(d.Passes)
	}
	if d.Priorities > 1 && r.inserted <= l.lapsing { // a pass had begun, and granted others before
		by = max(by, r.inserted.Add(clock.Duration(int64(d.Passes)+l.given-r.given)*d.RecirculationMost))
		passes = int64(d.Passes)
	}
	from, lease, n := l.ended, l.endedLeased, int64(d.Passes)
	if r.mode == netlock.Shared {
		from, lease, n = l.exclusive, l.exclusiveLeased, int64(d.Passes)+l.chain
	}
	if from == unknown {
		return by, passes, false
	}
	if at := from.Add(clock.Duration(n) * d.RecirculationMost); at >= r.inserted-clock.Time(j.facts.Uncertainty) {
		return max(by, at), n, lease
	}
	return by, passes, false
}

// tookOver reports whether a request may have waited until the switch owned the lock, which another switch, or a
// server, had before.
func (d *device) tookOver(l *state, r *request) bool {
	return (d.takeover != clock.Never || d.Moves) && (l.ownedSince == unknown || r.inserted <= l.ownedSince)
}

// outranked reports whether the server has, or had while a request waited, requests of a queue that others wait behind:
// whether those come first the switch cannot know before they are back, and an exclusive request of any priority is
// granted at once only if nobody waits.
func (l *state) outranked(r *request) bool {
	for i := range max(0, len(l.all)-1) {
		if c := &l.all[i]; c.parks[0] != none || max(c.parkedAt, c.back, c.settled) >= r.inserted {
			return true
		}
	}
	return false
}

// late judges N8, and of chains and leases N7 and N12.
func (j *Judge) late(d *device, l *state, r *request, p *Packet) {
	by, passes, leased := j.due(d, l, r)
	before := l.chain
	if r.mode == netlock.Shared && (passes > 0 || j.chains(d, l, r)) {
		l.chain++
	}
	if r.since == unknown || d.tookOver(l, r) || l.outranked(r) || r.mode == netlock.Exclusive && l.held > 0 ||
		r.mode == netlock.Shared && l.xs > 0 {
		return
	}
	j.measures.delays++
	most := by.Add(d.PipelineMost + j.facts.Uncertainty)
	if r.since <= most {
		return
	}
	if most = most.Add(j.unseen(d, r)); r.since <= most {
		return
	}
	if r.mode == netlock.Shared && l.exclusive != unknown { // a chain that found others first, whose grants wait at ports
		chain := l.exclusive.Add(clock.Duration(int64(d.Passes)+before)*d.RecirculationMost + j.unseen(d, r))
		if r.since <= chain.Add(d.PipelineMost+j.facts.Uncertainty) {
			return
		}
	}
	over := cause.Span(r.since.Sub(most))
	switch {
	case leased:
		j.tell(l, heldOn(d.place(l, p), over), p.Time, p.ID, r.id)
	case r.mode == netlock.Shared && passes > int64(d.Passes):
		j.tell(l, lateInBatch(d.place(l, p), cause.Times(passes), over), p.Time, p.ID, r.id)
	default:
		j.tell(l, tooLate(d.place(l, p), cause.Span(p.Time.Sub(r.inserted)), over), p.Time, p.ID, r.id)
	}
}

// chains reports whether the chain after the last exclusive release may have granted a shared request that came after
// the grants that are known: others of it wait at ports.
func (j *Judge) chains(d *device, l *state, r *request) bool {
	if l.exclusive == unknown {
		return false
	}
	ends := l.exclusive.Add(clock.Duration(int64(d.Passes)+l.chain)*d.RecirculationMost + j.facts.Uncertainty)
	return r.inserted <= ends.Add(clock.Duration(l.live)*d.RecirculationMost) && r.inserted <= ends.Add(j.unseen(d, r))
}

// unseen bounds for how long a chain may have granted requests whose grants wait at ports.
func (j *Judge) unseen(d *device, r *request) (passes clock.Duration) {
	if len(j.requests) > mostScanned {
		return clock.Duration(len(j.requests)) * d.RecirculationMost
	}
	for i := range j.requests {
		if o := &j.requests[i]; o != r && o.asks > 0 && o.lock == r.lock && o.phase == waiting &&
			(o.precedes(r) || o.first < r.first) && j.answeredBy(d, o) != j.now {
			passes += d.RecirculationMost
			if exclusive := r.mode == netlock.Exclusive || o.mode == netlock.Exclusive; exclusive && d.Lease > 0 &&
				o.earliest().Add(d.Lease-j.facts.Uncertainty) <= j.now {
				passes += j.now.Sub(o.earliest()) // its lease has ended, too
			}
		}
	}
	return passes
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
	// What happened within the uncertainty of time stamps may have happened in another order.
	sure := r.inserted.Add(-j.facts.Uncertainty)
	if !r.over && l.parked == 0 && l.class(r).back < sure && (l.ended < sure || j.facts.Uncertainty == 0) &&
		int(max(r.present, l.copies-1)) < slots {
		j.tell(l, bufferedEarly(d.place(l, p), int64(r.present), int64(slots)), p.Time, p.ID, r.id)
	}
}

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
	c.asked = decided
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
	if c := l.class(r); c.asked != unknown && r.inserted != unknown && c.asked > r.inserted && c.asked < may {
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
	own := granted{order: r.first, arrived: r.came, at: p.Time, id: r.id}
	if p.Stage == trace.Dropped { // perhaps as it came from a server
		own.at = own.at.Add(d.PipelineMost)
	}
	switch {
	case overtook(&c.before) && c.before.at < may:
		j.overtaken(d, l, r, p, c.before.id)
	case r.mode == netlock.Exclusive:
	case overtook(&c.within) && d.Processing == lock.ChainLock && r.since != unknown &&
		r.since.Add(-d.PipelineMost) > c.within.at.Add(slack-d.Pipeline):
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

// quiescence judges N3 at the end: who waits although nobody holds the lock, and whom later requests have overtaken.
func (j *Judge) quiescence() {
	heads := make(map[int32]int32) // the first of each lock that waits in a switch
	for i := range j.requests {
		r := &j.requests[i]
		if r.asks <= r.answers || r.phase != waiting && r.phase != owned {
			continue
		}
		if first, ok := heads[r.lock]; !ok || r.precedes(&j.requests[first]) {
			heads[r.lock] = int32(i)
		}
	}
	for i := range j.requests {
		r := &j.requests[i]
		if r.asks == 0 || r.answers > 0 || r.parks > 0 || r.phase != waiting {
			continue
		}
		d, l := j.switches[r.sw], j.of(r)
		if d.out || d.number != int(r.sw) {
			continue
		}
		if !j.passedOver(d, l, r) && heads[r.lock] == int32(i) {
			j.stuck(d, l, r)
		}
	}
	for i := range j.locks {
		if l := &j.locks[i]; l.used {
			j.stranded(l)
		}
	}
}

// passedOver judges whether a request was skipped for good.
func (j *Judge) passedOver(d *device, l *state, r *request) bool {
	c := l.class(r)
	if c.before.order <= r.last || !d.exactly(j) {
		return false
	}
	if (d.Period > 0 || d.OneRTT) && j.answeredBy(d, r) <= r.inserted.Add(d.PipelineMost) {
		return false // its rejection, or grant, may wait at the port
	}
	j.leftOut(d, l, r)
	j.tell(l, skipped(place{d.who, l.id, r.id}, c.before.id), j.now, r.id, c.before.id)
	return true
}

// leftOut judges that a shared request that is never granted was none of those that led the queue after an exclusive
// release and of which some were granted (N7).
func (j *Judge) leftOut(d *device, l *state, r *request) {
	if r.mode == netlock.Shared && l.exclusive != unknown && !l.exclusiveLeased && l.chained > 0 && !l.runs &&
		r.inserted.Add(j.facts.Uncertainty) < l.exclusive && d.Priorities <= 1 {
		j.tell(l, leftOfBatch(place{d.who, l.id, r.id}, l.chained), j.now, r.id)
	}
}

// counted judges what a server says that it has received to be buffered: at most what was sent since it was to forget
// what it had (N5).
func (j *Judge) counted(d *device, l *state, c *class, p *Packet) {
	if most := max(c.base+c.parkings, c.sent); c.base > 0 && p.Header.Received > most && !l.doubt {
		j.tell(l, keptBuffer(d.place(l, p), int64(p.Header.Received-c.base), int64(most-c.base)), p.Time, p.ID)
	}
}

// askedAgain judges, before it counts that a client asks again, that its request was not lost (N3).
func (j *Judge) askedAgain(l *state, r *request) {
	d := j.switches[r.sw]
	if r.asks != 1 || r.answers > 0 || r.phase != waiting || d.out {
		return
	}
	if !j.passedOver(d, l, r) && j.unblocked(d, l, r) && j.heads(l, r) {
		j.stuck(d, l, r)
	}
}

// unblocked reports whether nobody holds a lock that a request waits for, and that for so long that it is overdue.
func (j *Judge) unblocked(d *device, l *state, r *request) bool {
	if l.xs > 0 || r.mode == netlock.Exclusive && l.held > 0 || len(j.requests) > mostScanned {
		return false
	}
	by, _, _ := j.due(d, l, r)
	return by.Add(d.PipelineMost+j.facts.Uncertainty) < j.now
}

// mostScanned is up to how many requests are looked through for one that is asked again; of more, the end of the
// observation shows what was lost.
const mostScanned = 1 << 14

// precedes reports whether a request is to be granted before another.
func (r *request) precedes(o *request) bool {
	return r.class < o.class || r.class == o.class && r.first < o.first
}

// heads reports whether no other request of a lock that waits is to be granted before.
func (j *Judge) heads(l *state, r *request) bool {
	for i := range j.requests {
		// Of a copy that was rejected the first may wait.
		if o := &j.requests[i]; o.asks > o.answers && o.lock == r.lock && o != r && o.phase != holding && o.precedes(r) {
			return false
		}
	}
	return true
}

// exactly reports whether the order of arrivals at different ports is certain.
func (d *device) exactly(j *Judge) bool { return j.facts.Uncertainty == 0 }

// stuck judges the first that waits for a lock.
func (j *Judge) stuck(d *device, l *state, r *request) {
	slots, known := d.Locks[l.id], d.Placed
	pending := r.inserted.Add(d.PipelineMost + j.facts.Uncertainty)
	if known && slots == 0 {
		if p := j.allQuietSince(d); pending < p && !d.Moves && pending > d.changed.Add(d.Settled) {
			j.tell(l, notForwarded(place{d.who, l.id, r.id}, cause.Span(j.now.Sub(r.inserted))), j.now, r.id)
		}
		return
	}
	if l.tainted || len(d.ports) == 0 || d.Pauses || d.tookOver(l, r) || l.outranked(r) {
		return
	}
	if r.mode == netlock.Exclusive && l.held > 0 || l.xs > 0 {
		for i := l.holders; i != none; i = j.requests[i].next {
			if h := &j.requests[i]; r.mode == netlock.Exclusive || h.mode == netlock.Exclusive {
				if _, has := j.lapses(h); has == clock.Never || has.Add(d.PipelineMost+
					clock.Duration(d.Passes)*d.RecirculationMost) >= j.now {
					return
				}
			}
		}
		if by := j.answeredBy(d, r); by >= j.now {
			j.tell(l, neverExpired(place{d.who, l.id, r.id}), j.now, r.id)
		}
		return
	}
	by, _, leased := j.due(d, l, r)
	by = by.Add(d.PipelineMost + j.facts.Uncertainty + j.unseen(d, r))
	if by >= j.answeredBy(d, r) {
		return
	}
	if leased || l.endedLeased && r.mode == netlock.Exclusive || l.exclusiveLeased && r.mode == netlock.Shared {
		j.tell(l, neverExpired(place{d.who, l.id, r.id}), j.now, r.id)
		return
	}
	j.leftOut(d, l, r)
	j.tell(l, forgotten(place{d.who, l.id, r.id}, cause.Span(j.now.Sub(by))), j.now, r.id)
}

// answeredBy returns until when what was decided about a request has left: it may go to the server, or its grant to the
// database, whose ports are not known.
func (j *Judge) answeredBy(d *device, r *request) clock.Time {
	at := j.quietSince(d, int(r.port))
	if d.OneRTT || !r.returned {
		at = min(at, j.allQuietSince(d))
	}
	return at
}

// quietSince returns until when what a port had to send has been sent: the end, unless it is busy.
func (j *Judge) quietSince(d *device, at int) clock.Time {
	if at < 0 || at >= len(d.ports) {
		return unknown
	}
	return d.ports[at].QuietSince(j.now)
}

// allQuietSince returns until when what each of the ports had to send has been sent.
func (j *Judge) allQuietSince(d *device) clock.Time {
	at := j.now
	for i := range d.ports {
		at = min(at, j.quietSince(d, i))
	}
	return at
}

// stranded judges that a switch whose queue is empty asks for what the server buffers.
func (j *Judge) stranded(l *state) {
	d := j.switches[l.sw]
	if l.parked == 0 || l.live == 0 || l.held > 0 || l.tainted || l.doubt || d.out || d.restarted || d.Moves {
		return
	}
	for i := range j.requests {
		if r := &j.requests[i]; r.asks > 0 && j.of(r) == l && r.phase != parked {
			return
		}
	}
	l.classes(func(c *class) { j.strandedIn(d, l, c) })
}

// strandedIn judges it of a queue.
func (j *Judge) strandedIn(d *device, l *state, c *class) {
	if c.parks[0] == none {
		return
	}
	first := j.requests[c.parks[0]].id
	if c.settled != unknown && !c.remain && j.requests[c.parks[1]].at <= c.began {
		return // what the server had has come back; the rest was lost on its way, as the switch knows
	}
	from := max(l.ended, c.settled, c.parkedAt)
	if c.pending() { // it has asked, also if requests have come back and gone since
		if d.PushRetry == 0 {
			return
		}
		from = max(from, c.requested.Add(d.PushRetry))
	}
	if from == unknown {
		return
	}
	if by := from.Add(d.PipelineMost + clock.Duration(d.Passes)*d.RecirculationMost + j.facts.Uncertainty); by <
		j.allQuietSince(d) {
		j.tell(l, strandedAt(place{d.who, l.id, first}, cause.Span(j.now.Sub(from))), j.now, first)
	}
}
