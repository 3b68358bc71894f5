package oracle

import "candela.dev/candela/packet"

// obligation is the one response that a responder must send before anything else.
type obligation uint8

const (
	nothing obligation = iota
	sequenceNak
	rnrNak
	fatalNak
	atomicAck
	readResponses
)

// responderState is a state of a responder that follows the standard. It serves one request after the other: a
// pipelined responder looks like one that serves each a little later. PSNs are relative.
type responderState struct {
	i, j   int16 // frames received and sent
	unseen int8
	failed bool // the queue pair is in the error state
	silent bool // a NAK was sent: requests after the expected one are dropped silently (9.7.5.2)
	owes   obligation
	at     int32 // PSN of what it owes; of READ responses the next
	end    int32 // READ responses: the PSN after the last
	start  int32 // READ responses: the first
	lacks  int16 // READ responses: bytes that the last lacks; negative: not known
	expect int32 // PSN of the next request to execute
	msn    int32
	// acks is the highest PSN whose acknowledgement was requested and not sent, plus one; none: nothing.
	acks int32
	// duplicate is the PSN of the latest request if that is a duplicate SEND or WRITE without response; else none.
	duplicate int32
	mid       message
	rest      int16 // packets of a WRITE that are still to come; negative: not known
	short     int16 // bytes that the last of them lacks
	newest    int32 // PSN of the latest READ or atomic executed, none: nothing
	replay    bool  // what it owes answers a duplicate
	said      int32 // the highest MSN sent
	// pulled are the frames from i on that were served before earlier ones: the lowest bit is frame i.
	pulled uint64
}

const none int32 = -1 << 30

// anyMSN is the MSN of a responder whose past is not known.
const anyMSN int32 = -1 << 30

// message is what kind of message has begun and not ended.
type message uint8

const (
	between message = iota
	inSend
	inWrite
	inAny // not known
)

type responder struct {
	x *experience
	// results are what atomics brought back first, by PSN.
	results map[int]uint64
}

func newResponder(x *experience) *responder {
	r := &responder{x: x}
	for _, e := range x.out {
		if e.Op == packet.AtomicAcknowledge {
			if r.results == nil {
				r.results = map[int]uint64{}
			}
			if _, ok := r.results[e.PSN]; !ok {
				r.results[e.PSN] = e.VA
			}
		}
	}
	return r
}

func (r *responder) initial(add func(responderState)) {
	fresh := responderState{acks: none, duplicate: none, newest: none}
	if !r.x.view.MidStream {
		add(fresh)
		return
	}
	// The first frames may answer requests before the trace began.
	low, high := r.x.contents.base+1, r.x.contents.base+len(r.x.contents.of)
	for j := 0; j <= len(r.x.out); j++ {
		for expect := low; expect <= high; expect++ {
			for _, silent := range []bool{false, true} {
				s := fresh
				s.j, s.expect, s.msn, s.silent, s.mid, s.rest = int16(j), int32(expect), anyMSN, silent, inAny, -1
				add(s)
			}
		}
	}
}

func (r *responder) progress(s responderState) (i, j int) { return int(s.i), int(s.j) }

// settled reports whether a responder may be at rest: it owes nothing.
func (r *responder) settled(s responderState) bool {
	return s.failed || s.owes == nothing && s.acks == none
}

func (r *responder) failed(s responderState, _ bool) bool { return s.failed }

func (r *responder) steps(s responderState, add func(responderState)) {
	x := r.x
	if int(s.i) < len(x.in) {
		n := s
		n.i++
		n.pulled >>= 1
		switch {
		case s.pulled&1 != 0:
			add(n)
		case x.mayReceive(s.i, s.j):
			r.receive(n, x.in[s.i].Packet, add)
		}
		if x.view.Plain { // lost after the tap
			add(n)
		}
		r.pull(s, add)
	}
	if int(s.j) < len(x.out) {
		n := s
		n.j++
		r.send(n, x.out[s.j].Packet, add)
	}
	if int(s.unseen) < x.budget && !s.failed {
		s.unseen++
		r.sendUnseen(s, add)
		r.receiveUnseen(s, add)
	}
}

