package tcp

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// ECN configures explicit congestion notification, the same at both ends. A handshake negotiates it; without one it is
// given as negotiated.
type ECN struct {
	Codepoint packet.ECN // of new data; NotECT: no ECN
	// Everything is sent with Codepoint, also retransmissions and packets without payload, as by Linux with DCTCP. RFC
	// 3168 forbids it.
	Everything bool
	Gain       float64 // g of DCTCP
	Alpha      float64 // α of DCTCP at the start
}

func (e *ECN) validate(c Control) error {
	switch {
	case e.Codepoint == packet.CE || e.Codepoint > packet.CE:
		return fmt.Errorf("ECN codepoint %d: hosts send Not-ECT, ECT(0) or ECT(1)", e.Codepoint)
	case c != DCTCP:
		return nil
	case e.Codepoint == packet.NotECT:
		return fmt.Errorf("DCTCP without ECN: it needs ECT(0) or ECT(1)")
	case !(e.Gain > 0 && e.Gain <= 1):
		return fmt.Errorf("DCTCP's g is %v: must be above 0, at most 1", e.Gain)
	case !(e.Alpha >= 0 && e.Alpha <= 1):
		return fmt.Errorf("DCTCP's first alpha is %v: must be 0 to 1", e.Alpha)
	}
	return nil
}

// usesECN reports whether a connection uses ECN: both ends have said that they do (RFC 3168, 6.1.1).
func (h *Host) usesECN(c *connection) bool {
	return h.cfg.ECN.Codepoint != packet.NotECT && (!h.cfg.Handshake || c.negotiated)
}

// negotiate fills in what a SYN or a SYN-ACK says of ECN (RFC 3168, 6.1.1).
func (h *Host) negotiate(c *connection, p *Packet) {
	if h.bugs.Has(BugECTOnSYN) {
		p.ECN = h.cfg.ECN.Codepoint
	}
	accepts := c.offered && !h.bugs.Has(BugECTUnnegotiated)
	switch on := h.cfg.ECN.Codepoint != packet.NotECT; {
	case c.stage == synReceived && (on && accepts || h.bugs.Has(BugAcceptsUnasked)):
		p.Header.Flags |= FlagECE
		c.negotiated = on
	case c.stage == synSent && on && !h.bugs.Has(BugOffersNoECN):
		p.Header.Flags |= FlagECE | FlagCWR
	}
}

// negotiates takes what a SYN or a SYN-ACK says of ECN.
func (h *Host) negotiates(c *connection, f Flags, confirms bool) {
	switch echo, reduced := f&FlagECE != 0, f&FlagCWR != 0; {
	case echo && reduced:
		c.offered = c.offered || !confirms
	case echo:
		c.negotiated = c.negotiated || confirms && h.cfg.ECN.Codepoint != packet.NotECT
	}
}

// ecnSender is the sender's part of ECN.
type ecnSender struct {
	cwr bool // the next new segment carries CWR

	// DCTCP (RFC 8257, 3.3)
	alpha         float64
	acked, marked uint64 // bytes acknowledged in this window, and those with ECE
	windowEnd     uint64
}

// ecnReceiver is the receiver's part of ECN.
type ecnReceiver struct {
	echo bool // acknowledgements carry ECE; of DCTCP: DCTCP.CE
	// DCTCP: acknowledgements of what arrived before a change of CE (RFC 8257, 3.2), to be sent first
	earlier []Header
}

// echoes takes the ECN-Echo of an acknowledgement of so many new bytes. It returns whether the window may grow.
func (h *Host) echoes(c *connection, a *Header, bytes uint64) (grow bool) {
	s := &c.sender
	echo := a.Flags&FlagECE != 0
	if !h.usesECN(c) {
		return true
	}
	if s.window.control == DCTCP {
		h.estimate(s, echo, bytes)
	}
	if !echo {
		if h.overreacts(s) {
			s.cut(h)
		}
		return true
	}
	if h.bugs.Has(BugIgnoresECE) {
		return true
	}
	if s.phase == open || s.phase == reduced && h.bugs.Has(BugReducesTwice) {
		s.cut(h)
		s.phase, s.recover = reduced, s.next
		if s.window.control != DCTCP { // which reacts to loss as ever (RFC 8257, 3.5)
			s.period.since = s.ordinal
		}
	}
	return false // RFC 3168, 6.1.2
}

