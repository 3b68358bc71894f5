package tcp

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

func causeEchoUnfounded(w who, ack int64) cause.Cause {
	return cause.Of(ruleEchoUnfounded, "no-mark", "%v acknowledged byte %v at %v with ECE, which no mark explains.",
		w.host, place(ack), w.at())
}

func causeEchoMissing(w who, ack int64) cause.Cause {
	return cause.Of(ruleEchoMissing, "mark", "%v acknowledged byte %v at %v without ECE, although a mark had arrived.",
		w.host, place(ack), w.at())
}

func causeCWRUnfounded(w who) cause.Cause {
	return cause.Of(ruleCWRUnfounded, "no-reduction", "%v sent CWR at %v without a new reason to reduce its window.",
		w.host, w.at())
}

func causeCWRMissing(w who) cause.Cause {
	return cause.Of(ruleCWRMissing, "absent", "%v sent new data at %v without CWR after a mark.", w.host, w.at())
}

func causeECT(w who) cause.Cause {
	return cause.Of(ruleECT, "not-negotiated", "%v sent a packet with ECT at %v without ECN.", w.host, w.at())
}

func causeECTRetransmission(w who, at int64) cause.Cause {
	return cause.Of(ruleECT, "retransmission", "%v retransmitted byte %v at %v with ECT.", w.host, place(at), w.at())
}

func causeECTACK(w who) cause.Cause {
	return cause.Of(ruleECT, "no-data", "%v sent a packet without data with ECT at %v.", w.host, w.at())
}

func causeECTUnnegotiated(w who) cause.Cause {
	return cause.Of(ruleECT, "refused", "%v sent a packet with ECT at %v, and the handshake had not negotiated ECN.",
		w.host, w.at())
}

func causeECTSYN(w who) cause.Cause {
	return cause.Of(ruleECT, "syn", "%v sent a SYN with ECT at %v.", w.host, w.at())
}

func causeOffered(w who) cause.Cause {
	return cause.Of(ruleNegotiation, "offered", "%v offered ECN in a SYN at %v, and does not use it.", w.host, w.at())
}

func causeNotOffered(w who) cause.Cause {
	return cause.Of(ruleNegotiation, "not-offered", "%v sent a first SYN at %v that does not offer ECN.", w.host, w.at())
}

func causeAccepted(w who) cause.Cause {
	return cause.Of(ruleNegotiation, "accepted", "%v accepted ECN at %v, which no SYN had offered.", w.host, w.at())
}

func causeRefused(w who) cause.Cause {
	return cause.Of(ruleNegotiation, "refused", "%v refused ECN at %v, although it uses ECN.", w.host, w.at())
}

func causeMarkIgnored(w who, flight int64, most float64) cause.Cause {
	return cause.Of(ruleMarkWindow, "exceeded", "%v had %v in flight at %v; after the mark it may have at most %v.",
		w.host, cause.Bytes(flight), w.at(), cause.Count(most))
}

func causeOverreaction(w who, flight int64, least float64) cause.Cause {
	return cause.Of(ruleOverreaction, "idle", "%v had only %v in flight at %v; what the marks leave of its window is %v.",
		w.host, cause.Bytes(flight), w.at(), cause.Count(least))
}

func causeMarksUnjudged(w who) cause.Cause {
	return cause.Of(ruleMarksUnjudged, "unknown-order",
		"%v sent packets that may have waited at its NIC, so the order of its decisions is not known.", w.host)
}

// answering is a host that answers a SYN.
func answering(w who) who {
	w.host.Role = "Sender"
	return w
}

// ecnCauses lists an example of each cause of ECN.
func ecnCauses(tx, rx func(clock.Duration) who) []cause.Cause {
	const us = clock.Microsecond
	return []cause.Cause{
		causeEchoUnfounded(rx(20*us), 10000), causeEchoMissing(rx(20*us), 10000), causeCWRUnfounded(tx(0)),
		causeCWRMissing(tx(40 * us)), causeECT(tx(0)), causeECTRetransmission(tx(2*clock.Millisecond), 0),
		causeECTACK(rx(20 * us)), causeMarkIgnored(tx(40*us), 10000, 6500), causeOverreaction(tx(55*us), 5000, 10000),
		causeMarksUnjudged(tx(0)), causeECTUnnegotiated(tx(44 * us)), causeECTSYN(tx(0)), causeOffered(tx(0)),
		causeNotOffered(tx(0)), causeAccepted(answering(rx(20 * us))), causeRefused(answering(rx(20 * us))),
	}
}
