package tcp

import (
	"fmt"

	"candela.dev/candela/clock"
)

// Detection is how senders detect losses before a timeout.
type Detection uint8

// Ways of loss detection.
const (
	SACK      Detection = iota // RFC 6675
	NewReno                    // RFC 6582: by duplicate ACKs, without SACK
	PerPacket                  // a packet is lost when one that was sent three later is acknowledged
)

// duplicates is what is known of a sender of RFC 6582.
type duplicates struct {
	count   int     // duplicate ACKs since the latest new one
	early   int     // and those before anything was seen outstanding, which the sender may have counted
	again   bool    // they may have begun a recovery since the latest timeout
	extra   float64 // bytes by which they let the sender exceed its window
	partial bool    // a partial ACK has come, in this recovery
	// A partial ACK is to be followed by a retransmission of the first segment, since when.
	owed  bool
	since clock.Time
}

// limited is how many segments more than the window the first duplicate ACKs let go (RFC 3042).
const limited = 2

// recovers reports whether the sender is certainly or possibly in a recovery.
func (s *sender) recovers() bool {
	return s.state == txRecovery || s.state == txUnsure || s.state == txLoss
}

// widen lets the sender exceed its window by so many bytes.
func (a *Analyzer) widen(s *stream, extra float64) {
	if extra < s.dups.extra {
		s.before = a.room(s)
		s.waiting = s.before + float64(a.cfg.MSS) - float64(s.flight)
		s.shrunk = a.now
	}
	s.dups.extra = extra
}

// clocks takes the sample of the RTT that an ACK with a time stamp gives, whatever it acknowledges. That of a handshake
// echoes nothing, which is 0 (RFC 7323, 3.2).
func (a *Analyzer) clocks(s *stream, o *Observation) {
	if o.HasEcho && o.Payload == 0 && s.next > 0 && (o.Echo != 0 || !a.cfg.Handshake) {
		rtt := clock.Duration(uint32(a.now.Nanoseconds())-o.Echo) * clock.Nanosecond
		s.sample(max(1, rtt-clock.Nanosecond)) // stamps are rounded
		s.stamped, s.longest = true, max(s.longest, rtt+clock.Nanosecond)
	}
}

// takesDuplicate takes an ACK that acknowledges nothing new. New segments may be outstanding that have not been seen to
// leave.
func (a *Analyzer) takesDuplicate(s *stream) {
	switch d := &s.dups; {
	case s.una < s.next:
		a.duplicate(s)
	case a.cfg.Hold > 0 && (s.next > 0 || s.greeting.confirmed && !s.greeting.fresh):
		if d.early++; a.earlyRecovery(s) {
			a.wavers(s)
		}
		a.widen(s, float64(a.cfg.MSS*a.earlySegments(s)))
	}
}

// earlyRecovery reports whether duplicates that came before anything was seen outstanding may have begun a recovery.
func (a *Analyzer) earlyRecovery(s *stream) bool {
	return s.dups.early >= dupThresh && !a.cfg.NoFastRetransmit
}

// earlySegments returns how many segments those duplicates let go.
func (a *Analyzer) earlySegments(s *stream) int {
	switch {
	case a.earlyRecovery(s):
		return s.dups.early
	case a.cfg.NoLimitedTransmit:
		return 0
	}
	return min(s.dups.early, limited)
}

// duplicate takes an ACK that acknowledges nothing new (RFC 6582, 3.2, steps 2 to 4).
func (a *Analyzer) duplicate(s *stream) {
	d, mss := &s.dups, float64(a.cfg.MSS)
	d.count++
	switch {
	case s.una < s.recover && s.recovers():
		a.widen(s, d.extra+mss)
		if d.count >= dupThresh && s.una >= s.over && !a.cfg.NoFastRetransmit { // it may have ended, and begin again
			g := &s.segments[0]
			s.presumeLost(g)
			s.doubt(g)
			a.wavers(s)
			d.again = true
		}
	case d.count < dupThresh && d.count+d.early >= dupThresh && !a.cfg.NoFastRetransmit: // a recovery may begin
		g := &s.segments[0]
		s.presumeLost(g)
		s.doubt(g)
		a.wavers(s)
		a.widen(s, mss*float64(d.count+d.early))
	case d.count < dupThresh:
		if !a.cfg.NoLimitedTransmit {
			a.widen(s, mss*float64(min(d.count+d.early, limited)))
		}
	case a.cfg.NoFastRetransmit:
	case d.count == dupThresh:
		g := &s.segments[0]
		if s.una > s.recover || s.recover == 0 {
			s.presumeLost(g)
			a.reduce(s)
		} else { // the careful variant begins none
			s.presumeLost(g)
			s.doubt(g)
			a.wavers(s)
		}
		d.partial = false
		a.widen(s, mss*dupThresh)
	default:
		a.widen(s, d.extra+mss)
	}
}

