package sai

import (
	"net/netip"
	"slices"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/sai"
	"candela.dev/candela/trace"
)

// what is a packet that leaves the switch, and how it arrived.
type what struct {
	who  cause.Switch
	came *entry // nil: not known
	left *sai.Observation
	out  cause.Port
}

func (a *Analyzer) who() cause.Switch { return cause.Switch(a.config.Name) }

func (a *Analyzer) what(e *entry, o *sai.Observation) what {
	return what{a.who(), e, o, cause.Port{Number: o.Port, Text: a.config.Ports[o.Port]}}
}

func (w what) packet() cause.Name {
	if w.came == nil {
		return cause.Name(trace.PacketText(w.left.ID))
	}
	return cause.Name(trace.PacketText(w.came.ID))
}

func (w what) at() cause.Instant { return instant(w.left.TimePS) }

// queue is the one that the packet was meant for.
func (w what) queue() cause.Queue { return cause.Queue{Queue: w.came.queue, Port: w.out} }

func instant(ps int64) cause.Instant { return cause.Clock(clock.Time(ps)) }

func count[T ~int | ~uint8 | ~uint16](n T) cause.Count { return cause.Count(n) }

func causeWholeLength(w what) cause.Cause {
	return cause.Of(ruleWhole, "other-length", "%v sent packet %v whole with %v at %v; it arrived with %v.", w.who,
		w.packet(), cause.Bytes(w.left.Length), w.at(), cause.Bytes(w.came.Length))
}

func causeWholeQueue(w what) cause.Cause {
	return cause.Of(ruleWhole, "other-queue",
		"%v sent packet %v whole from queue %v of port %v at %v; it belonged in queue %v.",
		w.who, w.packet(), count(w.left.Queue), w.out, w.at(), count(w.came.queue))
}

func causeWholeDSCP(w what) cause.Cause {
	return cause.Of(ruleWhole, "other-dscp", "%v sent packet %v whole with DSCP %v at %v; it arrived with DSCP %v.", w.who,
		w.packet(), count(w.left.DSCP), w.at(), count(w.came.DSCP))
}

func causeNotCut(w what, size int) cause.Cause {
	return cause.Of(ruleSize, "not-cut",
		"%v sent packet %v with the trim DSCP %v at %v but did not cut it: it has %v, and the trim size is %v.", w.who,
		w.packet(), count(w.left.DSCP), w.at(), cause.Bytes(w.left.Length), cause.Bytes(size))
}

func causeSize(w what, want int) cause.Cause {
	return cause.Of(ruleSize, "other-size", "%v trimmed packet %v to %v at %v; the trim size is %v.", w.who, w.packet(),
		cause.Bytes(w.left.Length), w.at(), cause.Bytes(want))
}

func causeRunt(w what) cause.Cause {
	return cause.Of(ruleRunt, "cut", "%v trimmed packet %v to %v at %v although its %v were no more than the trim size.",
		w.who, w.packet(), cause.Bytes(w.left.Length), w.at(), cause.Bytes(w.came.Length))
}

func causeDSCP(w what, want int) cause.Cause {
	return cause.Of(ruleDSCP, "other-dscp",
		"%v sent the copy of packet %v from port %v with DSCP %v at %v; copies have DSCP %v there.", w.who, w.packet(), w.out,
		count(w.left.DSCP), w.at(), count(want))
}

func causeQueue(w what, want int) cause.Cause {
	return cause.Of(ruleQueue, "other-queue",
		"%v sent the copy of packet %v from queue %v of port %v at %v; it belonged in queue %v.", w.who, w.packet(),
		count(w.left.Queue), w.out, w.at(), count(want))
}

func causeIPLength(w what, want int) cause.Cause {
	return cause.Of(ruleIPLength, "stale", "%v sent the copy of packet %v with IP length %v at %v; its length was %v.",
		w.who, w.packet(), count(w.left.IPLength), w.at(), count(want))
}

func causeChecksum(w what) cause.Cause {
	return cause.Of(ruleChecksum, "wrong", "%v sent the copy of packet %v with a wrong IPv4 header checksum at %v.", w.who,
		w.packet(), w.at())
}

