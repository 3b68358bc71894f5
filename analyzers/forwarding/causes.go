package forwarding

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/trace"
)

// what is a packet that leaves a switch.
type what struct {
	who      cause.Switch
	number   cause.Count
	size     cause.Counted
	src, dst cause.Count // hosts
	port     cause.Port
	at       cause.Instant
}

func (a *Analyzer) what(t *trace.SwitchTap) what {
	return what{
		who: cause.Switch(a.view.SwitchName(t.Switch)), number: cause.Count(t.ID), size: cause.Bytes(int(plain(t))),
		src: cause.Count(t.Src), dst: cause.Count(t.Dst), port: cause.Port{Number: t.Port}, at: cause.Clock(t.Time),
	}
}

func causeHeader(w what) cause.Cause {
	return cause.Of(UnmatchedHeader, "not-inside",
		"%v sent trimmed packet %v from host %v to %v at %v, but no packet with these headers was inside.", w.who, w.number,
		w.src, w.dst, w.at)
}

func causePacket(w what) cause.Cause {
	return cause.Of(UnmatchedPacket, "not-inside",
		"%v sent packet %v from host %v to %v at %v, but no packet with these headers was inside.", w.who, w.number, w.src,
		w.dst, w.at)
}

func causeChanged(w what, came int32) cause.Cause {
	return cause.Of(PacketChanged, "other-size",
		"%v sent packet %v at %v with %v, not marked as trimmed; it arrived with %v.", w.who, w.number, w.at, w.size,
		cause.Bytes(int(came)))
}

func causeMadeNone(w what) cause.Cause {
	return cause.Of(MadeUnasked, "family-makes-none",
		"%v made packet %v and sent it from port %v at %v; switches of its family make no packets.", w.who, w.number, w.port,
		w.at)
}

func causeMadeUnexplained(w what) cause.Cause {
	return cause.Of(MadeUnasked, "no-decision",
		"%v made packet %v and sent it from port %v at %v; no recorded decision names a cause.", w.who, w.number, w.port,
		w.at)
}

func causePort(w what) cause.Cause {
	return cause.Of(WrongPort, "other-way",
		"%v sent packet %v from host %v to %v by port %v at %v, which is not on a shortest path.", w.who, w.number, w.src,
		w.dst, w.port, w.at)
}

func causeDown(w what) cause.Cause {
	return cause.Of(WrongPort, "trunk-down",
		"%v dropped packet %v from host %v to %v at %v: it was routed to port %v, whose trunk is down. Routes should have "+
			"known.", w.who, w.number, w.src, w.dst, w.at, w.port)
}

func causeInService(w what) cause.Cause {
	return cause.Of(InService, "dropped",
		"%v dropped packet %v from host %v to %v at %v for the trunk at port %v, which was in service.", w.who, w.number,
		w.src, w.dst, w.at, w.port)
}

func causeUnreachable(w what) cause.Cause {
	return cause.Of(PathMissed, "path-exists",
		"%v dropped packet %v from host %v to %v at %v for want of a path; there is one.", w.who, w.number, w.src, w.dst,
		w.at)
}

func causeUnused(who cause.Switch, port, choices int) cause.Cause {
	return cause.Of(PathUnused, "never",
		"%v never used port %v, one of equally short paths, in %v choices.", who, cause.Port{Number: port},
		cause.Count(choices))
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	p := what{who: "sw1", number: 1, size: cause.Bytes(64), src: 1, dst: 2, at: 2400}
	made := what{who: "sw1", number: 5, at: 2400}
	onTheWay := func(port int, at cause.Instant) what {
		return what{who: "sw1", number: 1, dst: 1, port: cause.Port{Number: port}, at: at}
	}
	return []cause.Cause{
		causeHeader(p),
		causePacket(p),
		causeChanged(p, 1500),
		causeMadeNone(made),
		causeMadeUnexplained(made),
		causePort(onTheWay(2, 2000)),
		causeDown(onTheWay(0, 102_000)),
		causeUnreachable(onTheWay(0, 151_000)),
		causeInService(onTheWay(0, 89_000)),
		causeUnused("sw1", 0, 30),
	}
}
