package tcp

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

const (
	ruleSwiftWindow       = "tcp.swift-window"
	ruleSwiftOverreaction = "tcp.swift-overreaction"
	ruleSwiftPacing       = "tcp.swift-pacing"
	ruleSwiftDelay        = "tcp.swift-delay"
	ruleSwiftUnjudged     = "tcp.swift-unjudged"
)

// swiftRules lists what the analyzer checks of Swift.
func swiftRules() []analyzers.Rule {
	return []analyzers.Rule{
		{ID: ruleSwiftWindow, Clause: "Swift (SIGCOMM 2020), algorithm 1 and 3.5", Statement: "With Swift, no more is in " +
			"flight than the greatest window that the measured delays, losses and timeouts allow, and one segment."},
		{ID: ruleSwiftOverreaction, Clause: "Swift (SIGCOMM 2020), algorithm 1 and 3.5", Statement: "Swift decreases its " +
			"window only for delays above the target, losses and timeouts, once in a round trip and by at most max_mdf: a " +
			"sender with more to send keeps the least such window filled, less one segment. This needs flows of known size."},
		{ID: ruleSwiftPacing, Clause: "Swift (SIGCOMM 2020), 3.4", Statement: "With a Swift window below one segment, new " +
			"data leaves at least RTT / cwnd after the data before it."},
		{ID: ruleSwiftDelay, Clause: "Swift (SIGCOMM 2020), 3.2", Statement: "Swift's receiver says in each " +
			"acknowledgement without SACK block how long it has held the latest segment."},
		{ID: ruleSwiftUnjudged, Severity: analyzers.Note,
			Clause: "docs/internals/architecture.md, The observer sits at the switch",
			Statement: "Swift's windows can be judged: no packet waits between its host's decision and its NIC, so the delays " +
				"that hosts measure are known."},
	}
}

func causeSwiftWindow(w who, flight int64, most float64) cause.Cause {
	return cause.Of(ruleSwiftWindow, "exceeded", "%v had %v in flight at %v; delays and losses allow at most %v.", w.host,
		cause.Bytes(flight), w.at(), cause.Count(most))
}

func causeSwiftIdle(w who, flight int64, least float64) cause.Cause {
	return cause.Of(ruleSwiftOverreaction, "idle", "%v had only %v in flight at %v; delays and losses leave it %v.",
		w.host, cause.Bytes(flight), w.at(), cause.Count(least))
}

func causeSwiftPacing(w who, gap, least clock.Duration) cause.Cause {
	return cause.Of(ruleSwiftPacing, "early", "%v sent new data at %v, %v after the data before it; pacing asks for %v.",
		w.host, w.at(), cause.Span(gap), cause.Span(least))
}

func causeSwiftDelay(w who, held clock.Duration) cause.Cause {
	return cause.Of(ruleSwiftDelay, "wrong", "%v did not say at %v that it had held the latest segment for %v.", w.host,
		w.at(), cause.Span(held))
}

func causeSwiftUnjudged(w who) cause.Cause {
	return cause.Of(ruleSwiftUnjudged, "unknown-delays",
		"%v sent packets that may have waited at its NIC, so the delays that it measured are not known.", w.host)
}

// swiftCauses lists an example of each cause of Swift.
func swiftCauses(tx, rx func(clock.Duration) who) []cause.Cause {
	const us = clock.Microsecond
	return []cause.Cause{
		causeSwiftWindow(tx(200*us), 12000, 11000), causeSwiftIdle(tx(200*us), 5000, 10000),
		causeSwiftPacing(tx(150*us), 150*us, 400*us), causeSwiftDelay(rx(50*us), 20*us), causeSwiftUnjudged(tx(0)),
	}
}
