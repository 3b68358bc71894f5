package bolt

import (
	"cmp"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
)

type state uint8

const (
	flying state = iota
	lost
	acked
)

// slot is a packet that was sent.
type slot struct {
	state state
	order uint64 // of its latest transmission among those of the flow
}

// flight is a transmission.
type flight struct {
	number uint32
	order  uint64
}

// sender is the sending end of a connection.
type sender struct {
	host       *Host
	connection uint32
	to         Endpoint
	packets    uint32 // in all; MaxUint32: without end
	base       uint32 // the oldest unacknowledged packet
	lostFrom   uint32 // no lost packet is below
	bytes      uint64
	ranking    wire.Ranking
	slots      []slot // from base to the newest packet sent
	flights    queue[flight]
	flight     int // packets in flight
	missing    int // lost, and not retransmitted since
	sent       uint64

	window  float64        // packets
	rtt     clock.Duration // 0: none yet
	notice  clock.Duration // how long the latest SRC took, from its data packet on
	lowered clock.Time     // last decrease of the window; before the first, its first packet
	growAt  uint32         // an ACK for this packet or a later one adds the increase of a round trip

	last    clock.Time // when a packet was sent
	expires clock.Time // of the timer of losses
	wake    clock.Time // a window below one packet lets the next one go
	due     clock.Time // the earlier of both
	place   int        // in timers; −1: absent
	running bool
	queued  bool // among those that are ready
	again   bool // retransmit an acknowledged packet: a fault
}

func (s *sender) next() uint32 { return s.base + uint32(len(s.slots)) }

func (s *sender) has(b Bug) bool { return s.host.cfg.Bugs.Has(b) }

// room reports whether the window allows another packet, and if not, when it will without news; Never: it won't.
func (s *sender) room(now clock.Time) (may bool, at clock.Time) {
	window := s.window
	if s.has(BugOverrunsWindow) {
		window *= 2
	}
	switch {
	case window >= 1:
		return s.flight < int(window), clock.Never
	case s.flight > 0:
		return false, clock.Never
	case s.sent == 0:
		return true, clock.Never
	}
	at = s.last.Add(clock.Duration(float64(cmp.Or(s.rtt, s.notice)) / window))
	return at <= now, at
}

// choose returns the packet to send next, and whether one may be sent.
func (s *sender) choose(now clock.Time) (number uint32, may bool) {
	if !s.running || s.missing == 0 && s.next() >= s.packets {
		return 0, false
	}
	if may, _ = s.room(now); !may {
		return 0, false
	}
	if s.missing == 0 {
		return s.next(), true
	}
	s.lostFrom = max(s.lostFrom, s.base)
	for s.slots[s.lostFrom-s.base].state != lost {
		s.lostFrom++
	}
	return s.lostFrom, true
}

// settle follows every change: the sender is ready if it may send, and its timers run.
func (s *sender) settle(now clock.Time) {
	h := s.host
	s.wake = clock.Never
	if s.running && (s.missing > 0 || s.next() < s.packets) {
		may, at := s.room(now)
		if may && !s.queued {
			s.queued = true
			h.ready.push(s)
		} else if !may {
			s.wake = at
		}
	}
	if s.due = min(s.expires, s.wake); s.due == clock.Never {
		h.timers.remove(s)
	} else {
		h.timers.put(s)
	}
}

// length returns the payload of a packet.
func (s *sender) length(number uint32) int {
	if number == s.packets-1 {
		return int(s.bytes - uint64(number)*uint64(s.host.cfg.Payload))
	}
	return s.host.cfg.Payload
}

// rank returns that of a packet.
func (s *sender) rank(number uint32) uint64 {
	return s.ranking.Rank(s.bytes, uint64(number)*uint64(s.host.cfg.Payload))
}

// flags returns those of a new packet (bolt-l4-protocol.cc, SendDownOnePacket).
func (s *sender) flags(number uint32) (f Flags) {
	more := s.packets == maxEndless || float64(number)+s.window < float64(s.packets)
	switch {
	case s.rtt == 0 && !s.has(BugNeverFirst):
		f |= First
	case s.rtt != 0 && more:
		f |= Inc
	}
	if !more && !s.has(BugNeverLast) {
		f |= Last
	}
	if s.has(BugAlwaysInc) {
		f |= Inc
	}
	return f
}

// send fills p with a packet that may go.
func (s *sender) send(now clock.Time, p *Packet, number uint32) {
	h := s.host
	*p = Packet{From: h.cfg.Address, To: s.to, Kind: Data, Connection: s.connection, SentNS: stamp(now)}
	if s.packets != maxEndless {
		p.Total = s.packets
	}
	if s.sent == 0 {
		s.lowered = now
	}
	s.last = now
	s.sent++
	switch {
	case s.missing > 0 && s.again:
		p.Payload, s.again = s.length(0), false
		p.Rank = s.rank(0)
		s.settle(now)
		return
	case s.missing > 0:
		s.missing--
		if s.has(BugStaleTime) {
			p.SentNS -= 1000
		}
		h.report(now, Event{Kind: Retransmitted, Sender: h.cfg.Address, Receiver: s.to, Connection: s.connection})
	default:
		if s.has(BugSkipsPacket) && number%16 == 15 && number+1 < s.packets {
			s.fly(number)
			number++
		}
		if s.has(BugStaleTime) && number%8 == 7 {
			p.SentNS -= 1000
		}
		p.Flags = s.flags(number)
	}
	s.fly(number)
	p.Number, p.Payload, p.Rank = number, s.length(number), s.rank(number)
	if s.expires == clock.Never {
		s.start(now)
	}
	s.settle(now)
}

const maxEndless = 1<<32 - 1

