package observer

import "candela.dev/candela/packet"

// An obligation is the response that a responder must send before anything else.
type obligation uint8

const (
	owesNothing obligation = iota
	owesSequenceNak
	owesRNRNak
	owesFatalNak
	owesAtomicAck
	owesReadResponses
)

// A stretch says which message has begun and not ended.
type stretch uint8

const (
	betweenMessages stretch = iota
	inSend
	inWrite
	inSomething // not known
)

// A receiver is a state of a responder (IBTA volume 1, 9.7.4, 9.7.5 and 9.7.7). It serves one request after the other.
// A pipelined responder looks like one that serves each request a little later.
type receiver struct {
	expect int64 // PSN of the next request to execute
	// If it owes READ responses: the PSN of the next one, of the first one, and the one after the last.
	at, first, end int64
	// the highest PSN whose acknowledgement is due, plus one, or none; kept where obligations are judged
	acks      int64
	duplicate int64 // PSN of the latest request if it repeats a SEND or WRITE and was not answered, or none
	msn, said int64 // messages completed; the highest MSN that it has sent
	tail      int32 // bytes of the last packet of the open WRITE, or unknownTail
	readTail  int32 // bytes of the last READ response that it owes, or unknownTail
	rest      int32 // packets that the open WRITE lacks; negative: not known
	owes      obligation
	message   stretch
	silent    bool // a NAK is out: requests after the missing one are dropped
	failed    bool // the queue pair is in error
	anyMSN    bool // msn is not known
	replay    bool // what it owes answers a duplicate
	// pulled is the index, plus one, of a frame that was served before earlier ones; 0: none.
	pulled int64
}

const none int64 = -1 << 62

type receiverNode = node[receiver]
type receiverStep = step[receiver]

// responder is the machine of a responder.
type responder struct{ x *session }

func (p *responder) mine(f *frame) bool { return f.back }

// mayPull reports whether f may be served before earlier frames: a repeated READ or atomic may be answered before
// earlier requests with later PSNs, since responses are in order of PSN. Only one is considered at a time.
func (p *responder) mayPull(n receiverNode, f *frame, k int64) bool {
	s := &n.state
	return k > n.in && s.owes == owesNothing && !s.failed && s.pulled <= n.in && demands(f.op) && f.end <= s.expect &&
		(f.psn >= 0 || p.x.midway) // what comes from before the connection repeats nothing
}

func (p *responder) pull(n *receiverNode, k int64) { n.state.pulled = k + 1 }

func (p *responder) wasPulled(n receiverNode, k int64) bool { return n.state.pulled == k+1 }

func (p *responder) held(n receiverNode, k int64) bool { return k < n.state.pulled-1 }

func (p *responder) inError(n receiverNode) bool { return n.state.failed }

func (p *responder) settled(n receiverNode) bool {
	return n.state.failed || n.state.owes == owesNothing && n.state.acks == none
}

// send answers.
func (p *responder) send(n receiverNode, f *frame, add func(receiverNode)) reason {
	s := &n.state
	if s.failed {
		return reasonAfterError
	}
	if why := p.place(s, f); why != reasonNone {
		return why
	}
	if f.op.Headers()&packet.HasAETH != 0 && !p.counts(&n, f) {
		return reasonMSN
	}
	switch {
	case f.op == packet.Acknowledge && (f.syndrome.IsRNR() || f.syndrome == packet.SyndromeNakSequence):
		s.owes, s.silent = owesNothing, true
		s.acknowledge(f.psn - 1)
	case f.op == packet.Acknowledge && !f.syndrome.IsAck():
		s.failed = true
	default:
		s.respond(f.psn)
	}
	add(n)
	return reasonNone
}

