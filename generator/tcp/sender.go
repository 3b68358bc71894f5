package tcp

import (
	"sort"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
)

// segment was sent and is not cumulatively acknowledged.
type segment struct {
	start         uint64
	sent          clock.Time // latest transmission
	ordinal       uint64     // number of the latest transmission within the connection
	length        int32
	sacked        bool
	lost          bool // and not retransmitted since
	flying        bool // counts as in flight
	retransmitted bool
	doubled       bool // for a fault
}

func (s *segment) end() uint64 { return s.start + uint64(s.length) }

// phase of the sender.
type phase uint8

const (
	open     phase = iota
	recovery       // fast recovery (RFC 6675)
	loss           // after a timeout
	reduced        // after a mark (RFC 3168): the window is reduced at most once
)

// retransmission is a retransmission neither delivered nor lost yet.
type retransmission struct{ number, ordinal uint64 }

// sender is the sending end of one direction. Segments are numbered from 0; base is the number of segments[0].
type sender struct {
	mss      int
	written  uint64 // end of the stream so far
	next     uint64 // to send
	limit    uint64 // end of the receiver's window
	segments []segment
	array    []segment // the array of segments, from its beginning
	base     uint64

	pipe            int // segments in flight
	lost            int
	lostFrom        uint64 // no segment below this number is lost
	judged          uint64 // segments below this number have been checked for loss
	highest         uint64 // one above the highest SACKed segment
	ordinal         uint64 // transmissions
	latest          uint64 // ordinal of the latest delivered transmission
	retransmissions []retransmission
	force           bool // allow one retransmission although the pipe is full (RFC 6675, 5, step 4.3)

	detection       Detection
	fastRetransmit  bool
	limitedTransmit bool
	restartsOnSend  bool
	timestamps      bool
	dups            duplicates
	aborted         bool // after too many retries
	retries         int  // retransmissions of the first segment by timeouts since the latest new ACK

	phase   phase
	recover uint64 // end of the phase
	period  period
	window  window
	swift   *swift     // nil: another congestion control
	paced   clock.Time // until then only what a recovery forces may go; Never: there is no pacing now
	usage   usage
	ecnSender

	expires  clock.Time // retransmission timer
	backoff  int
	srtt     clock.Duration
	variance clock.Duration
	minRTT   clock.Duration
	timing   timing
	bugs     Bugs
	ranking  wire.Ranking
}

// usage is the use of the congestion window in the current round trip: an unused window must not grow (as in Linux).
type usage struct {
	limited bool   // the window prevented a transmission
	most    int    // maximum of outstanding segments
	end     uint64 // end of the stream when the round trip began
}

// used records the use of the window.
func (s *sender) used(limited bool) {
	u := &s.usage
	if out := len(s.segments); limited || s.una() >= u.end || !u.limited && out > u.most {
		*u = usage{limited, out, s.next}
	}
}

// mayGrow reports whether the window has been used. In slow start half of it is enough, because a burst at the NIC's
// rate may be under way.
func (s *sender) mayGrow() bool {
	if s.window.size < s.window.threshold {
		return s.window.size < 2*float64(s.usage.most)
	}
	return s.usage.limited
}

func newSender(cfg *Config) sender {
	s := sender{
		mss: cfg.MSS, limit: uint64(cfg.tellable()), expires: clock.Never, timing: newTiming(cfg),
		swift: newSwift(cfg), paced: clock.Never,
		minRTT: clock.Duration(clock.Never),
		window: newWindow(cfg), ecnSender: ecnSender{alpha: cfg.ECN.Alpha},
		detection: cfg.Detection, fastRetransmit: !cfg.NoFastRetransmit, limitedTransmit: !cfg.NoLimitedTransmit,
		restartsOnSend: cfg.RestartsOnSend, timestamps: cfg.Timestamps,
	}
	if s.swift != nil {
		s.window.size = s.swift.fabric.size
	}
	if cfg.Handshake {
		s.limit = 0 // until the peer's SYN tells it
	}
	return s
}

// at returns the segment with a number.
func (s *sender) at(number uint64) *segment { return &s.segments[number-s.base] }

// una returns the oldest unacknowledged offset.
func (s *sender) una() uint64 {
	if len(s.segments) > 0 {
		return s.segments[0].start
	}
	return s.next
}

// maySend reports whether there is a segment to send and room for it in the window.
func (s *sender) maySend() bool {
	if s.aborted {
		return false
	}
	fresh := s.next < s.written && s.next+uint64(s.nextLength()) <= s.edge()
	if s.lost == 0 && !fresh {
		return false
	}
	if s.paced == clock.Never && s.flight() < s.room() || s.lost > 0 && s.force {
		return true
	}
	s.used(true)
	return false
}