// fly books a transmission.
func (s *sender) fly(number uint32) {
	if number == s.next() {
		s.slots = append(s.slots, slot{})
	}
	s.slots[number-s.base] = slot{flying, s.sent}
	s.flights.push(flight{number, s.sent})
	s.flight++
}

// start starts the timer.
func (s *sender) start(now clock.Time) {
	rto := s.host.cfg.RTO
	switch {
	case s.has(BugNoTimeout):
		return
	case s.has(BugEarlyTimeout):
		rto /= 2
	}
	s.expires = now.Add(rto)
}

// clamp holds the window between its limits.
func (s *sender) clamp() {
	s.window = min(max(s.window, s.host.cfg.MinWindow), float64(s.host.cfg.MaxWindow))
}

// slow takes an SRC packet (section 3.1; HandleBts of the simulator). The sender drains its share of the queue, that of
// its rate in the link's, one packet after another in the time that the notice took.
func (s *sender) slow(now clock.Time, p *Packet) {
	s.notice = max(since(now, p.SentNS), 1)
	if s.has(BugIgnoresSRC) {
		return
	}
	const least = 0.5
	if s.window <= 1 {
		s.window *= least
	} else if drain := s.drain(p) * float64(now.Sub(s.lowered)); drain >= float64(s.notice) || s.has(BugObeysEverySRC) {
		s.lowered = now
		if s.window--; s.has(BugHalvesOnSRC) {
			s.window = (s.window + 1) * least
		}
	}
	s.clamp()
	s.settle(now)
}

// drain returns the sender's share of a queue, in packets.
func (s *sender) drain(p *Packet) float64 {
	c := &s.host.cfg
	rate := float64(c.Rate)
	if s.rtt > 0 {
		rate = s.window * float64(c.Frame) * 8 / (float64(s.rtt) / float64(clock.Second))
	}
	share := rate / (float64(p.RateMbps) * 1e6)
	return float64(p.Queue) / float64(c.Frame) * share
}

// acknowledged takes an ACK.
func (s *sender) acknowledged(now clock.Time, a *Packet) {
	if a.Total > s.next() {
		return
	}
	s.rtt = max(since(now, a.SentNS), 1)
	order := uint64(0)
	if a.Number >= s.base {
		order = s.slots[a.Number-s.base].order
	}
	fresh := s.mark(a.Number)
	for s.base < a.Total { // ACKs that were lost
		fresh = s.mark(s.base) || fresh
	}
	s.grow(a)
	s.reordered(now, order)
	if fresh {
		if s.expires = clock.Never; s.flight > 0 {
			s.start(now)
		}
	}
	if s.base == s.packets {
		s.finish(now)
		return
	}
	s.settle(now)
}

// grow opens the window: by the increase of a round trip, and by a packet for a token that switches have granted.
func (s *sender) grow(a *Packet) {
	c := &s.host.cfg
	if a.Number >= s.growAt {
		s.growAt = s.next()
		if !s.has(BugNoIncrease) {
			s.window += c.Increase
		}
	} else if s.has(BugIncreasesOnEveryAck) {
		s.window += c.Increase
	}
	granted := a.Flags&Inc != 0 && a.Flags&Dec == 0
	if granted && !s.has(BugIgnoresInc) || s.has(BugGrowsWithoutInc) {
		s.window++
	}
	s.clamp()
}

// mark marks a packet as acknowledged and reports whether that is news.
func (s *sender) mark(number uint32) bool {
	if number < s.base || s.slots[number-s.base].state == acked {
		return false
	}
	at := &s.slots[number-s.base]
	if at.state == flying {
		s.flight--
	} else {
		s.missing--
	}
	at.state = acked
	for len(s.slots) > 0 && s.slots[0].state == acked {
		s.slots = s.slots[1:]
		s.base++
	}
	return true
}

// reordered counts as lost what was sent so much before a transmission that is acknowledged.
func (s *sender) reordered(now clock.Time, order uint64) {
	reorder := s.host.cfg.Reorder
	if reorder == 0 {
		return
	}
	for s.flights.head < len(s.flights.list) && s.flights.list[s.flights.head].order+uint64(reorder) <= order {
		f, _ := s.flights.pop()
		if f.number < s.base {
			continue
		}
		if at := &s.slots[f.number-s.base]; at.state == flying && at.order == f.order {
			s.lose(at, f.number)
			s.cut(now)
		}
	}
}

func (s *sender) lose(at *slot, number uint32) {
	at.state = lost
	s.flight--
	s.missing++
	s.lostFrom = min(s.lostFrom, number)
}

// cut halves the window, at most once an RTT.
func (s *sender) cut(now clock.Time) {
	const half = 0.5
	if s.has(BugKeepsWindow) || now.Sub(s.lowered) < s.rtt {
		return
	}
	s.lowered = now
	s.window *= half
	s.clamp()
}

func (s *sender) finish(now clock.Time) {
	h := s.host
	h.timers.remove(s)
	s.running = false
	delete(h.senders, s.connection)
	h.report(now, Event{Kind: Finished, Sender: h.cfg.Address, Receiver: s.to, Connection: s.connection, Sent: s.sent})
}

// timer serves what is due.
func (s *sender) timer(now clock.Time) {
	if s.expires <= now {
		s.timeout(now)
	}
	s.settle(now)
}

// timeout counts all that is in flight as lost.
func (s *sender) timeout(now clock.Time) {
	h := s.host
	s.expires = clock.Never
	s.cut(now)
	for i := range s.slots {
		if s.slots[i].state == flying {
			s.lose(&s.slots[i], s.base+uint32(i))
		}
	}
	s.flights = queue[flight]{}
	s.again = s.has(BugRetransmitsAcknowledged) && s.base > 0
	h.report(now, Event{Kind: TimedOut, Sender: h.cfg.Address, Receiver: s.to, Connection: s.connection})
}
