package netlock

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/packet/netlock"
)

// Thread is what one thread of a client does: transactions, each of which takes locks, keeps them for a while, and
// releases them.
type Thread struct {
	Flow        int                                       // its number in the test
	Directory   func(lock uint32) wire.HostID             // server of a lock
	Next        func(buf []workload.Lock) []workload.Lock // locks of the next transaction, each once
	Start       clock.Time
	Count       int            // transactions; 0: until Kill or the end of the test
	Think       clock.Duration // from the last grant to the releases
	Timeout     clock.Duration // from the requests; see Resend
	Interval    clock.Duration // between starts of transactions; 0: each follows another
	Outstanding int            // transactions at a time; 0: 1
	Kill        clock.Time     // the thread dies, and releases nothing; 0: never
	Tenant      uint16
	Priority    uint8
	// Database is that of a lock, which the client asks for a row once it has the lock, unless the row came as the grant;
	// nil: it needs none.
	Database func(lock uint32) wire.HostID
	Resend   bool // after the timeout requests without an answer are repeated; else the transaction starts anew
	Await    bool // it does not start anew before its requests have all been answered, or for mostAwaited timeouts
	Restart  bool // a transaction with a request that is rejected starts anew; else the request is repeated
}

// Sink hears what becomes of the transactions of a host.
type Sink interface {
	// Committed is told when a transaction has released its locks, with the time since its first request.
	Committed(now clock.Time, flow int, took clock.Duration)
	// Ended is told when a thread has done its count.
	Ended(now clock.Time, flow int)
}

// Counts is what a client has counted.
type Counts struct {
	Requests, Releases     int64 // packets
	BySwitch, ByServer     int64 // grants, by who sent them
	Transactions           int64 // that were committed
	Expired, Resent        int64 // transactions that timed out; requests that were repeated
	Queries                int64 // of databases
	Rejected, Late, Strays int64 // answers: over the quota; to transactions that had expired; to none
}

// Packet is one that a client sends.
type Packet struct {
	To     wire.HostID
	Header netlock.Header
}

// Client is the threads of one host. It is driven as a [fabric.Stack] is.
type Client struct {
	Counts Counts

	sink    Sink
	rand    *rand.Rand
	threads []*thread // by number
	out     queue[Packet]
	timers  timers
	free    []*transaction
	serial  uint64
	late    map[pending]late // requests that may still be granted to transactions that have ended
	ended   queue[pending]   // in which order they ended
}

type thread struct {
	Thread
	number uint8
	tid    uint32
	begun  int
	ended  int
	due    clock.Time // start of the next transaction
	timed  bool       // a timer for it is set
	active []*transaction
	byID   []*transaction // hash table of those that have a number, with linear probing: at most half of it is in use
	buffer []workload.Lock
}

// transaction is one that is under way.
type transaction struct {
	of      *thread
	id      uint32 // 0: none, it waits to start anew
	place   int    // in active
	next    int    // of locks: where the next answer is likely to belong
	serial  uint64 // changes when timers of it no longer count
	began   clock.Time
	locks   []held
	waiting int
	expired bool // it releases what it is granted, and starts anew after the last answer
	// Its timer of expiry is set once and looks at the deadline when it fires: most transactions end long before.
	deadline clock.Time // clock.Never: it waits for nothing
	armed    bool
}

type held struct {
	workload.Lock
	granted  bool
	released bool       // by a transaction that expired
	row      bool       // a database has answered
	rejected bool       // it is asked for again after a pause
	copies   int        // of the request that have no answer, beside the one that is waited for
	asked    clock.Time // for the last time
}

type pending struct {
	thread uint8
	tid    uint32
	lock   uint32
}

// late is how many grants of a request may still come: a lock switch may accept each of its copies.
type late struct {
	mode   netlock.Mode
	grants int
}

// MaxThreads is how many threads a host has at most: the packet has 8 bits for the number.
const MaxThreads = 256

