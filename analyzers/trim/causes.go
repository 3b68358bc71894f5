package trim

import (
	"strings"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// what is a trimmed packet: who received its header, and what it is.
type what struct {
	receiver cause.Argument
	packet   cause.Name // "psn", or "READ response psn"
	psn      cause.PSN
	qpn      cause.Count
}

func (l *loss) what() what {
	if l.Response {
		return what{cause.Requester(l.Flow.Peer()), "READ response psn", cause.PSN(l.PSN), cause.Count(l.Connection)}
	}
	return what{cause.Responder(l.Flow), "psn", cause.PSN(l.PSN), cause.Count(l.Connection)}
}

func (a *Analyzer) at(r *trace.Record) cause.Instant { return cause.At(&a.meta, r.TimeNS) }

func causeNoNak(w what, after int64) cause.Cause {
	return cause.Of(ruleNackMissing, "no-nak", "%v did not send a NAK for psn %v within %v of its trimmed header.",
		w.receiver, w.psn, cause.Duration(after))
}

func causeNoRequest(w what, after int64) cause.Cause {
	return cause.Of(ruleNackMissing, "no-read-request",
		"%v did not repeat its READ request for response psn %v within %v of the trimmed header.", w.receiver, w.psn,
		cause.Duration(after))
}

func causeNackPSN(w what, named int64, at cause.Instant) cause.Cause {
	return cause.Of(ruleNackPSN, "later-psn",
		"%v sent a NAK for psn %v at %v, but psn %v was missing: only its trimmed header had arrived.", w.receiver,
		cause.PSN(named), at, w.psn)
}

func causeNackRepeat(w what, at cause.Instant) cause.Cause {
	return cause.Of(ruleNackRepeat, "second-nak",
		"%v sent a second NAK for trimmed psn %v at %v, before that packet was retransmitted.", w.receiver, w.psn, at)
}

func causeAcknowledged(w what, class packet.Class, place int64, at cause.Instant) cause.Cause {
	return cause.Of(ruleAcknowledged, "no-payload",
		"%v sent %v psn %v at %v, which acknowledges psn %v although only its trimmed header had arrived.", w.receiver, class,
		cause.PSN(place), at, w.psn)
}

func causeHeaderChanged(w what, fields []string, at cause.Instant) cause.Cause {
	return cause.Of(ruleHeaderChanged, "changed", "The switch changed the %v of trimmed %v %v of qpn %v at %v.",
		cause.Name(strings.Join(fields, ", ")), w.packet, w.psn, w.qpn, at)
}

func causeHeaders(n int64, kept []string) cause.Cause {
	return cause.Of(ruleHeaders, "summary", "The switch trimmed %v: %v.", cause.Counted{N: n, Noun: "packet"},
		cause.Name(strings.Join(kept, ", ")))
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	const us = cause.Instant(1000)
	write, read := loss{Packet: Packet{Connection: 1, PSN: 2}}, loss{Packet: Packet{Flow: 1, PSN: 1, Response: true}}
	w := write.what()
	return []cause.Cause{
		causeNoNak(w, 1_002_000),
		causeNoRequest(read.what(), 1_001_000),
		causeNackPSN(w, 3, 3*us),
		causeNackRepeat(w, 4*us),
		causeAcknowledged(w, packet.ClassAck, 3, 3*us),
		causeHeaderChanged(w, []string{"source port", "opcode"}, 2*us),
		causeHeaders(2, []string{"dscp 48 on 2", "IP length updated on 1 of 2", "IP checksum right on 2 of 2",
			"UDP length updated on 0 of 2"}),
	}
}
