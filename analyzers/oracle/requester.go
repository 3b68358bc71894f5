package oracle

import "candela.dev/candela/packet"

// requesterState is a state of a requester that follows the standard. PSNs are relative.
type requesterState struct {
	i, j   int16 // frames received and sent
	unseen int8
	una    int32 // oldest PSN without acknowledgement
	cur    int32 // PSN of the next request to send
	next   int32 // PSN of the next request that was never sent
	// retries and rnrs count restarts without progress.
	retries, rnrs int8
	failed        bool // the queue pair is in the error state
	nak           bool // a sequence NAK asks for a restart
	implied       bool // a response that overtook a missing one allows a restart
	rnr           bool // an RNR NAK for una: wait
	resent        bool // una was retransmitted since it became the oldest

	now   int64 // earliest instant that explains all so far
	timer int64 // instant since which the retry timer runs
	ready int64 // end of the wait that an RNR NAK asked for
}

type requester struct{ x *experience }

func (r *requester) initial(add func(requesterState)) {
	if !r.x.view.MidStream {
		add(requesterState{now: -1 << 62, timer: -1 << 62})
		return
	}
	low, high := r.x.contents.base+1, r.x.contents.base+len(r.x.contents.of)
	for una := low; una <= high; una++ {
		for next := una; next <= high; next++ {
			for cur := una; cur <= next; cur++ {
				add(requesterState{una: int32(una), cur: int32(cur), next: int32(next), nak: true, now: -1 << 62, timer: -1 << 62})
			}
		}
	}
}

func (r *requester) progress(s requesterState) (i, j int) { return int(s.i), int(s.j) }

// settled reports whether a requester may be at rest: everything is acknowledged, or it gave up as the retry counters
// allow (9.9.2.1.1).
func (r *requester) settled(s requesterState) bool {
	v := &r.x.view
	switch {
	case s.failed || s.una == s.next:
		return true
	case s.rnr && (!s.implied || v.Retry >= 0 && int(s.retries) < v.Retry): // an implied NAK meanwhile costs a retry
		return v.RNRRetry < 7 && int(s.rnrs) >= v.RNRRetry
	case v.Retry < 0 || int(s.retries) >= v.Retry:
		return true
	}
	// With no known timer it may be off, and only a NAK obliges.
	return v.TimeoutNS == 0 && (!s.nak || s.resent)
}

// failed reports whether the queue pair is in error, or will be because a retry counter is exhausted.
func (r *requester) failed(s requesterState, atRest bool) bool {
	v := &r.x.view
	switch {
	case s.failed:
		return true
	case s.una == s.next || !atRest:
		return false
	case s.rnr && (!s.implied || v.Retry >= 0 && int(s.retries) < v.Retry):
		return v.RNRRetry < 7 && int(s.rnrs) >= v.RNRRetry
	}
	return v.Retry < 0 || int(s.retries) >= v.Retry
}

func (r *requester) steps(s requesterState, add func(requesterState)) {
	x := r.x
	if int(s.i) < len(x.in) {
		if x.mayReceive(s.i, s.j) {
			if now, ok := x.receiveTime(s.i, s.now); ok {
				n := s
				n.i++
				n.now = now
				r.receive(n, x.in[s.i].Packet, add)
			}
		}
		if x.view.Plain { // lost after the tap
			n := s
			n.i++
			add(n)
		}
	}
	if int(s.j) < len(x.out) {
		r.send(s, x.out[s.j].Packet, add)
	}
	if int(s.unseen) < x.budget && !s.failed {
		r.stepUnseen(s, add)
	}
	if n, ok := r.givesUp(s); ok {
		add(n)
	}
}

// givesUp puts the queue pair in error because a retry counter is exhausted, though an answer may still come
// (9.9.2.1.1).
func (r *requester) givesUp(s requesterState) (requesterState, bool) {
	v := &r.x.view
	switch {
	case s.failed || s.una == s.next || int(s.i) == len(r.x.in): // at the end settled and failed say it
		return s, false
	case s.rnr && v.RNRRetry >= 0 && v.RNRRetry < 7 && int(s.rnrs) >= v.RNRRetry:
	case v.Retry >= 0 && int(s.retries) < v.Retry || s.rnr && !s.implied:
		return s, false
	case s.nak || s.implied:
	case v.Retry >= 0 && v.TimeoutNS > 0:
		s.now = max(s.now, s.timer+v.TimeoutNS)
	default:
		return s, false
	}
	s.failed = true
	return s, v.HostDelayNS == 0 || s.now <= r.x.latest(s.i)
}

