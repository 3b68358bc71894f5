package pfabric

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
)

type state uint8

const (
	flying state = iota
	lost
	acked
)

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
	slots      []state // from base to the newest packet sent
	flight     int     // packets in flight
	missing    int     // lost, and not retransmitted since
	sent       uint64
	window     float64
	threshold  float64
	timeouts   int // in a row
	expires    clock.Time
	running    bool
	probing    bool
	probed     bool   // a probe is in flight
	again      bool   // retransmit an acknowledged packet: a fault
	urgency    uint64 // rank of the next packet, while ready
	inReady    int
	inTimers   int
}

func (s *sender) next() uint32 { return s.base + uint32(len(s.slots)) }

// room returns the window in packets.
func (s *sender) room() int {
	if s.host.cfg.Bugs.Has(BugOverrunsWindow) {
		return 2 * int(s.window)
	}
	return int(s.window)
}

// settle follows every change: the sender is ready if it may send, and its timer runs if something is in flight.
func (s *sender) settle() {
	h := s.host
	if number, may := s.choose(); may {
		s.urgency = s.rank(number)
		h.ready.put(s)
	} else {
		h.ready.remove(s)
	}
	if s.expires != clock.Never {
		h.timers.put(s)
	} else {
		h.timers.remove(s)
	}
}

// choose returns the packet to send next, and whether one may be sent.
func (s *sender) choose() (number uint32, may bool) {
	switch {
	case !s.running:
	case s.probing:
		return s.base, !s.probed
	case s.flight >= s.room():
	case s.missing > 0:
		s.lostFrom = max(s.lostFrom, s.base)
		for s.slots[s.lostFrom-s.base] != lost {
			s.lostFrom++
		}
		return s.lostFrom, true
	default:
		return s.next(), s.next() < s.packets
	}
	return 0, false
}

// rank returns the rank of a packet.
func (s *sender) rank(number uint32) uint64 {
	if s.host.cfg.Bugs.Has(BugConstantRank) {
		number = 0
	}
	return s.ranking.Rank(s.bytes, uint64(number)*uint64(s.host.cfg.Payload))
}

// length returns the payload of a packet.
func (s *sender) length(number uint32) int {
	if number == s.packets-1 && s.bytes > 0 {
		return int(s.bytes - uint64(number)*uint64(s.host.cfg.Payload))
	}
	return s.host.cfg.Payload
}

// send fills p with the next packet.
func (s *sender) send(now clock.Time, p *Packet) {
	h := s.host
	number, _ := s.choose()
	*p = Packet{From: h.cfg.Address, To: s.to, Kind: Data, Connection: s.connection, Rank: s.rank(number)}
	if s.packets != maxEndless {
		p.Total = s.packets
	}
	switch {
	case s.probing:
		p.Kind, p.Number, p.Payload, s.probed = Probe, number, 1, true
	case s.missing > 0 && s.again:
		p.Payload, p.Rank, s.again = s.length(0), s.rank(0), false
		s.sent++
		return
	case s.missing > 0:
		s.slots[number-s.base] = flying
		s.missing--
		s.fly(p, number)
		h.report(now, Event{Kind: Retransmitted, Sender: h.cfg.Address, Receiver: s.to, Connection: s.connection})
	default:
		if h.cfg.Bugs.Has(BugSkipsPacket) && number%16 == 15 && number+1 < s.packets {
			s.slots = append(s.slots, flying)
			s.flight++
			number++
		}
		s.slots = append(s.slots, flying)
		s.fly(p, number)
		p.Rank = s.rank(number)
	}
	if s.expires == clock.Never {
		s.start(now)
	}
	s.settle()
}

const maxEndless = 1<<32 - 1

func (s *sender) fly(p *Packet, number uint32) {
	p.Number, p.Payload = number, s.length(number)
	s.flight++
	s.sent++
}

// start starts the timer.
func (s *sender) start(now clock.Time) {
	rto := s.host.cfg.RTO
	switch {
	case s.host.cfg.Bugs.Has(BugNoTimeout):
		return
	case s.host.cfg.Bugs.Has(BugEarlyTimeout):
		rto /= 2
	}
	s.expires = now.Add(rto)
}

// acknowledged takes an ACK.
func (s *sender) acknowledged(now clock.Time, a *Packet) {
	if a.Number != NoNumber && a.Number >= s.next() || a.Total > s.next() {
		return
	}
	fresh := 0
	if a.Number != NoNumber {
		fresh = s.mark(a.Number)
	}
	for s.base < a.Total { // ACKs that were lost
		fresh += s.mark(s.base)
	}
	if s.probing {
		s.probing, s.probed, s.window, s.timeouts = false, false, 1, 0
		s.expires = clock.Never
	}
	for range fresh {
		if s.window < s.threshold {
			s.window++
		} else {
			s.window += 1 / s.window
		}
	}
	if fresh > 0 {
		if s.timeouts, s.expires = 0, clock.Never; s.flight > 0 {
			s.start(now)
		}
	}
	if s.base == s.packets {
		s.finish(now)
		return
	}
	s.settle()
}

// mark marks a packet as acknowledged and returns 1 if that is news.
func (s *sender) mark(number uint32) int {
	if number < s.base || s.slots[number-s.base] == acked {
		return 0
	}
	at := &s.slots[number-s.base]
	if *at == flying {
		s.flight--
	} else {
		s.missing--
	}
	*at = acked
	for len(s.slots) > 0 && s.slots[0] == acked {
		s.slots = s.slots[1:]
		s.base++
	}
	return 1
}

func (s *sender) finish(now clock.Time) {
	h := s.host
	h.ready.remove(s)
	h.timers.remove(s)
	delete(h.senders, s.connection)
	h.report(now, Event{Kind: Finished, Sender: h.cfg.Address, Receiver: s.to, Connection: s.connection, Sent: s.sent})
}

// timeout counts all that is in flight as lost.
func (s *sender) timeout(now clock.Time) {
	const least = 2 // of the threshold
	h := s.host
	s.expires = clock.Never
	s.timeouts++
	if !h.cfg.Bugs.Has(BugKeepsWindow) {
		s.threshold, s.window = max(least, s.window/2), 1
	}
	for i := range s.slots {
		if s.slots[i] == flying {
			s.slots[i] = lost
			s.missing++
		}
	}
	s.flight, s.probed, s.lostFrom = 0, false, s.base
	after := h.cfg.ProbeAfter
	if h.cfg.Bugs.Has(BugProbesAtOnce) {
		after = 1
	}
	if after > 0 && s.timeouts >= after && !h.cfg.Bugs.Has(BugNoProbes) {
		s.probing = true
	}
	s.again = h.cfg.Bugs.Has(BugRetransmitsAcknowledged) && s.base > 0 && !s.probing
	h.report(now, Event{Kind: TimedOut, Sender: h.cfg.Address, Receiver: s.to, Connection: s.connection})
	s.settle()
}