// send adds what follows if the responder sends p; s has counted it.
func (r *responder) send(s responderState, p *Packet, add func(responderState)) {
	if s.failed || p.Op.Headers()&packet.HasAETH != 0 && !r.counts(&s, p) {
		return // in the error state nothing is sent (10.3.1)
	}
	psn := int32(p.PSN)
	switch {
	case p.Op.IsReadResponse():
		if s.owes != readResponses || psn != s.at || !r.fitsPlace(s, p) || !s.brings(p) ||
			p.Op != packet.ReadResponseMiddle && !p.Syndrome.IsAck() {
			return
		}
		r.responded(&s, psn)
		add(s)
	case p.Op == packet.AtomicAcknowledge:
		if s.owes != atomicAck || psn != s.at || p.VA != r.results[p.PSN] || !p.Syndrome.IsAck() {
			return
		}
		r.responded(&s, psn)
		add(s)
	case p.Op != packet.Acknowledge:
		return
	case p.Syndrome.IsAck():
		// 9.7.5.1.1: everything up to the PSN was executed. A duplicate may be answered with its own PSN or a later one
		// (9.7.5.1.3).
		latest := s.expect - 1
		if s.owes != nothing || psn > latest || psn < latest && (s.duplicate == none || psn < s.duplicate) || !s.began() {
			return
		}
		r.responded(&s, psn)
		add(s)
	case p.Syndrome.IsRNR(), p.Syndrome == packet.SyndromeNakSequence:
		want := sequenceNak
		if p.Syndrome.IsRNR() {
			want = rnrNak
		}
		if s.owes != want || psn != s.expect {
			return
		}
		s.owes, s.silent = nothing, true
		r.covered(&s, psn-1)
		add(s)
	default:
		if (s.owes == fatalNak || s.owes == readResponses) && psn == s.at {
			s.failed = true
			add(s)
		}
	}
}

// began reports whether the responder has executed anything that an ACK could name.
func (s *responderState) began() bool { return s.msn == anyMSN || s.expect > 0 }

// counts reports whether the responder can have had the MSN of a response when it sent it, and keeps it. It is the
// number of messages completed (9.7.7.1): at least those that the response answers. Later requests may be complete,
// too, since SENDs and WRITEs may pass a READ and the MSN may be filled in last. The first of several READ responses
// need not count the READ.
func (r *responder) counts(s *responderState, p *Packet) bool {
	msn := int32(p.MSN)
	if s.msn == anyMSN {
		s.msn = msn
	}
	least, first := s.msn, p.Op == packet.ReadResponseFirst
	if first && s.end == s.expect {
		least--
	}
	least = max(least, s.said)
	if s.replay || s.owes == nothing && s.duplicate != none && int32(p.PSN) < s.expect-1 {
		// The answer to a duplicate may carry the count of its first time.
		least = min(least, s.msn-r.completedAfter(s, int32(p.PSN)))
		if first {
			least = min(least, s.msn-r.completedAfter(s, s.end-1)-1)
		}
	}
	if msn < least || msn > s.msn && msn > s.msn+r.ahead(s) {
		return false
	}
	s.said = max(s.said, msn)
	return true
}

// completedAfter returns how many messages the responder may have completed after the one that psn belongs to.
func (r *responder) completedAfter(s *responderState, psn int32) int32 {
	n := int32(0)
	for p := psn + 1; p < s.expect; p++ {
		c := r.x.contents.at(int(p))
		if c == nil || c.Op.Ends() && c.PSN > int(psn) && c.PSN == int(p) {
			n++
		}
	}
	return n
}

// ahead returns how many more messages the responder may have completed when it sends its next frame.
func (r *responder) ahead(s *responderState) int32 {
	if s.owes == fatalNak || s.owes == rnrNak {
		return 0 // nothing after it is executed
	}
	later := *s
	for k := int(s.i); k < len(r.x.in) && r.x.mayReceive(int16(k), s.j-1); k++ {
		p := r.x.in[k].Packet
		if !p.request() || int32(p.PSN) != later.expect {
			continue
		}
		if !valid(later, p) {
			break
		}
		later = execute(later, p)
	}
	return later.msn - s.msn
}

