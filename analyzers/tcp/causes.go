package tcp

import (
	"slices"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// who is an end of a connection at an instant.
type who struct {
	host cause.End
	now  clock.Time
}

func (w who) at() cause.Instant { return cause.Clock(w.now) }

// tx returns the sender of a stream.
func (a *Analyzer) tx(s *stream) who {
	return who{cause.End{Role: "Sender", Connection: s.number, Host: s.key.src}, a.now}
}

// rx returns the receiver of a stream.
func (a *Analyzer) rx(s *stream) who {
	return who{cause.End{Role: "Receiver", Connection: s.number, Host: s.key.dst}, a.now}
}

// place is a byte of a stream, counted from 0.
type place = cause.Count

// String returns a range in words, its end excluded.
func (s span) String() string {
	return "bytes " + place(s.start).String() + " to " + place(s.end).String()
}

func causeBeyondReceiver(w who, end, limit int64) cause.Cause {
	return cause.Of(ruleReceive, "beyond-window", "%v sent byte %v at %v; the receiver's window ended at byte %v.", w.host,
		place(end), w.at(), place(limit))
}

func causeSkip(w who, start, next int64) cause.Cause {
	return cause.Of(ruleSkip, "bytes-skipped", "%v sent byte %v at %v and skipped %v: byte %v was next.", w.host,
		place(start), w.at(), cause.Bytes(start-next), place(next))
}

func causeAcknowledged(w who, sent span) cause.Cause {
	return cause.Of(ruleSpurious, "acknowledged", "%v retransmitted %v at %v, which had been acknowledged.", w.host, sent,
		w.at())
}

func causeSACKed(w who, sent span) cause.Cause {
	return cause.Of(ruleSpurious, "sacked", "%v retransmitted %v at %v, which had been SACKed.", w.host, sent, w.at())
}

func causeEarly(w who, g *segment) cause.Cause {
	return cause.Of(ruleEarly, "no-sign-of-loss",
		"%v retransmitted %v at %v, %v after it had sent them; nothing indicated their loss.", w.host, g.span, w.at(),
		cause.Span(w.now.Sub(g.sent)))
}

func causeTimeoutEarly(w who, sent span, waited, least clock.Duration) cause.Cause {
	return cause.Of(ruleTimeoutEarly, "below-minimum",
		"%v retransmitted %v after its timer had run for %v; it runs for at least %v.", w.host, sent, cause.Span(waited),
		cause.Span(least))
}

func causeBackoff(w who, sent span, timeout int, waited, least clock.Duration) cause.Cause {
	return cause.Of(ruleBackoff, "not-doubled",
		"%v retransmitted %v after its timer had run for %v; at timeout %v in a row it runs for at least %v.", w.host, sent,
		cause.Span(waited), cause.Count(timeout), cause.Span(least))
}

func causeOverdue(w who, at int64, waited, most clock.Duration) cause.Cause {
	return cause.Of(ruleTimeoutAbsent, "overdue", "%v did not retransmit byte %v for %v; its timer allows %v.", w.host,
		place(at), cause.Span(waited), cause.Span(most))
}

func causeNeverRetransmitted(w who, at int64) cause.Cause {
	return cause.Of(ruleTimeoutAbsent, "never", "%v never retransmitted byte %v.", w.host, place(at))
}

func causeWindow(w who, flight int64, most float64) cause.Cause {
	return cause.Of(ruleWindow, "exceeded",
		"%v had %v in flight at %v; its congestion window and one segment allow at most %v.", w.host, cause.Bytes(flight),
		w.at(), cause.Count(most))
}

func causeIncomplete(w who, acknowledged, sent int64) cause.Cause {
	return cause.Of(ruleIncomplete, "unacknowledged", "%v sent %v, of which %v had been acknowledged at the end.", w.host,
		cause.Bytes(sent), cause.Count(acknowledged))
}

func causeUnjudged(w who, n int) cause.Cause {
	return cause.Of(ruleUnjudged, "busy-nic",
		"%v retransmitted after a short timer %v, but its NIC was busy and the packets may have waited there.", w.host,
		cause.Times(n))
}

func causeAckBeyond(w who, ack, have int64) cause.Cause {
	return cause.Of(ruleAckBeyond, "not-arrived",
		"%v acknowledged all bytes before %v at %v; only those before %v had arrived in order.", w.host, place(ack), w.at(),
		place(have))
}

func causeAckBackwards(w who, ack, before int64) cause.Cause {
	return cause.Of(ruleAckBackwards, "older", "%v acknowledged byte %v at %v after it had acknowledged byte %v.", w.host,
		place(ack), w.at(), place(before))
}

func causeAckLate(w who, have int64, waited clock.Duration) cause.Cause {
	return cause.Of(ruleAckMissing, "late", "%v did not acknowledge byte %v for %v; RFC 5681 allows 500 ms.", w.host,
		place(have), cause.Span(waited))
}

func causeAckNever(w who, acknowledged, have int64) cause.Cause {
	return cause.Of(ruleAckMissing, "never", "%v received %v in order and acknowledged only %v of them.", w.host,
		cause.Bytes(have), place(max(0, acknowledged)))
}

func causeDuplicateLate(w who, have int64, waited clock.Duration) cause.Cause {
	return cause.Of(ruleDuplicateAbsent, "late", "%v did not answer a segment after the gap at byte %v for %v.", w.host,
		place(have), cause.Span(waited))
}

func causeDuplicateNever(w who, have int64) cause.Cause {
	return cause.Of(ruleDuplicateAbsent, "never", "%v never answered a segment after the gap at byte %v.", w.host,
		place(have))
}

func causeFalseSACK(w who, block span) cause.Cause {
	return cause.Of(ruleSackFalse, "not-arrived", "%v SACKed %v at %v, not all of which had arrived.", w.host, block,
		w.at())
}

func causeNoSACK(w who, gap int64) cause.Cause {
	return cause.Of(ruleSackAbsent, "no-block",
		"%v sent an acknowledgement without a SACK block at %v although data had arrived after the gap at byte %v.", w.host,
		w.at(), place(gap))
}

func causeStaleSACK(w who, block, latest span) cause.Cause {
	return cause.Of(ruleSackAbsent, "stale-block",
		"%v sent an acknowledgement at %v whose SACK block is %v, which does not hold the latest segment, %v.", w.host,
		w.at(), block, latest)
}

func causeShrinks(w who, before, edge int64) cause.Cause {
	return cause.Of(ruleShrinks, "moved-back", "%v moved the end of its window back from byte %v to byte %v at %v.",
		w.host,
		place(before), place(edge), w.at())
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	const us, ms = clock.Microsecond, clock.Millisecond
	tx := func(at clock.Duration) who {
		return who{cause.End{Role: "Sender", Connection: 1, Host: 1}, clock.Time(at)}
	}
	rx := func(at clock.Duration) who {
		return who{cause.End{Role: "Receiver", Connection: 1, Host: 2}, clock.Time(at)}
	}
	first := span{0, 1000}
	return append([]cause.Cause{
		causeAcknowledged(tx(40*us), first),
		causeSACKed(tx(40*us), span{1000, 2000}),
		causeEarly(tx(40*us), &segment{span: first}),
		causeTimeoutEarly(tx(0), first, 40*us, ms),
		causeBackoff(tx(0), first, 2, 1100*us, 2*ms),
		causeOverdue(tx(0), 0, 55*ms, 40*ms),
		causeNeverRetransmitted(tx(0), 0),
		causeWindow(tx(11*us), 12000, 11000),
		causeBeyondReceiver(tx(30*us), 6000, 5500),
		causeSkip(tx(us), 1001, 1000),
		causeAckBeyond(rx(20*us), 5000, 0),
		causeAckBackwards(rx(40*us), 4000, 5000),
		causeAckLate(rx(0), 5000, 600*ms),
		causeAckNever(rx(0), 1000, 5000),
		causeDuplicateLate(rx(0), 0, 20*ms),
		causeDuplicateNever(rx(0), 0),
		causeFalseSACK(rx(20*us), span{1000, 5000}),
		causeNoSACK(rx(20*us), 0),
		causeStaleSACK(rx(27*us), span{1000, 2000}, span{5000, 6000}),
		causeShrinks(rx(30*us), 7000, 6000),
		causeIncomplete(tx(0), 0, 5000),
		causeUnjudged(tx(0), 1),
	}, slices.Concat(handshakeCauses(tx, rx), optionCauses(tx, rx), ecnCauses(tx, rx), swiftCauses(tx, rx))...)
}
