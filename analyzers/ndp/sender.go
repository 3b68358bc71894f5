package ndp

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// tolerance subtracts 2 %, for the clock of a host.
func tolerance(d clock.Duration) clock.Duration { return d - d/50 }

type transit struct {
	at      clock.Time
	c       *connection
	counter uint32
}

// over reports whether the transmission has reached a host.
func (t *transit) over() bool { return t.c.flights.find(t.counter) == nil }

// sent takes a data packet that its sender has sent.
func (a *Analyzer) sent(t *trace.Tap) {
	c := a.find(t.Src, t.Dst, t.NDP.Connection)
	if !c.opened {
		c.opened, c.base, c.next = true, t.NDP.Seq, t.NDP.Seq
		c.inOrder = t.NDP.Seq
		c.late = t.NDP.Seq != 0 || t.NDP.Counter != 0
		if n := a.cfg.Scoreboard.Paths; n > 0 && !c.late && !a.cfg.Paused {
			c.board = &board{paths: make([]path, n)}
		}
	}
	a.unspent(c, t)
	if t.NDP.Flags&ndp.FlagLast != 0 {
		c.last = t.NDP.Seq + 1
	}
	c.forget(t.Time, a.cfg.RoundTrip)
	c.flights.start(t.Time, t.Number, &t.NDP)
	a.transits.pushAfter(transit{t.Time, c, t.NDP.Counter}, (*transit).over)
	before := txUnsent
	if c.holds(t.NDP.Seq) {
		before = c.at(t.NDP.Seq).tx
	}
	broken := a.transmission(c, t)
	a.credit(c, t, broken, before)
	a.took(c, t)
	c.transmissions++
	c.active = t.Time
	c.sender.sent = t.Time
}

// unspent reports a sender that was silent although it could send: its link was free, the last packet was never sent,
// and the first window and PULLs allowed more transmissions. A transmission that an RTO releases now shows it.
func (a *Analyzer) unspent(c *connection, t *trace.Tap) {
	if a.cfg.InitialWindow == 0 || a.cfg.Paused || c.late || c.last > 0 || c.next < uint32(a.cfg.InitialWindow) {
		return
	}
	since := max(c.pulledAt, c.sender.sent)
	if due := uint32(a.cfg.InitialWindow) + c.pulled; c.transmissions < due && since.Add(2*a.cfg.RoundTrip) < t.Time {
		a.blame(causePullUnanswered(a.tx(c), c, due, since, a.cfg.InitialWindow), c, int64(t.NDP.Seq), t.Number,
			fmt.Sprintf("%d packets since %v: %d in the first window, PULL counter %d", due, since,
				a.cfg.InitialWindow, c.pulled), fmt.Sprintf("packet %d is sent only now", c.transmissions+1))
	}
}

// transmission steps the packet's machine and reports whether a rule was broken, so that one fault is reported once.
func (a *Analyzer) transmission(c *connection, t *trace.Tap) bool {
	seq := t.NDP.Seq
	if seq < c.base { // acknowledged longer than a round trip ago
		state := txAcked
		a.sender.Step(&state, inRetransmit)
		a.blame(causeSpurious(a.tx(c), seq), c, int64(seq), t.Number, "no retransmission of an acknowledged packet",
			fmt.Sprintf("data %d retransmitted", seq))
		return true
	}
	if seq >= c.next {
		return a.newPacket(c, t)
	}
	p := c.at(seq)
	before := p.tx
	input := a.retransmission(p, t.Time)
	a.lapse(c, p, t.Time)
	crossed := a.crossed(p, t.Time)
	if c.board != nil {
		a.countLoss(c, p, a.lossOf(p), t.Time)
	}
	rule := a.sender.Step(&p.tx, input)
	if before == txNacked {
		a.nackToTwo.Record(t.Time.Sub(p.answered).Nanoseconds())
	}
	since := t.Time.Sub(p.sent)
	p.sent, p.expired, p.crossed, p.repeated, p.path = t.Time, false, crossed, 0, t.NDP.Path
	if rule == "" {
		return false
	}
	why := causeSpurious(a.tx(c), seq)
	if rule == RuleTimeoutEarly {
		why = causeTimeoutEarly(a.tx(c), seq, since, a.cfg.RTO)
	}
	a.blame(why, c, int64(seq), t.Number,
		fmt.Sprintf("data %d, which is %s, retransmitted only after a NACK, a return or the RTO", seq, senderStates[before]),
		fmt.Sprintf("data %d retransmitted %v after its last transmission", seq, since))
	return true
}