func causeReturned(w what) cause.Cause {
	return cause.Of(ruleForward, "returned", "%v sent the copy of packet %v back to its sender %v at %v.", w.who,
		w.packet(),
		w.came.Src, w.at())
}

func causeOtherPort(w what) cause.Cause {
	return cause.Of(ruleForward, "other-port", "%v sent packet %v to %v from port %v at %v, which does not lead there.",
		w.who, w.packet(), w.came.Dst, w.out, w.at())
}

func causeAddresses(w what) cause.Cause {
	return cause.Of(ruleHeaders, "addresses",
		"%v changed the addresses of packet %v from %v > %v to %v > %v in its copy at %v.",
		w.who, w.packet(), w.came.Src, w.came.Dst, w.left.Src, w.left.Dst, w.at())
}

func causePorts(w what) cause.Cause {
	return cause.Of(ruleHeaders, "ports",
		"%v changed packet %v from protocol %v, ports %v > %v to protocol %v, ports %v > %v in its copy at %v.", w.who,
		w.packet(), count(w.came.Protocol), count(w.came.SrcPort), count(w.came.DstPort), count(w.left.Protocol),
		count(w.left.SrcPort), count(w.left.DstPort), w.at())
}

func causeTTL(w what) cause.Cause {
	return cause.Of(ruleHeaders, "ttl", "%v changed the TTL of packet %v from %v to %v in its copy at %v.", w.who,
		w.packet(), count(w.came.TTL), count(w.left.TTL), w.at())
}

func causeECN(w what) cause.Cause {
	return cause.Of(ruleHeaders, "ecn", "%v changed the ECN field of packet %v from %v to %v in its copy at %v.", w.who,
		w.packet(), count(w.came.ECN), count(w.left.ECN), w.at())
}

func causeBytes(w what) cause.Cause {
	return cause.Of(ruleHeaders, "bytes", "%v changed bytes that follow the headers of packet %v in its copy at %v.",
		w.who,
		w.packet(), w.at())
}

func causeLossless(w what) cause.Cause {
	return cause.Of(ruleLossless, "trimmed", "%v trimmed packet %v at %v although %v is lossless.", w.who, w.packet(),
		w.at(), w.queue())
}

func causeAction(w what) cause.Cause {
	return cause.Of(ruleAction, "trimmed", "%v trimmed packet %v at %v although %v has the action DROP.", w.who,
		w.packet(),
		w.at(), w.queue())
}

func causeACL(w what, rule string) cause.Cause {
	return cause.Of(ruleACL, "trimmed", "%v trimmed packet %v at %v although ACL entry %v exempts it.", w.who, w.packet(),
		w.at(), cause.Name(rule))
}

func causeRoom(w what, limit int64) cause.Cause {
	return cause.Of(ruleRoom, "room", "%v trimmed packet %v at %v although %v held at most %v of its %v.", w.who,
		w.packet(),
		w.at(), w.queue(), cause.Size(w.came.ahead), cause.Size(limit))
}

func causeOnce(w what) cause.Cause {
	return cause.Of(ruleOnce, "not-inside", "%v sent packet %v from port %v at %v, but no packet like it was inside.",
		w.who,
		w.packet(), w.out, w.at())
}

func causeOrder(w what, later int64) cause.Cause {
	return cause.Of(ruleOrder, "overtaken",
		"%v sent the copy of packet %v at %v after the copy of a packet that arrived %v later.", w.who, w.packet(), w.at(),
		cause.Span(clock.Duration(later)))
}

func causeOvertake(w what, queue int, at int64) cause.Cause {
	return cause.Of(ruleOvertake, "lower-queue-first",
		"%v sent a packet of queue %v from port %v at %v while the copy of packet %v waited until %v.", w.who, count(queue),
		w.out, instant(at), w.packet(), w.at())
}

func causeNoCounters(who cause.Switch) cause.Cause {
	return cause.Of(ruleNotJudged, "no-counters", "%v gave no counters: only its packets were judged.", who)
}

func causeOtherPorts(who cause.Switch, counted, seen int) cause.Cause {
	return cause.Of(ruleNotJudged, "other-ports", "%v gave counters of %v, but the taps saw %v: counters were not judged.",
		who, ports(counted), ports(seen))
}

