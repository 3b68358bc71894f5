// Package lock is a lock manager in a switch: the data plane that queues requests in slots of registers and grants
// them, the control plane, which divides its slots and ends leases, and lock servers, which own the other locks and
// buffer what has no slot (reference model netlock.md). They are state machines without I/O: packets and instants go
// in, packets come out.
package lock

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// Processing is how a release finds whom to grant (section 5.2).
type Processing uint8

// Ways of processing.
const (
	// Listing is the source's algorithm 2 as printed. A shared request that arrives while a chain of grants
	// recirculates is granted twice: at once, and by the chain.
	Listing Processing = iota
	// Snapshot ends a chain where the queue ended when it began, as the artefact does. Shared requests that come later
	// may be granted and released before those of the chain, which then loses its place.
	Snapshot
	// ChainLock lets shared requests wait while a chain runs, which also grants them.
	ChainLock
)

// String returns the name as test files have it.
func (p Processing) String() string {
	if p <= ChainLock {
		return [...]string{"listing", "snapshot", "chainlock"}[p]
	}
	return fmt.Sprintf("processing %d", uint8(p))
}

// Config describes a data plane.
type Config struct {
	Processing Processing
	// TIDCheck drops releases of transactions that do not hold the lock. Otherwise a release takes the oldest entry.
	TIDCheck bool
	// Dedup drops requests that are already in the queue.
	Dedup bool
	// PushTimeout is when a PUSH_REQ is repeated; 0: never.
	PushTimeout clock.Duration
	// Quota is how many requests of a tenant a period of ResetQuotas has; 0: any number. Quotas has that of tenants
	// that differ from the others.
	Quota  int
	Quotas map[uint16]int
	// Slots is the number of slots of the pool in which each lock has a region; 0: each lock has memory of its own.
	Slots int
	// Priorities is the number of queues of a lock, which divide its slots (see priority.go). At most 1: one queue for
	// all. With more, Processing is that of ChainLock.
	Priorities int
	// Track is how many locks that are not installed have counters for the control plane.
	Track int
	// Bugs are seeded.
	Bugs Bugs
}

// Client is a thread of a host.
type Client struct {
	Host   uint32 // number, or IPv4 address
	Thread uint8
}

// Request is a request for a lock, or the end of its use.
type Request struct {
	Lock        uint32
	Transaction uint32
	Mode        netlock.Mode
	Client      Client
	Timestamp   uint64 // the client's
	Tenant      uint16
	Priority    uint8 // 1 is the highest; 0: the lowest
	// OneRTT requests come with what a database server is asked (section 5.3). Only one that is granted at once keeps
	// it.
	OneRTT bool
}

func (r *Request) key() key { return key{r.Client, r.Transaction} }

// Kind is what a data plane does with a packet, or makes.
type Kind uint8

// Kinds of outputs.
const (
	Grant         Kind = iota // to the client
	ForwardOwned              // to the server, which owns the lock
	ForwardBuffer             // to the server, which keeps the request until the switch asks for it
	PushRequest               // to the server
	Recirculate               // to the switch itself: see Resume
	Dropped                   // a release of nobody, or a request that is already queued
	Rejected                  // to the client: the quota of its tenant is used up, or NetChain's lock is held
	Emptied                   // PUSH_EMPTY with a mark, to the switch (of a server) or to the other switch (see Yield)
)

const kinds = int(Emptied) + 1

