package lock

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// Server is a lock server: it owns the locks that are not in the switch, and buffers requests for those that are
// (sections 6.2 and 6.3). It processes each packet at once.
type Server struct {
	dedup bool
	owned map[uint32]*queue
	kept  map[uint32]*buffer
	out   []Output
}

// queue is a lock that the server owns.
type queue struct {
	requests []Request    // holders first
	since    []clock.Time // of the holders
}

// buffer holds the requests for a lock of the switch, in the order of arrival. Those that were pushed back are kept
// until the switch says that it has them.
type buffer struct {
	requests []Request
	taken    uint64 // number of packets that the switch has taken: the first of requests has the next one
	received uint64
}

// NewServer returns a lock server without requests. dedup: requests that are already queued are dropped.
func NewServer(dedup bool) *Server {
	return &Server{dedup: dedup, owned: make(map[uint32]*queue), kept: make(map[uint32]*buffer)}
}

// Acquire takes a request for a lock that the server owns. The outputs are valid until the next call.
func (s *Server) Acquire(now clock.Time, r Request) []Output {
	s.out = s.out[:0]
	q := s.owned[r.Lock]
	if q == nil {
		q = &queue{}
		s.owned[r.Lock] = q
	}
	if s.dedup && slices.ContainsFunc(q.requests, same(r)) {
		return append(s.out, Output{Kind: Dropped, Request: r})
	}
	q.requests = append(q.requests, r)
	s.grant(now, q)
	q.requests[len(q.requests)-1].OneRTT = false
	return s.out
}

// same reports whether a request is of the same transaction.
func same(r Request) func(Request) bool {
	return func(o Request) bool { return o.Client == r.Client && o.Transaction == r.Transaction }
}

// grant grants what the front of the queue may have.
func (s *Server) grant(now clock.Time, q *queue) {
	for n := len(q.since); n < len(q.requests); n++ {
		next := q.requests[n]
		if n > 0 && (next.Mode == netlock.Exclusive || q.requests[0].Mode == netlock.Exclusive) {
			return
		}
		q.since = append(q.since, now)
		s.out = append(s.out, Output{Kind: Grant, Request: next, Database: next.OneRTT})
	}
}

// end removes a holder and grants what it kept waiting.
func (s *Server) end(now clock.Time, lock uint32, q *queue, i int) {
	q.requests, q.since = slices.Delete(q.requests, i, i+1), slices.Delete(q.since, i, i+1)
	if len(q.requests) == 0 {
		delete(s.owned, lock)
	}
	s.grant(now, q)
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
	q := s.owned[lock]
	for i := 0; q != nil && i < len(q.since); {
		if q.since[i] >= before {
			i++
			continue
		}
		s.end(now, lock, q, i)
	}
	return s.out
}

// Buffer takes a request for a lock of the switch.
func (s *Server) Buffer(r Request) {
	b := s.kept[r.Lock]
	if b == nil {
		b = &buffer{}
		s.kept[r.Lock] = b
	}
	if s.dedup && slices.ContainsFunc(b.requests, same(r)) {
		return
	}
	b.received++
	r.OneRTT = false
	b.requests = append(b.requests, r)
}

// Push is a request that a server pushes back, or, if Empty, that there is none.
type Push struct {
	Request
	Answer
	Empty bool
}

// Push answers a push request of the data plane.
func (s *Server) Push(o *Output) []Push {
	b := s.kept[o.Request.Lock]
	if b == nil {
		b = &buffer{taken: o.Index}
		s.kept[o.Request.Lock] = b
	}
	if o.Index > b.taken {
		b.requests = slices.Delete(b.requests, 0, min(int(o.Index-b.taken), len(b.requests)))
		b.taken = o.Index
	}
	a := Answer{Received: b.received, Index: b.taken, Sent: o.Sent}
	n := min(int(o.Avail), len(b.requests))
	if n == 0 {
		a.Last = true
		return []Push{{Request{Lock: o.Request.Lock}, a, true}}
	}
	list := make([]Push, n)
	for i, r := range b.requests[:n] {
		a.Index, a.Last = a.Index+1, i == n-1
		list[i] = Push{Request: r, Answer: a}
	}
	return list
}
