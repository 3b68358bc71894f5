package tcp

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

func causeLimited(w who, n int, flight int64, most float64) cause.Cause {
	return cause.Of(ruleLimited, "exceeded",
		"%v had %v in flight at %v after %v; its window, limited transmit and one segment allow at most %v.", w.host,
		cause.Bytes(flight), w.at(), cause.Counted{N: int64(n), Noun: "duplicate ACK"}, cause.Count(most))
}

func causePartial(w who, at int64, waited clock.Duration) cause.Cause {
	return cause.Of(rulePartial, "not-retransmitted",
		"%v did not retransmit byte %v, which a partial ACK asked for %v before.", w.host, place(at), cause.Span(waited))
}

func causeFast(w who, g *segment) cause.Cause {
	return cause.Of(ruleFast, "before-timeout",
		"%v retransmitted %v at %v, %v after it had sent them; it retransmits after timeouts only.", w.host, g.span, w.at(),
		cause.Span(w.now.Sub(g.sent)))
}

func causeRetries(w who, n, most int) cause.Cause {
	return cause.Of(ruleRetries, "exceeded", "%v retransmitted after timeout %v in a row at %v; it gives up after %v.",
		w.host, cause.Count(n), w.at(), cause.Count(most))
}

func causeEvery(w who, every int, waited clock.Duration) cause.Cause {
	return cause.Of(ruleEvery, "late", "%v let %v wait for an acknowledgement for %v.", w.host,
		cause.Counted{N: int64(every), Noun: "full segment"}, cause.Span(waited))
}

func causeDelay(w who, have int64, waited, most clock.Duration) cause.Cause {
	return cause.Of(ruleDelay, "late", "%v acknowledged byte %v after %v; it delays acknowledgements by at most %v.",
		w.host, place(have), cause.Span(waited), cause.Span(most))
}

// optionCauses lists an example of each cause of this file.
func optionCauses(tx, rx func(clock.Duration) who) []cause.Cause {
	const us, ms = clock.Microsecond, clock.Millisecond
	return []cause.Cause{
		causeLimited(tx(33*us), 2, 14000, 13000),
		causePartial(tx(61*us), 1000, us),
		causeFast(tx(40*us), &segment{span: span{0, 1000}}),
		causeRetries(tx(7*ms), 3, 2),
		causeEvery(rx(30*us), 2, 16*us),
		causeDelay(rx(0), 1000, 300*us, 200*us),
	}
}