// nextLength returns the payload of the next new segment.
func (s *sender) nextLength() int { return int(min(uint64(s.mss), s.written-s.next)) }

// transmit fills p with the next segment.
func (h *Host) transmit(now clock.Time, c *connection, p *Packet) {
	s := &c.sender
	var number uint64
	retransmit := s.lost > 0
	if retransmit {
		number = s.nextLost()
	} else {
		number = s.base + uint64(len(s.segments))
		if s.bugs.Has(BugSkipsBytes) && number%64 == 63 && s.nextLength() > 1 {
			s.next++
		}
		s.push(segment{start: s.next, length: int32(s.nextLength())})
		s.next += uint64(s.nextLength())
	}
	g := s.at(number)
	s.ordinal++
	g.sent, g.ordinal, g.flying = now, s.ordinal, true
	s.pipe++
	s.used(false)
	s.paces(now)
	h.counters.SegmentsSent++
	p.Number, p.Payload, p.Header.Seq = number, int(g.length), h.cfg.sequence(g.start)
	h.label(c, p, retransmit)
	p.Rank = s.ranking.Rank(s.written, g.start+h.cfg.greetings())
	s.spoilSequence(&p.Header, g.start+uint64(h.cfg.FirstSequence))
	if s.expires == clock.Never || s.restartsOnSend {
		s.restart(now)
	}
	if retransmit {
		if s.force, g.retransmitted = false, true; !s.lingers(g) {
			s.lost, g.lost = s.lost-1, false
		}
		if s.fastRetransmits() && s.detection != NewReno {
			s.retransmissions = append(s.retransmissions, retransmission{number, s.ordinal})
		}
		if number == s.base && s.backoff > 0 {
			s.retries++
		}
		h.counters.Retransmitted++
		h.report(now, c, Retransmitted, g.start)
	}
	if g.end() == s.written {
		p.Header.Flags |= FlagPSH
	}
}

// push adds a segment. What was acknowledged at the front of the array makes room, if it is half of it.
func (s *sender) push(g segment) {
	if n := len(s.segments); n == cap(s.segments) {
		if 2*n <= cap(s.array) {
			s.segments = s.array[:copy(s.array[:n], s.segments)]
		}
		s.segments = append(s.segments, g)
		s.array = s.segments
		return
	}
	s.segments = append(s.segments, g)
}

// nextLost returns the lowest lost segment. There must be one.
func (s *sender) nextLost() uint64 {
	s.lostFrom = max(s.lostFrom, s.base)
	for !s.at(s.lostFrom).lost {
		s.lostFrom++
	}
	return s.lostFrom
}

// acknowledged takes the acknowledgement of a packet.
func (h *Host) acknowledged(now clock.Time, c *connection, p *Packet) {
	a, payload, hops := &p.Header, p.Payload, p.Hops
	s := &c.sender
	upTo, ok := h.cfg.offset(a.Ack, s.una())
	if !ok || upTo > s.next {
		h.counters.Invalid++
		return
	}
	edge := upTo + uint64(a.Window)<<h.cfg.Shift()
	duplicate := s.duplicate(upTo, payload, edge)
	s.limit = max(s.limit, edge)
	h.ignoresReceiver(s)
	before := s.una()
	s.period.delivered = 0
	if payload == 0 {
		h.echoed(now, s, a)
	}
	grown := s.advance(now, upTo)
	if b := a.Block(); b != (Block{}) {
		h.sack(now, s, b)
	}
	h.steer(now, s, a, hops)
	ended := s.detection == NewReno && h.newReno(now, c, grown, duplicate)
	if s.phase != open && s.una() >= s.recover {
		s.phase = open
	}
	mayGrow := h.echoes(c, a, s.una()-before) && !ended
	if s.detection == PerPacket && mayGrow && s.mayGrow() && s.swift == nil {
		s.grow(now, s.period.delivered)
	}
	if grown > 0 {
		s.backoff, s.retries = 0, 0
		if mayGrow && s.swift == nil && s.phase != recovery && s.detection != PerPacket && s.mayGrow() {
			s.grow(now, grown)
		}
		if !s.keepsTimer() {
			s.restart(now)
		}
	}
	if s.detect() && s.mustReduce() {
		s.lossReduces(now)
		s.phase, s.recover, s.force = recovery, s.next, true
		s.period.since = s.ordinal
		h.counters.Recoveries++
		h.report(now, c, Recovering, s.una())
	}
	if len(s.segments) == 0 && s.next == s.written && grown > 0 {
		h.report(now, c, Acknowledged, s.next)
	}
}

