package tcp

import (
	"fmt"
	"slices"
	"sort"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
)

// Host is the TCP of one machine. It does no I/O, starts no goroutine and is not safe for concurrent use. The caller
// brings packets and time, which must not go backwards:
//
//   - HandlePacket for each packet that arrives, HandleTimer when NextTimer is due;
//   - after either, Poll whenever the NIC can take a packet, until it returns false.
type Host struct {
	cfg  Config
	sink Sink

	known    map[key]*connection
	recent   [recentConnections]*connection // of known, by number: found faster
	gone     map[key]left                   // receivers of transfers that have finished
	created  int                            // connections
	ready    []*connection
	writes   []write // pending writes, descending by time
	timers   timers
	due      []*connection // used by HandleTimer
	acks     uint64
	counters Counters
	bugs     Bugs
	spoilt   uint32 // counts occasions of a fault
}

// recentConnections is how many connections are found without a map.
const recentConnections = 32

type key struct {
	peer   Endpoint
	number uint32
}

type write struct {
	at    clock.Time
	to    *connection
	bytes uint64 // 0: the stream ends
}

// connection has both directions of a connection.
type connection struct {
	key
	sender
	receiver
	ecnReceiver
	greeting
	queued   bool // in Host.ready
	finished bool // see Finish
	order    int  // order of creation
	place    int  // position in Host.timers, from 1; 0: absent
}

// New returns a host without connections. sink may be nil.
func New(cfg Config, sink Sink) (*Host, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("TCP host %d: %w", cfg.Address, err)
	}
	return &Host{cfg: cfg, sink: sink, known: make(map[key]*connection)}, nil
}

// Counters returns the host's counters.
func (h *Host) Counters() Counters { return h.counters }

// connection returns the connection with a peer, and creates it on first use.
func (h *Host) connection(k key) *connection {
	c := h.find(k)
	if c == nil {
		c = &connection{key: k, receiver: receiver{quick: h.cfg.quickACKs(), ackAt: clock.Never}}
		c.sender = newSender(&h.cfg)
		c.bugs = h.bugs
		h.ignoresReceiver(&c.sender)
		c.order = h.created
		h.created++
		h.known[k] = c
	}
	return c
}

// find returns a connection that is known, or nil.
func (h *Host) find(k key) *connection {
	recent := &h.recent[k.number%recentConnections]
	if c := *recent; c != nil && c.key == k {
		return c
	}
	c := h.known[k]
	if c != nil {
		*recent = c
	}
	return c
}

// Endless is a number of bytes that keeps a connection sending for the whole run.
const Endless = 1 << 62

// Write adds bytes to the stream to a peer at a time, or at once if that has passed. The caller must poll the host and
// call NextTimer again afterwards.
func (h *Host) Write(peer Endpoint, number uint32, bytes uint64, at clock.Time) error {
	if bytes == 0 || bytes > Endless {
		return fmt.Errorf("write of %d bytes to connection %d: must be 1 to %d", bytes, number, uint64(Endless))
	}
	// Descending, so that the earliest is popped from the end. Of equal times, the first declared comes first.
	i := sort.Search(len(h.writes), func(i int) bool { return h.writes[i].at <= at })
	h.writes = slices.Insert(h.writes, i, write{at, h.connection(key{peer, number}), bytes})
	return nil
}

// End ends the stream to a peer at a time, or at once if that has passed: what has not been sent by then never will be.
// The caller must call NextTimer again afterwards.
func (h *Host) End(peer Endpoint, number uint32, at clock.Time) {
	i := sort.Search(len(h.writes), func(i int) bool { return h.writes[i].at <= at })
	h.writes = slices.Insert(h.writes, i, write{at, h.connection(key{peer, number}), 0})
}

// SetRanking has a connection rank the packets that it sends from now on.
func (h *Host) SetRanking(peer Endpoint, number uint32, r wire.Ranking) {
	h.connection(key{peer, number}).ranking = r
}

