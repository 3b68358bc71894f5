package tcp

import "candela.dev/candela/clock"

// Detection is how a sender detects losses before a timeout.
type Detection uint8

// Ways of loss detection.
const (
	SACK    Detection = iota // RFC 6675
	NewReno                  // RFC 6582: by duplicate ACKs, without SACK
	// PerPacket: a packet is lost when a packet that was sent three later is acknowledged. ACKs tell what has arrived by
	// SACK; without delayed ACKs each tells of one packet. The window reacts as in RFC 9002, 7.3: see period.
	PerPacket
)

// period is the latest reduction of the window by PerPacket. What was sent before it indicates the same congestion;
// the loss of what was sent after it, as of a retransmission, indicates another one (RFC 5681, 4.3; RFC 9002, 7.3.2).
type period struct {
	since     uint64 // ordinal of the latest transmission before it
	lost      uint64 // greatest ordinal of a lost transmission
	delivered int    // transmissions after since that the acknowledgement at hand delivers
}

// mustReduce reports whether losses that were found just now reduce the window.
func (s *sender) mustReduce() bool {
	again := s.phase == open || s.phase == reduced
	if s.detection == PerPacket {
		return s.period.lost > s.period.since && (again || !s.bugs.Has(BugReducesOnce))
	}
	return again
}

// duplicates is the state of RFC 6582 besides the phase.
type duplicates struct {
	count    int    // duplicate ACKs since the latest new one
	inflated int    // segments by which a recovery exceeds the window
	careful  uint64 // no recovery begins before something above is acknowledged
	partial  bool   // a partial ACK has come in this recovery
}

// dupThreshold returns the number of duplicate ACKs or later deliveries that indicate a loss.
func (s *sender) dupThreshold() int {
	if s.bugs.Has(BugHasty) {
		return 1
	}
	return dupThresh
}

// room returns how many segments may be in flight.
func (s *sender) room() int {
	room := s.window.segments()
	if s.bugs.Has(BugOverrunsWindow) {
		room *= 2
	}
	if s.bugs.Has(BugLargeInitialWindow) && s.base == 0 {
		room++
	}
	switch {
	case s.detection != NewReno:
	case s.phase == recovery:
		return max(1, room+s.dups.inflated)
	case s.phase != loss && s.bugs.Has(BugTransmitsMore):
		room += 3 * s.dups.count
	case s.phase != loss && s.limitedTransmit: // RFC 3042
		room += min(s.dups.count, 2)
	}
	return room
}

// flight returns how many segments are in flight. Limited transmit is what SACKed segments make room for before a
// recovery.
func (s *sender) flight() int {
	if s.detection != NewReno && !s.limitedTransmit && (s.phase == open || s.phase == reduced) {
		return len(s.segments)
	}
	return s.pipe
}

// duplicate reports whether an acknowledgement is a duplicate (RFC 5681, 2).
func (s *sender) duplicate(upTo uint64, payload int, edge uint64) bool {
	return payload == 0 && upTo == s.una() && len(s.segments) > 0 && edge == s.limit
}

// newReno takes an acknowledgement of so many new segments (RFC 6582, 3.2). It reports whether a recovery ended.
func (h *Host) newReno(now clock.Time, c *connection, grown int, duplicate bool) (ended bool) {
	s := &c.sender
	d := &s.dups
	switch {
	case grown > 0 && s.phase == recovery && s.una() < s.recover:
		d.count = 0
		d.inflated += 1 - grown
		if s.bugs.Has(BugStallsPartialACK) {
			s.phase, d.inflated = open, 0
			return false
		}
		s.lose(s.base, &s.segments[0])
		if s.bugs.Has(BugResendsWindow) && len(s.segments) > 1 {
			s.lose(s.base+1, &s.segments[1])
			d.inflated++
		}
		s.force = true
	case grown > 0 && s.phase == recovery:
		d.count, d.inflated = 0, 0
		if s.swift == nil {
			s.window.size = min(s.window.threshold, float64(max(len(s.segments), 1)+1))
		}
		return true
	case grown > 0:
		d.count = 0
	case !duplicate:
	case s.phase == recovery:
		d.inflated++
	default:
		if d.count++; d.count == s.dupThreshold() && (s.una() > d.careful || d.careful == 0) && s.fastRetransmits() {
			h.recoverByDuplicates(now, c)
		}
	}
	return false
}

// recoverByDuplicates begins a fast recovery.
func (h *Host) recoverByDuplicates(now clock.Time, c *connection) {
	s := &c.sender
	s.lossReduces(now)
	s.phase, s.recover, s.force = recovery, s.next, true
	s.dups = duplicates{count: s.dups.count, inflated: s.dups.count, careful: s.next}
	s.lose(s.base, &s.segments[0])
	h.counters.Recoveries++
	h.report(now, c, Recovering, s.una())
}

// fastRetransmits reports whether losses are detected before a timeout.
func (s *sender) fastRetransmits() bool { return s.fastRetransmit || s.bugs.Has(BugFastRetransmits) }

// keepsTimer reports whether a new acknowledgement leaves the retransmission timer as it is: of a recovery only the
// first partial one restarts it (RFC 6582, 3.2, step 3).
func (s *sender) keepsTimer() bool {
	if s.detection != NewReno || s.phase != recovery {
		return false
	}
	was := s.dups.partial
	s.dups.partial = true
	return was
}

// detectPackets marks the packets as lost three after which a packet was delivered.
func (s *sender) detectPackets() {
	number := max(s.judged, s.base)
	for ; number < s.base+uint64(len(s.segments)); number++ {
		g := s.at(number)
		if !g.retransmitted && g.ordinal+uint64(s.dupThreshold()) > s.latest {
			break
		}
		if !g.retransmitted {
			s.lose(number, g)
		}
	}
	s.judged = number
}

// giveUp ends a connection after so many retransmissions by timeouts in a row (RFC 9293, 3.8.3) and reports whether it
// did.
func (h *Host) giveUp(now clock.Time, c *connection, retries int) bool {
	most := h.cfg.MaxRetries
	switch {
	case h.bugs.Has(BugGivesUpEarly):
		most--
	case h.bugs.Has(BugRetriesForever):
		return false
	}
	if h.cfg.MaxRetries == 0 || retries < most {
		return false
	}
	c.aborted, c.expires, c.ackAt, c.ackNow, c.greets = true, clock.Never, clock.Never, false, false
	c.earlier = nil
	h.counters.Aborted++
	h.report(now, c, Aborted, c.una())
	return true
}
