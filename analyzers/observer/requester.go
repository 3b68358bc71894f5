package observer

import "candela.dev/candela/packet"

// A sender is a state of a requester (IBTA volume 1, 9.7.2, 9.7.5 and 9.7.6).
type sender struct {
	una  int64 // oldest PSN without acknowledgement
	cur  int64 // of the next request to send
	next int64 // of the next request that was never sent

	retries, rnrs uint8 // restarts without progress
	failed        bool  // the queue pair is in error
	nak           bool  // a sequence NAK asks for a restart
	implied       bool  // a response overtook a missing one
	rnr           bool  // an RNR NAK asks to wait
	resent        bool  // una was retransmitted since it became the oldest
	// hazy is the PSN before which it is unknown what the requester takes for unacknowledged.
	hazy int64
}

type senderNode = node[sender]
type senderStep = step[sender]

// requester is the machine of a requester.
type requester struct{ x *session }

func (q *requester) mine(f *frame) bool { return !f.back }

func (q *requester) send(n senderNode, f *frame, add func(senderNode)) reason {
	s := &n.state
	switch {
	case s.failed:
		return reasonAfterError
	case f.psn == s.cur && s.cur == s.next:
		return q.sendNew(n, f, add)
	case f.psn > s.next:
		return reasonSkip
	case f.psn < s.una && f.psn < s.hazy:
		s.una, s.cur = f.psn, f.end
		s.next = max(s.next, s.cur)
		return q.left(n, f, true, add)
	case f.psn < s.una:
		return reasonAcknowledged
	case f.psn >= s.next:
		return reasonGap // the round has not come to its end
	case !q.same(f):
		return reasonChanged
	}
	why := reasonGap
	if f.psn < s.cur {
		why = reasonRestart
	}
	if f.psn == s.cur {
		m := n
		m.state.cur = f.end
		why = q.repeat(m, f, add)
	}
	if f.psn == s.una {
		m, early := q.restart(n)
		if early == reasonNone {
			m.state.cur = f.end
			early = q.repeat(m, f, add)
		}
		why = max(why, early)
	}
	return why
}

// sendNew is the first transmission of a request.
func (q *requester) sendNew(n senderNode, f *frame, add func(senderNode)) reason {
	if !q.follows(f) {
		return reasonOpcode
	}
	if own := q.x.requests.at(f.psn); own != nil && own.id != f.id && !q.same(f) {
		return reasonChanged
	}
	idle := n.state.una == n.state.next
	n.state.cur, n.state.next = f.end, f.end
	return q.left(n, f, idle, add)
}

// restart goes back to una: immediately after a NAK, after its timer following an RNR NAK, else when the ACK timer
// expires (9.7.5.2.8, 9.7.6.1.1, 9.7.6.1.3). The retry counters bound the restarts (9.9.2.1.1).
func (q *requester) restart(n senderNode) (senderNode, reason) {
	s, c := &n.state, q.x.limits
	if s.rnr {
		if c.RNRRetry.Known && c.RNRRetry.Max < unlimitedRNR && int(s.rnrs) >= c.RNRRetry.Max {
			return n, reasonRetries
		}
		return n, reasonNone
	}
	if c.Retry.Known && int(s.retries) >= c.Retry.Max {
		return n, reasonRetries
	}
	if !s.nak && !s.implied {
		n.now = max(n.now, n.timer+c.TimeoutNS)
	}
	if c.Retry.Known {
		s.retries++
	}
	s.nak, s.implied = false, false
	return n, reasonNone
}

// repeat is the retransmission of a request.
func (q *requester) repeat(n senderNode, f *frame, add func(senderNode)) reason {
	s, c := &n.state, q.x.limits
	oldest := f.psn == s.una
	if oldest {
		s.resent = true
	}
	if oldest && s.rnr {
		n.now = max(n.now, n.ready)
		s.rnr, n.ready = false, 0
		if c.RNRRetry.Known && c.RNRRetry.Max < unlimitedRNR {
			if int(s.rnrs) >= c.RNRRetry.Max {
				return reasonRetries
			}
			s.rnrs++
		}
	}
	return q.left(n, f, oldest, add)
}

// left advances n past f, which left the requester no later than the tap saw it.
func (q *requester) left(n senderNode, f *frame, oldest bool, add func(senderNode)) reason {
	if h := q.x.limits.HostDelayNS; h > 0 {
		n.now = max(n.now, f.timeNS-h)
	}
	if n.now > f.timeNS {
		return reasonEarly
	}
	if oldest {
		n.timer = n.now
	}
	add(n)
	return reasonNone
}