// HandlePacket takes a packet that has arrived.
func (h *Host) HandlePacket(now clock.Time, p *Packet) {
	if p.Trimmed {
		h.counters.Damaged++
		return
	}
	c := h.of(p)
	if c == nil || c.aborted {
		return
	}
	if h.cfg.Handshake && !h.greeted(now, c, p) {
		h.settle(c)
		return
	}
	if p.Header.Flags&FlagACK != 0 {
		h.acknowledged(now, c, p)
	}
	if p.Payload > 0 {
		h.arrived(now, c, p)
	}
	h.settle(c)
}

// settle follows every change of a connection: it queues the connection if it may send, and updates its timers.
func (h *Host) settle(c *connection) {
	if !c.queued && (c.greets || c.ackNow || len(c.earlier) > 0 || h.mayTransmit(c)) {
		c.queued = true
		h.ready = append(h.ready, c)
	}
	h.timers.set(c)
	if c.finished && c.idle() {
		h.leave(c)
	}
}

// NextTimer returns when HandleTimer must be called; false: never. It may be too early, never too late.
func (h *Host) NextTimer() (at clock.Time, ok bool) {
	at = h.timers.next()
	if n := len(h.writes); n > 0 {
		at = min(at, h.writes[n-1].at)
	}
	return at, at != clock.Never
}

// HandleTimer serves what is due.
func (h *Host) HandleTimer(now clock.Time) {
	for n := len(h.writes); n > 0 && h.writes[n-1].at <= now; n = len(h.writes) {
		w := h.writes[n-1]
		h.writes = h.writes[:n-1]
		if w.bytes == 0 { // its end
			w.to.written = min(w.to.written, w.to.next)
			h.settle(w.to)
			continue
		}
		w.to.written = min(w.to.written+w.bytes, Endless)
		h.open(w.to)
		h.settle(w.to)
	}
	h.due = h.due[:0]
	for h.timers.next() <= now {
		h.due = append(h.due, h.timers.pop())
	}
	slices.SortFunc(h.due, func(a, b *connection) int { return a.order - b.order })
	for _, c := range h.due {
		switch {
		case c.expires > now:
		case h.cfg.Handshake && c.stage != established:
			h.greetAgain(now, c)
		default:
			h.timeout(now, c)
		}
		if c.paced <= now {
			c.paced = clock.Never
		}
		if c.ackAt <= now && h.bugs.Has(BugForgetsAck) {
			c.ackAt = clock.Never
		}
		if c.ackAt <= now {
			c.ackNow, c.ackAt = true, clock.Never
		}
		h.settle(c)
	}
}

// Poll fills p with the next packet to send and reports whether there is one. Connections take turns. Each sends its
// retransmissions first, then new data, and a pure ACK only without data. Every packet carries the acknowledgement.
func (h *Host) Poll(now clock.Time, p *Packet) bool {
	for len(h.ready) > 0 {
		c := h.ready[0]
		h.ready = append(h.ready[:0], h.ready[1:]...)
		c.queued = false
		*p = Packet{From: h.cfg.Address, To: c.peer, Connection: c.number}
		switch {
		case c.greets:
			h.greet(now, c, p)
			h.settle(c)
			return true
		case len(c.earlier) > 0:
			h.sendEarlier(c, p)
			h.settle(c)
			return true
		case !c.confirms && h.mayTransmit(c):
			h.transmit(now, c, p)
		case c.ackNow:
			c.confirms = false
			h.number(c, p)
			p.Rank = c.ranking.Rank(max(c.written, 1), max(c.next+h.cfg.greetings(), 1))
		default:
			continue
		}
		h.acknowledge(now, c, &p.Header)
		h.delay(now, &c.receiver, &p.Header)
		h.settle(c)
		return true
	}
	return false
}

func (h *Host) report(now clock.Time, c *connection, kind EventKind, bytes uint64) {
	if h.sink != nil {
		h.sink.TCPEvent(now, Event{Kind: kind, Local: h.cfg.Address, Peer: c.peer, Connection: c.number, Bytes: bytes})
	}
}
