package bolt

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

// windows is a number of packets that need not be whole.
type windows float64

func (w windows) String() string {
	return cause.Ratio(w).String()[:len(cause.Ratio(w).String())-len(" times")]
}

// causeWindow is about a packet that the window forbids; the one before was sent at last.
func causeWindow(f *flow, now clock.Time, number uint32, last clock.Time) cause.Cause {
	switch {
	case f.flight == 0:
		return cause.Of(ruleWindow, "paced",
			"%v sent packet %v at %v, %v after the packet before; with an RTT of %v its window is %v packets.", f.sender(),
			cause.Count(number), cause.Clock(now), cause.Span(now.Sub(last)), cause.Span(f.rtt), windows(f.window))
	case f.bySRC:
		return cause.Of(ruleWindow, "after-src",
			"%v sent packet %v at %v with %v packets in flight; SRC packets had lowered its window to %v.", f.sender(),
			cause.Count(number), cause.Clock(now), cause.Count(f.flight), windows(f.window))
	}
	return cause.Of(ruleWindow, "beyond-window", "%v sent packet %v at %v with %v packets in flight; its window is %v.",
		f.sender(), cause.Count(number), cause.Clock(now), cause.Count(f.flight), windows(f.window))
}

func causeFlags(f *flow, now clock.Time, number uint32, flags, want Flags) cause.Cause {
	return cause.Of(ruleFlags, "wrong", "%v sent packet %v at %v with flags %v; they must be %v.", f.sender(),
		cause.Count(number), cause.Clock(now), flags, want)
}

func causeTime(f *flow, now clock.Time, number uint32, off clock.Duration) cause.Cause {
	return cause.Of(ruleTime, "wrong", "%v sent packet %v at %v; the time in it is off by %v.", f.sender(),
		cause.Count(number), cause.Clock(now), cause.Span(off))
}

func causeEarly(f *flow, now clock.Time, number uint32, left clock.Duration) cause.Cause {
	return cause.Of(ruleEarly, "not-lost", "%v retransmitted packet %v at %v, %v before its timer ran out.",
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

func causeSendAbsent(f *flow, number uint32, since, now clock.Time) cause.Cause {
	return cause.Of(ruleSendAbsent, "idle",
		"%v did not send packet %v for %v, while its NIC was idle and %v packets of its window of %v in flight.",
		f.sender(), cause.Count(number), cause.Span(now.Sub(since)), cause.Count(f.flight), windows(f.window))
}

func causeAckAbsent(f *flow, number uint32, arrived clock.Time) cause.Cause {
	return cause.Of(ruleAckAbsent, "never", "%v did not acknowledge packet %v, which arrived at %v.", f.receiver(),
		cause.Count(number), cause.Clock(arrived))
}

func causeAckFalse(f *flow, now clock.Time, number uint32) cause.Cause {
	return cause.Of(ruleAckFalse, "not-arrived", "%v acknowledged packet %v at %v, which had not arrived.", f.receiver(),
		cause.Count(number), cause.Clock(now))
}

func causeAckContent(f *flow, now clock.Time, number uint32, flags, want Flags) cause.Cause {
	return cause.Of(ruleAckContent, "differs",
		"%v acknowledged packet %v at %v with flags %v or another time; the packet has %v.", f.receiver(),
		cause.Count(number), cause.Clock(now), flags, want)
}

func causeIncomplete(f *flow, number uint32) cause.Cause {
	return cause.Of(ruleIncomplete, "unacknowledged", "%v sent packet %v, which was never acknowledged.", f.sender(),
		cause.Count(number))
}

// Causes lists an example of each cause, as the tests of this package report it.
func Causes() []cause.Cause {
	us := func(n int) clock.Time { return clock.Time(0).Add(clock.Duration(n) * clock.Microsecond) }
	flow := func(flight int, window float64, bySRC bool) *flow {
		return &flow{key: key{src: 1, dst: 2}, number: 1, flight: flight, window: window, bySRC: bySRC,
			rtt: 4 * clock.Microsecond}
	}
	f := flow(2, 2, false)
	return []cause.Cause{
		causeWindow(f, us(3), 2, us(2)),
		causeWindow(flow(2, 2, true), us(6), 3, us(5)),
		causeWindow(flow(0, 0.125, true), us(30), 2, us(2)),
		causeFlags(f, us(5), 2, First, Inc),
		causeTime(f, us(3), 0, clock.Microsecond),
		causeEarly(f, us(5), 0, 45*clock.Microsecond),
		causeAcknowledged(f, us(5), 0),
		causeSequence(f, us(2), 2, 1),
		causeSendAbsent(flow(0, 0.125, false), 2, us(34), us(40)),
		causeAckAbsent(f, 0, us(5)),
		causeAckFalse(f, us(6), 1),
		causeAckContent(f, us(6), 0, Inc, Last),
		causeIncomplete(f, 0),
	}
}