// partial takes a new acknowledgement of n segments, by the state before it. In a recovery, a partial one lets the
// first segment be retransmitted, and the window loses what was acknowledged (RFC 6582, 3.2, step 5).
func (a *Analyzer) partial(s *stream, n int, state uint8, doubtful bool) {
	d, mss := &s.dups, float64(a.cfg.MSS)
	d.count, d.early, d.owed = 0, 0, false
	if state >= txRecovery {
		a.deflates(s)
	}
	if s.una >= s.recover || state < txRecovery || len(s.segments) == 0 {
		a.widen(s, 0)
		d.partial = false
		return
	}
	if state == txLoss {
		if d.again {
			s.presumeLost(&s.segments[0])
			s.doubt(&s.segments[0])
		}
		return
	}
	s.presumeLost(&s.segments[0])
	s.force = true
	a.widen(s, max(0, d.extra-float64(n)*mss+mss))
	if state == txRecovery && s.una < s.over && !doubtful && !a.cfg.NoFastRetransmit {
		d.owed, d.since = true, a.now
	}
	d.partial = true
}

// keepsTimer reports whether a new acknowledgement may leave the retransmission timer as it is: in a recovery, the
// first partial one restarts it, and later ones need not.
func (a *Analyzer) keepsTimer(s *stream) bool {
	return a.cfg.Detection == NewReno && s.dups.partial && s.recovers() && s.una < s.recover
}

// owesPartial looks for a retransmission that a partial ACK asks for. fresh: new data leaves.
func (a *Analyzer) owesPartial(s *stream, fresh bool, number uint64) {
	d := &s.dups
	if !d.owed {
		return
	}
	from := a.waiting(s.key.src, d.since)
	waited := a.served(s.key.src).Sub(from)
	switch {
	case fresh && a.decided(s.key.src) > from, waited > slack+a.cfg.Hold:
		d.owed = false
		a.breaks(s, txNoPartial, causePartial(a.tx(s), s.una, a.now.Sub(d.since)), number,
			fmt.Sprintf("a retransmission of byte %d after a partial ACK", s.una),
			fmt.Sprintf("the sender did not retransmit byte %d after a partial ACK", s.una))
	}
}

// overruns reports what exceeds the congestion window, or what limited transmit adds to it.
func (a *Analyzer) overruns(s *stream, most float64, number uint64) {
	if d := &s.dups; a.cfg.Detection == NewReno && d.count > 0 && d.count < dupThresh && !s.recovers() &&
		!a.cfg.NoLimitedTransmit {
		over := float64(s.flight) - (most - d.extra)
		a.breaks(s, txBeyondLimited, causeLimited(a.tx(s), d.count, s.flight, most), number,
			fmt.Sprintf("at most %.0f bytes in flight after %d duplicate ACKs", most, d.count),
			fmt.Sprintf("%d bytes are in flight, %.0f more than without duplicate ACKs", s.flight, over))
		s.size = float64(s.flight) - d.extra
		return
	}
	a.breaks(s, txBeyondWindow, a.causeExcess(s, most), number,
		fmt.Sprintf("at most %.0f bytes in flight, which include one segment more than the congestion window", most),
		fmt.Sprintf("%d bytes are in flight; the congestion window allows %.0f", s.flight, most))
	s.size = max(s.size, float64(s.flight)-s.dups.extra) // once for each excess
}

// presumePackets marks the packets that may be taken for lost because one that was sent three later has arrived. It
// reports whether one is new that no sender may ignore: a sender may take the ACK of a retransmission for that of the
// original (RFC 8985, 6.2, step 2).
func (s *sender) presumePackets() (news bool) {
	for i := range s.segments {
		g := &s.segments[i]
		if g.times == 1 && g.ordinal+dupThresh > s.delivered {
			break
		}
		if g.times == 1 && !g.sacked && !g.lost {
			s.presumeLost(g)
			if g.ordinal+dupThresh > s.certain {
				s.doubt(g)
			} else {
				news = true
				s.period.lost = max(s.period.lost, g.decided)
			}
		}
	}
	return news
}

// period is the latest certain reduction by loss detection by packet, and what the packet at hand says of it.
type period struct {
	since     uint64     // ordinal of the latest transmission before it
	delivered int        // transmissions that may be after it
	lost      clock.Time // when the latest transmission that is certainly lost was decided, at the earliest
}