// place returns why the responder cannot send f in state s, if it cannot.
func (p *responder) place(s *receiver, f *frame) reason {
	switch {
	case f.op.IsReadResponse():
		switch {
		case s.owes != owesReadResponses:
			return reasonReadUnexpected
		case f.psn != s.at:
			return reasonReadOrder
		case !p.fits(s, f):
			return reasonReadOpcode
		case !p.brings(s, f):
			return reasonReadLength
		case f.op != packet.ReadResponseMiddle && !f.syndrome.IsAck():
			return reasonSyndrome
		}
	case f.op == packet.AtomicAcknowledge:
		switch {
		case s.owes != owesAtomicAck || f.psn != s.at:
			return reasonAtomicUnexpected
		case f.va != p.x.result(f.psn, f.va):
			return reasonAtomicResult
		case !f.syndrome.IsAck():
			return reasonSyndrome
		}
	case f.op != packet.Acknowledge:
		return reasonSyndrome
	case f.syndrome.IsAck():
		return s.mayAcknowledge(f.psn)
	case f.syndrome.IsRNR():
		if s.owes != owesRNRNak || f.psn != s.expect {
			return reasonRNR
		}
	case f.syndrome == packet.SyndromeNakSequence:
		if s.owes != owesSequenceNak || f.psn != s.expect {
			return p.badNak(s, f)
		}
	default:
		if s.owes != owesFatalNak && s.owes != owesReadResponses || f.psn != s.at {
			return reasonFatal
		}
	}
	return reasonNone
}

// badNak says what is wrong with a sequence NAK.
func (p *responder) badNak(s *receiver, f *frame) reason {
	switch {
	case f.psn < s.expect:
		return reasonNakDuplicate
	case s.silent && f.psn == s.expect:
		return reasonNakRepeat
	}
	return reasonNak
}

// mayAcknowledge returns why an ACK cannot carry psn. Everything up to psn must be executed (9.7.5.1.1); the answer to
// a duplicate carries its PSN or a later one (9.7.5.1.3).
func (s *receiver) mayAcknowledge(psn int64) reason {
	latest := s.expect - 1
	switch {
	case s.owes != owesNothing:
		return reasonOwes
	case psn > latest:
		return reasonBeyond
	case psn < latest && (s.duplicate == none || psn < s.duplicate):
		return reasonDecreasing
	case !s.anyMSN && s.expect == 0:
		return reasonBeyond
	}
	return reasonNone
}

// counts reports whether the responder can have had the MSN of f (9.7.7.1), and keeps it. It counts at least the
// messages that f answers (the first of several READ responses need not count the READ), at most those that can be
// complete, and never fewer than before.
func (p *responder) counts(n *receiverNode, f *frame) bool {
	s := &n.state
	if s.anyMSN {
		s.msn, s.said, s.anyMSN = int64(f.msn), int64(f.msn), false
	}
	msn := s.msn + int64(int32((f.msn-uint32(s.msn))<<8)>>8) // 24 bits
	least := max(p.least(s, f), s.said)
	if s.replay || s.owes == owesNothing && s.duplicate != none && f.psn < s.expect-1 {
		least = min(least, p.firstCount(s, f))
	}
	if msn < least || msn > s.msn && msn > s.msn+p.ahead(n, f) {
		return false
	}
	s.said = max(s.said, msn)
	return true
}

// least returns the smallest MSN that f may have if it is the first answer.
func (p *responder) least(s *receiver, f *frame) int64 {
	if f.op == packet.ReadResponseFirst && s.end == s.expect {
		return s.msn - 1
	}
	return s.msn
}

// firstCount returns how many messages may have been complete when the response that f repeats was first sent. The
// answer to a duplicate may carry that MSN.
func (p *responder) firstCount(s *receiver, f *frame) int64 {
	count := s.msn - p.completedAfter(s, f.psn)
	if f.op == packet.ReadResponseFirst {
		count = min(count, s.msn-p.completedAfter(s, s.end-1)-1)
	}
	return count
}

// completedAfter returns the most messages that may be complete after the one that psn belongs to.
func (p *responder) completedAfter(s *receiver, psn int64) int64 {
	n := int64(0)
	for q := psn + 1; q < s.expect; q++ {
		p.x.credit--
		x := p.x.requests.extent(q)
		switch {
		case x == nil:
			n++
			continue
		case x.request.op.Ends() && x.request.psn > psn && x.from == x.request.psn && q == x.from:
			n++
		}
		q = x.to - 1
	}
	return n
}

// ahead returns how many more messages the responder may have completed before it sends f.
func (p *responder) ahead(n *receiverNode, f *frame) int64 {
	if n.state.owes == owesFatalNak || n.state.owes == owesRNRNak {
		return 0 // nothing is executed after it
	}
	later := n.state
	for k := max(n.in, p.x.base); k < p.x.end(); k++ {
		g := p.x.frame(k)
		if g.id == f.id {
			break
		}
		if g.back || g.lost || g.psn != later.expect || !later.takes(g) || p.endsLater(g, f, k) {
			continue
		}
		later = p.execute(later, g)
	}
	return later.msn - n.state.msn
}

