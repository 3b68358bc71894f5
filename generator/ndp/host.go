package ndp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
)

// Packet is a packet that a host sends or receives.
type Packet struct {
	From, To Endpoint
	Header   ndp.Header
	// Entropy is the path tag by which the network selects the path. For data it equals Header.Path; the answers echo
	// Header.Path and have their own path tags.
	Entropy uint16
	// Payload is the number of payload bytes carried; less than Header.Length after trimming.
	Payload uint16
	// Rank is the rank that the flow gives data; what receivers send has 0.
	Rank uint64
}

// set copies from into p, as ndp.Header.Set does.
func (p *Packet) set(from *Packet) {
	p.From, p.To, p.Entropy, p.Payload, p.Rank = from.From, from.To, from.Entropy, from.Payload, from.Rank
	p.Header.Set(&from.Header)
}

// Host is the transport of one NIC. It does no I/O, starts no goroutine and is not safe for concurrent use. The caller
// brings packets and time, which must not go backwards:
//
//   - HandlePacket for each packet that arrives, HandleTimer when NextTimer is due;
//   - after either, Poll whenever the NIC can take a packet, until it returns false. The caller paces at line rate.
//
// Fields are in the order of use: in a large network, a host's data has left the caches when its next packet arrives.
type Host struct {
	cfg      Config
	starts   []pendingFlow // by time, the earliest last
	stops    []pendingFlow // likewise
	credits  int           // sum over all receivers
	nextPull clock.Time    // earliest time of the next PULL
	armed    uint8         // which of timeouts may have timers, one bit each
	expiry   clock.Time    // no timer in timeouts expires earlier unless it is answered
	answers  fifo[Packet]  // ACKs, NACKs and PULLs to be sent
	ready    fifo[uint32]  // indices of senders that may send, each once
	senders  []*sender     // by number; of one that has finished the entry of through
	last     *receiver     // receiver of the latest packet
	pulls    turns
	feedback spray
	counters Counters

	sink     Sink
	known    map[receiverKey]*receiver // not complete
	complete map[receiverKey]uint32    // packets of the connections that are: late copies are still answered
	late     receiver                  // the latest of them that was asked for
	through  map[Endpoint]*sender      // by peer: stands for all senders to it that have finished
	timeouts [timeoutLevels]fifo[timeout]
	nacks    nth // counts occasions of faults
	arrivals nth
	pullings nth
}

type pendingFlow struct {
	at         clock.Time
	connection uint32
}

// New returns a host without connections. sink may be nil.
func New(cfg Config, sink Sink) (*Host, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("NDP host %d: %w", cfg.Address, err)
	}
	h := &Host{cfg: cfg, sink: sink, expiry: clock.Never, known: make(map[receiverKey]*receiver),
		complete: make(map[receiverKey]uint32), through: make(map[Endpoint]*sender)}
	h.feedback = newSpray(cfg.Paths, h.rng(math.MaxUint32))
	return h, nil
}

// rng returns the generator of a connection's path tags. Each connection has its own, so connections don't affect each
// other's tags.
func (h *Host) rng(connection uint32) *rand.Rand {
	return rand.New(rand.NewPCG(h.cfg.Seed, uint64(h.cfg.Address)<<32|uint64(connection)))
}

// maxPackets keeps packet numbers from wrapping.
const maxPackets = 1 << 31

// Send creates a connection for f and returns its number. The connection sends nothing before f.Start, which NextTimer
// includes.
func (h *Host) Send(f Flow) (connection uint32, err error) {
	packets := (f.Bytes + uint64(h.cfg.Payload) - 1) / uint64(h.cfg.Payload)
	switch {
	case packets > maxPackets:
		return 0, fmt.Errorf("flow of %d bytes to host %d: %d packets, at most %d have numbers", f.Bytes, f.To, packets,
			maxPackets)
	}
	if f.Bytes == 0 {
		packets = math.MaxUint32
	}
	index := uint32(len(h.senders))
	connection = h.cfg.FirstConnection + index
	s := &sender{
		host: h, index: index, connection: connection, to: f.To, bytes: f.Bytes, packets: uint32(packets),
		ranking: f.Rank,
	}
	if h.cfg.Paths > 1 {
		s.paths = newSpray(h.cfg.Paths, h.rng(connection))
	}
	if h.cfg.Penalty.On {
		s.board = &scoreboard{paths: make([]pathScore, h.cfg.Paths)}
		s.window.tagged = true
	}
	h.senders = append(h.senders, s)
	h.starts = later(h.starts, f.Start, index)
	if f.Bytes == 0 && f.Stop > 0 {
		h.stops = later(h.stops, max(f.Stop, f.Start), index)
	}
	return connection, nil
}

// later adds what happens to a connection at an instant. The list is descending, so that the earliest is popped from
// the end. Of equal times, the first declared comes first.
func later(list []pendingFlow, at clock.Time, index uint32) []pendingFlow {
	i := sort.Search(len(list), func(i int) bool { return list[i].at <= at })
	return slices.Insert(list, i, pendingFlow{at, index})
}

// Counters returns the host's counters.
func (h *Host) Counters() Counters { return h.counters }

// HandlePacket takes a packet that has arrived.
func (h *Host) HandlePacket(now clock.Time, p *Packet) {
	switch {
	case p.Header.Kind == ndp.Data && p.Header.Flags&ndp.FlagReturned == 0:
		h.handleData(now, p)
	case p.Header.Kind == ndp.Data:
		h.handleReturned(now, p)
	case p.Header.Flags&ndp.FlagReturned != 0:
		h.counters.Unclaimed++ // returned feedback: cumulative counters and the RTO replace it
	default:
		h.handleFeedback(now, p)
	}
	h.pace(now)
}

// NextTimer returns when HandleTimer must be called; false: never. There may be nothing to do by then: a retransmission
// timer that is answered is looked at no earlier than when it would expire.
func (h *Host) NextTimer() (at clock.Time, ok bool) {
	at = h.expiry
	if n := len(h.starts); n > 0 {
		at = min(at, h.starts[n-1].at)
	}
	if n := len(h.stops); n > 0 {
		at = min(at, h.stops[n-1].at)
	}
	if h.credits > 0 {
		at = min(at, h.nextPull)
	}
	return at, at != clock.Never // Never if not ok
}

// HandleTimer serves what is due.
func (h *Host) HandleTimer(now clock.Time) {
	for n := len(h.starts); n > 0 && h.starts[n-1].at <= now; n = len(h.starts) {
		s := h.senders[h.starts[n-1].connection]
		h.starts = h.starts[:n-1]
		s.start(now)
	}
	for n := len(h.stops); n > 0 && h.stops[n-1].at <= now; n = len(h.stops) {
		s := h.senders[h.stops[n-1].connection]
		h.stops = h.stops[:n-1]
		s.stop()
	}
	h.pace(now)
	if h.cfg.RTO > 0 {
		h.serveTimeouts(now)
	}
}

// Poll fills p with the next packet to send and reports whether there is one. Answers go first, then data of all
// connections in turn.
func (h *Host) Poll(now clock.Time, p *Packet) bool {
	if h.answers.len() > 0 {
		p.set(h.answers.front())
		h.answers.head++
		return true
	}
	for h.ready.len() > 0 {
		s := h.senders[h.ready.pop()]
		s.queued = false
		if s.send(now, p) {
			s.activate()
			return true
		}
	}
	return false
}

func (h *Host) report(now clock.Time, e Event) {
	if h.sink != nil {
		h.sink.NDPEvent(now, e)
	}
}
