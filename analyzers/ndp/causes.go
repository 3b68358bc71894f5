package ndp

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// who is an end of a connection at an instant.
type who struct {
	host cause.End
	now  clock.Time
}

func (w who) at() cause.Instant { return cause.Clock(w.now) }

// tx returns the sender of data of a connection.
func (a *Analyzer) tx(c *connection) who {
	return who{cause.End{Role: "Sender", Connection: c.number, Host: c.from}, a.now}
}

// rx returns its receiver.
func (a *Analyzer) rx(c *connection) who {
	return who{cause.End{Role: "Receiver", Connection: c.number, Host: c.to}, a.now}
}

// count is a number of packets, of a packet or of a PULL.
func count[T ~int | ~uint32 | ~uint64](n T) cause.Count { return cause.Count(n) }

func packets[T ~int | ~uint32](n T) cause.Counted { return cause.Counted{N: int64(n), Noun: "packet"} }

func causeSilentLoss(c *connection, f *flight) cause.Cause {
	return cause.Of(RuleSilentLoss, "neither-end",
		"The network lost data %v of connection %v, sent at %v: neither the packet nor its header reached a host.",
		count(f.header.Seq), count(c.number), cause.Clock(f.at))
}

func causeHeaderChanged(c *connection, t *trace.Tap, f *flight) cause.Cause {
	return cause.Of(RuleHeaderChanged, "changed",
		"The network changed the header of data %v of connection %v: sent as %v, it arrived at %v as %v.",
		count(f.header.Seq), count(c.number), cause.Name(f.header.String()), cause.Clock(t.Time), cause.Name(t.NDP.String()))
}

func causeUnknownHeader(c *connection, t *trace.Tap) cause.Cause {
	return cause.Of(RuleHeaderChanged, "never-sent",
		"The network delivered a header at %v that no host had sent: data %v of connection %v, transmission %v.",
		cause.Clock(t.Time), count(t.NDP.Seq), count(c.number), count(t.NDP.Counter))
}

func causeDuplicated(c *connection, t *trace.Tap) cause.Cause {
	return cause.Of(RuleDuplicated, "delivered-twice",
		"The network delivered data %v of connection %v, transmission %v, a second time at %v.", count(t.NDP.Seq),
		count(c.number), count(t.NDP.Counter), cause.Clock(t.Time))
}

func causeMisdelivered(c *connection, t *trace.Tap) cause.Cause {
	return cause.Of(RuleMisdelivered, "other-host",
		"The network delivered data %v of connection %v to host %v at %v; its destination was host %v.", count(t.NDP.Seq),
		count(c.number), count(t.At-1), cause.Clock(t.Time), count(t.Dst))
}

func causeSendWithoutPull(w who, c *connection, seq, allowed uint32) cause.Cause {
	return cause.Of(RuleSendWithoutPull, "beyond-credit",
		"%v sent data %v at %v as its packet number %v; first window, PULLs and RTOs allowed %v.", w.host, count(seq), w.at(),
		count(c.transmissions+1), packets(allowed))
}

func causeReturnEcho(w who, c *connection, seq, allowed uint32) cause.Cause {
	return cause.Of(RuleReturnEcho, "no-pull",
		"%v retransmitted returned data %v at %v without a PULL as its packet number %v; first window, PULLs and RTOs "+
			"allowed %v.",
		w.host, count(seq), w.at(), count(c.transmissions+1), packets(allowed))
}

func causeNewBeforeNacked(w who, fresh uint32, m missing) cause.Cause {
	return cause.Of(RuleRetransmitFirst, "new-data-first",
		"%v sent new data %v at %v before it retransmitted data %v, NACKed at %v.", w.host, count(fresh), w.at(),
		count(m.seq), cause.Clock(m.at))
}

func causeNewBeforeReturned(w who, fresh uint32, m missing) cause.Cause {
	return cause.Of(RuleReturnUnanswered, "new-data-first",
		"%v sent new data %v at %v before it retransmitted data %v, whose header came back at %v.", w.host, count(fresh),
		w.at(), count(m.seq), cause.Clock(m.at))
}

func causeSpurious(w who, seq uint32) cause.Cause {
	return cause.Of(RuleSpurious, "acknowledged", "%v retransmitted data %v at %v, which had been acknowledged.", w.host,
		count(seq), w.at())
}