// mostAwaited bounds, in timeouts, how long a transaction that expired waits for answers, one of which may be lost.
const mostAwaited = 10

// mostLate bounds what a client remembers of requests that may never be answered: the latest ones.
const mostLate = 1 << 16

// NewClient returns a client without threads. seed decides how long transactions back off.
func NewClient(host wire.HostID, seed uint64, sink Sink) *Client {
	const stream = 0x6e65746c6f636b
	return &Client{sink: sink, rand: rand.New(rand.NewPCG(seed, stream^uint64(host)<<48)),
		late: make(map[pending]late)}
}

// Add adds a thread.
func (c *Client) Add(t Thread) error {
	if len(c.threads) == MaxThreads {
		return fmt.Errorf("a host has at most %d threads that take locks", MaxThreads)
	}
	of := &thread{Thread: t, number: uint8(len(c.threads)), due: t.Start}
	of.Outstanding = max(1, t.Outstanding)
	of.byID = make([]*transaction, 1<<bits.Len(uint(2*of.Outstanding)))
	c.threads = append(c.threads, of)
	of.timed = true // the first call of HandleTimer begins it
	c.timers.add(timer{at: t.Start, kind: timeBegin, thread: of})
	if t.Kill > 0 {
		c.timers.add(timer{at: t.Kill, kind: timeKill, thread: of})
	}
	return nil
}

// arm begins what transactions of a thread are due, as far as there are any and room for them, or sets the timer for
// the next.
func (c *Client) arm(now clock.Time, t *thread) {
	for !t.timed && len(t.active) < t.Outstanding && (t.Count == 0 || t.begun < t.Count) {
		if t.due > now {
			t.timed = true
			c.timers.add(timer{at: t.due, kind: timeBegin, thread: t})
			return
		}
		c.begin(now, t)
	}
}

// NextTimer returns when HandleTimer is due.
func (c *Client) NextTimer() clock.Time { return c.timers.next() }

// HandleTimer serves what is due.
func (c *Client) HandleTimer(now clock.Time) {
	for c.timers.next() <= now {
		e := c.timers.pop()
		switch e.kind {
		case timeBegin:
			e.thread.timed = false
			c.arm(now, e.thread)
		case timeKill:
			c.kill(e.thread)
		case timeRelease:
			if e.of.serial == e.serial {
				c.commit(now, e.of)
			}
		case timeExpire:
			c.look(now, e.of)
		case timeRestart:
			if e.of.serial == e.serial {
				c.request(now, e.of)
			}
		case timeRetry:
			if e.of.serial == e.serial && e.of.locks[e.lock].rejected {
				c.acquire(now, e.of, int(e.lock))
			}
		}
	}
}

// begin starts a transaction.
func (c *Client) begin(now clock.Time, t *thread) {
	t.begun++
	if t.due = max(t.due, t.Start); t.Interval > 0 {
		t.due = t.due.Add(t.Interval)
	}
	tr := c.take()
	tr.of, tr.began, tr.locks = t, now, tr.locks[:0]
	t.buffer = t.Next(t.buffer[:0])
	for _, l := range t.buffer {
		tr.locks = append(tr.locks, held{Lock: l})
	}
	tr.place = len(t.active)
	t.active = append(t.active, tr)
	c.request(now, tr)
}

func (c *Client) take() *transaction {
	if n := len(c.free); n > 0 {
		tr := c.free[n-1]
		c.free = c.free[:n-1]
		return tr
	}
	return new(transaction)
}

// request asks for all locks of a transaction, under a new number.
func (c *Client) request(now clock.Time, tr *transaction) {
	tr.of.tid++
	tr.of.rename(tr, tr.of.tid)
	tr.next, tr.waiting, tr.expired = 0, len(tr.locks), false
	c.renew(tr)
	for i := range tr.locks {
		c.acquire(now, tr, i)
	}
	c.wait(tr, now.Add(c.patience(tr.of)))
}