// endsLater reports whether a different request comes at the PSN of g before f, and ends a message, which g does not.
func (p *responder) endsLater(g, f *frame, k int64) bool {
	if g.op.Ends() || p.x.repeated <= k {
		return false
	}
	for k++; k < p.x.end() && p.x.frame(k).id != f.id; k++ {
		if h := p.x.frame(k); !h.back && !h.lost && h.psn == g.psn && h.op.Ends() {
			return true
		}
	}
	return false
}

// respond settles what a response up to psn settles: it acknowledges everything before psn (9.7.5.1.2).
func (s *receiver) respond(psn int64) {
	switch s.owes {
	case owesReadResponses:
		if s.at++; s.at == s.end {
			s.done()
		}
	case owesAtomicAck:
		s.done()
	default:
		s.duplicate = none
	}
	s.acknowledge(psn)
}

func (s *receiver) done() {
	s.owes, s.at, s.first, s.end, s.readTail, s.replay = owesNothing, 0, 0, 0, 0, false
}

func (s *receiver) acknowledge(psn int64) {
	if s.acks <= psn+1 {
		s.acks = none
	}
}

// fits reports whether the opcode of a READ response fits its place among these responses or those to the first
// request.
func (p *responder) fits(s *receiver, f *frame) bool {
	if f.op == readOpcode(s.first, s.end, f.psn) {
		return true
	}
	first := p.x.requests.at(f.psn)
	return first != nil && s.first != first.psn && f.op == readOpcode(first.psn, first.end, f.psn)
}

// brings reports whether a READ response has the length that its place requires.
func (p *responder) brings(s *receiver, f *frame) bool {
	switch full := p.x.full; {
	case full == 0:
		return true
	case f.psn != s.end-1:
		return f.payload == full
	case s.readTail != unknownTail:
		return f.payload == s.readTail
	default:
		return f.payload <= full && (f.payload > 0 || s.end == s.first+1)
	}
}

func readOpcode(first, end, psn int64) packet.Opcode {
	switch {
	case end == first+1:
		return packet.ReadResponseOnly
	case psn == first:
		return packet.ReadResponseFirst
	case psn == end-1:
		return packet.ReadResponseLast
	}
	return packet.ReadResponseMiddle
}

// ignores reports whether a frame may be dropped: anything while a NAK is unanswered, a duplicate that repeats nothing
// or whose answer left after it had passed, and an atomic whose result may be gone because a later READ or atomic was
// executed (9.4.5).
func (p *responder) ignores(st *receiverStep, n receiverNode, f *frame) bool {
	s := &n.state
	switch {
	case s.failed:
		return true
	case s.owes != owesNothing && s.owes != owesSequenceNak:
		return s.owes == owesAtomicAck && f.atomic() && f.psn == s.at // one answer serves both
	case f.psn == s.expect:
		return false
	case f.psn > s.expect:
		return s.silent
	}
	first := p.x.requests.at(f.psn)
	return f.psn < 0 || f.op == packet.ReadRequest && p.exceeds(s, first, f) || first != nil && first.op != f.op &&
		(demands(f.op) || demands(first.op)) ||
		f.atomic() && p.x.requests.demandsBetween(f.end, s.expect) || demands(f.op) && s.owes == owesNothing &&
		p.answeredSince(st, &n, f)
}

// answeredSince reports whether the answer to f, the latest frame that n has received, left after f had passed: f may
// have arrived while that answer was due.
func (p *responder) answeredSince(st *receiverStep, n *receiverNode, f *frame) bool {
	end := f.end
	for k := st.limit - 1; k >= n.in; k-- {
		if g := p.x.frame(k); g.back && g.sent && g.psn == end-1 && answering(g) {
			end--
		}
	}
	return end <= f.psn
}

// coveredSince reports whether a response that acknowledges psn left after the latest frame that n has received had
// passed.
func (p *responder) coveredSince(st *receiverStep, n *receiverNode, psn int64) bool {
	for k := st.limit - 1; k >= n.in; k-- {
		if g := p.x.frame(k); g.back && g.sent &&
			(g.psn > psn || g.psn == psn && (g.op != packet.Acknowledge || g.syndrome.IsAck())) {
			return true
		}
	}
	return false
}