func causeTimeoutEarly(w who, seq uint32, since, rto clock.Duration) cause.Cause {
	if rto == 0 {
		return cause.Of(RuleTimeoutEarly, "no-sign-of-loss",
			"%v retransmitted data %v at %v, %v after the transmission before, without a NACK or a returned header.", w.host,
			count(seq), w.at(), cause.Span(since))
	}
	return cause.Of(RuleTimeoutEarly, "before-rto",
		"%v retransmitted data %v only %v after its last transmission, without a NACK or a returned header; its RTO is %v.",
		w.host, count(seq), cause.Span(since), cause.Span(rto))
}

func causeSkip(w who, seq, next uint32) cause.Cause {
	return cause.Of(RuleSeqSkip, "not-next", "%v sent data %v for the first time at %v, but data %v was next.", w.host,
		count(seq), w.at(), count(next))
}

func causePullUnanswered(w who, c *connection, due uint32, since clock.Time, window int) cause.Cause {
	return cause.Of(RulePullUnanswered, "credit-unused",
		"%v had sent only %v by %v; a first window of %v and PULL %v had allowed %v since %v.", w.host,
		packets(c.transmissions), w.at(), count(window), count(c.pulled), count(due), cause.Clock(since))
}

func causePathExcluded(w who, seq uint32, path uint16, since clock.Time) cause.Cause {
	return cause.Of(RulePathExcluded, "outlier",
		"%v sent data %v at %v on path %v, which its scoreboard has excluded since %v.", w.host, count(seq), w.at(),
		count(int(path)), cause.Clock(since))
}

func causePathUnused(w who, path, missed uint32, paths int) cause.Cause {
	return cause.Of(RulePathUnused, "no-outlier",
		"%v sent none of its last %v by %v on path %v, one of %v, although its scoreboard did not exclude it.", w.host,
		packets(missed), w.at(), count(path), count(paths))
}

func causeAckTrimmed(w who, seq uint32) cause.Cause {
	return cause.Of(RuleAckTrimmed, "header-only",
		"%v acknowledged data %v at %v, but only its trimmed header had arrived.", w.host, count(seq), w.at())
}

func causeAckUnprovoked(w who, seq uint32) cause.Cause {
	return cause.Of(RuleAckUnprovoked, "not-owed",
		"%v sent an ACK for data %v at %v, but no unanswered copy of that packet had arrived.", w.host, count(seq), w.at())
}

func causeAckCumulative(w who, below, arrived uint32) cause.Cause {
	return cause.Of(RuleAckUnprovoked, "beyond-arrivals",
		"%v acknowledged everything below data %v at %v; only everything below data %v had arrived.", w.host, count(below),
		w.at(), count(arrived))
}

func causeAckMissing(w who, d pendingAnswer) cause.Cause {
	return cause.Of(RuleAckMissing, "no-ack", "%v did not acknowledge data %v, which had reached it at %v.", w.host,
		count(d.seq), cause.Clock(d.at))
}

func causeNackWhole(w who, seq uint32) cause.Cause {
	return cause.Of(RuleNackWhole, "arrived-whole", "%v sent a NACK for data %v at %v, which had arrived whole.", w.host,
		count(seq), w.at())
}

func causeNackUnprovoked(w who, seq uint32) cause.Cause {
	return cause.Of(RuleNackUnprovoked, "not-owed",
		"%v sent a NACK for data %v at %v, but no unanswered header of that packet had arrived.", w.host, count(seq), w.at())
}

func causeNackMissing(w who, d pendingAnswer) cause.Cause {
	return cause.Of(RuleNackMissing, "no-nack", "%v did not NACK data %v, whose trimmed header had reached it at %v.",
		w.host, count(d.seq), cause.Clock(d.at))
}

func causePullCounter(w who, counter, before uint32) cause.Cause {
	return cause.Of(RulePullCounter, "not-higher", "%v sent PULL %v at %v after PULL %v.", w.host, count(counter), w.at(),
		count(before))
}

func causePullBeyondArrivals(w who, counter, arrived uint32) cause.Cause {
	return cause.Of(RulePullExcess, "beyond-arrivals", "%v sent PULL %v at %v, but only %v had arrived.", w.host,
		count(counter), w.at(), packets(arrived))
}

func causePullBeyondAnswers(w who, counter, learned uint32) cause.Cause {
	return cause.Of(RulePullExcess, "beyond-answers",
		"%v sent PULL %v at %v, but its answers show that it had received no more than %v.", w.host, count(counter), w.at(),
		packets(learned))
}

