package gbn

import (
	"slices"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A responder that answers what it must not leaves its requester to its own devices: whether it takes such a response
// as it is, drops it, or ends the connection, the standard does not say. So what the requester takes for acknowledged
// is then one of several positions, and no requester is blamed for any of them.

// wrong reports whether a READ response or atomic ACK at p, which has been requested, has not the form of an answer to
// that request.
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

// learnWrong follows a response at p of the wrong form. The requester may drop it, end the connection, take it as it
// is, or for an implied NAK.
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
// before is acknowledged.
func (q *requester) mayRefuse(r *trace.Record, p pos) {
	k := knowledge{una: p, id: r.ID, timeNS: r.TimeNS, dubious: true}
	k.ask(r, nakImplied)
	q.una.include(k)
}

// mayFail notes that the connection may end in error over r, unless its requester has sent the request at p by the time
// r arrives.
func (q *requester) mayFail(r *trace.Record, p pos) {
	if p >= q.next {
		q.fails, q.failsNS, q.failsAt, q.failsOp, q.failsLen = true, r.TimeNS, p, r.Opcode, r.PayloadLen
	}
}

// mayHaveFailed reports whether the requester may have ended the connection over a response: it has sent nothing since
// that must have left after the response had arrived.
func (s *session) mayHaveFailed() bool {
	q := &s.req
	if q.misled || !q.fails || q.lastNS-q.failsNS > s.a.delay {
		return q.misled
	}
	return q.failsAt >= q.next || q.failsOp != packet.Acknowledge && s.misfits(q.failsOp, q.failsLen, q.failsAt)
}

// doubt takes the response at p, the first that is missing, for received, which it may not be.
func (q *requester) doubt(p pos) {
	q.spans.answered()
	if q.doubted < 0 || q.una.least().una > q.doubted {
		q.doubted, q.rewound = p, false
	}
}

// askDoubted notes that a response after one that may have been dropped asks for what that one would have brought.
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

// confused reports whether a dropped response may be why a request comes at p: the one at q.doubted, to which the
// requester then goes back; afterwards it waits for everything from there on once more.
func (q *requester) confused(p pos) bool {
	return q.doubted >= 0 && (p == q.doubted || q.rewound && p > q.doubted && p <= q.next)
}

// learnUnasked follows a response about what was never sent. Whoever made it up, a requester may ignore it, end the
// connection, take it for an implied NAK, or for an acknowledgement of all that it has sent when it arrives. By then it
// may have sent what the response is about: claim is the position that it acknowledges everything before in that case,
// and kind what it asks for there.
func (s *session) learnUnasked(r *trace.Record, claim pos, kind nakKind) {
	q := &s.req
	p := s.unwrap(r.PSN)
	q.dubious = true
	q.mayFail(r, p)
	for i := q.una.len - 1; i >= 0; i-- { // in each state that it may be in when it has received all that passed before
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

// mayReach adds the state in which everything before una is acknowledged, as far as that can be: a READ or atomic
// without its answer stops it, and is asked for again.
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

// settleClaims turns claims into states that the requester may be in, now that it is about to send or has sent r, and
// forgets those that have certainly arrived before.
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