// retransmission returns the kind of a retransmission of p at now.
func (a *Analyzer) retransmission(p *packet, now clock.Time) uint8 {
	switch {
	case p.tx == txAcked && p.answered.Add(a.cfg.RoundTrip) >= now, p.tx == txSent && p.crossed:
		return inRetransmitCrossed
	// what was paused left later than its RTO began
	case a.cfg.RTO > 0 && (a.cfg.Paused || now.Sub(p.sent) >= tolerance(a.cfg.RTO)):
		return inRetransmitLate
	}
	return inRetransmit
}

// newPacket takes a packet that was not sent before.
func (a *Analyzer) newPacket(c *connection, t *trace.Tap) bool {
	seq := t.NDP.Seq
	skipped := seq > c.next && !c.late
	if skipped {
		a.blame(causeSkip(a.tx(c), seq, c.next), c, int64(seq), t.Number, fmt.Sprintf("data %d", c.next),
			fmt.Sprintf("data %d is sent for the first time", seq))
	}
	if seq-c.next > 1<<16 { // not a gap to be filled
		return true
	}
	for c.next <= seq {
		p := c.push()
		p.sent, p.path = t.Time, t.NDP.Path
		a.sender.Step(&p.tx, inNew)
	}
	if !skipped && !c.late && a.cfg.InitialWindow > 0 && seq >= uint32(a.cfg.InitialWindow) {
		a.newBeforeMissing(c, t)
	}
	return skipped
}

// newBeforeMissing reports new data from a sender that certainly knows of a packet to be retransmitted.
func (a *Analyzer) newBeforeMissing(c *connection, t *trace.Tap) {
	for c.missing.len() > 0 {
		m := *c.missing.front()
		if c.holds(m.seq) && m.at.Add(a.cfg.RoundTrip) >= t.Time {
			return
		}
		c.missing.pop()
		if !c.holds(m.seq) || c.at(m.seq).answered != m.at { // settled, or there are later news of it
			continue
		}
		switch c.at(m.seq).tx {
		case txNacked:
			a.blame(causeNewBeforeNacked(a.tx(c), t.NDP.Seq, m), c, int64(m.seq), t.Number,
				fmt.Sprintf("data %d retransmitted first, which was NACKed at %v", m.seq, m.at),
				fmt.Sprintf("new data %d is sent", t.NDP.Seq))
		case txReturned:
			a.blame(causeNewBeforeReturned(a.tx(c), t.NDP.Seq, m), c, int64(m.seq), t.Number,
				fmt.Sprintf("data %d retransmitted first, which was returned at %v", m.seq, m.at),
				fmt.Sprintf("new data %d is sent", t.NDP.Seq))
		}
	}
}

// credit checks that a transmission was allowed: by the first window, a PULL, a return that may be answered without a
// PULL, or an RTO. before is the state of the packet before it.
func (a *Analyzer) credit(c *connection, t *trace.Tap, broken bool, before uint8) {
	if a.cfg.InitialWindow == 0 || c.late {
		return
	}
	if c.transmissions < a.allowance(c) {
		return
	}
	a.expire(c, t.Time)
	if c.transmissions < a.allowance(c) {
		return
	}
	allowed := a.allowance(c)
	c.timeouts += c.transmissions + 1 - allowed // reported once, or explained
	if broken || a.cfg.RTO > 0 && a.cfg.Paused || a.cfg.RTO > 0 && t.Time.Sub(c.active) >= tolerance(a.cfg.RTO) {
		return
	}
	why := causeSendWithoutPull(a.tx(c), c, t.NDP.Seq, allowed)
	if before == txReturned {
		why = causeReturnEcho(a.tx(c), c, t.NDP.Seq, allowed)
	}
	a.blame(why, c, int64(t.NDP.Seq), t.Number,
		fmt.Sprintf("at most %d packets: %d in the first window, PULL counter %d", allowed,
			a.cfg.InitialWindow, c.pulled), fmt.Sprintf("packet %d is sent, data %d", c.transmissions+1, t.NDP.Seq))
}

