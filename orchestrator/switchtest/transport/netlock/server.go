package netlock

import (
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches/lock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// server is a lock server: cores that take packets in turn, each for the same time, so that one core has all packets of
// a lock (reference model netlock.md, section 6.3).
type server struct {
	state *lock.Server
	takes clock.Duration
	cores []core
	out   []message
	tasks int // packets that wait or are processed
	used  bool

	databases []fabric.HostID // that answer clients; nil: the server does
	address   func(fabric.HostID) netip.Addr
	askers    map[uint32]fabric.HostID // by lock

	served, granted, buffered int64
}

// core has packets that wait for it, the first of which it processes until busy.
type core struct {
	line
	busy clock.Time
}

func newServer(v parameter.Values, bugs lock.Bugs) *server {
	s := &server{state: lock.NewServer(true), takes: v.Duration("server-ns"), cores: make([]core, v.Int("server-cores"))}
	s.state.NotBefore = clock.Time(0).Add(v.Duration("server-not-before-us"))
	s.state.Lease, s.state.Poll = v.Duration("lease-us"), v.Duration("poll-us")
	s.state.Bugs = bugs
	return s
}

// receive queues a packet at the core of its lock. Cores follow a hash, so that locks of one server spread over all.
func (s *server) receive(now clock.Time, m *message) {
	c := &s.cores[wire.Mix(uint64(m.header.Lock)+1)%uint64(len(s.cores))]
	m.at = max(now, c.busy).Add(s.takes)
	c.busy = m.at
	*c.add(m.at) = *m
	s.tasks++
	s.used = true
}

// busy reports whether the server has ever had a packet.
func (s *server) busy() bool { return s.used }

// next returns when the first core has processed a packet.
func (s *server) next() clock.Time {
	at := s.state.NextTimer()
	if s.tasks == 0 {
		return at
	}
	for i := range s.cores {
		at = min(at, s.cores[i].due())
	}
	return at
}

// advance does what cores have done by now, in order of time.
func (s *server) advance(now clock.Time) {
	s.timer(now)
	defer s.timer(now) // what has come may wait for an instant that has passed
	for s.tasks > 0 {
		var first *core
		for i := range s.cores {
			if c := &s.cores[i]; c.due() <= now && (first == nil || c.due() < first.due()) {
				first = c
			}
		}
		if first == nil {
			return
		}
		m := first.pop()
		s.tasks--
		s.process(m.at, m)
	}
}

// timer does what the server does at times of its own.
func (s *server) timer(now clock.Time) {
	if s.state.NextTimer() <= now {
		s.answer(s.state.Timer(now))
	}
}

// process does what a packet asks for. Requests come from the client, also if the switch has marked them; what the
// server pushes back is sent to the client, too, and the switch, which is on the path, takes it.
func (s *server) process(now clock.Time, m *message) {
	s.served++
	h := &m.header
	r := lock.Request{Lock: h.Lock, Transaction: h.Transaction, Mode: h.Mode, Timestamp: h.Timestamp,
		Client: lock.Client{Host: uint32(m.peer), Thread: h.Client}, Tenant: h.Tenant, Priority: h.Priority,
		OneRTT: len(s.databases) > 0}
	switch h.Op {
	case netlock.Acquire:
		if h.Mark == netlock.BufferOnly {
			s.buffered++
			s.asker(h.Lock, m.peer)
			s.answer(s.state.Keep(now, r, h.Sent))
		} else {
			s.answer(s.state.Acquire(now, r))
		}
	case netlock.Release:
		s.answer(s.state.Release(now, r))
	case netlock.PushRequest:
		asked := lock.Output{Request: r, Avail: h.Avail, Sent: h.Sent, Index: h.Index, Mark: h.Mark}
		s.asker(h.Lock, m.peer)
		if h.Mark != netlock.Unmarked {
			s.answer(s.state.Handover(now, &asked))
			return
		}
		for _, p := range s.state.Push(&asked) {
			s.push(m.peer, &p)
		}
	default: // what servers send
	}
}

// answer sends grants.
func (s *server) answer(list []lock.Output) {
	for i := range list {
		o := &list[i]
		h := header(netlock.GrantFromServer, &o.Request)
		switch o.Kind {
		case lock.Grant:
			s.granted++
			client := fabric.HostID(o.Request.Client.Host)
			if o.Database {
				h.Address = s.address(client)
				s.out = append(s.out, message{peer: s.databases[h.Lock%uint32(len(s.databases))], header: h})
				continue
			}
			s.send(client, h)
		case lock.Emptied:
			h.Op, h.Sent, h.Index, h.Mark, h.Last = netlock.PushEmpty, o.Sent, o.Index, o.Mark, true
			s.send(s.askers[h.Lock], h)
		default: // what is dropped
		}
	}
}

// push sends a request that the server has buffered, or says to whoever asked that there is none.
func (s *server) push(asked fabric.HostID, p *lock.Push) {
	h := header(netlock.PushBack, &p.Request)
	h.Last, h.Received, h.Index, h.Sent = p.Last, p.Received, p.Index, p.Sent
	if p.Empty {
		h.Priority = p.Queue
		h.Op = netlock.PushEmpty
		s.send(asked, h)
		return
	}
	s.send(fabric.HostID(p.Client.Host), h)
}

func (s *server) send(to fabric.HostID, h netlock.Header) {
	s.out = append(s.out, message{peer: to, answer: true, header: h})
}

func header(op netlock.Op, r *lock.Request) netlock.Header {
	return netlock.Header{Op: op, Mode: r.Mode, Client: r.Client.Thread, Transaction: r.Transaction, Lock: r.Lock,
		Timestamp: r.Timestamp, Tenant: r.Tenant, Priority: r.Priority}
}

// asker notes where what the switch is told of a lock is sent to: it is on the path to whoever has asked last.
func (s *server) asker(lock uint32, host fabric.HostID) {
	if s.askers == nil {
		s.askers = make(map[uint32]fabric.HostID)
	}
	s.askers[lock] = host
}
