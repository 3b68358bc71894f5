package gbn

import (
	"slices"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A responder that answers what it must not leaves its requester to its own devices: whether it takes such a response as it is,
// drops it, or ends the connection, the standard does not say. So from then on what the requester takes for acknowledged is not
// one number, and no requester is blamed for any of them.

// A confusion is what an invalid response leaves open.
type confusion uint8

const (
	confusionNone confusion = iota
	// confusionPlace: a response has a wrong form. The requester may go back to it or to any later request.
	confusionPlace
	// confusionAll: it answers what was not asked. Nothing that the requester does from its place on can be told from obedience.
	confusionAll
)

// suspect notes that r breaks a rule about responses.
func (q *requester) suspect(rule Rule, r *trace.Record) {
	switch rule {
	case RuleReadUnexpected, RuleReadOrder, RuleReadOpcode, RuleReadLength, RuleAtomicUnexpected:
		q.suspects[q.suspected%len(q.suspects)] = r.ID
		q.suspected++
	default:
	}
}

// confuse notes that a response which breaks a rule goes on to the requester.
func (s *session) confuse(r *trace.Record) {
	q := &s.req
	p := s.unwrap(r.PSN)
	from := q.una.least().una
	if q.suspected == 0 || p < from || !slices.Contains(q.suspects[:], r.ID) {
		return
	}
	kind := confusionAll
	if sp, ok := q.spans.covering(p); ok && sp.atomic == (r.Opcode == packet.AtomicAcknowledge) && p < q.next {
		kind = confusionPlace
	}
	if q.confusion == confusionNone {
		q.confusedFrom = from
	}
	q.confusion = max(q.confusion, kind)
}

// confused reports whether an invalid response may be why a request comes at p.
func (q *requester) confused(p pos) bool {
	return q.confusion != confusionNone && p >= q.confusedFrom && p <= q.next
}
