package ndp

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// pendingAnswer is an answer that a receiver owes.
type pendingAnswer struct {
	at     clock.Time
	c      *connection
	number uint64
	seq    uint32
	nth    uint32 // of its kind for this packet
	header bool
}

// delivery is a data packet on the last link.
type delivery struct {
	at clock.Time
	c  *connection
}

// lost reports a transmission that reached no host, if so.
func (a *Analyzer) lost(t transit) {
	f := t.c.flights.find(t.counter)
	if f == nil {
		return
	}
	t.c.flights.end(f)
	if f.outage {
		return
	}
	a.blame(causeSilentLoss(t.c, f), t.c, int64(f.header.Seq), f.number,
		"the packet at its receiver, or its header at either end",
		fmt.Sprintf("data %d, sent at %v, reaches neither", f.header.Seq, f.at))
}

// arrived handles a data packet that passes towards a host: whole or trimmed to the receiver, returned to the sender.
func (a *Analyzer) arrived(t *trace.Tap) {
	from, to := t.Src, t.Dst
	if t.Returned() {
		from, to = to, from
	}
	c := a.find(from, to, t.NDP.Connection)
	if t.At > 0 && t.At-1 != t.Dst {
		a.blame(causeMisdelivered(c, t), c, int64(t.NDP.Seq), t.Number, fmt.Sprintf("at host %d", t.Dst),
			fmt.Sprintf("data %d reaches host %d", t.NDP.Seq, t.At-1))
		return
	}
	if !a.landed(c, t) {
		return
	}
	if t.Returned() {
		a.cameBack(c, t)
		return
	}
	c.delivered++
	order := c.host.delivered(c)
	c.host.largest = max(c.host.largest, int64(t.Size))
	if !c.complete {
		a.ripe.push(delivery{t.Time, c})
	}
	if !c.holds(t.NDP.Seq) {
		c.stragglers++
		c.strayed = order
		return
	}
	c.at(t.NDP.Seq).order = order
	a.deliver(c, t)
}

// landed matches a data packet with its transmission. A packet that was not seen entering is not judged.
func (a *Analyzer) landed(c *connection, t *trace.Tap) bool {
	f := c.flights.find(t.NDP.Counter)
	if f == nil {
		if c.opened && t.NDP.Counter < c.transmissions && !c.late {
			a.blame(causeDuplicated(c, t), c, int64(t.NDP.Seq), t.Number, "each transmission once",
				fmt.Sprintf("data %d, transmission %d, arrives once more", t.NDP.Seq, t.NDP.Counter))
		} else if !c.opened || t.NDP.Counter >= c.transmissions && !c.late {
			a.blame(causeUnknownHeader(c, t), c, int64(t.NDP.Seq), t.Number, "headers as they were sent",
				"a header that nobody sent: "+t.NDP.String())
		}
		return false
	}
	c.flights.end(f)
	if !t.NDP.SameAs(&f.header) {
		a.blame(causeHeaderChanged(c, t, f), c, int64(t.NDP.Seq), t.Number, f.header.String(), t.NDP.String())
	}
	d := a.whole
	if t.Trimmed() {
		d = a.header
	}
	d.Record(t.Time.Sub(f.at).Nanoseconds())
	return true
}

func (a *Analyzer) deliver(c *connection, t *trace.Tap) {
	seq := t.NDP.Seq
	p := c.at(seq)
	if t.Trimmed() {
		p.headerSeen++
		p.delivered = t.Time
		a.receiver.Step(&p.rx, inHeader)
		a.pending.pushAfter(pendingAnswer{t.Time, c, t.Number, seq, p.headerSeen, true}, (*pendingAnswer).over)
		return
	}
	if p.wholeSeen == 0 {
		c.whole++
	}
	p.wholeSeen++
	a.receiver.Step(&p.rx, inWhole)
	a.pending.pushAfter(pendingAnswer{t.Time, c, t.Number, seq, p.wholeSeen, false}, (*pendingAnswer).over)
	for c.inOrder < c.next && c.inOrder >= c.base && c.at(c.inOrder).wholeSeen > 0 {
		c.inOrder++
	}
	if c.last > 0 && c.whole == c.last && !c.complete {
		a.finish(c)
	}
}

// over reports whether the answer has come, or is not awaited any more.
func (d *pendingAnswer) over() bool {
	if !d.c.holds(d.seq) {
		return true
	}
	p := d.c.at(d.seq)
	return d.header && p.headerAnswered >= d.nth || !d.header && p.wholeAnswered >= d.nth
}