// receive takes a request.
func (p *responder) receive(st *receiverStep, n receiverNode, f *frame) {
	s := &n.state
	switch {
	case s.failed:
	case s.owes != owesNothing && s.owes != owesSequenceNak:
		p.absorb(st, n, f)
	case f.psn == s.expect && s.owes == owesSequenceNak:
		// The NAK leaves first: outOfOrder has seen whether it need not.
	case f.psn == s.expect:
		p.inOrder(st, n, f)
	case f.psn > s.expect:
		p.outOfOrder(st, n)
	default:
		p.duplicate(st, n, f)
	}
}

// absorb handles a READ that is repeated while it is being answered. One answer serves both if it has all that the
// repetition asks for.
func (p *responder) absorb(st *receiverStep, n receiverNode, f *frame) {
	s := &n.state
	if s.owes == owesReadResponses && f.op == packet.ReadRequest && f.psn <= s.at && f.psn >= s.first && f.end == s.end &&
		f.tail == s.readTail {
		s.first, s.at = f.psn, f.psn
		st.add(n)
	}
}

// outOfOrder handles a request after a gap: it is NAKed once (9.7.4.1.1, 9.7.5.2). A missing NAK looks the same as a
// lost request, which is possible after every tap.
func (p *responder) outOfOrder(st *receiverStep, n receiverNode) {
	s := &n.state
	if s.silent || !p.x.exact && (st.goal == nil || st.goal.syndrome != packet.SyndromeNakSequence ||
		st.goal.psn != s.expect) {
		return
	}
	s.silent, s.duplicate = true, none
	if p.x.exact && p.repaired(st, &n) {
		st.add(n)
	}
	s.owes, s.at = owesSequenceNak, 0
	st.add(n)
}

// repaired reports whether the missing request may arrive before the NAK for the latest frame that n has received must
// leave.
func (p *responder) repaired(st *receiverStep, n *receiverNode) bool {
	due := p.x.latest(p.x.frame(n.in - 1))
	for k := n.in; k < st.limit; k++ {
		f := p.x.frame(k)
		if p.x.limits.HostDelayNS > 0 && f.timeNS > due+p.x.limits.HostDelayNS {
			return false
		}
		if !f.back && !f.lost && f.psn == n.state.expect {
			return true
		}
	}
	return false
}

// inOrder handles the expected request: it is executed, or refused temporarily (9.7.5.2.8) or for good.
func (p *responder) inOrder(st *receiverStep, n receiverNode, f *frame) {
	n.state.duplicate = none
	if n.state.owes == owesSequenceNak {
		n.state.owes = owesNothing // an unseen repair came before the NAK had left
	}
	p.refuse(st, n)
	if n.state.takes(f) {
		n.state = p.execute(n.state, f)
		st.add(n)
	} else if p.x.exact && !st.goal.fatalAt(f.psn) {
		n.state.owes, n.state.at = owesFatalNak, f.psn
		st.add(n)
	}
}

// refuse adds the refusals of the expected request that can lead to the goal.
func (p *responder) refuse(st *receiverStep, n receiverNode) {
	psn, hidden := n.state.expect, st.left(&n) > 0
	if hidden || st.goal.fatalAt(psn) {
		m := n
		m.state.owes, m.state.at = owesFatalNak, psn
		st.add(m)
	}
	if hidden || st.goal.rnrAt(psn) {
		m := n
		m.state.owes, m.state.silent = owesRNRNak, true
		st.add(m)
	}
}

// takes reports whether f continues its message: the opcode follows, and a WRITE has the announced length (9.7.4.1.2,
// 9.7.4.1.6).
func (s *receiver) takes(f *frame) bool {
	if f.misfit || f.foreign {
		return false
	}
	switch s.message {
	case betweenMessages:
		return f.op.Starts()
	case inSend:
		return !f.op.Starts() && f.op.Verb() == packet.VerbSend
	case inWrite:
		return !f.op.Starts() && f.op.Verb() == packet.VerbWrite && (s.rest < 0 || f.op.Ends() == (s.rest == 1) &&
			(s.rest != 1 || s.tail == unknownTail || f.payload == s.tail))
	case inSomething:
	}
	return true
}