// reducesAgain handles losses in a recovery: that of a packet that was certainly sent after the latest reduction
// reduces the window once more (RFC 5681, 4.3; RFC 9002, 7.3.2).
func (a *Analyzer) reducesAgain(s *stream, maybe bool) {
	switch {
	case s.period.lost > s.turned && (!a.cfg.ECN.On || s.period.lost > s.marked.turned):
		a.sender.Step(&s.state, txLosses)
		s.turned, s.over, s.recover, s.entered, s.force = a.now, s.next, s.next, s.ordinal, true
		if a.swiftLoses(s, false); s.swift == nil {
			a.halve(s)
			s.period.since = s.ordinal
		}
		a.losesProof(s)
	case maybe:
		a.wavers(s)
		s.force = true
	}
}

// signs reports whether losses could have been detected before a timeout.
func (s *sender) signs(g *segment) bool { return s.top > g.end || s.dups.count > 0 }

// fastAlthoughOff reports a retransmission before a timeout where nothing but a timeout retransmits.
func (a *Analyzer) fastAlthoughOff(s *stream, g *segment, number uint64) {
	a.breaks(s, txRetransmitFast, causeFast(a.tx(s), g), number, "a retransmission after a timeout, and only then",
		a.retransmitted(g))
}

// gaveUp notes whether a sender may have given its connection up: it has retransmitted the first segment often enough,
// counting what may still wait at its NIC, and the timer has run out since. Of what is drained, every timer has.
func (a *Analyzer) gaveUp(s *stream) bool {
	most := a.cfg.MaxRetries
	if most == 0 {
		return false
	}
	if g := &s.greeting; g.began != clock.Never && !g.confirmed && (a.drained || a.now.Sub(g.armed) >= a.initialRTO()) {
		retries := g.syns - 1
		if wait := a.unserved(s, g.began); wait > 0 {
			retries += g.copies + a.expiries(a.initialRTO(), wait)
		}
		s.gone = s.gone || retries >= most
	}
	if s.una < s.next && (a.drained || a.expired(s)) {
		retries := max(s.repeats, s.doublings) + a.expiries(a.leastTimer(s), a.unserved(s, s.began))
		s.gone = s.gone || retries >= most
	}
	return s.gone
}

// peerGone reports whether the receiver of a stream may have given the connection up.
func (a *Analyzer) peerGone(s *stream) bool {
	if a.cfg.MaxRetries == 0 {
		return false
	}
	back := a.streams[streamKey{s.key.dst, s.key.src, s.key.connection}]
	return back != nil && a.gaveUp(back)
}

// persists judges whether a timeout comes after the connection must have been given up.
func (a *Analyzer) persists(s *stream, timeouts int, number uint64) {
	if a.cfg.MaxRetries > 0 && timeouts > a.cfg.MaxRetries {
		a.breaks(s, txRetries, causeRetries(a.tx(s), timeouts, a.cfg.MaxRetries), number,
			fmt.Sprintf("at most %d retransmissions by timeouts in a row", a.cfg.MaxRetries),
			fmt.Sprintf("timeout %d in a row caused a retransmission", timeouts))
	}
}

// prompt judges whether an acknowledgement that leaves now waited for longer than it may.
func (a *Analyzer) prompt(s *stream, number uint64) {
	const grain = 10 * clock.Nanosecond
	host := s.key.dst
	decided := a.decided(host)
	if due := a.waiting(host, s.due); s.isDue && decided > due+clock.Time(grain) {
		a.says(s, rxNoSecond, causeEvery(a.rx(s), a.cfg.ACKEvery, a.now.Sub(due)), number,
			fmt.Sprintf("an acknowledgement of every %d segments at once", a.cfg.ACKEvery),
			fmt.Sprintf("the receiver acknowledged %d segments after %s", s.full, a.now.Sub(due).Text()))
	}
	if a.cfg.ACKEvery > 0 && s.have > s.acknowledged {
		if waited := decided.Sub(a.waiting(host, s.since)); waited > a.cfg.ACKDelay+grain {
			a.says(s, rxSlow, causeDelay(a.rx(s), s.have, waited, a.cfg.ACKDelay), number,
				fmt.Sprintf("an acknowledgement within %s", a.cfg.ACKDelay.Text()),
				fmt.Sprintf("the receiver acknowledged byte %d after %s", s.have, waited.Text()))
		}
	}
	s.isDue, s.full = false, 0
}

// counts counts segments in order that are to be acknowledged.
func (a *Analyzer) counts(s *stream, input uint8, payload int) {
	if a.cfg.ACKEvery == 0 || input != rxNext || payload < a.cfg.MSS {
		return
	}
	if s.full++; s.full == a.cfg.ACKEvery {
		s.isDue, s.due = true, a.now
	}
}