// send adds what follows if the requester sends p.
func (r *requester) send(s requesterState, p *Packet, add func(requesterState)) {
	if s.failed || !p.request() {
		return // 10.3.1: a queue pair in error sends nothing; responses are not a requester's
	}
	psn := int32(p.PSN)
	switch {
	case psn == s.cur && s.cur == s.next:
		if !r.follows(p) || !r.own(p) {
			return
		}
		n := s
		n.cur += int32(p.packets())
		n.next = n.cur
		if s.una == s.next {
			n.una = psn
		}
		r.sent(n, s.una == s.next, add)
	case psn >= s.una && psn < s.next:
		if !r.same(p) {
			return
		}
		if psn == s.cur {
			n := s
			n.cur = psn + int32(p.packets())
			r.resend(n, psn, add)
		}
		if psn == s.una {
			if n, ok := r.restart(s); ok {
				n.cur = psn + int32(p.packets())
				r.resend(n, psn, add)
			}
		}
	}
}

// restart is the decision to go back to una: immediately after a NAK or an implied NAK, after the wait of an RNR NAK,
// else when the timer expires (9.7.5.2.2, 9.7.5.2.8, 9.7.6.1.1, 9.7.6.1.3). The retry counters bound it (9.9.2.1.1).
func (r *requester) restart(s requesterState) (requesterState, bool) {
	v := &r.x.view
	switch {
	case s.rnr:
		if v.RNRRetry >= 0 && v.RNRRetry < 7 && int(s.rnrs) >= v.RNRRetry {
			return s, false
		}
		return s, true // counted when una leaves
	case v.Retry >= 0 && int(s.retries) >= v.Retry:
		return s, false
	}
	if !s.nak && !s.implied && r.x.timed {
		s.now = max(s.now, s.timer+v.TimeoutNS)
	}
	if v.Retry >= 0 {
		s.retries++
	}
	s.nak, s.implied = false, false
	return s, true
}

// resend accounts for a request that was sent before.
func (r *requester) resend(n requesterState, psn int32, add func(requesterState)) {
	first := psn == n.una
	if first {
		n.resent = true
		if n.rnr {
			n.now = max(n.now, n.ready)
			n.rnr = false
			if v := r.x.view.RNRRetry; v >= 0 && v < 7 {
				if int(n.rnrs) >= v {
					return
				}
				n.rnrs++
			}
			n.ready = 0
		}
	}
	r.sent(n, first, add)
}

// sent moves a state past the frame that left. startsTimer: it is the oldest.
func (r *requester) sent(n requesterState, startsTimer bool, add func(requesterState)) {
	now, ok := r.x.sendTime(n.i, n.j, n.now)
	if !ok {
		return
	}
	n.now = now
	if startsTimer && r.x.timed {
		n.timer = now
	}
	n.j++
	add(n)
}

// follows reports whether p may be the first transmission after the request before it (9.7.3.1 and table 38 of
// 9.7.4.1.2).
func (r *requester) follows(p *Packet) bool {
	if !announces(p) || !p.fits() {
		return false
	}
	before := r.x.contents.at(p.PSN - 1)
	if before == nil {
		return p.PSN == 0 && !r.x.view.MidStream && p.Op.Starts() || p.PSN != 0 || r.x.view.MidStream
	}
	if before.Op.Ends() {
		return p.Op.Starts()
	}
	if p.Op.Starts() || p.Op.Verb() != before.Op.Verb() {
		return false
	}
	first := r.firstOfWrite(p)
	if first == nil {
		return true
	}
	last := p.PSN-first.PSN+1 == first.Count
	return p.Op.Ends() == last && (!last || p.Lacks == first.Short)
}

// announces reports whether the length in the RETH of a WRITE fits its opcode (9.7.4.1.6).
func announces(p *Packet) bool {
	switch p.Op {
	case packet.WriteOnly, packet.WriteOnlyImm:
		return p.Count*MTU-p.Short == MTU-p.Lacks
	case packet.WriteFirst:
		return p.Count >= 2
	default:
		return true
	}
}

// fits reports whether the payload length fits its place in the message: FIRST and MIDDLE fill the path MTU, LAST has
// at least one byte (9.7.4.1.6).
func (p *Packet) fits() bool {
	switch {
	case !p.payload():
		return p.Lacks == 0
	case !p.Op.Ends():
		return p.Lacks == 0
	case p.Op.Starts():
		return p.Lacks >= 0 && p.Lacks <= MTU
	default:
		return p.Lacks >= 0 && p.Lacks < MTU
	}
}

// own reports whether p is the first request seen at its PSN.
func (r *requester) own(p *Packet) bool { return r.x.contents.at(p.PSN) == p || r.same(p) }

