// Package lock is a lock manager in a switch: the data plane that queues requests in slots of registers and grants
// them, the allocation of its slots, and lock servers, which own the other locks and buffer what has no slot (reference
// model netlock.md). They are state machines without I/O: packets and instants go in, packets come out.
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
	// Listing is the source's algorithm 2 as printed. A shared request that arrives while a chain of grants recirculates
	// is granted twice: at once, and by the chain.
	Listing Processing = iota
	// Snapshot ends a chain where the queue ended when it began, as the artefact does. Shared requests that come later may
	// be granted and released before those of the chain, which then loses its place.
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
	// Quota is how many requests of a tenant a period of ResetQuotas has; 0: any number. Quotas has that of tenants that
	// differ from the others.
	Quota  int
	Quotas map[uint16]int
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
	Priority    uint8 // 1 is the highest
	// OneRTT requests come with what a database server is asked (section 5.3). Only one that is granted at once keeps it.
	OneRTT bool
}

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
	kinds
)

// String returns the kind in words.
func (k Kind) String() string {
	if k < kinds {
		return [kinds]string{"grant", "forward-owned", "forward-buffer", "push-request", "recirculate", "dropped",
			"rejected"}[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Output is one packet that a data plane sends or drops.
type Output struct {
	Kind    Kind
	Request Request // of a grant, of what is forwarded or dropped; of a push request, the lock
	Avail   uint32  // of a push request: free slots
	Sent    uint64  // of a push request: requests that were ever forwarded to be buffered
	Index   uint64  // of a push request: the last packet that was pushed back
	Pass    Pass    // to be given to Resume after one recirculation
	// Database: the grant goes with its request to the database server, which answers the client, not to the client.
	Database bool
}

// Pass is what a recirculated packet carries.
type Pass struct {
	lock  *entry
	at    uint64 // sequence number of the slot to look at
	end   uint64 // of a snapshot: where the queue ended
	chain bool   // shared requests are granted one by one
}

// slot is a request in a queue.
type slot struct {
	Request
	granted   bool
	grantedAt clock.Time
}

// key identifies a request.
type key struct {
	client      Client
	transaction uint32
}

// entry is an installed lock. Positions are sequence numbers that never wrap: with wrapped ones a full ring looks as an
// empty one (section 4).
type entry struct {
	id         uint32
	slots      []slot
	head, tail uint64
	queued     [2]int // entries by mode, holders included
	sent       uint64 // requests ever forwarded to be buffered
	back       uint64 // of them, those that the server has pushed back
	lost       uint64 // and those that it has not received
	pushing    bool   // a push request has no answer yet
	asked      uint64 // value of sent in the latest push request
	repeat     clock.Time
	busy       bool // a chain is recirculating
	where      map[key]uint64

	requests, most int // counters for the allocation: requests, and most entries and buffered requests at a time
}

func (l *entry) count() int        { return l.queued[0] + l.queued[1] }
func (l *entry) free() int         { return len(l.slots) - l.count() }
func (l *entry) at(n uint64) *slot { return &l.slots[n%uint64(len(l.slots))] }

// DataPlane is the data plane of a lock switch.
type DataPlane struct {
	cfg     Config
	locks   map[uint32]*entry
	repeats []repeat
	quotas  quotas
	out     []Output // of the current call
}

// New returns a data plane without locks: all requests are forwarded to their servers.
func New(cfg Config) *DataPlane {
	return &DataPlane{cfg: cfg, locks: make(map[uint32]*entry), quotas: quotas{most: cfg.Quotas, all: cfg.Quota}}
}

// Install gives a lock so many slots, at least one. A lock that is installed keeps what it has.
func (d *DataPlane) Install(lock uint32, slots int) error {
	if slots < 1 {
		return fmt.Errorf("lock %d: %d slots, want at least 1", lock, slots)
	}
	if d.locks[lock] != nil {
		return fmt.Errorf("lock %d is already installed", lock)
	}
	l := &entry{id: lock, slots: make([]slot, slots), repeat: clock.Never}
	if d.cfg.TIDCheck || d.cfg.Dedup {
		l.where = make(map[key]uint64)
	}
	d.locks[lock] = l
	return nil
}

// emit adds an output.
func (d *DataPlane) emit(o Output) { d.out = append(d.out, o) }

// grant grants the request at a position.
func (d *DataPlane) grant(now clock.Time, l *entry, n uint64) {
	s := l.at(n)
	s.granted, s.grantedAt = true, now
	d.emit(Output{Kind: Grant, Request: s.Request, Database: s.OneRTT})
}

// Acquire takes a request. The outputs are valid until the next call.
func (d *DataPlane) Acquire(now clock.Time, r Request) []Output {
	d.out = d.out[:0]
	if !d.quotas.admits(r.Tenant) {
		d.emit(Output{Kind: Rejected, Request: r})
		return d.out
	}
	l := d.locks[r.Lock]
	if l == nil {
		d.emit(Output{Kind: ForwardOwned, Request: r})
		return d.out
	}
	l.requests++
	if _, queued := l.where[key{r.Client, r.Transaction}]; queued && d.cfg.Dedup {
		d.emit(Output{Kind: Dropped, Request: r})
		return d.out
	}
	if l.over() > 0 || l.free() == 0 { // what is buffered comes first
		l.sent++
		d.emit(Output{Kind: ForwardBuffer, Request: r})
		l.most = max(l.most, l.count()+l.over())
		return d.out
	}
	d.insert(now, l, r)
	l.most = max(l.most, l.count())
	return d.out
}

// insert queues a request and grants it if it may have the lock now.
func (d *DataPlane) insert(now clock.Time, l *entry, r Request) {
	granted := l.count() == 0
	if r.Mode == netlock.Shared {
		granted = l.queued[netlock.Exclusive] == 0 && !l.busy
	}
	at := l.tail
	*l.at(at) = slot{Request: r}
	l.tail++
	l.queued[r.Mode]++
	if l.where != nil {
		l.where[key{r.Client, r.Transaction}] = at
	}
	if granted {
		d.grant(now, l, at)
	}
	l.at(at).OneRTT = false // a slot has no room for it
}

// Release takes the end of a lock's use. The outputs are valid until the next call.
func (d *DataPlane) Release(now clock.Time, r Request) []Output {
	d.out = d.out[:0]
	l := d.locks[r.Lock]
	switch {
	case l == nil:
		d.emit(Output{Kind: ForwardOwned, Request: r})
	case l.count() == 0 || d.cfg.TIDCheck && !l.moveToHead(key{r.Client, r.Transaction}):
		d.emit(Output{Kind: Dropped, Request: r})
	default:
		d.pop(now, l)
	}
	return d.out
}

// moveToHead exchanges the entry of a holder with the oldest one, which has the lock in the same mode, and reports
// whether there is such a holder.
func (l *entry) moveToHead(k key) bool {
	n, ok := l.where[k]
	if !ok || !l.at(n).granted {
		return false
	}
	if n != l.head {
		l.exchange(n)
	}
	return true
}

// exchange exchanges the oldest entry with another one.
func (l *entry) exchange(n uint64) {
	first, own := l.at(l.head), l.at(n)
	*first, *own = *own, *first
	if l.where != nil {
		l.where[key{first.Client, first.Transaction}] = l.head
		l.where[key{own.Client, own.Transaction}] = n
	}
}

// pop removes the oldest entry and finds out who is next.
func (d *DataPlane) pop(now clock.Time, l *entry) {
	first := l.at(l.head)
	mode := first.Mode
	if l.where != nil {
		delete(l.where, key{first.Client, first.Transaction})
	}
	l.head++
	l.queued[mode]--
	if l.count() == 0 {
		if l.over() > 0 && !l.pushing {
			d.push(now, l)
		}
		return
	}
	chain := mode == netlock.Exclusive && l.at(l.head).Mode == netlock.Shared
	if chain && d.cfg.Processing == ChainLock {
		if l.busy {
			return // the chain that runs goes on from the head
		}
		l.busy = true
	}
	d.emit(Output{Kind: Recirculate, Pass: Pass{lock: l, at: l.head, end: l.tail, chain: chain}})
}

// Resume takes a packet that has recirculated. The outputs are valid until the next call.
func (d *DataPlane) Resume(now clock.Time, p Pass) []Output {
	d.out = d.out[:0]
	l := p.lock
	if !p.chain {
		// If the new head is shared, it already has the lock.
		if s := l.at(p.at); s.Mode == netlock.Exclusive && d.waits(l, p.at) {
			d.grant(now, l, p.at)
		}
		return d.out
	}
	if d.cfg.Processing == ChainLock {
		p.at = max(p.at, l.head)
	}
	end := l.tail
	if d.cfg.Processing == Snapshot {
		end = p.end
	}
	if p.at >= end || l.at(p.at).Mode != netlock.Shared {
		l.busy = false
		return d.out
	}
	d.grant(now, l, p.at)
	p.at++
	d.emit(Output{Kind: Recirculate, Pass: p})
	return d.out
}

// waits reports whether the request at a position is still queued and not granted. The listings do not look: nothing
// tells them.
func (d *DataPlane) waits(l *entry, n uint64) bool {
	return d.cfg.Processing != ChainLock || n >= l.head && n < l.tail && !l.at(n).granted
}

// over returns how many requests the server buffers or are on the way to it.
func (l *entry) over() int { return int(l.sent - l.back - l.lost) }

// push asks the server for what it buffers. Avail slots are for packets after the one numbered back.
func (d *DataPlane) push(now clock.Time, l *entry) {
	l.pushing, l.asked = true, l.sent
	if d.cfg.PushTimeout > 0 {
		l.repeat = now.Add(d.cfg.PushTimeout)
		d.repeats = append(d.repeats, repeat{l, l.repeat})
	}
	d.emit(Output{Kind: PushRequest, Request: Request{Lock: l.id}, Avail: uint32(l.free()), Sent: l.sent, Index: l.back})
}

// Answer is what a lock server says when it pushes requests back.
type Answer struct {
	Last     bool   // of the requests that one push request gets; an answer without a request is the only one
	Received uint64 // requests that it ever received to be buffered
	Index    uint64 // number of the request among those ever pushed back for the lock, from 1
	Sent     uint64 // as in the push request that it answers
}

// PushBack takes a request that the server has buffered. Requests come in order: after a gap, and again, they are
// dropped, and the next push request says which one was the last. The outputs are valid until the next call.
func (d *DataPlane) PushBack(now clock.Time, r Request, a Answer) []Output {
	d.out = d.out[:0]
	l := d.locks[r.Lock]
	if l == nil || l.over() == 0 || l.free() == 0 || a.Index != l.back+1 {
		d.emit(Output{Kind: Dropped, Request: r})
		return d.out
	}
	l.back++
	d.insert(now, l, r)
	if a.Last && l.pushing && a.Sent == l.asked {
		l.pushing, l.repeat = false, clock.Never
		// Links are first in, first out: what was sent before the push request and has not been received is lost.
		if a.Received <= l.asked {
			l.lost = max(l.lost, l.asked-a.Received)
		}
	}
	return d.out
}

// PushEmpty takes the answer of a server that buffers nothing: what was sent before the push request is lost. The
// outputs are valid until the next call.
func (d *DataPlane) PushEmpty(now clock.Time, lock uint32, a Answer) []Output {
	d.out = d.out[:0]
	l := d.locks[lock]
	if l == nil || !l.pushing || a.Sent != l.asked || a.Index != l.back {
		return d.out // an answer to a push request that was repeated
	}
	l.pushing, l.repeat = false, clock.Never
	l.lost = l.asked - l.back
	if l.over() > 0 && l.count() == 0 {
		d.push(now, l)
	}
	return d.out
}

// repeat is when a push request without an answer is repeated. They are in order of time.
type repeat struct {
	lock *entry
	at   clock.Time
}

// NextTimer returns when Timer is due; clock.Never: not before the next packet.
func (d *DataPlane) NextTimer() clock.Time {
	for len(d.repeats) > 0 && d.repeats[0].lock.repeat != d.repeats[0].at {
		d.repeats = d.repeats[1:]
	}
	if len(d.repeats) == 0 {
		return clock.Never
	}
	return d.repeats[0].at
}

// Timer repeats push requests. The outputs are valid until the next call.
func (d *DataPlane) Timer(now clock.Time) []Output {
	d.out = d.out[:0]
	for d.NextTimer() <= now {
		l := d.repeats[0].lock
		d.repeats = d.repeats[1:]
		d.push(now, l)
	}
	return d.out
}

// Expire removes the holders of a lock that have had it since before an instant, exactly these, and then proceeds as if
// they had released it (section 9). The outputs are valid until the next call.
func (d *DataPlane) Expire(now clock.Time, lock uint32, before clock.Time) []Output {
	d.out = d.out[:0]
	l := d.locks[lock]
	if l == nil {
		return d.out
	}
	for n := l.head; n < l.tail; n++ {
		s := l.at(n)
		if !s.granted {
			break // holders are the front of the queue
		}
		if s.grantedAt >= before {
			continue
		}
		if n != l.head {
			l.exchange(n)
		}
		d.pop(now, l)
	}
	return d.out
}

// Demand is what the control plane reads of a lock and resets: requests since the last time, and the most that were
// queued or buffered at a time.
type Demand struct {
	Lock       uint32
	Requests   float64 // a second, or any other unit that is common to all locks
	Contention int
}

// Demands returns what locks were asked for since the last call, by lock.
func (d *DataPlane) Demands() []Demand {
	list := make([]Demand, 0, len(d.locks))
	for id, l := range d.locks {
		list = append(list, Demand{id, float64(l.requests), l.most})
		l.requests, l.most = 0, l.count()+l.over()
	}
	slices.SortFunc(list, func(a, b Demand) int { return cmp.Compare(a.Lock, b.Lock) })
	return list
}

// Occupancy returns the entries of a lock, holders included, its slots, and the requests that its server buffers.
func (d *DataPlane) Occupancy(lock uint32) (queued, slots, buffered int) {
	l := d.locks[lock]
	if l == nil {
		return 0, 0, 0
	}
	return l.count(), len(l.slots), l.over()
}
