package cnp

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Short names of what the sentences are made of.
type (
	subject  = cause.Argument
	duration = cause.Duration
)

// sideNames are the hosts that a side's data comes to.
var sideNames = [...]cause.Name{"responder", "requester"}

func cnps(n int64) cause.Counted   { return cause.Counted{N: n, Noun: "CNP"} }
func marked(n int64) cause.Counted { return cause.Counted{N: n, Noun: "packet"} }

// A flaw is what is wrong with the form of a CNP.
type flaw struct{ code, words string }

var (
	flawBECN    = flaw{"no-becn", "without BECN"}
	flawFECN    = flaw{"fecn", "with FECN"}
	flawPSN     = flaw{"psn", "with a PSN other than 0"}
	flawAckReq  = flaw{"ack-request", "that asked for an acknowledgement"}
	flawPayload = flaw{"payload", "whose payload is not 16 bytes long"}
)

func causeFormat(who subject, f flaw, at cause.Instant) cause.Cause {
	return cause.Of(RuleFormat, f.code, "%v sent a CNP "+f.words+" at %v.", who, at)
}

func causeUnprovoked(who subject, n, marks int64) cause.Cause {
	return cause.Of(RuleUnprovoked, "no-mark", "%v had sent %v although only %v with CE had reached it.", who, cnps(n),
		marked(marks))
}

func causeOtherConnection(who subject, named, marked int) cause.Cause {
	return cause.Of(RuleWrongQP, "other-connection",
		"%v sent a CNP for qpn %v, whose data had not been marked; that of qpn %v had.", who, cause.Count(named),
		cause.Count(marked))
}

func causeNoConnection(qp packet.QPN, at cause.Instant) cause.Cause {
	return cause.Of(RuleWrongQP, "no-connection",
		"A host sent a CNP to queue pair %v at %v, which belongs to no connection.", qp, at)
}

func causeDisabled(who subject, at cause.Instant) cause.Cause {
	return cause.Of(RuleDisabled, "sent", "%v sent a CNP at %v although its notification point is off.", who, at)
}

func causeInterval(who subject, after, least duration, m Mode) cause.Cause {
	return cause.Of(RuleInterval, "too-close",
		"%v sent a CNP only %v after the one before; the minimum is %v (pacing by %v).", who, after, least, m)
}

func causeTooFew(who subject, n, marks int64, want prediction, m Mode) cause.Cause {
	return cause.Of(RuleMissing, "too-few", "%v sent %v for %v with CE; pacing by %v requires %v.", who, cnps(n),
		marked(marks), m, cause.Between{Least: want.least, Most: want.most})
}

func causeTooMany(who subject, n, marks int64, want prediction, m Mode) cause.Cause {
	return cause.Of(RuleExcess, "too-many", "%v sent %v for %v with CE; pacing by %v allows %v.", who, cnps(n),
		marked(marks), m, cause.Between{Least: want.least, Most: want.most})
}

func causeMode(side int, fits string) cause.Cause {
	return cause.Of(RuleMode, "fits", "The CNPs of the %v fit pacing by %v.", sideNames[side], cause.Name(fits))
}

func causeNoResponse(who subject, marks int64) cause.Cause {
	return cause.Of(RuleNoResponse, "none", "%v sent no CNP for %v with CE.", who, marked(marks))
}

func causeNotOffered(side int, marks int64) cause.Cause {
	return cause.Of(RuleNotOffered, "absent",
		"The device of the %v has no notification point: CNPs for %v with CE were not judged.", sideNames[side],
		marked(marks))
}

func causeNotJudged(side int, jitter, least duration) cause.Cause {
	return cause.Of(RuleNotJudged, "jitter",
		"The times between the %v's CNPs were not judged: hosts may hold packets for %v, the minimum is %v.",
		sideNames[side], jitter, least)
}

// sender returns who sends the CNPs for data on a flow.
func sender(data trace.FlowID) subject { return cause.Host(data.Peer()) }

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	host, other := cause.Host(1), cause.Host(3)
	const us = 1000
	var list []cause.Cause
	for _, f := range []flaw{flawBECN, flawFECN, flawPSN, flawAckReq, flawPayload} {
		list = append(list, causeFormat(host, f, 1*us))
	}
	return append(list,
		causeUnprovoked(host, 2, 1),
		causeOtherConnection(other, 2, 1),
		causeNoConnection(0, 2*us),
		causeDisabled(host, 1*us),
		causeInterval(host, 10*us, 50*us, PerQP),
		causeTooFew(host, 0, 1, prediction{1, 1}, PerQP),
		causeTooMany(other, 2, 2, prediction{0, 0}, PerPort),
		causeMode(0, PerPort.String()),
		causeNoResponse(host, 1),
		causeNotOffered(0, 1),
		causeNotJudged(0, 50*us, 50*us))
}