// String returns the kind in words.
func (k Kind) String() string {
	if int(k) < kinds {
		return [kinds]string{"grant", "forward-owned", "forward-buffer", "push-request", "recirculate", "dropped",
			"rejected", "emptied"}[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Output is one packet that a data plane sends or drops.
type Output struct {
	Kind Kind
	// Request is that of a grant, or of what is forwarded or dropped; of PUSH_REQ and PUSH_EMPTY the lock and the
	// priority of its queue.
	Request Request
	Avail   uint32 // of a push request: free slots
	// Sent, of a push request: requests that were ever forwarded to be buffered; of Emptied: as asked; of ForwardBuffer,
	// while a lock moves to the switch: number of the move.
	Sent  uint64
	Index uint64 // of a push request: the last packet that was pushed back
	Pass  Pass   // to be given to Resume after one recirculation
	// Idle: the pass will find a shared request that has the lock and do nothing. The switch does not know, as a pass
	// reads one slot; who simulates it may leave the pass out.
	Idle bool
	// Mark of a push request or Emptied: Owned when a lock moves to the server, Failover when it moves to the switch.
	Mark netlock.Mark
	// Peer: to the other switch instead of the server, while a lock moves between switches.
	Peer bool
	// NoSlot: the request is dropped as there is no slot for it, and its client has to ask again.
	NoSlot bool
	// Database: the grant goes with its request to the database server, which answers the client, not to the client.
	Database bool
}

// Pass is what a recirculated packet carries.
type Pass struct {
	lock      *entry
	at        uint64 // sequence number of the slot to look at
	end       uint64 // of a snapshot: where the queue ended
	exclusive bool   // an exclusive request ended: shared ones are granted one by one
	chain     bool   // it has granted one
}

// DataPlane is the data plane of a lock switch.
type DataPlane struct {
	cfg     Config
	locks   map[uint32]*entry
	recent  [256]*entry // some of them, by the last bits of their numbers: most packets are about few locks
	pool    []slot
	regions regions
	repeats fifo[repeat] // in order of time
	starts  []*entry     // that wait for an instant
	quotas  quotas
	tracker tracker
	grants  uint64
	meter   *meter // of tests

	// For the control plane.
	leases  bool
	granted fifo[lease] // in order of time
	asked   clock.Time  // the first request since the latest allocation; clock.Never: there is none
	drained clock.Time  // when a lock was ready to be placed, or had moved; clock.Never: none is or has

	frozen bool // another switch takes its locks

	out []Output // of the current call
}

// lease is when a lock was granted.
type lease struct {
	at   clock.Time
	lock uint32
}

// New returns a data plane without locks: all requests are forwarded to their servers.
func New(cfg Config) *DataPlane {
	d := &DataPlane{cfg: cfg, locks: make(map[uint32]*entry), quotas: quotas{most: cfg.Quotas, all: cfg.Quota}}
	if cfg.Slots > 0 {
		d.pool, d.regions = make([]slot, cfg.Slots), newRegions(cfg.Slots)
	}
	d.drained, d.asked, d.quotas.counted = clock.Never, clock.Never, clock.Never
	d.quotas.bugs, d.tracker = cfg.Bugs, newTracker(cfg.Track)
	return d
}

// queues returns the number of queues of a lock.
func (d *DataPlane) queues() int { return max(1, d.cfg.Priorities) }

// emit adds an output.
func (d *DataPlane) emit(o Output) { d.out = append(d.out, o) }

// output adds an output for the caller to fill.
func (d *DataPlane) output(k Kind) *Output {
	if n := len(d.out); n < cap(d.out) {
		d.out = d.out[:n+1]
		d.out[n] = Output{}
	} else {
		d.out = append(d.out, Output{})
	}
	o := &d.out[len(d.out)-1]
	o.Kind = k
	return o
}

// lock returns an installed lock.
func (d *DataPlane) lock(id uint32) *entry {
	recent := &d.recent[id%uint32(len(d.recent))]
	if l := *recent; l != nil && l.id == id && (!l.removed || d.cfg.Bugs.Has(UsesRemoved)) {
		return l
	}
	l := d.locks[id]
	if l == nil && d.cfg.Bugs.Has(Aliases) {
		l = d.locks[id%aliases]
	} else if l != nil {
		*recent = l
	}
	return l
}

// Acquire takes a request. The outputs are valid until the next call.
func (d *DataPlane) Acquire(now clock.Time, r Request) []Output { return d.acquire(now, &r) }

func (d *DataPlane) acquire(now clock.Time, r *Request) []Output {
	d.out = d.out[:0]
	if !d.quotas.admits(now, r.Tenant) {
		d.emit(Output{Kind: Rejected, Request: *r})
		return d.out
	}
	d.asked = min(d.asked, now)
	l := d.lock(r.Lock)
	if l == nil {
		d.tracker.acquire(r.Lock)
		d.emit(Output{Kind: ForwardOwned, Request: *r})
		return d.out
	}
	l.requests++
	d.touch(regPhase)
	if l.wanted || l.phase == yielded {
		d.emit(Output{Kind: ForwardOwned, Request: *r, Peer: true})
		return d.out
	}
	if d.cfg.Dedup && !d.cfg.Bugs.Has(NoDedup) {
		d.touch(regIndex)
		if _, queued := l.where.get(r.key()); queued {
			d.emit(Output{Kind: Dropped, Request: *r})
			return d.out
		}
	}
	q := l.ring(r)
	if d.cfg.Bugs.Has(PriorityIgnored) {
		q = &l.rings[len(l.rings)-1]
	}
	d.touch(regRoom)
	if d.full(l, q) {
		if l.phase == taking && l.from == FromBackup { // the server's buffer is the backup's
			d.emit(Output{Kind: Dropped, Request: *r, NoSlot: true})
			return d.out
		}
		d.touch(regSent)
		if !d.cfg.Bugs.Has(ForgetsOver) {
			q.sent++
		}
		o := Output{Kind: ForwardBuffer, Request: *r}
		if l.phase == taking && !l.cleared && !d.cfg.Bugs.Has(MovesSilently) {
			o.Sent = l.base // the server may not know that it is to buffer
		}
		d.emit(o)
		l.most = max(l.most, l.count()+l.over())
		return d.out
	}
	d.insert(now, l, q, r)
	l.most = max(l.most, l.count())
	return d.out
}

// full reports whether a new request has to be buffered by the server: what is buffered comes first.
func (d *DataPlane) full(l *entry, q *ring) bool {
	free := q.free()
	if d.cfg.Bugs.Has(BuffersEarly) && len(q.slots) > 1 {
		free--
	}
	over := q.over()
	if d.cfg.Bugs.Has(OverflowOvertakes) {
		over = 0
	}
	return l.phase == draining || l.phase == handing || over > 0 || free <= 0
}

// Release takes the end of a lock's use. The outputs are valid until the next call.
func (d *DataPlane) Release(now clock.Time, r Request) []Output { return d.release(now, &r) }

func (d *DataPlane) release(now clock.Time, r *Request) []Output {
	d.out = d.out[:0]
	l := d.lock(r.Lock)
	if l == nil {
		d.tracker.release(r.Lock)
		d.emit(Output{Kind: ForwardOwned, Request: *r})
		return d.out
	}
	d.touch(regPhase)
	if d.cfg.Bugs.Has(KeepsReleases) && (l.phase == handing || l.phase == taking) {
		d.emit(Output{Kind: Dropped, Request: *r})
		return d.out
	}
	switch l.phase {
	case handing: // the server may have granted it, while its answer is on the way
		d.emit(Output{Kind: ForwardOwned, Request: *r})
		return d.out
	case taking, yielded: // only the former, or the next, owner has holders
		if !d.early(l) || d.holder(l, r) == nil {
			d.emit(Output{Kind: ForwardOwned, Request: *r, Peer: l.phase == yielded || l.from == FromBackup})
			return d.out
		}
	case serving, draining:
	}
	if q := d.holder(l, r); q == nil {
		d.emit(Output{Kind: Dropped, Request: *r})
	} else {
		d.pop(now, l, q)
	}
	return d.out
}

// holder returns the queue whose oldest entry a release removes, after moving that of the transaction there; nil: it
// holds nothing.
func (d *DataPlane) holder(l *entry, r *Request) *ring {
	if d.cfg.TIDCheck && !d.cfg.Bugs.Has(IgnoresTID) {
		d.touch(regIndex)
		p, ok := l.where.get(r.key())
		if !ok || !l.rings[p.class].at(p.at).granted {
			return nil
		}
		q := &l.rings[p.class]
		if p.at != q.head {
			d.touch(regSlot) // reads the other one
			d.touch(regSlot) // and writes the oldest there
			l.exchange(q, p.at)
		}
		return q
	}
	q := l.ring(r)
	if q.count() == 0 || len(l.rings) > 1 && q.next == q.head {
		return nil
	}
	return q
}

// insert queues a request and grants it if it may have the lock now.
func (d *DataPlane) insert(now clock.Time, l *entry, q *ring, r *Request) {
	at := q.tail
	d.touch(regTail)
	d.touch(regSlot)
	d.touch(regQueued)
	d.touch(regBusy)
	granted := d.grantable(l, q, r.Mode)
	if d.cfg.Bugs.Has(LosesTail) && q.free() == 1 && len(q.slots) > 1 {
		return
	}
	s := q.at(at)
	s.Request, s.granted, s.grantedAt = *r, false, 0
	q.tail++
	l.queued[r.Mode]++
	q.exclusives += int(r.Mode)
	if l.where != nil {
		d.touch(regIndex)
		l.where.put(r.key(), place{at, q.class})
	}
	if granted {
		d.grant(now, l, q, at)
	}
	if !d.cfg.Bugs.Has(QueuesQuery) {
		s.OneRTT = false // a slot has no room for it
	}
}

// grantable reports whether a request that is queued now is granted at once.
func (d *DataPlane) grantable(l *entry, q *ring, mode netlock.Mode) bool {
	switch {
	case (l.phase == taking || l.phase == yielded) && !d.early(l):
		return false
	case d.cfg.Bugs.Has(SharedBesideExclusive) && mode == netlock.Shared:
		return true
	case len(l.rings) > 1:
		return l.admits(q, mode)
	case mode == netlock.Shared && d.cfg.Bugs.Has(OvertakesExclusive) && l.count() > 0:
		s := q.at(q.head)
		return s.granted && s.Mode == netlock.Shared
	case mode == netlock.Shared:
		return l.queued[netlock.Exclusive] == 0 && !l.busy
	}
	return l.count() == 0
}

// grant grants the request at a position.
func (d *DataPlane) grant(now clock.Time, l *entry, q *ring, n uint64) {
	s := q.at(n)
	s.granted, s.grantedAt = true, now
	if d.leases {
		d.granted.push(lease{now, l.id})
	}
	if len(l.rings) > 1 {
		q.next = n + 1
		q.exclusives -= int(s.Mode)
		l.holders++
		l.exclusive = s.Mode == netlock.Exclusive
	}
	d.grants++
	o := d.output(Grant)
	o.Request, o.Database = s.Request, s.OneRTT && !d.cfg.Bugs.Has(LosesQuery)
	if o.Database && d.cfg.Bugs.Has(AnswersBoth) {
		d.emit(Output{Kind: Grant, Request: s.Request})
	}
	if d.cfg.Bugs.Has(GrantsTwice) && d.grants%seldom == 0 {
		d.emit(Output{Kind: Grant, Request: s.Request, Database: s.OneRTT})
	}
}

// pop removes the oldest entry of a queue and finds out who is next.
func (d *DataPlane) pop(now clock.Time, l *entry, q *ring) {
	d.touch(regRoom)
	d.touch(regHead)
	d.touch(regSlot)
	d.touch(regQueued)
	first := q.at(q.head)
	mode, granted := first.Mode, first.granted
	l.where.remove(first.key())
	q.head++
	l.queued[mode]--
	if len(l.rings) > 1 {
		d.left(l, q, granted)
	}
	if q.count() == 0 || d.cfg.Bugs.Has(PushWhileBusy) {
		d.refill(now, l, q)
	}
	if l.count() == 0 {
		d.settle(now, l)
		return
	}
	if len(l.rings) > 1 {
		if l.holders == 0 {
			d.kick(l)
		}
		return
	}
	d.next(l, q, mode == netlock.Exclusive)
}

// next sends a packet through the switch again to grant what comes after an entry that ended. While it may find shared
// requests to be granted one by one, the lock is busy; only that pass can see whether the first one is shared.
func (d *DataPlane) next(l *entry, q *ring, exclusive bool) {
	if d.cfg.Bugs.Has(NewestFirst) && exclusive && !q.at(q.head).granted && q.count() > 1 {
		l.exchange(q, q.tail-1)
	}
	if exclusive && d.cfg.Processing == ChainLock {
		d.touch(regBusy)
		if l.busy {
			return // the chain that runs goes on from the head
		}
		l.busy = true
	}
	idle := !exclusive && d.cfg.Processing == ChainLock && d.cfg.Bugs == 0 && q.at(q.head).Mode == netlock.Shared
	o := d.output(Recirculate)
	o.Idle, o.Pass = idle, Pass{lock: l, at: q.head, end: q.tail, exclusive: exclusive}
}

// Resume takes a packet that has recirculated. The outputs are valid until the next call.
func (d *DataPlane) Resume(now clock.Time, p Pass) []Output {
	d.out = d.out[:0]
	l := p.lock
	if l.removed {
		return d.out
	}
	if len(l.rings) > 1 {
		d.step(now, l)
		return d.out
	}
	q := &l.rings[0]
	d.touch(regHead)
	d.touch(regTail)
	d.touch(regSlot)
	if p.exclusive && d.cfg.Processing == ChainLock {
		p.at = max(p.at, q.head)
	}
	end := q.tail
	if d.cfg.Processing == Snapshot && p.chain {
		end = p.end
	}
	s := q.at(p.at)
	switch {
	case s.Mode == netlock.Exclusive || p.exclusive && p.at >= end:
		// A chain may find the queue renewed: all that it has granted has ended, and an exclusive request after it.
		next := !p.chain || d.cfg.Processing == ChainLock && p.at == q.head
		if next && s.Mode == netlock.Exclusive && d.waits(q, p.at) {
			d.grant(now, l, q, p.at)
		}
		if p.exclusive {
			d.touch(regBusy)
			l.busy = false
		}
	case p.exclusive: // if not, the shared request at the head already has the lock
		d.grant(now, l, q, p.at)
		p.at++
		p.chain = true
		switch {
		case d.cfg.Bugs.Has(ChainSkipsOne):
			p.at++
		case d.cfg.Bugs.Has(ChainStops):
			l.busy = false
			return d.out
		}
		d.emit(Output{Kind: Recirculate, Pass: p})
	}
	return d.out
}

// waits reports whether the request at a position is still queued and not granted. The listings do not look: nothing
// tells them.
func (d *DataPlane) waits(q *ring, n uint64) bool {
	return d.cfg.Processing != ChainLock || n >= q.head && n < q.tail && !q.at(n).granted
}

// Expire removes the holders of a lock that have had it since before an instant, exactly these, and then proceeds as if
// they had released it (section 9). The outputs are valid until the next call.
func (d *DataPlane) Expire(now clock.Time, lock uint32, before clock.Time) []Output {
	d.out = d.out[:0]
	if l := d.locks[lock]; l != nil && !d.cfg.Bugs.Has(NeverExpires) {
		for i := range l.rings {
			d.expire(now, l, &l.rings[i], before)
		}
	}
	return d.out
}

func (d *DataPlane) expire(now clock.Time, l *entry, q *ring, before clock.Time) {
	if d.cfg.Bugs.Has(ExpiresEarly) {
		before += (now - before) / 2
	}
	for n := q.head; n < q.tail; n++ {
		s := q.at(n)
		if !s.granted {
			break // holders are the front of the queue
		}
		if s.grantedAt >= before {
			continue
		}
		if n != q.head && !d.cfg.Bugs.Has(ExpiresAnother) {
			l.exchange(q, n)
		}
		d.pop(now, l, q)
	}
}

// Demand is what the control plane reads of a lock and resets: requests since the last time, and the most that were
// queued or buffered at a time.
type Demand struct {
	Lock       uint32
	Requests   float64 // a second, or any other unit that is common to all locks
	Contention int
}

// Demands returns what locks were asked for since the last call, by lock: those that are installed, and others as far
// as there are counters for them.
func (d *DataPlane) Demands() []Demand {
	list := make([]Demand, 0, len(d.locks)+d.tracker.len())
	for id, l := range d.locks {
		list = append(list, Demand{id, float64(l.requests), l.most})
		l.requests, l.most = 0, l.count()+l.over()
	}
	list = d.tracker.demands(list)
	slices.SortFunc(list, func(a, b Demand) int { return cmp.Compare(a.Lock, b.Lock) })
	return list
}

// Occupancy returns the entries of a lock, holders included, its slots, and the requests that its server buffers.
func (d *DataPlane) Occupancy(lock uint32) (queued, slots, buffered int) {
	l := d.locks[lock]
	if l == nil {
		return 0, 0, 0
	}
	return l.count(), l.size, l.over()
}
