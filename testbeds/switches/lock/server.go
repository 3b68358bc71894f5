package lock

import (
	"maps"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// Server is a lock server: it owns the locks that are not in the switch, and buffers requests for those that are
// (sections 6.2 and 6.3). It processes each packet at once.
type Server struct {
	// NotBefore is when a server that replaces a failed one begins to grant: when the leases of holders that it does
	// not know have ended (section 9). Requests wait until then; see NextTimer.
	NotBefore clock.Time
	// Lease is after which holders lose a lock that the server owns, and Poll how often it looks; 0: never.
	Lease, Poll clock.Duration
	// Priorities of requests for locks that the server owns: a higher one comes before all lower ones that wait. At
	// most 1: requests have the order of arrival.
	Priorities int
	// Bugs are seeded.
	Bugs Bugs

	dedup bool
	owned map[uint32]*queue
	kept  map[uint32]*backlog
	since fifo[ownedLease] // of holders, in order of time
	idle  []*queue         // that owned may use again
	out   []Output
	list  []Push
}

// ownedLease is when a lock was granted.
type ownedLease struct {
	at   clock.Time
	lock uint32
}

// queue is a lock that the server owns.
type queue struct {
	requests []Request    // holders first
	since    []clock.Time // of the holders
}

// backlog is what the server buffers for a lock of the switch.
type backlog struct {
	buffers []buffer // by class
	base    uint64   // of the latest move to the switch
	moved   bool     // there was one
	wanted  bool     // the switch wants to know when the lock's queue is empty
}

// buffer holds the requests of a queue of the switch, in the order of arrival. Those that were pushed back are kept
// until the switch says that it has them.
type buffer struct {
	requests []Request
	pushed   int    // so many first ones were pushed back at least once
	taken    uint64 // number of packets that the switch has taken: the first of requests has the next one
	received uint64 // of all that were sent; what a failed server pushed back is added when the switch says so
	known    bool   // taken and received include those
	owned    bool   // the switch has handed the queue over
}

// NewServer returns a lock server without requests. dedup: requests that are already queued are dropped.
func NewServer(dedup bool) *Server {
	return &Server{dedup: dedup, owned: make(map[uint32]*queue), kept: make(map[uint32]*backlog)}
}

// Acquire takes a request for a lock that the server owns. The outputs are valid until the next call.
func (s *Server) Acquire(now clock.Time, r Request) []Output {
	s.out = s.out[:0]
	s.acquire(now, r)
	return s.out
}

func (s *Server) acquire(now clock.Time, r Request) {
	q := s.queue(r.Lock)
	if s.dedup && !s.Bugs.Has(ServerNoDedup) && slices.ContainsFunc(q.requests, same(r)) {
		s.out = append(s.out, Output{Kind: Dropped, Request: r})
		return
	}
	i := len(q.requests)
	for i > len(q.since) && s.class(&q.requests[i-1]) > s.class(&r) {
		i--
	}
	q.requests = slices.Insert(q.requests, i, r)
	s.grant(now, q)
	q.requests[i].OneRTT = false
}

// queue returns the queue of a lock that the server owns.
func (s *Server) queue(lock uint32) *queue {
	q := s.owned[lock]
	if q == nil {
		q = &queue{}
		if n := len(s.idle); n > 0 {
			q, s.idle = s.idle[n-1], s.idle[:n-1]
		}
		s.owned[lock] = q
	}
	return q
}

// class returns the place of a request's priority among all, as the switch has it; 0: there is one queue for all.
func (s *Server) class(r *Request) int {
	switch n := int(r.Priority); {
	case s.Priorities <= 1:
		return 0
	case n >= 1 && n < s.Priorities:
		return n
	}
	return s.Priorities
}

// same reports whether a request is of the same transaction.
func same(r Request) func(Request) bool {
	return func(o Request) bool { return o.Client == r.Client && o.Transaction == r.Transaction }
}

// grant grants what the front of the queue may have.
func (s *Server) grant(now clock.Time, q *queue) {
	if now < s.NotBefore && !s.Bugs.Has(ServerGrantsEarly) {
		return
	}
	for n := len(q.since); n < len(q.requests); n++ {
		next := q.requests[n]
		if n > 0 && (next.Mode == netlock.Exclusive || q.requests[0].Mode == netlock.Exclusive) {
			return
		}
		q.since = append(q.since, now)
		if s.Lease > 0 {
			s.since.push(ownedLease{now, next.Lock})
		}
		s.out = append(s.out, Output{Kind: Grant, Request: next, Database: next.OneRTT})
		if s.Bugs.Has(ServerOneByOne) {
			return
		}
	}
}

// end removes a holder and grants what it kept waiting.
func (s *Server) end(now clock.Time, lock uint32, q *queue, i int) {
	q.requests, q.since = slices.Delete(q.requests, i, i+1), slices.Delete(q.since, i, i+1)
	s.grant(now, q)
	s.tell(now, lock)
}

// Release takes the end of the use of a lock that the server owns. A release of nobody is dropped. The outputs are
// valid until the next call.
func (s *Server) Release(now clock.Time, r Request) []Output {
	s.out = s.out[:0]
	if q := s.owned[r.Lock]; q != nil {
		if i := slices.IndexFunc(q.requests[:len(q.since)], same(r)); i >= 0 {
			s.end(now, r.Lock, q, i)
			return s.out
		}
	}
	return append(s.out, Output{Kind: Dropped, Request: r})
}

// Expire removes the holders of a lock that have had it since before an instant, as DataPlane.Expire does. The outputs
// are valid until the next call.
func (s *Server) Expire(now clock.Time, lock uint32, before clock.Time) []Output {
	s.out = s.out[:0]
	s.expire(now, lock, before)
	return s.out
}

func (s *Server) expire(now clock.Time, lock uint32, before clock.Time) {
	q := s.owned[lock]
	for i := 0; q != nil && i < len(q.since); { // a queue that is empty ends the loop
		if q.since[i] >= before || s.Bugs.Has(NeverExpires) {
			i++
			continue
		}
		s.end(now, lock, q, i)
	}
}

// Buffer takes a request for a lock of the switch. Of locks that move, Keep does.
func (s *Server) Buffer(r Request) { s.buffer(r, s.backlog(r.Lock).buffer(s.class(&r))) }

// buffer keeps a request. One that was pushed back may have been granted, and have ended, so that the same again is
// another one: the switch knows.
func (s *Server) buffer(r Request, b *buffer) {
	if s.dedup && !s.Bugs.Has(ServerBuffersCopies) && slices.ContainsFunc(b.requests[b.pushed:], same(r)) {
		if s.Bugs.Has(ServerCountsCopies) {
			b.received++
		}
		return
	}
	b.received++
	r.OneRTT = false
	b.requests = append(b.requests, r)
}

// Keep takes a request for a lock of the switch, as Buffer does. If the switch has handed the lock over, and does not
// know yet that the server knows, the request is one for a lock that the server owns. A move that is not 0 is that of
// the lock to the switch, of which the server may not have been told. The outputs are valid until the next call.
func (s *Server) Keep(now clock.Time, r Request, move uint64) []Output {
	s.out = s.out[:0]
	if k := s.backlog(r.Lock); move != 0 && (!k.moved || move > k.base) {
		s.yield(now, r.Lock, k, move)
	}
	if b := s.backlog(r.Lock).buffer(s.class(&r)); b.owned || s.Bugs.Has(KeepsGranting) {
		s.acquire(now, r)
	} else {
		s.buffer(r, b)
	}
	return s.out
}

// backlog returns what is buffered for a lock.
func (s *Server) backlog(lock uint32) *backlog {
	k := s.kept[lock]
	if k == nil {
		k = &backlog{}
		s.kept[lock] = k
	}
	return k
}

// buffer returns that of a class.
func (k *backlog) buffer(class int) *buffer {
	for len(k.buffers) <= class {
		k.buffers = append(k.buffers, buffer{})
	}
	return &k.buffers[class]
}

// take notes which packets the switch has taken. If it knows more than the server, another server has pushed them back.
func (b *buffer) take(index uint64) {
	if !b.known {
		b.known = true
		b.taken += index
		b.received += index
	}
	if index > b.taken {
		n := int(min(index-b.taken, uint64(len(b.requests))))
		b.requests = slices.Delete(b.requests, 0, n)
		b.pushed = max(0, b.pushed-n)
		b.taken = index
	}
}

// Push is a request that a server pushes back, or, if Empty, that there is none.
type Push struct {
	Request
	Answer
	Empty bool
}

// Push answers a push request of the data plane without a mark. The answers are valid until the next call.
func (s *Server) Push(o *Output) []Push {
	k := s.backlog(o.Request.Lock)
	if k.moved && o.Index < k.base { // of the switch that had the lock before: it waited on its way
		return nil
	}
	b := k.buffer(s.class(&o.Request))
	b.take(o.Index)
	a := Answer{Received: b.received, Index: b.taken, Sent: o.Sent, Queue: o.Request.Priority}
	n := min(int(o.Avail), len(b.requests))
	if n == 0 {
		a.Last = true
		s.list = append(s.list[:0], Push{Request{Lock: o.Request.Lock, Priority: o.Request.Priority}, a, true})
		return s.list
	}
	s.list = s.list[:0]
	for i, r := range b.requests[:n] {
		a.Index, a.Last = a.Index+1, i == n-1
		s.list = append(s.list, Push{Request: r, Answer: a})
	}
	b.pushed = max(b.pushed, n)
	return s.list
}

// Handover takes a push request with a mark: a lock moves to the server (Owned) or to the switch (Failover); see
// move.go. The outputs are valid until the next call.
func (s *Server) Handover(now clock.Time, o *Output) []Output {
	s.out = s.out[:0]
	k := s.backlog(o.Request.Lock)
	if o.Mark == netlock.Failover {
		s.yield(now, o.Request.Lock, k, o.Sent)
		return s.out
	}
	b := k.buffer(s.class(&o.Request))
	s.out = append(s.out, Output{Kind: Emptied, Request: o.Request, Sent: o.Sent, Index: o.Index, Mark: netlock.Owned})
	if !b.owned {
		b.take(o.Index)
		b.owned = true
		for _, r := range b.requests {
			s.acquire(now, r)
		}
		b.requests, b.pushed = nil, 0
	}
	return s.out
}

// yield begins to give a lock to the switch, unless it has begun, and tells the switch as soon as it can.
func (s *Server) yield(now clock.Time, lock uint32, k *backlog, move uint64) {
	if !k.moved || k.base != move {
		if s.Bugs.Has(KeepsBuffer) {
			for i := range k.buffers { // as if the switch had sent what is there
				b := &k.buffers[i]
				b.taken, b.received, b.owned = move, move+uint64(len(b.requests)), false
			}
		} else {
			clear(k.buffers)
			k.buffer(0)
		}
		k.moved, k.base = true, move
	}
	k.wanted = true
	s.tell(now, lock)
}

// tell tells the switch that the queue of a lock that it wants is empty, and forgets an empty queue.
func (s *Server) tell(now clock.Time, lock uint32) {
	if q := s.owned[lock]; q != nil {
		if len(q.requests) > 0 && !s.Bugs.Has(ServerForgetsQueue) {
			return
		}
		q.requests, q.since = q.requests[:0], q.since[:0]
		delete(s.owned, lock)
		s.idle = append(s.idle, q)
	}
	if k := s.kept[lock]; k != nil && k.wanted && (now >= s.NotBefore || s.Bugs.Has(ServerGrantsEarly)) {
		k.wanted = false
		s.out = append(s.out, Output{Kind: Emptied, Request: Request{Lock: lock}, Sent: k.base, Index: k.base,
			Mark: netlock.Failover})
	}
}

// NextTimer returns when Timer is due; clock.Never: not before the next packet.
func (s *Server) NextTimer() clock.Time {
	next := clock.Never
	if s.NotBefore > 0 && len(s.owned)+len(s.kept) > 0 {
		next = s.NotBefore
	}
	if g := s.since.front(); g != nil {
		end, poll := g.at.Add(s.Lease), max(1, clock.Time(s.Poll)) // the first poll after it finds the lease ended
		next = min(next, end-end%poll+poll)
	}
	return next
}

// Timer begins to grant, and ends leases. The outputs are valid until the next call.
func (s *Server) Timer(now clock.Time) []Output {
	s.out = s.out[:0]
	if before := now - clock.Time(s.Lease); s.Lease > 0 {
		for g := s.since.front(); g != nil && g.at < before; g = s.since.front() {
			lock := g.lock
			s.since.pop()
			s.expire(now, lock, before)
		}
	}
	if now < s.NotBefore || s.NotBefore == 0 {
		return s.out
	}
	s.NotBefore = 0
	for _, lock := range slices.Sorted(maps.Keys(s.owned)) {
		s.grant(now, s.owned[lock])
	}
	for _, lock := range slices.Sorted(maps.Keys(s.kept)) {
		s.tell(now, lock)
	}
	return s.out
}
