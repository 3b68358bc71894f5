package gbn

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A session is one direction of requests on a connection: its requester and its responder.
type session struct {
	a      *Analyzer
	flow   trace.FlowID // of the requests
	limits Limits
	ipsn   packet.PSN
	mtu    int // 0: not known yet
	// mtuShown: the MTU is given, or a packet that must be full has shown it; an inferred one may be wrong.
	mtuShown bool

	// captured: the trace may lack packets and does not show losses after the tap (a plain capture).
	captured bool
	// midway: the trace may begin in the middle of the connection.
	midway bool
	// lossBefore and lossAfter: a capture has shown that requests were lost before or after its tap.
	lossBefore, lossAfter bool
	// fateUnknown: the order or number of deliveries may differ from the trace, because an event delayed, reordered,
	// duplicated or rewrote a packet, or because too much was in flight to keep.
	fateUnknown bool
	// disturbed: an event has delayed, reordered, duplicated or rewritten a packet, and hosts may behave unusually. Only
	// what the standard requires is then judged.
	disturbed bool
	// trims: what the responder does with the headers of trimmed requests.
	trims trace.TrimReaction

	req requester
	rsp responder
}

func newSession(a *Analyzer, flow trace.FlowID) *session {
	s := &session{
		a:        a,
		flow:     flow,
		limits:   a.cfg.limits(flow.Connection()),
		ipsn:     a.meta.Connections.InitialPSN(flow, packet.Requests),
		captured: a.meta.Kind == trace.KindPlain || !a.meta.EventsKnown,
		midway:   !a.meta.Connections.Certain(flow) && !a.whole(),
		trims:    a.meta.TrimReactions.Receiver(flow),
	}
	// A mirror trace that may begin midway shows as little of what its endpoints knew before as a capture does.
	s.captured = s.captured || s.midway && a.meta.Kind == trace.KindMirror
	if conn, ok := a.meta.Connections.Get(flow); ok {
		s.mtu = conn.MTU
		s.mtuShown = a.meta.Connections.Certain(flow)
	}
	s.req.init()
	s.rsp.init()
	s.rsp.log.setTrims(s.trims)
	s.rsp.log.validates = !s.captured
	if s.mtuShown {
		s.rsp.log.mtu = s.mtu
	}
	return s
}

// exact reports whether every delivery to the responder and its order are known.
func (s *session) exact() bool { return !s.captured && !s.fateUnknown && !s.rsp.adrift }

// seesAll reports whether the trace holds every request that was sent. A complete capture does if requests are lost
// after it: a path is assumed to lose packets at one place only.
func (s *session) seesAll() bool {
	return !s.captured || s.lossAfter && !s.lossBefore && !s.a.meta.EventsKnown && !s.a.meta.MayMiss
}

// unwrap returns the position of psn that is nearest to the newest request.
func (s *session) unwrap(psn packet.PSN) pos {
	return s.req.next + int64(psn.Sub(packet.NewPSN(int64(s.ipsn)+s.req.next)))
}

func (s *session) psn(p pos) packet.PSN { return packet.NewPSN(int64(s.ipsn) + p) }

// psns returns how many PSNs a request takes: a READ one for each response, everything else one.
func (s *session) psns(r *trace.Record) int64 {
	if r.Opcode != packet.ReadRequest || s.mtu <= 0 {
		return 1
	}
	return max(1, (int64(r.DMALen)+int64(s.mtu)-1)/int64(s.mtu))
}

// report adds a finding about r, for which the caller adds what was expected and seen. If the rule has been reported
// often enough it only counts it and returns nil.
func (s *session) report(rule Rule, r *trace.Record, p pos, support ...uint64) *analyzers.Finding {
	f := s.a.report(rule, r, s.flow.Connection())
	if f == nil {
		return nil
	}
	f.PSN, f.PSNAbs, f.About = p+1, uint32(s.psn(p)), s.flow+1
	for _, id := range support {
		if id != 0 && (len(f.Packets) == 0 || id != f.Packets[0]) {
			f.Packets = append(f.Packets, id)
		}
	}
	return f
}

// say completes a finding; f may be nil.
func say(f *analyzers.Finding, expected, actual string, c happened) {
	if f != nil {
		f.Expected, f.Actual = expected, actual
		f.Because(c)
	}
}

// request names a request in the words of the configuration: "data psn 5 iter 2".
func (s *session) request(op packet.Opcode, p pos) string {
	if op == packet.ReadRequest {
		return fmt.Sprintf("read-request psn %d", p+1)
	}
	return fmt.Sprintf("data psn %d iter %d", p+1, s.req.iter)
}

// retransmission names the request at p that should have been sent instead.
func (s *session) retransmission(p pos) string {
	if sp, ok := s.req.spans.covering(p); ok && !sp.atomic {
		return fmt.Sprintf("read-request psn %d", p+1)
	}
	return fmt.Sprintf("data psn %d iter %d", p+1, s.req.iter)
}

// response names a response: "ack psn 9", "nack psn 5", "read-response psn 7".
func response(r *trace.Record, p pos) string {
	switch {
	case r.Opcode.IsReadResponse():
		return fmt.Sprintf("read-response psn %d (%v)", p+1, r.Opcode)
	case r.Opcode == packet.AtomicAcknowledge:
		return fmt.Sprintf("atomic-ack psn %d", p+1)
	case r.Syndrome == packet.SyndromeNakSequence:
		return fmt.Sprintf("nack psn %d", p+1)
	}
	return fmt.Sprintf("%v psn %d", r.Class(), p+1)
}

// finish judges the end state.
func (s *session) finish() {
	if !s.req.started {
		return
	}
	if !s.finishResponder() {
		s.finishRequester()
	}
}