func (a *Analyzer) allowance(c *connection) uint32 {
	return uint32(a.cfg.InitialWindow) + c.pulled + c.atOnce + c.timeouts
}

// expire counts RTOs that have run out since the packets were sent.
func (a *Analyzer) expire(c *connection, now clock.Time) {
	if a.cfg.RTO == 0 {
		return
	}
	for seq := c.base; seq < c.next; seq++ {
		a.lapse(c, c.at(seq), now)
	}
}

// lapse counts the RTO of the latest transmission of p once, if it may have expired: each allows one packet, also when
// several of a connection expire together, and when an answer arrives before the packet is sent.
func (a *Analyzer) lapse(c *connection, p *packet, by clock.Time) {
	if a.cfg.RTO > 0 && p.tx == txSent && !p.expired && p.sent.Add(tolerance(a.cfg.RTO)) <= by {
		p.expired = true
		c.timeouts++
	}
}

// crossed reports whether the latest NACK or returned header of p may reach the sender only after a retransmission at
// now that the RTO or an earlier answer explains (also one that crossed the transmission before). The latest answer
// then allows another retransmission.
func (a *Analyzer) crossed(p *packet, now clock.Time) bool {
	if p.tx != txNacked && p.tx != txReturned {
		return false
	}
	return (p.expired || p.crossed) && p.answered.Add(a.cfg.RoundTrip) >= now || p.repeated > 0 &&
		p.repeated.Add(a.cfg.RoundTrip) >= now
}

// heard takes an answer that passes towards the sender of data.
func (a *Analyzer) heard(t *trace.Tap) {
	c := a.find(t.Dst, t.Src, t.NDP.Connection)
	switch t.NDP.Kind {
	case ndp.Ack:
		a.count(c, t.Time)
		if t.NDP.Seq < c.next && t.NDP.Counter <= c.next {
			a.scored(c, t, false)
		}
		a.tell(c, t, t.NDP.Seq, inAck)
		a.tellBelow(c, t, min(t.NDP.Counter, c.next))
	case ndp.Nack:
		a.count(c, t.Time)
		if t.NDP.Seq < c.next {
			a.scored(c, t, true)
		}
		a.tell(c, t, t.NDP.Seq, inNack)
	case ndp.Pull:
		if int32(t.NDP.Counter-c.pulled) > 0 {
			c.pulled, c.pulledAt, c.active = t.NDP.Counter, t.Time, t.Time
		}
	default: // data came elsewhere
	}
	c.forget(t.Time, a.cfg.RoundTrip)
}

// tellBelow tells that all packets below end were acknowledged. Those of earlier ACKs stay acknowledged, and are only
// counted.
func (a *Analyzer) tellBelow(c *connection, t *trace.Tap, end uint32) {
	seq := c.base
	if known := min(c.below, end); known > seq {
		a.sender.Repeat(txAcked, inAck, int64(known-seq))
		seq = known
	}
	for ; seq < end; seq++ {
		a.tell(c, t, seq, inAck)
	}
	c.below = max(c.below, end)
}

func (a *Analyzer) count(c *connection, now clock.Time) {
	c.active = now
	c.heard++
	c.firstHeard++
}

// tell steps the machine of a packet when an answer passes towards its sender.
func (a *Analyzer) tell(c *connection, t *trace.Tap, seq uint32, input uint8) {
	if !c.holds(seq) {
		return
	}
	p := c.at(seq)
	before := p.tx
	a.lapse(c, p, t.Time.Add(a.cfg.RoundTrip))
	a.sender.Step(&p.tx, input)
	if p.tx == before {
		if input != inAck && (before == txNacked || before == txReturned) {
			p.repeated = t.Time
		}
		return
	}
	p.answered = t.Time
	if p.tx == txNacked || p.tx == txReturned {
		c.missing.push(missing{t.Time, t.Number, seq})
	}
}

// cameBack handles a header that returns to the sender of the data.
func (a *Analyzer) cameBack(c *connection, t *trace.Tap) {
	a.scored(c, t, true)
	c.firstHeard++
	expects := int64(c.first(a.cfg.InitialWindow))-int64(c.firstHeard) > 1 || int32(c.heard-c.pulled) > 0
	if !expects {
		c.atOnce++
	}
	a.tell(c, t, t.NDP.Seq, inReturn)
}