// responded settles what a response up to psn settles. One response acknowledges all before it (9.7.5.1.2).
func (r *responder) responded(s *responderState, psn int32) {
	switch s.owes {
	case readResponses:
		if s.at++; s.at == s.end {
			s.done()
		}
	case atomicAck:
		s.done()
	default:
		s.duplicate = none
	}
	r.covered(s, psn)
}

// done clears fields that no longer matter, so that equal states compare equal.
func (s *responderState) done() {
	s.owes, s.at, s.end, s.start, s.lacks, s.replay = nothing, 0, 0, 0, 0, false
}

func (r *responder) covered(s *responderState, psn int32) {
	if s.acks <= psn+1 {
		s.acks = none
	}
}

// fitsPlace reports whether the opcode of a READ response fits its place in the request being answered, or in the
// request that this one repeats: the oracle does not judge the opcodes of replays.
func (r *responder) fitsPlace(s responderState, p *Packet) bool {
	if p.Op == placeOpcode(int(s.start), int(s.end), p.PSN) {
		return true
	}
	first := r.x.contents.at(p.PSN)
	return first != nil && s.end <= s.expect && int(s.start) != first.PSN &&
		p.Op == placeOpcode(first.PSN, first.PSN+first.packets(), p.PSN)
}

// brings reports whether a READ response has as many bytes as its place demands.
func (s *responderState) brings(p *Packet) bool {
	if int32(p.PSN) != s.end-1 {
		return p.Lacks == 0
	}
	return p.Lacks == int(s.lacks) || s.lacks < 0 && p.Lacks >= 0 && (p.Lacks < MTU || s.end == s.start+1)
}

func placeOpcode(start, end, psn int) packet.Opcode {
	switch {
	case end == start+1:
		return packet.ReadResponseOnly
	case psn == start:
		return packet.ReadResponseFirst
	case psn == end-1:
		return packet.ReadResponseLast
	default:
		return packet.ReadResponseMiddle
	}
}

// receive adds what follows if the responder receives p; s has counted it.
func (r *responder) receive(s responderState, p *Packet, add func(responderState)) {
	if s.failed || !p.request() {
		add(s)
		return
	}
	psn := int32(p.PSN)
	if s.owes != nothing && s.owes != sequenceNak {
		r.absorb(s, p, add)
		return // first things first
	}
	switch {
	case psn == s.expect && s.owes == sequenceNak:
		// The NAK should have left before: outOfOrder has looked whether it need not.
	case psn == s.expect:
		r.inOrder(s, p, add)
	case psn > s.expect:
		r.outOfOrder(s, p, add)
	default:
		r.duplicate(s, p, add)
	}
}

// pull serves a repeated READ or atomic before earlier requests with later PSNs: responses are in the order of PSNs.
// Those requests wait for their answers meanwhile.
func (r *responder) pull(s responderState, add func(responderState)) {
	x := r.x
	if s.failed || s.owes != nothing {
		return
	}
	for k := int(s.i) + 1; k < len(x.in) && k-int(s.i) < 64 && x.mayReceive(int16(k), s.j); k++ {
		p, bit := x.in[k].Packet, uint64(1)<<(k-int(s.i))
		if s.pulled&bit != 0 || !p.request() || !answersItself(p.Op) || int32(p.PSN+p.packets()) > s.expect {
			continue
		}
		if p.PSN < 0 && !x.view.MidStream {
			continue // from before the connection: it repeats nothing
		}
		n := s
		n.i, n.pulled = int16(k+1), s.pulled|bit
		r.duplicate(n, p, func(n responderState) {
			if n.owes != nothing { // else it makes no difference
				n.i = s.i
				add(n)
			}
		})
	}
}

// absorb handles the repetition of a READ or atomic whose answer is still due: one answer serves both if it has all
// that the repetition requests (9.7.5.1.3 wants the duplicate answered, not each copy of it).
func (r *responder) absorb(s responderState, p *Packet, add func(responderState)) {
	psn := int32(p.PSN)
	switch {
	case s.owes == atomicAck && psn == s.at && p.Op.Verb() == packet.VerbAtomic:
		add(s)
	case s.owes == readResponses && p.Op == packet.ReadRequest && psn <= s.at && psn >= s.start &&
		psn+int32(p.packets()) == s.end &&
		(s.lacks < 0 || p.lacksAtEnd() == int(s.lacks)):
		n := s
		n.start, n.at = psn, psn
		add(n)
	}
}