// wait sets the deadline of a transaction.
func (c *Client) wait(tr *transaction, deadline clock.Time) {
	tr.deadline = deadline
	if !tr.armed {
		tr.armed = true
		c.timers.add(timer{at: tr.deadline, kind: timeExpire, of: tr})
	}
}

// look serves the timer of expiry of a transaction.
func (c *Client) look(now clock.Time, tr *transaction) {
	tr.armed = false
	switch {
	case tr.deadline <= now:
		c.expire(now, tr)
	case tr.deadline != clock.Never:
		tr.armed = true
		c.timers.add(timer{at: tr.deadline, kind: timeExpire, of: tr})
	}
}

// renew has timers of a transaction count no longer.
func (c *Client) renew(tr *transaction) {
	c.serial++
	tr.serial, tr.deadline = c.serial, clock.Never
}

// patience is T_exp of section 7.
func (c *Client) patience(t *thread) clock.Duration { return max(t.Timeout, 2*t.Think) }

func (c *Client) acquire(now clock.Time, tr *transaction, i int) {
	c.Counts.Requests++
	l := &tr.locks[i]
	l.granted, l.released, l.row, l.rejected, l.asked = false, false, false, false, now
	c.send(now, netlock.Acquire, tr, &l.Lock)
}

// query asks the database of a lock for a row, with the packet by which a switch does, but marked, so that no switch
// takes it for a request.
func (c *Client) query(now clock.Time, tr *transaction, i int) {
	c.Counts.Queries++
	l := &tr.locks[i]
	l.asked = now
	p := c.send(now, netlock.Acquire, tr, &l.Lock)
	p.To, p.Header.Mark = tr.of.Database(l.ID), netlock.Owned
}

// done reports whether a transaction has what it needs of a lock.
func (t *thread) done(l *held) bool { return l.granted && (l.row || t.Database == nil) }

func (c *Client) release(now clock.Time, tr *transaction, l *workload.Lock) {
	c.Counts.Releases++
	c.send(now, netlock.Release, tr, l)
}

func (c *Client) send(now clock.Time, op netlock.Op, tr *transaction, l *workload.Lock) *Packet {
	p, t := c.out.push(), tr.of
	p.To = t.Directory(l.ID)
	h := &p.Header // as Header: nothing else of it is ever set
	h.Op, h.Mode, h.Client, h.Transaction, h.Lock = op, modeOf(l), t.number, tr.id, l.ID
	h.Timestamp, h.Tenant, h.Priority, h.Mark = uint64(now.Nanoseconds()), t.Tenant, t.Priority, netlock.Unmarked
	return p
}

func modeOf(l *workload.Lock) netlock.Mode {
	if l.Exclusive {
		return netlock.Exclusive
	}
	return netlock.Shared
}

// Receive takes a packet that has arrived; row: from a database.
func (c *Client) Receive(now clock.Time, h *netlock.Header, row bool) {
	if int(h.Client) >= len(c.threads) {
		c.Counts.Strays++
		return
	}
	t := c.threads[h.Client]
	tr, i := t.find(h, row)
	switch {
	case tr == nil:
		c.unexpected(now, t, h)
	case tr.expired:
		c.answered(now, tr, i, h)
	case h.Op == netlock.Reject:
		const pause = 10 * clock.Microsecond
		c.Counts.Rejected++
		if t.Restart {
			tr.locks[i].rejected = true
			c.abandon(now, tr)
			c.timers.add(timer{at: now.Add(pause), kind: timeRestart, of: tr, serial: tr.serial})
			break
		}
		if tr.locks[i].rejected { // the answer to another copy
			break
		}
		tr.locks[i].rejected = true
		c.timers.add(timer{at: now.Add(pause), kind: timeRetry, of: tr, serial: tr.serial, lock: uint32(i)})
	default:
		l := &tr.locks[i]
		if !l.granted {
			c.granted(h)
		}
		l.granted, l.rejected, l.row = true, false, row
		if !t.done(l) {
			c.query(now, tr, i)
			break
		}
		if tr.waiting--; tr.waiting == 0 {
			c.renew(tr)
			if t.Think == 0 {
				c.commit(now, tr)
			} else {
				c.timers.add(timer{at: now.Add(t.Think), kind: timeRelease, of: tr, serial: tr.serial})
			}
		}
	}
}