// follows reports whether f may be sent for the first time after the request before it (9.7.3.1; 9.7.4.1.2, table 38).
func (q *requester) follows(f *frame) bool {
	if f.misfit {
		return false
	}
	x := q.x.requests.extent(f.psn - 1)
	switch {
	case x == nil:
		return f.psn != 0 || q.x.midway || f.op.Starts()
	case x.request.op.Ends():
		return f.op.Starts()
	case f.op.Starts() || f.op.Verb() != x.request.op.Verb():
		return false
	}
	return x.left == unknownLeft || f.op.Ends() == (x.left == 1) &&
		(x.left != 1 || x.tail == unknownTail || f.payload == x.tail)
}

// same reports whether f repeats the request of its PSN: identical, or the rest of a READ (9.7.2; 9.4.4).
func (q *requester) same(f *frame) bool {
	first := q.x.requests.at(f.psn)
	switch {
	case first == nil:
		return true
	case first.op != f.op:
		return false
	case f.op == packet.ReadRequest:
		return f.end == first.end && f.tail == first.tail && f.va == first.va+uint64(f.psn-first.psn)*uint64(q.x.mtu)
	}
	return first.psn == f.psn && first.va == f.va && first.count == f.count && first.length == f.length &&
		first.payload == f.payload
}

// receive takes a response.
func (q *requester) receive(st *senderStep, n senderNode, f *frame) {
	if st.goal == nil && q.givesUp(n, f) {
		q.fail(st, n)
	}
	switch {
	case n.state.failed:
	case f.op == packet.Acknowledge:
		q.acknowledge(st, n, f.psn, f.syndrome)
	case f.op.IsReadResponse(), f.op == packet.AtomicAcknowledge:
		q.response(st, n, f)
	}
}

// givesUp reports whether a retry counter may be exhausted before f arrives (9.9.2.1.1).
func (q *requester) givesUp(n senderNode, f *frame) bool {
	s, c := &n.state, q.x.limits
	switch {
	case s.failed || s.una == s.next:
		return false
	case s.rnr && c.RNRRetry.Known && c.RNRRetry.Max < unlimitedRNR && int(s.rnrs) >= c.RNRRetry.Max:
		return true
	case c.Retry.Known && int(s.retries) < c.Retry.Max || s.rnr && !s.implied:
		return false
	case s.nak || s.implied:
		return true
	case !c.Retry.Known:
		return false
	}
	return c.TimeoutNS > 0 && n.timer+c.TimeoutNS <= q.x.latest(f)
}

func (q *requester) acknowledge(st *senderStep, n senderNode, psn int64, syndrome packet.Syndrome) {
	s := &n.state
	switch {
	case psn >= s.next:
		if psn == s.next && s.una < s.next && !syndrome.IsAck() && !fatal(syndrome) {
			q.acknowledged(n, psn-1, st.add) // nothing to repeat there, but it acknowledges what is before
		}
		q.unasked(st, n)
	case psn < s.una:
		if fatal(syndrome) {
			q.fail(st, n)
		}
	case syndrome.IsAck():
		q.acknowledged(n, psn, st.add)
	case syndrome.IsRNR():
		q.acknowledged(n, psn-1, func(m senderNode) {
			if m.state.una == psn {
				// the second restart may be charged to the other retry counter
				if charged := m; m.state.rnr && q.x.limits.RNRRetry.Known {
					charged.state.rnrs++
					st.add(charged)
				}
				m.state.rnr, m.state.nak, m.state.implied = true, false, false
				m.ready = m.now + packet.RNRTimer(syndrome.TimerCode())
			}
			st.add(m)
		})
	case syndrome == packet.SyndromeNakSequence:
		q.acknowledged(n, psn-1, func(m senderNode) {
			m.state.nak = m.state.nak || m.state.una == psn
			st.add(m)
		})
	default:
		q.fail(st, n)
		q.acknowledged(n, psn-1, func(m senderNode) {
			if m.state.una < psn {
				st.add(m) // an unanswered READ or atomic before psn makes it an implied NAK for that PSN
			}
		})
	}
}

// fail puts the queue pair in error: it sends nothing more (9.9.2.4, 10.3.1). Needed at the end only.
func (q *requester) fail(st *senderStep, n senderNode) {
	if st.goal == nil {
		n.state.failed = true
		st.add(n)
	}
}

// ignores reports whether f may be dropped: what it acknowledges is acknowledged, nobody requested it, or it does not
// answer its request.
func (q *requester) ignores(_ *senderStep, n senderNode, f *frame) bool {
	s := &n.state
	switch {
	case s.failed, f.psn < s.una, f.psn >= s.next:
		return true
	case !answering(f):
		return false
	}
	first := q.x.requests.at(f.psn)
	return first != nil && !q.answers(first, f)
}

// unasked adds what a requester may do with a response to something that it has not sent, other than drop it. The
// standard leaves that open; the responder is at fault.
func (q *requester) unasked(st *senderStep, n senderNode) {
	q.fail(st, n)
	m := n
	m.state.implied = true
	st.add(m)
	if n.state.una < n.state.next {
		q.acknowledged(n, n.state.next-1, st.add)
	}
}