// outOfOrder handles a request after a gap, which is NACKed once (9.7.4.1.1, 9.7.5.2). A NAK that has not left when the
// missing request arrives need not leave.
func (r *responder) outOfOrder(s responderState, p *Packet, add func(responderState)) {
	if s.silent {
		add(s)
		return
	}
	s.silent, s.duplicate = true, none
	if r.repairedBeforeNext(s, p) {
		add(s)
	}
	s.owes, s.at = sequenceNak, 0
	add(s)
}

// repairedBeforeNext reports whether the expected request can have arrived before the next response left and, if host
// delays are bounded, before the NAK for p had to leave.
func (r *responder) repairedBeforeNext(s responderState, p *Packet) bool {
	for k := int(s.i); k < len(r.x.in) && r.x.mayReceive(int16(k), s.j); k++ {
		h := r.x.view.HostDelayNS
		if p != nil && h > 0 && r.x.in[k].TimeNS > p.TimeNS+2*h+r.x.view.ClockNS {
			return false
		}
		if int32(r.x.in[k].PSN) == s.expect && r.x.in[k].request() {
			return true
		}
	}
	return false
}

// nextIs reports whether the next frame from the responder, as far as the tap knows, is a NAK of this kind for psn.
func (r *responder) nextIs(s responderState, psn int32, kind func(packet.Syndrome) bool) bool {
	if int(s.unseen) < r.x.budget {
		return true
	}
	if int(s.j) == len(r.x.out) {
		return !r.x.view.Closed
	}
	p := r.x.out[s.j]
	return p.Op == packet.Acknowledge && kind(p.Syndrome) && int32(p.PSN) == psn
}

func fatal(s packet.Syndrome) bool { return s.IsNak() && s != packet.SyndromeNakSequence }

// inOrder handles the expected request: it is executed, or refused temporarily (RNR NAK, 9.7.5.2.8) or for good.
func (r *responder) inOrder(s responderState, p *Packet, add func(responderState)) {
	psn := int32(p.PSN)
	s.duplicate = none
	if s.owes == sequenceNak {
		s.owes = nothing // an unseen repair has come before the NAK had left
	}
	if r.nextIs(s, psn, fatal) {
		n := s
		n.owes, n.at = fatalNak, psn
		add(n)
	}
	if r.nextIs(s, psn, packet.Syndrome.IsRNR) {
		n := s
		n.owes, n.silent = rnrNak, true
		add(n)
	}
	if !valid(s, p) {
		if !r.nextIs(s, psn, fatal) {
			n := s
			n.owes, n.at = fatalNak, psn
			add(n)
		}
		return
	}
	add(execute(s, p))
}

// valid reports whether the opcode follows the one before, and whether a WRITE has the length that it announced
// (9.7.4.1.2,
// 9.7.4.1.6).
func valid(s responderState, p *Packet) bool {
	if !announces(p) || !p.fits() {
		return false
	}
	switch s.mid {
	case between:
		return p.Op.Starts()
	case inSend:
		return !p.Op.Starts() && p.Op.Verb() == packet.VerbSend
	case inWrite:
		return !p.Op.Starts() && p.Op.Verb() == packet.VerbWrite && (s.rest < 0 || p.Op.Ends() == (s.rest == 1) &&
			(s.rest > 1 || p.Lacks == int(s.short)))
	default:
		return true
	}
}