// firstOfWrite returns the packet that announced the length of the WRITE that p belongs to; nil if it was not seen.
func (r *requester) firstOfWrite(p *Packet) *Packet {
	if p.Op.Verb() != packet.VerbWrite {
		return nil
	}
	for psn := p.PSN - 1; ; psn-- {
		q := r.x.contents.at(psn)
		if q == nil || q.Op.Verb() != packet.VerbWrite || q.Op.Ends() {
			return nil
		}
		if q.Op.Starts() {
			return q
		}
	}
}

// same reports whether p repeats the request of its PSN: identical, or the rest of a READ from p's PSN on (9.7.2;
// 9.4.4: a repeated READ requests exactly the part that is missing).
func (r *requester) same(p *Packet) bool {
	first := r.x.contents.at(p.PSN)
	if first == nil {
		return true // its first transmission was not seen
	}
	if first.Op != p.Op {
		return false
	}
	if p.Op == packet.ReadRequest {
		skipped := p.PSN - first.PSN
		return p.PSN+p.packets() == first.PSN+first.packets() && p.lacksAtEnd() == first.lacksAtEnd() &&
			p.VA == first.VA+uint64(skipped)*MTU
	}
	return first.PSN == p.PSN && (p.Op.Headers()&packet.HasRETH == 0 || first.Count == p.Count &&
		first.Short == p.Short) && first.VA == p.VA &&
		first.Lacks == p.Lacks
}

// lacksAtEnd returns how many bytes less than the path MTU the last response to a READ has.
func (p *Packet) lacksAtEnd() int {
	if p.Count == 0 {
		return MTU
	}
	return p.Short
}

// receive adds what follows if the requester receives p; s has counted it.
func (r *requester) receive(s requesterState, p *Packet, add func(requesterState)) {
	psn := int32(p.PSN)
	switch {
	case s.failed || p.request():
		add(s)
	case p.Op == packet.Acknowledge:
		r.acknowledge(s, psn, p.Syndrome, add)
	case p.Op.IsReadResponse(), p.Op == packet.AtomicAcknowledge:
		r.response(s, p, add)
	default:
		add(s)
	}
}

func (r *requester) acknowledge(s requesterState, psn int32, syndrome packet.Syndrome, add func(requesterState)) {
	switch {
	case psn < s.una || psn >= s.next:
		if psn == s.next && s.una < s.next && !syndrome.IsAck() && !fatal(syndrome) {
			r.acknowledged(s, psn-1, add) // nothing to repeat there, but it acknowledges what is before
		}
		add(s) // a ghost
		if psn >= s.next {
			r.unasked(s, add)
		} else if fatal(syndrome) {
			s.failed = true
			add(s)
		}
	case syndrome.IsAck():
		r.acknowledged(s, psn, add)
	case syndrome.IsRNR():
		r.acknowledged(s, psn-1, func(n requesterState) {
			if n.una == psn {
				if charged := n; n.rnr && r.x.view.RNRRetry >= 0 { // the second one may cost another retry
					charged.rnrs++
					add(charged)
				}
				n.rnr, n.nak, n.implied = true, false, false
				if r.x.timed {
					n.ready = n.now + packet.RNRTimer(syndrome.TimerCode())
				}
			}
			add(n)
		})
	case syndrome == packet.SyndromeNakSequence:
		r.acknowledged(s, psn-1, func(n requesterState) {
			if n.una == psn {
				n.nak = true
			}
			add(n)
		})
	default:
		// An unanswered READ or atomic before psn makes it an implied NAK for that (9.7.6.1.1).
		r.acknowledged(s, psn-1, func(n requesterState) {
			if n.una < psn {
				add(n)
			}
		})
		s.failed = true // 9.9.2.4: a fatal NAK ends the connection
		add(s)
	}
}

// unasked adds what a requester may do with an answer to what it has not sent, other than drop it. The standard leaves
// that open: the responder is at fault.
func (r *requester) unasked(s requesterState, add func(requesterState)) {
	n := s
	n.failed = true
	add(n)
	n = s
	n.implied = true
	add(n)
	if s.una < s.next {
		r.acknowledged(s, s.next-1, add)
	}
}

// acknowledged adds what follows when everything through psn is acknowledged. An unanswered READ or atomic stops it
// there and is an implied NAK (9.7.5.1.2, 9.7.6.1.1).
func (r *requester) acknowledged(s requesterState, psn int32, add func(requesterState)) {
	for p := s.una; p <= psn; p++ {
		explicit, known := r.x.contents.explicit(int(p))
		if explicit || !known {
			n := r.advance(s, p)
			n.implied = true
			add(n)
			if known {
				return
			}
		}
	}
	r.advanced(s, psn+1, add)
}

