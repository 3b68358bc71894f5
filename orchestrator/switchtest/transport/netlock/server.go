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
	tasks int // packets that wait or are processed, and answers that wait
	used  bool
	drain clock.Duration // how often a core sends its answers; 0: at once

	databases []fabric.HostID // that answer clients; nil: the server does
	address   func(fabric.HostID) netip.Addr
	askers    map[uint32]fabric.HostID // by lock

	served, granted, buffered int64
}

// core has packets that wait for it, the first of which it processes until busy.
type core struct {
	line
	busy    clock.Time
	answers []message  // that wait to be sent together
	sends   clock.Time // when they are; clock.Never: there are none
	phase   clock.Duration
}

// burst is how many answers of a core are sent without waiting for the next interval: a burst of the artefact's NIC.
const burst = 32

// first returns when a core next does something.
func (c *core) first() clock.Time { return min(c.due(), c.sends) }

func newServer(id fabric.HostID, v parameter.Values, bugs lock.Bugs) *server {
	s := &server{state: lock.NewServer(true), takes: v.Duration("server-ns"), cores: make([]core, v.Int("server-cores")),
		drain: v.Duration("server-drain-us")}
	for i := range s.cores {
		c := &s.cores[i]
		c.sends = clock.Never
		if s.drain > 0 { // cores were not started together
			const most = 256 // cores
			c.phase = clock.Duration(wire.Mix(uint64(id)*most+uint64(i)+1) % uint64(s.drain))
		}
	}
	s.state.NotBefore = clock.Time(0).Add(v.Duration("server-not-before-us"))
	s.state.Lease, s.state.Poll = v.Duration("lease-us"), v.Duration("poll-us")
	s.state.Bugs = bugs
	return s
}

// core returns the core of a lock. Cores follow a hash, so that locks of one server spread over all.
func (s *server) core(lock uint32) *core {
	return &s.cores[wire.Mix(uint64(lock)+1)%uint64(len(s.cores))]
}

// receive queues a packet at the core of its lock.
func (s *server) receive(now clock.Time, m *message) {
	c := s.core(m.header.Lock)
	m.at = max(now, c.busy).Add(s.takes)
	c.busy = m.at
	*c.add(m.at) = *m
	s.tasks++
	s.used = true
}

// busy reports whether the server has ever had a packet.
func (s *server) busy() bool { return s.used }

// next returns when the first core has processed a packet, or sends answers.
func (s *server) next() clock.Time {
	at := s.state.NextTimer()
	if s.tasks == 0 {
		return at
	}
	for i := range s.cores {
		at = min(at, s.cores[i].first())
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
			if c := &s.cores[i]; c.first() <= now && (first == nil || c.first() < first.first()) {
				first = c
			}
		}
		switch {
		case first == nil:
			return
		case first.sends <= first.due():
			s.flush(first)
		default:
			m := first.pop()
			s.tasks--
			s.process(m.at, m)
		}
	}
}

// flush sends what a core has answered.
func (s *server) flush(c *core) {
	s.tasks -= len(c.answers)
	s.out = append(s.out, c.answers...)
	c.answers, c.sends = c.answers[:0], clock.Never
}

// emit sends a packet about a lock, or keeps it until its core sends: with what else the core has answered in an
// interval, or as a full burst.
func (s *server) emit(now clock.Time, m message) {
	if s.drain == 0 {
		s.out = append(s.out, m)
		return
	}
	c := s.core(m.header.Lock)
	if len(c.answers) == 0 {
		since := now.Sub(0) + s.drain - c.phase
		c.sends = now.Add(s.drain - since%s.drain)
	}
	c.answers = append(c.answers, m)
	if s.tasks++; len(c.answers) == burst {
		s.flush(c)
	}
}

// timer does what the server does at times of its own.
func (s *server) timer(now clock.Time) {
	if s.state.NextTimer() <= now {
		s.answer(now, s.state.Timer(now))
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
			s.answer(now, s.state.Keep(now, r, h.Sent))
		} else {
			s.answer(now, s.state.Acquire(now, r))
		}
	case netlock.Release:
		s.answer(now, s.state.Release(now, r))
	case netlock.PushRequest:
		asked := lock.Output{Request: r, Avail: h.Avail, Sent: h.Sent, Index: h.Index, Mark: h.Mark}
		s.asker(h.Lock, m.peer)
		if h.Mark != netlock.Unmarked {
			s.answer(now, s.state.Handover(now, &asked))
			return
		}
		for _, p := range s.state.Push(&asked) {
			s.push(now, m.peer, &p)
		}
	default: // what servers send
	}
}

// answer sends grants.
func (s *server) answer(now clock.Time, list []lock.Output) {
	for i := range list {
		o := &list[i]
		h := header(netlock.GrantFromServer, &o.Request)
		switch o.Kind {
		case lock.Grant:
			s.granted++
			client := fabric.HostID(o.Request.Client.Host)
			if o.Database {
				h.Address = s.address(client)
				s.emit(now, message{peer: s.databases[h.Lock%uint32(len(s.databases))], header: h})
				continue
			}
			s.send(now, client, h)
		case lock.Emptied:
			h.Op, h.Sent, h.Index, h.Mark, h.Last = netlock.PushEmpty, o.Sent, o.Index, o.Mark, true
			s.send(now, s.askers[h.Lock], h)
		default: // what is dropped
		}
	}
}

// push sends a request that the server has buffered, or says to whoever asked that there is none.
func (s *server) push(now clock.Time, asked fabric.HostID, p *lock.Push) {
	h := header(netlock.PushBack, &p.Request)
	h.Last, h.Received, h.Index, h.Sent = p.Last, p.Received, p.Index, p.Sent
	if p.Empty {
		h.Priority = p.Queue
		h.Op = netlock.PushEmpty
		s.send(now, asked, h)
		return
	}
	s.send(now, fabric.HostID(p.Client.Host), h)
}

func (s *server) send(now clock.Time, to fabric.HostID, h netlock.Header) {
	s.emit(now, message{peer: to, answer: true, header: h})
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
