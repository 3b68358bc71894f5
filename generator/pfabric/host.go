package pfabric

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"candela.dev/candela/clock"
)

// Host is the transport of one NIC. It does no I/O, starts no goroutine and is not safe for concurrent use. The caller
// brings packets and time, which must not go backwards:
//
//   - HandlePacket for each packet that arrives, HandleTimer when NextTimer is due;
//   - after either, Poll whenever the NIC can take a packet, until it returns false.
type Host struct {
	cfg      Config
	sink     Sink
	senders  map[uint32]*sender // that have not finished
	next     uint32             // number of the next connection
	starts   []pending          // by time, the earliest last
	stops    []pending          // likewise
	answers  []Packet           // to be sent, from head on
	head     int
	ready    heap // senders that may send, the most urgent first
	timers   heap // senders with a running timer, the earliest first
	known    map[key]*receiver
	complete map[key]uint32 // packets of flows that have arrived: late copies are still acknowledged
	arrivals uint32         // counts occasions of a fault
}

type key struct {
	peer   Endpoint
	number uint32
}

type pending struct {
	at clock.Time
	of *sender
}

// New returns a host without connections. sink may be nil.
func New(cfg Config, sink Sink) (*Host, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("pFabric host %d: %w", cfg.Address, err)
	}
	h := &Host{cfg: cfg, sink: sink, senders: make(map[uint32]*sender), known: make(map[key]*receiver),
		complete: make(map[key]uint32)}
	h.ready = heap{less: moreUrgent, place: func(s *sender) *int { return &s.inReady }}
	if cfg.Bugs.Has(BugNewestFirst) {
		h.ready.less = func(a, b *sender) bool { return moreUrgent(b, a) }
	}
	h.timers = heap{less: earlier, place: func(s *sender) *int { return &s.inTimers }}
	return h, nil
}

const maxPackets = 1 << 31

// Send creates a connection for f and returns its number. It sends nothing before f.Start, which NextTimer includes.
func (h *Host) Send(f Flow) (connection uint32, err error) {
	packets := (f.Bytes + uint64(h.cfg.Payload) - 1) / uint64(h.cfg.Payload)
	if packets > maxPackets {
		return 0, fmt.Errorf("flow of %d bytes to host %d: %d packets, at most %d have numbers", f.Bytes, f.To, packets,
			maxPackets)
	}
	s := &sender{host: h, connection: h.next, to: f.To, bytes: f.Bytes, packets: uint32(packets), ranking: f.Rank,
		window: float64(h.cfg.Window), threshold: float64(h.cfg.Window), expires: clock.Never}
	if f.Bytes == 0 {
		s.packets = math.MaxUint32
	}
	h.next++
	h.senders[s.connection] = s
	h.starts = later(h.starts, f.Start, s)
	if f.Bytes == 0 && f.Stop > 0 {
		h.stops = later(h.stops, max(f.Stop, f.Start), s)
	}
	return s.connection, nil
}

// later adds what happens to a sender at an instant. The list is descending, so that the earliest is popped from the
// end. Of equal times, the first declared comes first.
func later(list []pending, at clock.Time, s *sender) []pending {
	i := sort.Search(len(list), func(i int) bool { return list[i].at <= at })
	return slices.Insert(list, i, pending{at, s})
}

// Sent returns how many data packets a connection that has not finished has sent.
func (h *Host) Sent(connection uint32) uint64 {
	if s := h.senders[connection]; s != nil {
		return s.sent
	}
	return 0
}

// Arrived returns what has arrived of a flow that is not complete.
func (h *Host) Arrived(peer Endpoint, connection uint32) (a Arrivals, ok bool) {
	r := h.known[key{peer, connection}]
	if r == nil {
		return Arrivals{}, false
	}
	return r.Arrivals, true
}

// HandlePacket takes a packet that has arrived whole.
func (h *Host) HandlePacket(now clock.Time, p *Packet) {
	if p.Kind != Ack {
		h.arrived(now, p)
		return
	}
	if s := h.senders[p.Connection]; s != nil && s.to == p.From && s.running {
		s.acknowledged(now, p)
	}
}

// NextTimer returns when HandleTimer must be called; false: never.
func (h *Host) NextTimer() (at clock.Time, ok bool) {
	at = clock.Never
	if n := len(h.starts); n > 0 {
		at = h.starts[n-1].at
	}
	if n := len(h.stops); n > 0 {
		at = min(at, h.stops[n-1].at)
	}
	if len(h.timers.list) > 0 {
		at = min(at, h.timers.list[0].expires)
	}
	return at, at != clock.Never
}

// HandleTimer serves what is due.
func (h *Host) HandleTimer(now clock.Time) {
	for n := len(h.starts); n > 0 && h.starts[n-1].at <= now; n = len(h.starts) {
		s := h.starts[n-1].of
		h.starts = h.starts[:n-1]
		s.running = true
		s.settle()
	}
	for n := len(h.stops); n > 0 && h.stops[n-1].at <= now; n = len(h.stops) {
		s := h.stops[n-1].of
		h.stops = h.stops[:n-1]
		s.packets = s.next() + 1 // the next packet is the last
		s.settle()
	}
	for len(h.timers.list) > 0 && h.timers.list[0].expires <= now {
		h.timers.list[0].timeout(now)
	}
}

// Poll fills p with the next packet to send and reports whether there is one.
func (h *Host) Poll(now clock.Time, p *Packet) bool {
	if h.head < len(h.answers) {
		*p = h.answers[h.head]
		if h.head++; h.head == len(h.answers) {
			h.answers, h.head = h.answers[:0], 0
		}
		return true
	}
	if len(h.ready.list) == 0 {
		return false
	}
	h.ready.list[0].send(now, p)
	return true
}

func (h *Host) report(now clock.Time, e Event) {
	if h.sink != nil {
		h.sink.PFabricEvent(now, e)
	}
}