// advanced adds the state after progress to una. A restart that a NAK or the timer caused before may still follow; it
// starts at the oldest PSN by then.
func (r *requester) advanced(s requesterState, una int32, add func(requesterState)) {
	n := r.advance(s, una)
	add(n)
	if n.una == s.una || n.una == n.next {
		return
	}
	if !s.rnr && !s.nak && !s.implied {
		if r.x.view.TimeoutNS == 0 || s.i == 0 {
			return // a timer that may be anything explains it, too
		}
		expired, h := s.timer+r.x.view.TimeoutNS, r.x.view.HostDelayNS
		if h > 0 && r.x.latest(s.i-1) < expired {
			return
		}
		n.now = max(n.now, expired)
		n.timer = n.now
	}
	n.implied = true
	add(n)
}

// advance moves una.
func (r *requester) advance(s requesterState, una int32) requesterState {
	if una <= s.una {
		return s
	}
	s.una, s.cur = una, max(s.cur, una)
	s.retries, s.rnrs = 0, 0
	s.nak, s.implied, s.rnr, s.resent, s.ready = false, false, false, false, 0
	if r.x.timed {
		s.timer = s.now
	}
	return s
}

// response takes a READ response or atomic ACK.
func (r *requester) response(s requesterState, p *Packet, add func(requesterState)) {
	psn := int32(p.PSN)
	if psn < s.una || psn >= s.next {
		add(s)
		if psn >= s.next {
			r.unasked(s, add)
		}
		return
	}
	first := r.x.contents.at(p.PSN)
	fits := first == nil || first.Op == packet.ReadRequest && p.Op.IsReadResponse() ||
		first.Op.Verb() == packet.VerbAtomic && p.Op == packet.AtomicAcknowledge
	if !fits || !r.expected(first, p) { // not what was requested: dropped, fatal, an implied NAK, or accepted
		add(s)
		n := s
		n.failed = true
		add(n)
		r.acknowledged(s, psn-1, func(n requesterState) {
			n.implied = true
			add(n)
		})
	}
	r.acknowledged(s, psn-1, func(n requesterState) {
		if n.una == psn {
			r.advanced(n, psn+1, add)
			return
		}
		add(n)
	})
}

// expected reports whether the opcode of a READ response fits its place; otherwise the requester may also drop the
// response.
func (r *requester) expected(first, p *Packet) bool {
	if first == nil || first.Op != packet.ReadRequest {
		return true
	}
	last := p.PSN == first.PSN+first.packets()-1
	lacks := 0
	if last {
		lacks = first.lacksAtEnd()
	}
	return p.Lacks == lacks && p.Op.Ends() == last && (p.PSN != first.PSN || p.Op.Starts())
}

// stepUnseen adds what follows from one frame that the tap missed.
func (r *requester) stepUnseen(s requesterState, add func(requesterState)) {
	s.unseen++
	r.sendUnseen(s, add)
	for psn := s.una; psn < s.next; psn++ {
		r.acknowledge(s, psn, packet.SyndromeAck, add)
		r.acknowledge(s, psn, packet.SyndromeNakSequence, add)
		r.acknowledge(s, psn, packet.SyndromeRNR|1, add)
		if explicit, known := r.x.contents.explicit(int(psn)); explicit || !known {
			r.acknowledged(s, psn-1, func(n requesterState) {
				if n.una == psn {
					n = r.advance(n, psn+1)
				}
				add(n)
			})
		}
	}
	s.failed = true
	add(s)
}

func (r *requester) sendUnseen(s requesterState, add func(requesterState)) {
	if s.cur == s.next {
		r.newUnseen(s, add)
	} else {
		r.repeatUnseen(s, s.cur, add)
	}
	if s.una < s.next {
		if n, ok := r.restart(s); ok {
			r.repeatUnseen(n, n.una, add)
		}
	}
}

// newUnseen adds an unseen first transmission of a request, of any length if nothing is known of it.
func (r *requester) newUnseen(s requesterState, add func(requesterState)) {
	c := &r.x.contents
	if s.una == s.next && r.x.timed {
		s.timer = s.now
	}
	if p := c.at(int(s.next)); p != nil {
		if p.PSN == int(s.next) && r.follows(p) {
			s.cur += int32(p.packets())
			s.next = s.cur
			add(s)
		}
		return
	}
	end := c.base + len(c.of)
	for psn := int(s.next) + 1; psn <= end+1; psn++ {
		n := s
		n.cur, n.next = int32(psn), int32(psn)
		add(n)
		if c.at(psn) != nil {
			break
		}
	}
}

// repeatUnseen is a repetition at psn.
func (r *requester) repeatUnseen(s requesterState, psn int32, add func(requesterState)) {
	end := psn + 1
	if p := r.x.contents.at(int(psn)); p != nil {
		end = int32(p.PSN + p.packets())
	}
	s.cur = min(end, s.next)
	if psn == s.una {
		s.resent, s.rnr = true, false
		if r.x.timed {
			s.timer = s.now
		}
	}
	add(s)
}
