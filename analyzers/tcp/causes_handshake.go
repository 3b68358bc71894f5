package tcp

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

func causeNoSYN(w who) cause.Cause {
	return cause.Of(ruleHandshake, "no-syn", "%v sent a packet at %v before it had sent a SYN.", w.host, w.at())
}

func causeSYNSequence(w who, got, want uint32) cause.Cause {
	return cause.Of(ruleHandshake, "wrong-sequence",
		"%v sent a SYN with sequence number %v at %v; its connections begin with %v.", w.host, cause.Count(got), w.at(),
		cause.Count(want))
}

func causeUnsolicited(w who) cause.Cause {
	return cause.Of(ruleHandshake, "no-syn-arrived", "%v sent a SYN-ACK at %v although no SYN had arrived.", w.host,
		w.at())
}

func causeSYNACK(w who, got, want uint32) cause.Cause {
	return cause.Of(ruleHandshake, "wrong-acknowledgement",
		"%v sent a SYN-ACK at %v that acknowledges %v; the number after the SYN is %v.", w.host, w.at(), cause.Count(got),
		cause.Count(want))
}

func causeUnanswered(w who, what, answer string, waited clock.Duration) cause.Cause {
	if what == "SYN" {
		return cause.Of(ruleHandshake, "syn-unanswered", "%v did not answer a SYN for %v.", w.host, cause.Span(waited))
	}
	return cause.Of(ruleHandshake, "syn-ack-unanswered", "%v did not acknowledge a SYN-ACK for %v.", w.host,
		cause.Span(waited))
}

func causeBeforeEstablished(w who) cause.Cause {
	return cause.Of(ruleBeforeEstablished, "data", "%v sent data at %v before the connection was established.", w.host,
		w.at())
}

func causeSYNEarly(w who, n int, waited, least clock.Duration) cause.Cause {
	return cause.Of(ruleSYNEarly, "below-timer",
		"%v retransmitted a SYN after its timer had run for %v; after %v it runs for at least %v.", w.host,
		cause.Span(waited), cause.Counted{N: int64(n), Noun: "SYN"}, cause.Span(least))
}

func causeSYNOverdue(w who, waited, most clock.Duration) cause.Cause {
	return cause.Of(ruleTimeoutAbsent, "syn-overdue", "%v did not retransmit its SYN for %v; its timer allows %v.", w.host,
		cause.Span(waited), cause.Span(most))
}

func causeSYNNever(w who) cause.Cause {
	return cause.Of(ruleTimeoutAbsent, "syn-never", "%v never retransmitted its SYN.", w.host)
}

func causeInitialWindow(w who, sent, most int64) cause.Cause {
	return cause.Of(ruleInitial, "exceeded",
		"%v sent %v before the first acknowledgement, at %v; its initial window is %v.", w.host, cause.Bytes(sent), w.at(),
		cause.Bytes(most))
}

// handshakeCauses lists an example of each cause of this file.
func handshakeCauses(tx, rx func(clock.Duration) who) []cause.Cause {
	const us, ms = clock.Microsecond, clock.Millisecond
	answerer := func(at clock.Duration) who { return answering(rx(at)) }
	return []cause.Cause{
		causeNoSYN(tx(0)),
		causeSYNSequence(tx(0), 7, 0),
		causeUnsolicited(answerer(0)),
		causeSYNACK(answerer(20*us), 0, 1),
		causeUnanswered(answerer(0), "SYN", "SYN-ACK", 10_500*us),
		causeUnanswered(tx(0), "SYN-ACK", "ACK", 10_500*us),
		causeBeforeEstablished(tx(20 * us)),
		causeSYNEarly(tx(0), 1, 900*us, ms),
		causeSYNOverdue(tx(0), 12*ms, ms),
		causeSYNNever(tx(0)),
		causeInitialWindow(tx(44*us), 4000, 3000),
	}
}
