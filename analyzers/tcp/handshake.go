package tcp

import (
	"fmt"

	"candela.dev/candela/clock"
)

// greeting is the handshake of one end: its own SYN, and its peer's.
type greeting struct {
	syns      int        // sent, SYN-ACKs included
	timers    int        // started, at least
	doublings int        // of the timer, at most
	copies    int        // of the peer's SYN that have arrived, each of which may have been answered
	began     clock.Time // when the first SYN was decided, at the earliest
	latest    clock.Time // when the latest one left, at the latest
	armed     clock.Time // and at the earliest: it may have waited at its NIC
	heard     bool       // the peer's SYN has arrived
	confirmed bool       // what has arrived acknowledges the own SYN
	fresh     bool       // it is the latest packet that has arrived
	answers   bool       // a SYN that has arrived is to be answered
	confirms  bool       // a SYN-ACK that has arrived is to be acknowledged
	owed      clock.Time // since when either is
	silent    bool       // a missing SYN was reported
	ecn       negotiation
}

// established reports whether the end may send data (RFC 9293, 3.5).
func (g *greeting) established() bool { return g.heard && g.confirmed }

// greets judges what a host sends by the handshake; false: the packet says nothing else.
func (a *Analyzer) greets(s *stream, o *Observation) bool {
	g := &s.greeting
	a.owes(s)
	if !o.SYN {
		g.confirms = false
		switch {
		case g.syns == 0:
			a.blame(causeNoSYN(a.tx(s)), s, o.Number, "a SYN", "the sender sent a packet before any SYN")
		case o.Payload > 0 && !g.established():
			a.blame(causeBeforeEstablished(a.tx(s)), s, o.Number, "no data before the connection is established",
				"the sender sent data before the connection was established")
		}
		return true
	}
	g.answers = false
	origin := a.cfg.FirstSequence
	switch {
	case o.Seq != origin-1:
		a.blame(causeSYNSequence(a.tx(s), o.Seq, origin-1), s, o.Number, fmt.Sprintf("sequence number %d", origin-1),
			fmt.Sprintf("the SYN has sequence number %d", o.Seq))
	case o.HasACK && !g.heard:
		a.blame(causeUnsolicited(a.tx(s)), s, o.Number, "a SYN-ACK only after a SYN",
			"the sender sent a SYN-ACK, and no SYN had arrived")
	case o.HasACK && o.Ack != origin:
		a.blame(causeSYNACK(a.tx(s), o.Ack, origin), s, o.Number, fmt.Sprintf("acknowledgement number %d", origin),
			fmt.Sprintf("the SYN-ACK acknowledges %d", o.Ack))
	}
	if g.syns == 0 && o.HasACK && g.copies > 0 { // it answers the first of them
		g.copies--
	}
	g.began = min(g.began, a.decided(s.key.src))
	a.negotiates(s, o)
	a.timed(s, o.Number)
	g.doublings += a.expiries(a.synTimer(g.doublings+1), a.now.Sub(a.decided(s.key.src))) // one SYN for several timeouts
	if g.syns > 0 {
		g.doublings++
	}
	g.syns, g.latest, g.silent = g.syns+1, a.now, false
	return false
}

// timed judges when a SYN is sent: at first, by a timer, or as an answer to a copy of the peer's SYN, which need not
// restart the timer.
func (a *Analyzer) timed(s *stream, number uint64) {
	g := &s.greeting
	waited, least := a.now.Sub(g.armed), a.synTimer(g.timers)
	switch {
	case g.syns > 0 && g.copies > 0 && waited >= least: // one or the other
		return
	case g.syns > 0 && g.copies > 0:
		g.copies--
		return
	case g.syns > 0 && waited < least:
		a.blame(causeSYNEarly(a.tx(s), g.timers, waited, least), s, number,
			fmt.Sprintf("SYN %d after at least %s", g.timers+1, least.Text()),
			fmt.Sprintf("the sender retransmitted a SYN after %s; its timer runs for at least %s", waited.Text(), least.Text()))
	}
	a.persists(s, g.timers, number)
	g.timers, g.armed = g.timers+1, max(g.armed, a.decided(s.key.src))
}

// synTimer returns how long the timer runs after the n-th SYN.
func (a *Analyzer) synTimer(n int) clock.Duration {
	d := a.initialRTO()
	for ; n > 1 && d < a.ceiling(); n-- {
		d = min(2*d, a.ceiling())
	}
	return d
}