func ports(n int) cause.Counted { return cause.Counted{N: int64(n), Noun: "port"} }

func packets(n int64) cause.Counted { return cause.Counted{N: n, Noun: "packet"} }

func causeUndrained(who cause.Switch) cause.Cause {
	return cause.Of(ruleNotJudged, "undrained",
		"%v may have held packets at the end: counters and losses were not judged.", who)
}

func causeUnknownEgress(who cause.Switch, n int) cause.Cause {
	return cause.Of(ruleNotJudged, "unknown-egress",
		"%v lost %v whose egress port is not known: counters of losses were not judged.", who, packets(int64(n)))
}

func causeUnclear(who cause.Switch, port string) cause.Cause {
	return cause.Of(ruleNotJudged, "packets-alike",
		"%v held different packets of one number for port %v at once: counters that depend on which left were not judged.",
		who, cause.Name(port))
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	return slices.Concat(copyExamples(), counterExamples())
}

func copyExamples() []cause.Cause {
	from, to := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")
	// left is packet 1, which arrives with 1500 bytes for queue 1 of port Ethernet0, with a change to how its copy leaves.
	left := func(change func(came *entry, left *sai.Observation)) what {
		e := &entry{queue: 1, Observation: sai.Observation{ID: 1, Src: from, Dst: to, SrcPort: 1000, DstPort: 4791,
			Protocol: 17, DSCP: 8, TTL: 64, Length: 1500}}
		o := e.Observation
		o.TimePS, o.TTL, o.DSCP, o.Length = 300_000, 63, 48, 256
		change(e, &o)
		return what{came: e, left: &o, out: cause.Port{Text: "Ethernet0"}}
	}
	copied := left(func(*entry, *sai.Observation) {})
	only := func(change func(left *sai.Observation)) what {
		return left(func(_ *entry, o *sai.Observation) { change(o) })
	}
	return []cause.Cause{
		causeSize(only(func(o *sai.Observation) { o.Length = 270 }), 256),
		causeNotCut(only(func(o *sai.Observation) { o.Length = 1500 }), 256),
		causeRunt(left(func(e *entry, o *sai.Observation) { e.Length, o.Length = 200, 62 })),
		causeDSCP(only(func(o *sai.Observation) { o.DSCP = 8 }), 48),
		causeQueue(only(func(o *sai.Observation) { o.Queue = 5 }), 6),
		causeIPLength(only(func(o *sai.Observation) { o.IPLength = 1486 }), 242),
		causeChecksum(copied),
		causeAddresses(only(func(o *sai.Observation) { o.Dst = netip.MustParseAddr("10.0.0.9") })),
		causePorts(only(func(o *sai.Observation) { o.SrcPort++ })),
		causeTTL(only(func(o *sai.Observation) { o.TTL = 58 })),
		causeECN(only(func(o *sai.Observation) { o.ECN = 3 })),
		causeBytes(copied),
		causeReturned(copied),
		causeOtherPort(left(func(_ *entry, o *sai.Observation) { o.TimePS = 10_000 }).by("Ethernet1")),
		causeWholeLength(only(func(o *sai.Observation) { o.Length = 1514 })),
		causeWholeQueue(only(func(o *sai.Observation) { o.Queue, o.TimePS = 6, 10_000 })),
		causeWholeDSCP(only(func(o *sai.Observation) { o.DSCP = 7 })),
		causeAction(left(func(e *entry, _ *sai.Observation) { e.queue = 0 })),
		causeLossless(copied),
		causeACL(copied, "host"),
		causeRoom(left(func(e *entry, o *sai.Observation) { e.ID, e.ahead, o.TimePS = 100, 3000, 20_000 }), 20_000),
		causeOnce(what{left: &sai.Observation{ID: 1001, TimePS: 300_000}, out: cause.Port{Text: "Ethernet0"}}),
		causeOrder(only(func(o *sai.Observation) { o.TimePS = 320_000 }), 100_000),
		causeOvertake(left(func(e *entry, o *sai.Observation) { e.ID, o.TimePS = 2, 320_000 }), 1, 250_000),
	}
}

// by returns the packet leaving by another port.
func (w what) by(port string) what {
	w.out = cause.Port{Text: port}
	return w
}