// answered takes an answer to a request of a transaction that has expired.
func (c *Client) answered(now clock.Time, tr *transaction, i int, h *netlock.Header) {
	l := &tr.locks[i]
	if l.released { // the row of a grant
		return
	}
	l.granted = true // or rejected: it waits for it no longer
	if h.Op != netlock.Reject {
		c.Counts.Late++
		c.granted(h)
		c.release(now, tr, &l.Lock)
	}
	l.released = true
	if tr.waiting--; tr.waiting == 0 {
		c.abandon(now, tr)
		c.restart(now, tr)
	}
}

func (c *Client) granted(h *netlock.Header) {
	if h.Op == netlock.GrantFromServer {
		c.Counts.ByServer++
	} else {
		c.Counts.BySwitch++
	}
}

// rename gives a transaction another number; 0: none.
func (t *thread) rename(tr *transaction, id uint32) {
	mask := uint32(len(t.byID) - 1)
	if tr.id != 0 {
		i := t.cell(tr.id)
		// Those after it move up, unless that puts them before their place.
		for j := (i + 1) & mask; t.byID[j] != nil; j = (j + 1) & mask {
			if (j-t.byID[j].id)&mask >= (j-i)&mask {
				t.byID[i] = t.byID[j]
				i = j
			}
		}
		t.byID[i] = nil
	}
	if tr.id = id; id != 0 {
		t.byID[t.cell(id)] = tr
	}
}

// cell returns where the transaction of a number is in byID, or where it belongs.
func (t *thread) cell(id uint32) uint32 {
	mask := uint32(len(t.byID) - 1)
	i := id & mask
	for t.byID[i] != nil && t.byID[i].id != id {
		i = (i + 1) & mask
	}
	return i
}

// find returns the transaction that waits for what a packet answers, and which of its locks that is. Answers mostly
// come in the order of the requests.
func (t *thread) find(h *netlock.Header, row bool) (*transaction, int) {
	tr := t.byID[t.cell(h.Transaction)]
	if tr == nil {
		return nil, 0
	}
	for range tr.locks {
		i := tr.next
		if tr.next++; tr.next == len(tr.locks) {
			tr.next = 0
		}
		if l := &tr.locks[i]; l.ID == h.Lock && (!l.granted || row && !t.done(l)) {
			return tr, i
		}
	}
	return nil, 0
}

// unexpected takes an answer that nobody waits for. What is granted to a transaction that has
// ended is released at once.
func (c *Client) unexpected(now clock.Time, t *thread, h *netlock.Header) {
	key := pending{h.Client, h.Transaction, h.Lock}
	of, expected := c.late[key]
	if of.grants--; of.grants > 0 {
		c.late[key] = of
	} else {
		delete(c.late, key)
	}
	switch {
	case !expected:
		c.Counts.Strays++
	case h.Op != netlock.Reject:
		c.Counts.Late++
		c.granted(h)
		tr := transaction{of: t, id: h.Transaction}
		c.release(now, &tr, &workload.Lock{ID: h.Lock, Exclusive: of.mode == netlock.Exclusive})
	}
}

// commit ends a transaction.
func (c *Client) commit(now clock.Time, tr *transaction) {
	for i := range tr.locks {
		l := &tr.locks[i]
		c.release(now, tr, &l.Lock)
		c.expect(tr, l, l.copies)
	}
	t := tr.of
	c.renew(tr)
	t.rename(tr, 0)
	last := t.active[len(t.active)-1]
	t.active[tr.place], last.place = last, tr.place
	t.active = t.active[:len(t.active)-1]
	c.free = append(c.free, tr)
	c.Counts.Transactions++
	t.ended++
	c.sink.Committed(now, t.Flow, now.Sub(tr.began))
	if t.Count > 0 && t.ended == t.Count {
		c.sink.Ended(now, t.Flow)
		return
	}
	c.arm(now, t)
}