// hears takes what a host receives by the handshake; false: the packet says nothing else.
func (a *Analyzer) hears(s *stream, o *Observation) bool {
	g := &s.greeting
	g.fresh = false
	a.owes(s)
	if a.cfg.NeedsACK && o.Payload > 0 && !g.established() {
		return false
	}
	confirms := o.HasACK && int32(o.Ack-a.cfg.FirstSequence) >= 0
	if o.SYN && (o.Seq != a.cfg.FirstSequence-1 || o.HasACK && o.Ack != a.cfg.FirstSequence) {
		return false // its receiver drops it
	}
	if o.SYN {
		g.ecn.hears(o)
		switch {
		case g.established():
		case !o.HasACK:
			g.copies++
			g.began = min(g.began, a.now)
			if !g.answers {
				g.answers, g.owed = true, a.now
			}
		case g.syns > 0 && !g.confirms:
			g.confirms, g.owed = true, a.now
		}
		if !o.HasACK || g.syns > 0 {
			g.heard = true
			s.limit = max(s.limit, int64(o.Window))
		}
	}
	if confirms && g.heard && g.syns > 0 && !g.confirmed {
		g.confirmed, g.fresh, g.answers = true, true, false
		s.longest = max(s.longest, a.now.Sub(min(g.latest, g.armed)))
		if !a.cfg.Timestamps && g.syns == 1 { // a sample for certain if no other SYN waits
			s.sample(a.now.Sub(g.latest))
			s.taken++
			s.sampled = g.copies == 0 && a.now.Sub(g.armed) < a.synTimer(1)
		}
		if g.syns > 2 { // RFC 6928, 2
			s.size, s.peak = float64(a.cfg.MSS), float64(a.cfg.MSS)
			s.swift.restrict()
			s.initial = int64(a.cfg.MSS)
		}
	}
	return !o.SYN && g.established()
}

// owes looks for parts of a handshake that are overdue.
func (a *Analyzer) owes(s *stream) {
	g := &s.greeting
	served := a.served(s.key.src)
	if a.gaveUp(s) {
		return
	}
	if waited := served.Sub(a.waiting(s.key.src, g.owed)); (g.answers || g.confirms) && waited > slack+a.cfg.Hold {
		a.unanswered(s, waited)
	}
	if g.syns == 0 || g.confirmed || g.silent {
		return
	}
	most := a.synTimer(g.doublings + 1)
	if waited := served.Sub(a.waiting(s.key.src, g.latest)); waited > most+slack+a.cfg.Hold {
		g.silent = true
		a.blame(causeSYNOverdue(a.tx(s), waited, most), s, 0, fmt.Sprintf("another SYN within %s", most.Text()),
			fmt.Sprintf("the sender did not retransmit its SYN for %s; its timer allows %s", waited.Text(), most.Text()))
	}
}

// neverGreeted reports what of a handshake will never come.
func (a *Analyzer) neverGreeted(s *stream) {
	g := &s.greeting
	if a.gaveUp(s) {
		return
	}
	if g.answers || g.confirms {
		a.unanswered(s, a.now.Sub(g.owed))
	}
	if g.syns > 0 && !g.confirmed && !g.silent {
		a.blame(causeSYNNever(a.tx(s)), s, 0, "another SYN", "the sender never retransmitted its SYN")
	}
}

// unanswered reports a SYN or a SYN-ACK that was not answered.
func (a *Analyzer) unanswered(s *stream, waited clock.Duration) {
	g := &s.greeting
	what, answer := "SYN", "SYN-ACK"
	if g.confirms {
		what, answer = "SYN-ACK", "ACK"
	}
	g.answers, g.confirms = false, false
	a.blame(causeUnanswered(a.tx(s), what, answer, waited), s, 0, "an answer to each "+what,
		fmt.Sprintf("the sender did not answer a %s for %s", what, waited.Text()))
}

// opens judges new data before anything is acknowledged: no more than the initial window (RFC 5681, 3.1), and what
// limited transmit (RFC 3042) or a recovery adds if the ACK of a handshake was repeated after the first segment was
// sent.
func (a *Analyzer) opens(s *stream, end int64, number uint64) {
	most := s.initial
	if a.earlyRecovery(s) { // its window has at least two segments (RFC 5681, 3.2)
		most = max(most, int64(leastThreshold*a.cfg.MSS))
	}
	most += int64(a.cfg.MSS * a.earlySegments(s))
	if s.answered || end <= most || s.overrun {
		return
	}
	s.overrun = true
	a.breaks(s, txBeyondInitial, causeInitialWindow(a.tx(s), end, most), number,
		fmt.Sprintf("at most %d bytes before the first acknowledgement", most),
		fmt.Sprintf("the sender sent %d bytes before the first acknowledgement; its initial window is %d bytes", end,
			most))
}