// advance removes the cumulatively acknowledged segments and returns their number.
func (s *sender) advance(now clock.Time, upTo uint64) int {
	n := 0
	sample := clock.Duration(-1)
	for n < len(s.segments) && s.segments[n].end() <= upTo {
		g := &s.segments[n]
		if !g.sacked || g.lost { // both hold only with a seeded fault
			s.delivered(now, g)
			if !g.retransmitted || s.bugs.Has(BugSamplesRetransmissions) { // Karn's algorithm
				sample = now.Sub(g.sent)
			}
		}
		n++
	}
	if n == 0 {
		return 0
	}
	s.segments = s.segments[n:]
	s.base += uint64(n)
	if len(s.segments) == 0 {
		s.segments, s.array = nil, nil // most of what a connection that has finished would hold
	}
	if sample >= 0 && !s.timestamps {
		s.measure(sample)
	}
	return n
}

// delivered records the arrival of a segment.
func (s *sender) delivered(now clock.Time, g *segment) {
	s.swift.delivers(g)
	if g.flying {
		g.flying = false
		s.pipe--
	}
	if g.lost {
		g.lost = false
		s.lost--
	}
	// If the ACK of a retransmission arrives within minRTT, it acknowledges the original.
	if !g.retransmitted || now.Sub(g.sent) >= s.minRTT {
		s.latest = max(s.latest, g.ordinal)
		if g.ordinal > s.period.since {
			s.period.delivered++
		}
	}
}

// sack marks the segments of a SACK block.
func (h *Host) sack(now clock.Time, s *sender, b Block) {
	start, ok := h.cfg.offset(b.Start, s.una())
	end, fine := h.cfg.offset(b.End, s.una())
	if !ok || !fine || end > s.next || start >= end {
		h.counters.Invalid++
		return
	}
	i := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].start >= start })
	for ; i < len(s.segments) && s.segments[i].end() <= end; i++ {
		if g := &s.segments[i]; !g.sacked {
			s.delivered(now, g)
			g.sacked = true
			s.highest = max(s.highest, s.base+uint64(i)+1)
		}
	}
}

// detect marks lost segments and reports whether there are new ones: segments below three SACKed ones (RFC 6675,
// IsLost), and retransmissions followed by three delivered transmissions.
func (s *sender) detect() bool {
	before := s.lost
	switch {
	case s.detection == NewReno || !s.fastRetransmits():
		return false
	case s.detection == PerPacket:
		s.detectPackets()
	default:
		s.detectSACKed()
	}
	for len(s.retransmissions) > 0 && s.retransmissions[0].ordinal+dupThresh <= s.latest {
		r := s.retransmissions[0]
		s.retransmissions = s.retransmissions[1:]
		if r.number >= s.base && s.at(r.number).ordinal == r.ordinal {
			s.lose(r.number, s.at(r.number))
		}
	}
	return s.lost > before
}

// detectSACKed marks the segments below three SACKed ones as lost.
func (s *sender) detectSACKed() {
	edge := s.base
	enough := s.dupThreshold()
	for number, found := s.highest, 0; number > s.base && found < enough; number-- {
		if s.at(number - 1).sacked {
			if found++; found == enough {
				edge = number - 1
			}
		}
	}
	for number := max(s.judged, s.base); number < edge; number++ {
		if g := s.at(number); !g.retransmitted {
			s.lose(number, g)
		}
	}
	s.judged = max(s.judged, edge)
}

// lose marks a segment as lost.
func (s *sender) lose(number uint64, g *segment) {
	if g.sacked && !s.bugs.Has(BugResendsSACKed) || g.lost {
		return
	}
	if g.flying {
		g.flying = false
		s.pipe--
	}
	g.lost = true
	s.lost++
	s.period.lost = max(s.period.lost, g.ordinal)
	s.lostFrom = min(s.lostFrom, number)
}

// timeout follows RFC 5681, 3.1 and RFC 6298, 5: all segments are marked as lost, and the window restarts at one
// segment.
func (h *Host) timeout(now clock.Time, c *connection) {
	s := &c.sender
	h.counters.Timeouts++
	h.report(now, c, TimedOut, s.una())
	if h.giveUp(now, c, s.retries) {
		return
	}
	if !s.bugs.Has(BugKeepsWindow) {
		s.collapse(now)
		s.cwr = true
	}
	s.phase, s.recover, s.force = loss, s.next, true
	s.period.since = s.ordinal
	s.dups = duplicates{careful: s.next}
	s.retransmissions = s.retransmissions[:0]
	for i := range s.segments {
		s.lose(s.base+uint64(i), &s.segments[i])
	}
	s.backoff++
	s.restart(now)
}