// expire gives up waiting: requests are repeated, or the transaction starts anew after a while (section 7).
func (c *Client) expire(now clock.Time, tr *transaction) {
	t := tr.of
	if t.Resend {
		deadline := now.Add(c.patience(t))
		for i := range tr.locks {
			l := &tr.locks[i]
			switch due := l.asked.Add(c.patience(t)); {
			case t.done(l) || l.rejected: // it has an answer
			case due <= now && l.granted:
				c.query(now, tr, i)
			case due <= now:
				c.Counts.Resent++
				l.copies++
				c.acquire(now, tr, i)
			default:
				deadline = min(deadline, due)
			}
		}
		c.wait(tr, deadline)
		return
	}
	if t.Await && !tr.expired {
		c.Counts.Expired++
		if c.revoke(now, tr); tr.waiting > 0 {
			c.wait(tr, now.Add(mostAwaited*c.patience(t)))
			return
		}
	} else if !tr.expired {
		c.Counts.Expired++
	}
	c.abandon(now, tr)
	c.restart(now, tr)
}

// revoke releases what a transaction has that waited too long, and has it release what it will be granted.
func (c *Client) revoke(now clock.Time, tr *transaction) {
	c.renew(tr)
	tr.expired = true
	for i := range tr.locks {
		l := &tr.locks[i]
		done := tr.of.done(l)
		if l.granted {
			c.release(now, tr, &l.Lock)
		}
		if l.released = l.granted || l.rejected; l.released && !done {
			tr.waiting--
		}
		l.granted = l.released // no other answer is expected
	}
}

// restart has a transaction start anew after a random pause.
func (c *Client) restart(now clock.Time, tr *transaction) {
	const (
		steps = 10
		step  = 30 * clock.Microsecond
		of    = 400 * clock.Microsecond
	)
	timeout := tr.of.Timeout / clock.Microsecond
	pause := clock.Duration(c.rand.IntN(steps)) * step * timeout / (of / clock.Microsecond)
	c.timers.add(timer{at: now.Add(pause), kind: timeRestart, of: tr, serial: tr.serial})
}

// abandon releases what a transaction has, and what it will be granted.
func (c *Client) abandon(now clock.Time, tr *transaction) {
	for i := range tr.locks {
		switch l := &tr.locks[i]; {
		case l.released:
			c.expect(tr, l, l.copies)
		case l.granted:
			c.release(now, tr, &l.Lock)
			c.expect(tr, l, l.copies)
		case l.rejected && tr.of.Restart:
			c.expect(tr, l, l.copies)
		default:
			c.expect(tr, l, l.copies+1)
		}
	}
	c.renew(tr)
	tr.of.rename(tr, 0) // what comes meanwhile answers nothing
	tr.waiting = 0
}

// expect notes how many grants of a request may come after its transaction has ended.
func (c *Client) expect(tr *transaction, l *held, grants int) {
	if grants == 0 {
		return
	}
	if c.ended.len() == mostLate {
		delete(c.late, *c.ended.pop())
	}
	key := pending{tr.of.number, tr.id, l.ID}
	*c.ended.push() = key
	c.late[key] = late{modeOf(&l.Lock), grants}
}

// kill ends a thread, which keeps its locks.
func (c *Client) kill(t *thread) {
	t.Count, t.begun = 1, 1 // no more
	for _, tr := range t.active {
		c.renew(tr)
	}
	t.active = nil
	clear(t.byID)
	kept := 0
	for range c.out.len() {
		if p := *c.out.pop(); p.Header.Client != t.number {
			*c.out.push() = p
			kept++
		}
	}
}

// Poll returns the next packet to send, valid until the next call; nil: there is none.
func (c *Client) Poll() *Packet {
	if c.out.len() == 0 {
		return nil
	}
	return c.out.pop()
}