// acknowledged adds what follows when everything through psn is acknowledged. An unanswered READ or atomic stops the
// acknowledgement and is an implied NAK (9.7.5.1.2, 9.7.6.1.1).
func (q *requester) acknowledged(n senderNode, psn int64, add func(senderNode)) {
	for p := n.state.una; p <= psn; p++ {
		q.x.credit--
		x := q.x.requests.extent(p)
		if x != nil && !demands(x.request.op) {
			p = x.to - 1
			continue
		}
		if x == nil && p < q.x.requests.forgotten {
			continue
		}
		m := q.progress(n, p)
		m.state.implied = true
		add(m)
		if x != nil {
			return
		}
	}
	q.progressed(n, psn+1, add)
}

// progressed adds the states after progress to una. A restart that a NAK or the timer caused before may still follow.
// It starts at the PSN that is the oldest by then.
func (q *requester) progressed(n senderNode, una int64, add func(senderNode)) {
	m := q.progress(n, una)
	add(m)
	if m.state.una == n.state.una || una == m.state.next {
		return
	}
	if !n.state.rnr && !n.state.nak && !n.state.implied {
		expired, h := n.timer+q.x.limits.TimeoutNS, q.x.limits.HostDelayNS
		if q.x.limits.TimeoutNS == 0 {
			return // a timer that may be anything explains it, too
		}
		if h > 0 && n.in > q.x.base && q.x.frame(n.in-1).timeNS+h < expired {
			return
		}
		m.now = max(m.now, expired)
		m.timer = m.now
	}
	m.state.implied = true
	add(m)
}

// progress moves una.
func (q *requester) progress(n senderNode, una int64) senderNode {
	s := &n.state
	if una <= s.una {
		return n
	}
	*s = sender{una: una, cur: max(s.cur, una), next: s.next, hazy: s.hazy}
	n.ready = 0
	n.timer = n.now
	return n
}

// response takes a READ response or an atomic ACK.
func (q *requester) response(st *senderStep, n senderNode, f *frame) {
	s := &n.state
	if f.psn >= s.next {
		q.unasked(st, n)
		return
	}
	if f.psn < s.una {
		return
	}
	if first := q.x.requests.at(f.psn); first != nil && !q.answers(first, f) {
		q.fail(st, n) // not what was requested: dropped, fatal, accepted, or an implied NAK
		q.acknowledged(n, f.psn-1, func(m senderNode) {
			m.state.implied = true
			st.add(m)
		})
	}
	q.acknowledged(n, f.psn-1, func(m senderNode) {
		if m.state.una == f.psn {
			q.progressed(m, f.psn+1, st.add)
			return
		}
		st.add(m)
	})
}

// answers reports whether f is a response to request at its PSN.
func (q *requester) answers(request, f *frame) bool {
	switch {
	case request.op == packet.ReadRequest:
		want := q.x.full
		if f.psn == request.end-1 {
			want = request.tail
		}
		if q.x.full > 0 && f.payload != want {
			return false
		}
		return f.op.IsReadResponse() && f.op.Ends() == (f.psn == request.end-1) && (f.psn != request.psn || f.op.Starts())
	case request.op.Verb() == packet.VerbAtomic:
		return f.op == packet.AtomicAcknowledge
	}
	return false
}

// miss adds what follows from a frame that the tap did not see.
func (q *requester) miss(st *senderStep, n senderNode) {
	s := &n.state
	if s.failed {
		return
	}
	if s.cur == s.next {
		q.missNew(st, n)
	} else {
		q.missRepeat(st, n, s.cur)
	}
	if s.una < s.next {
		if m, why := q.restart(n); why == reasonNone {
			q.missRepeat(st, m, m.state.una)
		}
	}
	q.fail(st, n)
	if st.goal == nil {
		return
	}
	from, to := s.una, s.next
	if to-from > maxNear {
		from, to = max(from, st.goal.psn-maxNear/2), min(to, st.goal.psn+maxNear/2)
	}
	// The oldest missing answer stops every acknowledgement.
	if psn := q.due(s.una, from); psn < from {
		q.missAnswer(st, n, psn)
	}
	for psn := from; psn < to; psn++ {
		q.acknowledge(st, n, psn, packet.SyndromeAck)
		q.acknowledge(st, n, psn, packet.SyndromeNakSequence)
		q.acknowledge(st, n, psn, packet.SyndromeRNR|1)
		if first := q.x.requests.at(psn); first == nil || demands(first.op) {
			q.missAnswer(st, n, psn)
		}
	}
}

// missAnswer is an unseen READ response or atomic ACK.
func (q *requester) missAnswer(st *senderStep, n senderNode, psn int64) {
	q.acknowledged(n, psn-1, func(m senderNode) {
		if m.state.una == psn {
			m = q.progress(m, psn+1)
		}
		st.add(m)
	})
}

