package gbn

import (
	"slices"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// The standard does not say what a requester does with a response that a responder must not send: accept it, drop it,
// or end the connection. What the requester takes for acknowledged is then one of several positions, and none of them
// is a fault.

// wrong reports whether a READ response or atomic ACK at p, which was requested, lacks the form of an answer to that
// request.
func (s *session) wrong(r *trace.Record, p pos) bool {
	return !s.captured && s.misfits(r.Opcode, r.PayloadLen, p) // of a capture what was asked before may have been missed
}

func (s *session) misfits(op packet.Opcode, payload uint16, p pos) bool {
	sp, ok := s.req.spans.covering(p)
	switch {
	case !ok:
		return p >= s.req.una.least().una // older requests are forgotten
	case sp.atomic || op == packet.AtomicAcknowledge:
		return sp.atomic != (op == packet.AtomicAcknowledge)
	}
	want := int64(s.mtu)
	if p == sp.last {
		want = int64(sp.length) - (p-sp.first)*int64(s.mtu)
	}
	return op.Ends() != (p == sp.last) || p == sp.first && !op.Starts() || s.mtu > 0 && int64(payload) != want
}

// learnWrong handles a response of the wrong form at p. The requester may drop it, end the connection, accept it, or
// take it for an implied NAK.
func (s *session) learnWrong(r *trace.Record, p pos) {
	q := &s.req
	missing, gap := q.spans.missing()
	_, asked := q.spans.covering(p)
	switch {
	case gap && missing < p:
		q.mayFail(r, never)
		s.learn(r, missing, nakImplied)
	case gap && missing == p:
		q.mayFail(r, never)
		q.mayRefuse(r, p)
		q.doubt(p)
		if k := q.una.at(q.una.search(p)); k.una == p {
			k.refusals++
		}
		s.learn(r, p+1, nakNone)
	case !asked && p+1 > q.una.most().una:
		q.mayFail(r, never)
		q.mayRefuse(r, p)
		q.dubious = true
		q.una.push(knowledge{una: p + 1, id: r.ID, timeNS: r.TimeNS, dubious: true})
	default:
		s.learn(r, 0, nakNone)
	}
}

// mayRefuse adds the state of a requester that takes a response of the wrong form at p for an implied NAK: everything
// before p is acknowledged.
func (q *requester) mayRefuse(r *trace.Record, p pos) {
	k := knowledge{una: p, id: r.ID, timeNS: r.TimeNS, dubious: true}
	k.ask(r, nakImplied)
	q.una.include(k)
}

// mayFail records that r may end the connection, unless its requester has sent the request at p by the time r arrives.
func (q *requester) mayFail(r *trace.Record, p pos) {
	if p >= q.next {
		q.fails, q.failsNS, q.failsAt, q.failsOp, q.failsLen = true, r.TimeNS, p, r.Opcode, r.PayloadLen
	}
}

// mayHaveFailed reports whether a response may have ended the connection: the requester has sent nothing since that
// certainly left after the response had arrived.
func (s *session) mayHaveFailed() bool {
	q := &s.req
	if q.misled || !q.fails || q.lastNS-q.failsNS > s.a.delay {
		return q.misled
	}
	return q.failsAt >= q.next || q.failsOp != packet.Acknowledge && s.misfits(q.failsOp, q.failsLen, q.failsAt)
}

// doubt treats the response at p, the first missing one, as received, which may be wrong.
func (q *requester) doubt(p pos) {
	q.spans.answered()
	if q.doubted < 0 || q.una.least().una > q.doubted {
		q.doubted, q.rewound = p, false
	}
}

// askDoubted records that a response after one that may have been dropped requests the data of that one.
func (q *requester) askDoubted(r *trace.Record, p pos) {
	i := q.una.search(q.doubted)
	if i == q.una.len || q.una.at(i).una != q.doubted {
		return
	}
	switch k := q.una.at(i); {
	case p > q.doubted:
		k.mayAsk(r)
		k.refusals++
	case p == q.doubted && r.Opcode != packet.Acknowledge:
		k.refusals = 0 // this one may be taken instead
	}
}

// confused reports whether a dropped response may explain a request at p: the one at q.doubted, to which the requester
// goes back. It then waits again for everything from there on.
func (q *requester) confused(p pos) bool {
	return q.doubted >= 0 && (p == q.doubted || q.rewound && p > q.doubted && p <= q.next)
}

// learnUnasked handles a response to something that was never sent. A requester may ignore it, end the connection, take
// it for an implied NAK, or for an acknowledgement of all that it has sent when it arrives. By then it may have sent
// what the response is about: claim is the position before which the response then acknowledges everything, and kind
// what it requests there.
func (s *session) learnUnasked(r *trace.Record, claim pos, kind nakKind) {
	q := &s.req
	p := s.unwrap(r.PSN)
	q.dubious = true
	q.mayFail(r, p)
	for i := q.una.len - 1; i >= 0; i-- { // in each state that it may be in after it received all that passed before
		k := q.una.at(i)
		if k.mayAsk(r); !k.dubious {
			break
		}
	}
	s.mayReach(r, q.next)
	if len(q.claims) < maxClaims {
		c := knowledge{una: claim, id: r.ID, timeNS: r.TimeNS, dubious: true, answers: r.Opcode != packet.Acknowledge,
			claimed: p}
		if kind != nakNone {
			c.ask(r, kind)
		}
		q.claims = append(q.claims, c)
	}
}

// maxClaims bounds what is remembered of made-up responses.
const maxClaims = 16

// mayReach adds the state in which everything before una is acknowledged, as far as possible: an unanswered READ or
// atomic stops it, and is requested again.
func (s *session) mayReach(r *trace.Record, una pos) {
	q := &s.req
	missing, gap := q.spans.missing()
	gap = gap && missing < una
	if gap {
		una = missing
	}
	k := knowledge{una: una, id: r.ID, timeNS: r.TimeNS, dubious: true}
	if gap {
		k.ask(r, nakImplied)
	}
	q.una.include(k)
}

// mayAsk notes that a response may be taken for an implied NAK.
func (k *knowledge) mayAsk(r *trace.Record) {
	if k.spent >= k.asks {
		k.ask(r, nakImplied)
		return
	}
	k.asks++
	k.askID, k.askNS = r.ID, r.TimeNS
}

// settleClaims turns claims into possible states of the requester, which is about to send or has sent r, and drops
// those that have certainly arrived before.
func (s *session) settleClaims(r *trace.Record) {
	q := &s.req
	reached := never
	q.claims = slices.DeleteFunc(q.claims, func(c knowledge) bool {
		if r.TimeNS-c.timeNS > s.a.delay {
			return true
		}
		if q.next <= c.claimed {
			s.mayReach(r, q.next)
			if i := q.una.search(reached); i < q.una.len && q.una.at(i).una == reached {
				q.una.at(i).mayAsk(r) // c arrives after the one that is taken for an answer
			}
			return false
		}
		missing, gap := q.spans.missing()
		if gap && c.answers && missing == c.una-1 {
			q.doubt(missing)
		} else if gap && missing < c.una {
			c.una, c.nak, c.rnrNS, c.waitNS, c.restores = missing, nakImplied, 0, 0, true
			c.asks, c.rnrs, c.nakID, c.askID, c.askNS = 1, 0, c.id, c.id, c.timeNS
		}
		q.una.include(c)
		reached = c.una
		return true
	})
}