// estimate updates DCTCP's α once a window (RFC 8257, 3.3).
func (h *Host) estimate(s *sender, echo bool, bytes uint64) {
	s.acked += bytes
	if echo {
		s.marked += bytes
	}
	if s.una() <= s.windowEnd {
		return
	}
	g := h.gain()
	s.alpha += g * (float64(s.marked)/float64(max(s.acked, 1)) - s.alpha)
	h.freeze(s)
	s.acked, s.marked, s.windowEnd = 0, 0, s.next
}

// cut reduces the window after a mark: as after a loss (RFC 3168, 6.1.2), or by α/2 (RFC 8257, 3.3).
func (s *sender) cut(h *Host) {
	s.cwr = true
	h.counters.Marks++
	if s.window.control != DCTCP {
		s.window.reduce()
		return
	}
	s.window.threshold = max(minWindow, s.window.size*(1-s.alpha/2))
	s.window.size = s.window.threshold
}

// label fills in what a packet with data says of ECN.
func (h *Host) label(c *connection, p *Packet, retransmit bool) {
	s, e := &c.sender, &h.cfg.ECN
	if !h.usesECN(c) && !h.bugs.Has(BugECTUnnegotiated) {
		return
	}
	if !retransmit || e.Everything || h.bugs.Has(BugECTOnRetransmissions) {
		p.ECN = e.Codepoint
	}
	if retransmit {
		return
	}
	if s.cwr && !h.bugs.Has(BugNeverCWR) || h.bugs.Has(BugAlwaysCWR) {
		p.Header.Flags |= FlagCWR
	}
	s.cwr = false
}

// labelACK fills in the codepoint of a packet without data.
func (h *Host) labelACK(c *connection, p *Packet) {
	if e := &h.cfg.ECN; h.usesECN(c) && (e.Everything || h.bugs.Has(BugECTOnACKs)) {
		p.ECN = e.Codepoint
	}
}

// notice takes the marks of a segment in the window before the segment itself.
func (h *Host) notice(now clock.Time, c *connection, p *Packet) {
	r, e := &c.receiver, &c.ecnReceiver
	ce := p.ECN == packet.CE && !h.bugs.Has(BugIgnoresCE)
	switch {
	case !h.usesECN(c):
	case h.cfg.Control != DCTCP:
		if p.Header.Flags&FlagCWR != 0 && !h.bugs.Has(BugKeepsECE) {
			e.echo = false
		}
		e.echo = e.echo || ce
	case ce != e.echo:
		if r.pending > 0 && !h.bugs.Has(BugMergesMarks) {
			var earlier Header
			h.acknowledge(now, c, &earlier)
			r.stamp, _, _ = p.Header.Times()
			e.earlier = append(e.earlier, earlier)
		}
		e.echo, r.ackNow = ce, true
	}
}

// echo fills in the ECN-Echo of an acknowledgement.
func (h *Host) echo(c *connection, to *Header) {
	if !h.usesECN(c) {
		return
	}
	r := &c.ecnReceiver
	if r.echo || h.bugs.Has(BugAlwaysECE) {
		to.Flags |= FlagECE
	}
	if h.bugs.Has(BugEchoesOnce) {
		r.echo = false
	}
}

// sendEarlier fills p with the first of the acknowledgements that are to be sent before all else.
func (h *Host) sendEarlier(c *connection, p *Packet) {
	p.Header = c.earlier[0]
	c.earlier = c.earlier[1:]
	if len(c.earlier) == 0 {
		c.earlier = nil
	}
	h.number(c, p)
}

// number makes p a packet without payload.
func (h *Host) number(c *connection, p *Packet) {
	h.acks++
	h.counters.ACKsSent++
	p.Number = numberAck | h.acks
	p.Header.Seq = h.cfg.sequence(c.next)
	h.labelACK(c, p)
}

// lossReduces reduces the window at the first sign of loss in it. RFC 3168 reduces it once if marks came before; DCTCP
// reacts to loss as ever (RFC 8257, 3.5).
func (s *sender) lossReduces(now clock.Time) {
	if s.bugs.Has(BugIgnoresLoss) || s.phase == reduced && s.detection != PerPacket && s.window.control != DCTCP {
		return
	}
	if s.cwr = true; s.swift != nil {
		s.swift.timeouts = 0
		s.swiftLoss(now, false)
		return
	}
	s.window.reduce()
}