// due returns the first PSN in [una, to) that only a READ response or an atomic ACK acknowledges, or to.
func (q *requester) due(una, to int64) int64 {
	for psn := una; psn < to; psn++ {
		q.x.credit--
		x := q.x.requests.extent(psn)
		switch {
		case x != nil && !demands(x.request.op):
			psn = x.to - 1
		case x == nil && psn < q.x.requests.forgotten:
		default:
			return psn
		}
	}
	return to
}

// maxNear bounds the PSNs around a packet for which unseen acknowledgements are considered.
const maxNear = 24

// maxReach bounds the PSNs at which unseen frames are looked for.
const maxReach = 256

// missNew adds an unseen first transmission, of any length if nothing is known of it.
func (q *requester) missNew(st *senderStep, n senderNode) {
	s, r := &n.state, &q.x.requests
	if s.una == s.next {
		n.timer = n.now
	}
	if first := r.at(s.next); first != nil {
		if first.psn == s.next && q.follows(first) {
			s.cur, s.next = first.end, first.end
			st.add(n)
		}
		return
	}
	for psn := s.next + 1; psn <= min(r.high+2, n.state.next+maxReach); psn++ {
		m := n
		m.state.cur, m.state.next = psn, psn
		st.add(m)
		if r.at(psn) != nil {
			break
		}
	}
}

// missRepeat is an unseen retransmission.
func (q *requester) missRepeat(st *senderStep, n senderNode, psn int64) {
	s, end := &n.state, psn+1
	if first := q.x.requests.at(psn); first != nil {
		end = first.end
	}
	s.cur = min(end, s.next)
	if psn == s.una {
		s.resent, s.rnr = true, false
		n.timer = n.now
	}
	st.add(n)
}

// settled reports whether n may be the end: everything is acknowledged, or a retry counter is exhausted (9.9.2.1.1).
func (q *requester) settled(n senderNode) bool {
	s, c := &n.state, q.x.limits
	switch {
	case s.failed || s.una == s.next || s.una < s.hazy:
		return true
	case s.rnr && (!s.implied || c.Retry.Known && int(s.retries) < c.Retry.Max): // an implied NAK meanwhile costs a retry
		return !c.RNRRetry.Known || c.RNRRetry.Max < unlimitedRNR && int(s.rnrs) >= c.RNRRetry.Max
	case !c.Retry.Known || int(s.retries) >= c.Retry.Max:
		return true
	}
	return c.TimeoutNS == 0 && (!s.nak || s.resent) // without a timer only a NAK obliges
}

func (q *requester) mayPull(senderNode, *frame, int64) bool { return false } // responses come in order

func (q *requester) pull(*senderNode, int64) {}

func (q *requester) wasPulled(senderNode, int64) bool { return false }

func (q *requester) held(senderNode, int64) bool { return false }

// inError reports whether the queue pair is in error, or will be because a retry counter is exhausted.
func (q *requester) inError(n senderNode) bool {
	s, c := &n.state, q.x.limits
	switch {
	case s.failed:
		return true
	case s.una == s.next:
		return false
	case s.rnr && (!s.implied || c.Retry.Known && int(s.retries) < c.Retry.Max):
		return !c.RNRRetry.Known || c.RNRRetry.Max < unlimitedRNR && int(s.rnrs) >= c.RNRRetry.Max
	}
	return !c.Retry.Known || int(s.retries) >= c.Retry.Max
}

// advance handles a request that is next in order. What the requester has received shows only when it goes back, so
// nothing of that is decided here.
func (q *requester) advance(n *senderNode, f *frame, at int64) bool {
	s := &n.state
	if f.psn != s.next || s.cur != s.next || s.failed || q.x.ghosts >= n.in || f.damaged || !q.follows(f) ||
		n.now > f.timeNS {
		return false
	}
	if q.x.exact && !q.x.commutes(n) || !q.x.exact && q.x.limits.HostDelayNS > 0 {
		return false
	}
	if own := q.x.requests.at(f.psn); own == nil || own.id != f.id {
		return false
	}
	if s.una == s.next {
		if h := q.x.limits.HostDelayNS; h > 0 {
			n.now = max(n.now, f.timeNS-h)
		}
		n.timer = n.now
	}
	s.cur, s.next = f.end, f.end
	return true
}

// commutes reports whether the order of sending a new request and receiving the passed frames makes no difference: they
// only acknowledge, and leave requests outstanding, so that the timer keeps running.
func (s *session) commutes(n *senderNode) bool {
	if s.arrived < n.in {
		return true
	}
	return s.odd < n.in && n.state.una < n.state.next && s.frame(s.arrived).psn+1 < n.state.next
}
