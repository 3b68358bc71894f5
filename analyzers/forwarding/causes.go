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
	port     cause.Count
	at       cause.Instant
}

func (a *Analyzer) what(t *trace.SwitchTap) what {
	return what{
		who: cause.Switch(a.view.SwitchName(t.Switch)), number: cause.Count(t.ID), size: cause.Bytes(int(t.Size)),
		src: cause.Count(t.Src), dst: cause.Count(t.Dst), port: cause.Count(t.Port), at: cause.Clock(t.Time),
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

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	p := what{who: "sw1", number: 1, size: cause.Bytes(64), src: 1, dst: 2, at: 2400}
	made := what{who: "sw1", number: 5, at: 2400}
	return []cause.Cause{
		causeHeader(p),
		causePacket(p),
		causeChanged(p, 1500),
		causeMadeNone(made),
		causeMadeUnexplained(made),
	}
}
