package pfabric

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

func (f *flow) sender() cause.End {
	return cause.End{Role: "Sender", Connection: f.number, Host: f.src}
}

func (f *flow) receiver() cause.End {
	return cause.End{Role: "Receiver", Connection: f.number, Host: f.dst}
}

func causeWindow(f *flow, now clock.Time, number uint32, flight, window int) cause.Cause {
	return cause.Of(ruleWindow, "beyond-window", "%v sent packet %v at %v with %v packets in flight; its window is %v.",
		f.sender(), cause.Count(number), cause.Clock(now), cause.Count(flight), cause.Count(window))
}

func causeEarly(f *flow, now clock.Time, number uint32, left clock.Duration) cause.Cause {
	return cause.Of(ruleEarly, "before-timeout", "%v retransmitted packet %v at %v, %v before its timer ran out.",
		f.sender(), cause.Count(number), cause.Clock(now), cause.Span(left))
}

func causeAcknowledged(f *flow, now clock.Time, number uint32) cause.Cause {
	return cause.Of(ruleAcknowledged, "acknowledged", "%v retransmitted packet %v at %v, which had been acknowledged.",
		f.sender(), cause.Count(number), cause.Clock(now))
}

func causeSequence(f *flow, now clock.Time, number, want uint32) cause.Cause {
	return cause.Of(ruleSequence, "not-next", "%v sent packet %v at %v; packet %v was next.", f.sender(),
		cause.Count(number), cause.Clock(now), cause.Count(want))
}

func causeProbeAbsent(f *flow, now clock.Time, number uint32) cause.Cause {
	return cause.Of(ruleProbeAbsent, "data-instead", "%v sent packet %v at %v, after %v in a row; it owed a probe.",
		f.sender(), cause.Count(number), cause.Clock(now), cause.Counted{N: int64(f.timeouts), Noun: "timeout"})
}

func causeProbeEarly(f *flow, now clock.Time) cause.Cause {
	return cause.Of(ruleProbeEarly, "no-timeout", "%v sent a probe at %v; timeouts in a row: %v.", f.sender(),
		cause.Clock(now), cause.Count(f.timeouts))
}

func causeRank(f *flow, now clock.Time, number uint32, rank, want uint64) cause.Cause {
	return cause.Of(ruleRank, "wrong", "%v gave packet %v rank %v at %v; its rank is %v.", f.sender(),
		cause.Count(number), cause.Count(rank), cause.Clock(now), cause.Count(want))
}

func causePriority(f, other *flow, now clock.Time, rank, lower uint64) cause.Cause {
	return cause.Of(rulePriority, "lower-rank-waits",
		"%v sent a packet of rank %v at %v; connection %v had one of rank %v.", f.sender(), cause.Count(rank),
		cause.Clock(now), cause.Count(other.number), cause.Count(lower))
}

func causeSendAbsent(f *flow, number uint32, since, now clock.Time) cause.Cause {
	return cause.Of(ruleSendAbsent, "idle", "%v did not send packet %v for %v, while its NIC was idle.", f.sender(),
		cause.Count(number), cause.Span(now.Sub(since)))
}

func causeAckAbsent(f *flow, number uint32, arrived clock.Time) cause.Cause {
	return cause.Of(ruleAckAbsent, "never", "%v did not acknowledge packet %v, which arrived at %v.", f.receiver(),
		cause.Count(number), cause.Clock(arrived))
}

func causeAckFalse(f *flow, now clock.Time, number uint32) cause.Cause {
	return cause.Of(ruleAckFalse, "not-arrived", "%v acknowledged packet %v at %v, which had not arrived.", f.receiver(),
		cause.Count(number), cause.Clock(now))
}

func causeIncomplete(f *flow, number uint32) cause.Cause {
	return cause.Of(ruleIncomplete, "unacknowledged", "%v sent packet %v, which was never acknowledged.", f.sender(),
		cause.Count(number))
}

// Causes lists an example of each cause, as the tests of this package report it.
func Causes() []cause.Cause {
	f := &flow{key: key{src: 1, dst: 2, connection: 0}, number: 1}
	many := *f
	many.timeouts = 2
	us := func(n int) clock.Time { return clock.Time(0).Add(clock.Duration(n) * clock.Microsecond) }
	other := &flow{number: 2}
	return []cause.Cause{
		causeWindow(f, us(3), 2, 2, 2),
		causeEarly(f, us(20), 0, 25*clock.Microsecond),
		causeAcknowledged(f, us(50), 0),
		causeSequence(f, us(2), 2, 1),
		causeProbeAbsent(&many, us(92), 0),
		causeProbeEarly(f, us(2)),
		causeRank(f, us(1), 1, 5, 2000),
		causePriority(f, other, us(2), 3000, 1000),
		causeSendAbsent(f, 0, us(46), us(100)),
		causeAckAbsent(f, 0, us(5)),
		causeAckFalse(f, us(6), 1),
		causeIncomplete(f, 0),
	}
}