// execute returns the state after a valid request.
func execute(s responderState, p *Packet) responderState {
	psn := int32(p.PSN)
	s.silent = false
	s.expect = psn + int32(p.packets())
	if p.Op.Ends() && s.msn != anyMSN {
		s.msn++ // 9.7.7.1
	}
	if p.AckReq {
		s.acks = psn + 1
	}
	switch {
	case p.Op == packet.ReadRequest:
		s.owes, s.start, s.at, s.end, s.newest, s.lacks = readResponses, psn, psn, s.expect, psn, int16(p.lacksAtEnd())
		s.acks = none
	case p.Op.Verb() == packet.VerbAtomic:
		s.owes, s.at, s.newest = atomicAck, psn, psn
		s.acks = none
	case p.Op.Ends():
		s.mid, s.rest, s.short = between, 0, 0
	case p.Op.Verb() == packet.VerbSend:
		s.mid, s.rest = inSend, 0
	default:
		if p.Op.Starts() {
			s.rest, s.short = int16(p.Count-1), int16(p.Short)
		} else if s.rest > 0 {
			s.rest--
		} else {
			s.rest = -1
		}
		s.mid = inWrite
	}
	return s
}

// duplicate handles a duplicate request: it is not executed, but answered as before (9.7.5.1.3, 9.4.4, 9.4.5).
func (r *responder) duplicate(s responderState, p *Packet, add func(responderState)) {
	psn := int32(p.PSN)
	first := r.x.contents.at(p.PSN)
	if psn < 0 && !r.x.view.MidStream {
		r.nonsense(s, psn, add) // from before the connection
	}
	switch {
	case p.Op == packet.ReadRequest:
		beyond := first != nil && (first.Op != packet.ReadRequest || p.end() > first.end())
		if beyond || psn+int32(p.packets()) > s.expect {
			r.nonsense(s, psn, add)
		}
		if s.owes != nothing {
			return
		}
		if r.answeredSince(s, psn, psn+int32(p.packets())) {
			add(s)
		}
		s.owes, s.start, s.at, s.end, s.lacks, s.replay = readResponses, psn, psn, psn+int32(p.packets()),
			int16(p.lacksAtEnd()), true
		add(s)
	case p.Op.Verb() == packet.VerbAtomic:
		if first != nil && first.Op != p.Op {
			// Results are found by PSN; a responder may or may not compare the kind of atomic, too.
			r.nonsense(s, psn, add)
			if first.Op.Verb() != packet.VerbAtomic {
				return
			}
		}
		if s.newest > psn || r.answeredSince(s, psn, psn+1) {
			add(s) // its result may no longer be kept
		}
		if s.owes != nothing {
			return
		}
		s.owes, s.at, s.replay = atomicAck, psn, true
		add(s)
	default:
		s.duplicate = psn
		if p.AckReq {
			if r.coveredSince(s, psn) {
				add(s)
			}
			s.acks = max(s.acks, psn+1)
		}
		add(s)
		if first != nil && answersItself(first.Op) {
			r.nonsense(s, psn, add)
		}
	}
}

// end is where the data of a READ ends, in bytes from PSN 0.
func (p *Packet) end() int { return p.PSN*MTU + p.Count*MTU - p.Short }

// answeredSince reports whether the answer to [psn, end) left after the duplicate being received had passed the tap:
// the duplicate may have arrived while that answer was due, before requests that the search served in between, and
// shares the answer.
func (r *responder) answeredSince(s responderState, psn, end int32) bool {
	x := r.x
	if s.i == 0 {
		return false
	}
	passed := x.in[s.i-1].index
	for j := int(s.j) - 1; j >= 0 && x.out[j].index > passed; j-- {
		p := x.out[j]
		if int32(p.PSN) == end-1 && (p.Op.IsReadResponse() || p.Op == packet.AtomicAcknowledge) {
			end--
		}
	}
	return end <= psn
}

// coveredSince reports whether a response that acknowledges psn left after the duplicate being received had passed the
// tap.
func (r *responder) coveredSince(s responderState, psn int32) bool {
	x := r.x
	for j := int(s.j) - 1; s.i > 0 && j >= 0 && x.out[j].index > x.in[s.i-1].index; j-- {
		p := x.out[j]
		if int32(p.PSN) > psn || int32(p.PSN) == psn && (p.Op != packet.Acknowledge || p.Syndrome.IsAck()) {
			return true
		}
	}
	return false
}

// nonsense takes a duplicate that repeats nothing: dropped, or refused.
func (r *responder) nonsense(s responderState, psn int32, add func(responderState)) {
	add(s)
	if s.owes == nothing && r.nextIs(s, psn, fatal) {
		s.owes, s.at = fatalNak, psn
		add(s)
	}
}