// unanswered reports a delivery that was not answered in time, if so.
func (a *Analyzer) unanswered(d pendingAnswer) {
	if !d.c.holds(d.seq) {
		return
	}
	p := d.c.at(d.seq)
	if d.header && p.headerAnswered < d.nth {
		p.headerAnswered = d.nth
		a.blame(causeNackMissing(a.rx(d.c), d), d.c, int64(d.seq), d.number,
			fmt.Sprintf("a NACK for data %d, whose header passed at %v", d.seq, d.at), "no NACK")
	}
	if !d.header && p.wholeAnswered < d.nth {
		p.wholeAnswered = d.nth
		a.blame(causeAckMissing(a.rx(d.c), d), d.c, int64(d.seq), d.number,
			fmt.Sprintf("an ACK for data %d, which passed at %v", d.seq, d.at), "no ACK")
	}
}

// answered takes what the receiver of data sends.
func (a *Analyzer) answered(t *trace.Tap) {
	c := a.find(t.Dst, t.Src, t.NDP.Connection)
	c.host.sent = t.Time
	if t.NDP.Kind == ndp.Pull {
		a.pull(c, t)
		return
	}
	a.answeredBy(c.host, t.Size)
	if c.late && !c.holds(t.NDP.Seq) {
		return
	}
	if c.holds(t.NDP.Seq) {
		c.host.learn(c.at(t.NDP.Seq).order)
	} else {
		c.host.learn(c.strayed)
	}
	if t.NDP.Kind == ndp.Ack {
		a.ack(c, t)
	} else {
		a.nack(c, t)
	}
}

func (a *Analyzer) ack(c *connection, t *trace.Tap) {
	seq := t.NDP.Seq
	if t.NDP.Counter > c.inOrder && !c.late {
		a.blame(causeAckCumulative(a.rx(c), t.NDP.Counter, c.inOrder), c, int64(t.NDP.Counter)-1, t.Number,
			fmt.Sprintf("at most everything below data %d acknowledged", c.inOrder),
			fmt.Sprintf("an ACK for everything below data %d", t.NDP.Counter))
	}
	if !c.holds(seq) {
		a.straggler(c, t, causeAckUnprovoked(a.rx(c), seq), "ACK")
		return
	}
	p := c.at(seq)
	input := inAcks
	switch {
	case p.wholeAnswered < p.wholeSeen:
		p.wholeAnswered++
	case p.wholeSeen > 0 && p.headerAnswered < p.headerSeen:
		p.headerAnswered++
	default:
		input = inAcksRepeated
	}
	before := p.rx
	rule := a.receiver.Step(&p.rx, input)
	if rule == RuleAckTrimmed && p.headerAnswered < p.headerSeen {
		p.headerAnswered++
	}
	if rule != "" {
		why := causeAckUnprovoked(a.rx(c), seq)
		if rule == RuleAckTrimmed {
			why = causeAckTrimmed(a.rx(c), seq)
		}
		a.blame(why, c, int64(seq), t.Number,
			fmt.Sprintf("the answer to data %d, of which the receiver has: %s", seq, receiverStates[before]),
			fmt.Sprintf("an ACK for data %d", seq))
	}
}

func (a *Analyzer) nack(c *connection, t *trace.Tap) {
	seq := t.NDP.Seq
	if !c.holds(seq) {
		a.straggler(c, t, causeNackUnprovoked(a.rx(c), seq), "NACK")
		return
	}
	p := c.at(seq)
	input := inNacksRepeated
	if p.headerAnswered < p.headerSeen {
		p.headerAnswered++
		input = inNacks
		a.headerToNack.Record(t.Time.Sub(p.delivered).Nanoseconds())
	}
	before := p.rx
	rule := a.receiver.Step(&p.rx, input)
	if rule == RuleNackWhole && p.wholeAnswered < p.wholeSeen {
		p.wholeAnswered++
	}
	if rule != "" {
		why := causeNackUnprovoked(a.rx(c), seq)
		if rule == RuleNackWhole {
			why = causeNackWhole(a.rx(c), seq)
		}
		a.blame(why, c, int64(seq), t.Number,
			fmt.Sprintf("the answer to data %d, of which the receiver has: %s", seq, receiverStates[before]),
			fmt.Sprintf("a NACK for data %d", seq))
	}
}

// straggler handles an answer for a packet that is settled: a late copy of it may have arrived.
func (a *Analyzer) straggler(c *connection, t *trace.Tap, why cause.Cause, kind string) {
	if c.stragglers > 0 {
		c.stragglers--
		return
	}
	a.blame(why, c, int64(t.NDP.Seq), t.Number, "an answer to something that arrived",
		fmt.Sprintf("%s for data %d", kind, t.NDP.Seq))
}