// execute returns the state after a valid request.
func (p *responder) execute(s receiver, f *frame) receiver {
	s.silent, s.expect = false, f.end
	if f.op.Ends() {
		s.msn++ // 9.7.7.1
	}
	if f.ackReq {
		s.due(p, f.psn+1)
	}
	switch {
	case f.op == packet.ReadRequest:
		s.owes, s.first, s.at, s.end, s.acks, s.readTail = owesReadResponses, f.psn, f.psn, f.end, none, f.tail
	case f.op.Verb() == packet.VerbAtomic:
		s.owes, s.at, s.acks = owesAtomicAck, f.psn, none
	case f.op.Ends():
		s.message, s.rest, s.tail = betweenMessages, 0, 0
	case f.op.Verb() == packet.VerbSend:
		s.message, s.rest = inSend, 0
	case f.op.Starts():
		s.message, s.rest, s.tail = inWrite, f.count-1, f.tail
	case s.rest > 0:
		s.message, s.rest = inWrite, s.rest-1
	default:
		s.message, s.rest = inWrite, -1
	}
	return s
}

// due keeps that an acknowledgement is due. Needed only where the end of the trace is judged.
func (s *receiver) due(p *responder, through int64) {
	if p.x.limits.AtRest {
		s.acks = max(s.acks, through)
	}
}

// duplicate handles a request that was executed before: it is answered as before (9.7.5.1.3, 9.4.4, 9.4.5).
func (p *responder) duplicate(st *receiverStep, n receiverNode, f *frame) {
	s := &n.state
	first := p.x.requests.at(f.psn)
	if f.psn < 0 && !p.x.midway {
		p.nonsense(st, n, f.psn) // from before the connection
	}
	switch {
	case f.op == packet.ReadRequest:
		if p.exceeds(s, first, f) {
			p.nonsense(st, n, f.psn)
		}
		if s.owes == owesNothing {
			s.owes, s.first, s.at, s.end, s.readTail, s.replay = owesReadResponses, f.psn, f.psn, f.end, f.tail, true
			st.add(n)
		}
	case f.op.Verb() == packet.VerbAtomic:
		if first != nil && first.op != f.op {
			p.nonsense(st, n, f.psn)
			if !first.atomic() {
				return // no result is kept there
			}
		}
		if s.owes == owesNothing {
			s.owes, s.at, s.replay = owesAtomicAck, f.psn, true
			st.add(n)
		}
	default:
		s.duplicate = f.psn
		if f.ackReq {
			if p.x.exact && p.coveredSince(st, &n, f.psn) {
				st.add(n)
			}
			s.due(p, f.psn+1)
		}
		st.add(n)
		if first != nil && demands(first.op) {
			p.nonsense(st, n, f.psn)
		}
	}
}

// exceeds reports whether f, a repeated READ, requests more than the first request at its PSN.
func (p *responder) exceeds(s *receiver, first, f *frame) bool {
	return f.end > s.expect || first != nil &&
		(first.op != packet.ReadRequest || f.end > first.end || f.end == first.end && f.tail > first.tail)
}

// nonsense takes a duplicate that repeats nothing: dropped, or refused.
func (p *responder) nonsense(st *receiverStep, n receiverNode, psn int64) {
	if n.state.owes == owesNothing && (st.left(&n) > 0 || st.goal.fatalAt(psn)) {
		n.state.owes, n.state.at = owesFatalNak, psn
		st.add(n)
	}
}

// advance follows a response that needs nothing but requests received in order.
func (p *responder) advance(n *receiverNode, f *frame, at int64) bool {
	m := *n
	s := &m.state
	if s.failed || f.damaged || p.x.repeated >= m.in {
		return false
	}
	if s.owes == owesNothing && (f.op == packet.Acknowledge && f.syndrome.IsAck() || answering(f)) {
		for k := m.in; k < at && s.owes == owesNothing; k++ {
			if f.op == packet.Acknowledge && s.expect > f.psn {
				break
			}
			g := p.x.frame(k)
			if g.back || g.lost {
				continue
			}
			if g.psn != s.expect || !s.takes(g) {
				if p.x.exact {
					return false
				}
				continue
			}
			s.duplicate = none
			*s = p.execute(*s, g)
			m.in = k + 1
		}
	}
	done := false
	if p.send(m, f, func(after receiverNode) { *n, done = after, true }) != reasonNone {
		return false
	}
	return done
}

// answering reports whether f answers a READ or atomic request.
func answering(f *frame) bool { return f.op.IsReadResponse() || f.op == packet.AtomicAcknowledge }
