package bolt

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
	answers  queue[Packet]
	ready    queue[*sender] // that may send, by turns
	timers   timers
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

// queue is first in, first out.
type queue[T any] struct {
	list []T
	head int
}

func (q *queue[T]) push(x T) { q.list = append(q.list, x) }

func (q *queue[T]) pop() (x T, ok bool) {
	if q.head == len(q.list) {
		return x, false
	}
	x = q.list[q.head]
	q.head++
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	} else if q.head > len(q.list)/2 && q.head > 1024 {
		q.list, q.head = append(q.list[:0], q.list[q.head:]...), 0
	}
	return x, true
}

// New returns a host without connections. sink may be nil.
func New(cfg Config, sink Sink) (*Host, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("bolt host %d: %w", cfg.Address, err)
	}
	return &Host{cfg: cfg, sink: sink, senders: make(map[uint32]*sender), known: make(map[key]*receiver),
		complete: make(map[key]uint32)}, nil
}

const maxPackets = 1 << 30

// Send creates a connection for f and returns its number. It sends nothing before f.Start, which NextTimer includes.
func (h *Host) Send(f Flow) (connection uint32, err error) {
	packets := (f.Bytes + uint64(h.cfg.Payload) - 1) / uint64(h.cfg.Payload)
	if packets > maxPackets {
		return 0, fmt.Errorf("flow of %d bytes to host %d: %d packets, at most %d have numbers", f.Bytes, f.To, packets,
			maxPackets)
	}
	s := &sender{host: h, connection: h.next, to: f.To, bytes: f.Bytes, packets: uint32(packets), ranking: f.Rank,
		window: float64(h.cfg.Window), expires: clock.Never, wake: clock.Never, due: clock.Never, place: -1}
	if f.Bytes == 0 {
		s.packets = math.MaxUint32
	}
	h.next++
	h.senders[s.connection] = s
	// Descending, so that the earliest is popped from the end. Of equal times, the first declared starts first.
	at := sort.Search(len(h.starts), func(i int) bool { return h.starts[i].at <= f.Start })
	h.starts = slices.Insert(h.starts, at, pending{f.Start, s})
	return s.connection, nil
}

// Sent returns how many data packets a connection that has not finished has sent.
func (h *Host) Sent(connection uint32) uint64 {
	if s := h.senders[connection]; s != nil {
		return s.sent
	}
	return 0
}

// Window returns the window, in packets, of a connection that has not finished.
func (h *Host) Window(connection uint32) float64 {
	if s := h.senders[connection]; s != nil {
		return s.window
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
	if p.Kind == Data {
		h.arrived(now, p)
		return
	}
	s := h.senders[p.Connection]
	switch {
	case s == nil || s.to != p.From || !s.running || p.Number >= s.next():
	case p.Kind == SRC:
		s.slow(now, p)
	default:
		s.acknowledged(now, p)
	}
}

// NextTimer returns when HandleTimer must be called; false: never.
func (h *Host) NextTimer() (at clock.Time, ok bool) {
	at = clock.Never
	if n := len(h.starts); n > 0 {
		at = h.starts[n-1].at
	}
	if len(h.timers) > 0 {
		at = min(at, h.timers[0].due)
	}
	return at, at != clock.Never
}

// HandleTimer serves what is due.
func (h *Host) HandleTimer(now clock.Time) {
	for n := len(h.starts); n > 0 && h.starts[n-1].at <= now; n = len(h.starts) {
		s := h.starts[n-1].of
		h.starts = h.starts[:n-1]
		s.running = true
		s.settle(now)
	}
	for len(h.timers) > 0 && h.timers[0].due <= now {
		h.timers[0].timer(now)
	}
}

// Poll fills p with the next packet to send and reports whether there is one.
func (h *Host) Poll(now clock.Time, p *Packet) bool {
	if a, ok := h.answers.pop(); ok {
		*p = a
		return true
	}
	for {
		s, ok := h.ready.pop()
		if !ok {
			return false
		}
		s.queued = false
		if number, may := s.choose(now); may {
			s.send(now, p, number)
			return true
		}
	}
}

func (h *Host) report(now clock.Time, e Event) {
	if h.sink != nil {
		h.sink.BoltEvent(now, e)
	}
}

// stamp is a time as packets carry it.
func stamp(t clock.Time) uint32 { return uint32(t.Nanoseconds()) }

// since returns how long ago a stamp was made.
func since(now clock.Time, sentNS uint32) clock.Duration {
	return clock.Duration(stamp(now)-sentNS) * clock.Nanosecond
}
