package tcp

import (
	"candela.dev/candela/clock"
	wire "candela.dev/candela/packet/tcp"
)

// stage is how far a handshake has come (RFC 9293, 3.5).
type stage uint8

const (
	closed stage = iota
	synSent
	synReceived
	established
)

// greeting is the handshake of a connection, at one end.
type greeting struct {
	stage    stage
	greets   bool // a SYN or a SYN-ACK is to be sent
	confirms bool // the ACK of a SYN-ACK is to be sent before any data
	syns     int  // sent
	synAt    clock.Time
	// ECN: the peer's SYN offers it, and both ends use it.
	offered, negotiated bool
}

// mayTransmit reports whether a segment with data may be sent.
func (h *Host) mayTransmit(c *connection) bool {
	if h.cfg.Handshake && c.stage != established && !h.bugs.Has(BugHastyData) {
		return false
	}
	return c.maySend()
}

// open begins a handshake when there is something to write.
func (h *Host) open(c *connection) {
	if h.cfg.Handshake && c.stage == closed && !c.aborted {
		c.stage, c.greets = synSent, true
		if h.bugs.Has(BugHastyData) {
			c.limit = uint64(h.cfg.tellable())
		}
	}
}

// greet fills p with a SYN or a SYN-ACK.
func (h *Host) greet(now clock.Time, c *connection, p *Packet) {
	h.acks++
	p.Number = numberAck | h.acks
	p.Header = Header{Flags: FlagSYN, Seq: h.cfg.FirstSequence, Window: uint16(min(h.cfg.ReceiveWindow, 0xffff)),
		Options: h.cfg.options()}
	p.Header.SetMSS(h.cfg.MSS)
	p.Rank = c.ranking.Rank(max(c.written, 1), 0)
	if c.stage == synReceived {
		p.Header.Flags |= FlagACK
		p.Header.Ack = h.cfg.sequence(0)
		h.spoilAnswer(&p.Header)
	}
	h.negotiate(c, p)
	c.greets = false
	c.syns++
	c.synAt = now
	h.counters.SYNsSent++
	if c.expires == clock.Never {
		c.start(now)
		h.hasten(now, c)
	}
}

// options returns the options of a SYN.
func (c *Config) options() wire.Options {
	var o wire.Options
	if c.Detection != NewReno {
		o = wire.OptionSACK
	}
	if !c.Unscaled {
		o |= wire.OptionScale
	}
	return o
}

// greetAgain handles the timeout of a SYN or a SYN-ACK (RFC 6298, 5.5 and 5.6).
func (h *Host) greetAgain(now clock.Time, c *connection) {
	h.counters.Timeouts++
	h.report(now, c, TimedOut, 0)
	if h.giveUp(now, c, c.syns-1) {
		return
	}
	h.report(now, c, Retransmitted, 0)
	c.greets = true
	c.backoff++
	c.start(now)
	h.hasten(now, c)
}

// greeted takes what a packet says about the handshake and reports whether the rest of it counts.
func (h *Host) greeted(now clock.Time, c *connection, p *Packet) bool {
	f := p.Header.Flags
	confirmed := f&FlagACK != 0 && p.Header.Ack == h.cfg.sequence(0)
	switch {
	case f&FlagSYN != 0 && p.Header.Seq != h.cfg.FirstSequence, f&FlagSYN != 0 && f&FlagACK != 0 && !confirmed:
		h.counters.Invalid++
		return false
	case f&FlagSYN != 0:
		h.negotiates(c, f, confirmed)
		h.syn(now, c, &p.Header, confirmed)
		return false
	case c.stage == established:
		return true
	case c.stage == synReceived && confirmed && (p.Payload == 0 || !h.cfg.NeedsACK):
		h.establish(now, c)
		return true
	}
	h.counters.Invalid++
	return false
}

// syn takes a SYN or, if it confirms ours, a SYN-ACK.
func (h *Host) syn(now clock.Time, c *connection, a *Header, confirms bool) {
	switch {
	case c.stage == established:
		c.ackNow = true // the peer has missed an ACK
		c.confirms = h.cfg.NeedsACK
		return
	case confirms && c.stage == closed:
		h.counters.Invalid++
		return
	case confirms:
		h.establish(now, c)
		c.ackNow, c.confirms = true, true
	default: // a SYN, perhaps a copy; in synSent both ends open at once (RFC 9293, figure 7)
		c.stage, c.greets = synReceived, !h.bugs.Has(BugIgnoresSYN)
	}
	c.limit = max(c.limit, uint64(a.Window)) // not scaled (RFC 7323, 2.2)
	h.ignoresReceiver(&c.sender)
}

// establish ends the handshake. The SYN gives the first sample of the RTT unless it was retransmitted (Karn). If it was
// retransmitted more than once, the initial window is one segment (RFC 6928, 2).
func (h *Host) establish(now clock.Time, c *connection) {
	c.stage, c.greets = established, false
	c.expires, c.backoff = clock.Never, 0
	switch {
	case c.syns == 1 && !h.cfg.Timestamps:
		c.measure(now.Sub(c.synAt))
	case c.syns > 2 && !h.bugs.Has(BugKeepsInitialWindow):
		c.window.size = 1
		c.swift.restrict()
	}
}

// spoilAnswer applies faults to a SYN-ACK.
func (h *Host) spoilAnswer(to *Header) {
	if h.bugs.Has(BugWrongSYNACK) {
		to.Ack--
	}
}

// hasten applies faults to the timer of a SYN.
func (h *Host) hasten(now clock.Time, c *connection) {
	switch {
	case h.bugs.Has(BugHastySYN):
		c.expires = now.Add(c.expires.Sub(now) / 4)
	case h.bugs.Has(BugForgetsSYN):
		c.expires = clock.Never
	}
}