func causePullMissing(w who, c *connection) cause.Cause {
	return cause.Of(RulePullMissing, "forgotten", "%v sent no PULL after PULL %v although %v had arrived.", w.host,
		count(c.counter), packets(c.certain))
}

func causePullFast(w who, h *host, gap clock.Duration) cause.Cause {
	return cause.Of(RulePullFast, "above-line-rate",
		"%v sent a PULL at %v, %v after the host's PULL before; its link takes a full packet every %v.", w.host, w.at(),
		cause.Span(w.now.Sub(h.last)), cause.Span(gap))
}

func causePullSlow(w who, h *host, gap clock.Duration) cause.Cause {
	return cause.Of(RulePullSlow, "below-line-rate",
		"%v sent a PULL at %v, %v after the host's PULL before, while it owed %v; its link takes a full packet every %v.",
		w.host, w.at(), cause.Span(w.now.Sub(h.last)), cause.Counted{N: int64(h.owed), Noun: "PULL"}, cause.Span(gap))
}

func causePullUnfair(w who, last uint64, other *connection) cause.Cause {
	return cause.Of(RulePullUnfair, "passed-over",
		"%v sent none of its host's last %v PULLs by %v; connection %v of host %v got at least five of them.", w.host,
		count(last), w.at(), count(other.number), count(other.from))
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	const us, gap = clock.Time(clock.Microsecond), clock.Microsecond
	tx := func(at clock.Time) who { return who{cause.End{Role: "Sender", Connection: 1, Host: 1}, at} }
	rx := func(at clock.Time) who { return who{cause.End{Role: "Receiver", Connection: 1}, at} }
	c := &connection{connectionKey: connectionKey{from: 1}, number: 1}
	data := func(seq, counter uint32) ndp.Header {
		return ndp.Header{Kind: ndp.Data, Connection: 1, Seq: seq, Counter: counter, Length: 1436}
	}
	tap := func(at clock.Time, h ndp.Header) *trace.Tap { return &trace.Tap{Time: at, At: 3, NDP: h} }
	sent := func(n, pulled uint32) *connection { return &connection{number: 1, transmissions: n, pulled: pulled} }
	return []cause.Cause{
		causeSilentLoss(c, &flight{at: 4 * us, header: data(1, 1)}),
		causeHeaderChanged(c, tap(3*us, data(1, 0)), &flight{header: data(0, 0)}),
		causeUnknownHeader(c, tap(2*us, data(0, 7))),
		causeDuplicated(c, tap(3*us, data(0, 0))),
		causeMisdelivered(c, tap(2*us, data(0, 0))),
		causeSendWithoutPull(tx(5*us), sent(4, 0), 4, 4),
		causeReturnEcho(tx(6*us), sent(4, 0), 0, 4),
		causeNewBeforeNacked(tx(20*us), 4, missing{at: 5 * us}),
		causeNewBeforeReturned(tx(20*us), 4, missing{at: 5 * us}),
		causeSpurious(tx(20*us), 0),
		causeTimeoutEarly(tx(6*us), 0, 5*clock.Microsecond, 0),
		causeTimeoutEarly(tx(6*us), 0, 5*clock.Microsecond, 100*clock.Microsecond),
		causeSkip(tx(2*us), 2, 1),
		causePullUnanswered(tx(200*us), sent(4, 2), 6, 6*us, 4),
		causePathExcluded(tx(18*us), 3, 1, 4*us),
		causePathUnused(tx(6*us), 1, 6, 2),
		causeAckTrimmed(rx(3*us), 0),
		causeAckUnprovoked(rx(4*us), 0),
		causeAckCumulative(rx(4*us), 2, 1),
		causeAckMissing(rx(0), pendingAnswer{at: 2 * us}),
		causeNackWhole(rx(3*us), 0),
		causeNackUnprovoked(rx(4*us), 0),
		causeNackMissing(rx(0), pendingAnswer{at: 2 * us}),
		causePullCounter(rx(5*us), 1, 1),
		causePullBeyondArrivals(rx(4*us), 2, 1),
		causePullBeyondAnswers(rx(14*us), 6, 1),
		causePullMissing(rx(0), &connection{counter: 1, certain: 2}),
		causePullFast(rx(100*us+us/10), &host{last: 100 * us}, gap),
		causePullSlow(rx(22*us), &host{last: 20 * us, owed: 12}, gap),
		causePullUnfair(rx(26*us), 15, &connection{connectionKey: connectionKey{from: 1}, number: 2}),
	}
}
