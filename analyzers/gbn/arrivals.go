package gbn

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A fate is what a responder does with a request that arrives, in its state at that time.
type fate uint8

const (
	fateExpected  fate = iota
	fateDuplicate      // before the expected PSN
	fateAhead          // the first after the expected PSN: a sequence NAK is owed
	fateDiscarded      // after the expected PSN while the NAK is out
	// the header of a trimmed request shows that the expected one is missing: a responder that reacts sends a NAK
	fateTrimmed
	fateHeader // the header of a trimmed request that shows nothing new
)

// An arrival is a request that passed towards the responder and that no response has reflected yet.
type arrival struct {
	id     uint64
	timeNS int64
	number int64 // of arrivals, from 0
	pos    pos
	psns   int64
	length uint32 // DMA length
	op     packet.Opcode
	fate   fate
	ackReq bool
	header bool // of a trimmed request

	payload    uint16
	foreignKey bool            // the remote key is not the sender's
	heir       bool            // a duplicate that must be answered, because the request that it repeats was not
	stray      bool            // it repeats nothing that was asked: see strays
	got        pos             // of a duplicate: the first of its positions that was not answered since it passed
	altered    bool            // an atomic that repeats a different kind of atomic: dropped, or answered like that one
	outrun     bool            // the missing request may have arrived before the NAK for this arrival could leave
	flaw       packet.Syndrome // of the NAK that it requires, 0 if it is valid; expected arrivals only
}

// owesData reports whether a is answered by more than an ACK.
func (a *arrival) owesData() bool {
	return a.op == packet.ReadRequest || a.op.Verb() == packet.VerbAtomic
}

// A receipt is the responder's Go-back-N state after a prefix of what passed towards it.
type receipt struct {
	expected pos
	awaiting bool  // a NAK is owed or out: only the expected request counts
	msn      int64 // requests completed
	failed   bool  // an invalid request has arrived: the queue pair is in error
	open     packet.Verb
	left     int64 // bytes that the open WRITE still lacks
	// answersTrims: the responder NAKs the headers of trimmed requests.
	answersTrims bool
}

// judge returns the fate of a request at p, or of its header, without changing the state.
func (st *receipt) judge(p pos, header bool) fate {
	switch {
	case header && (st.failed || p < st.expected || p > st.expected && st.awaiting):
		return fateHeader
	case header:
		return fateTrimmed
	// a repetition is answered if the responder refused an earlier request
	case st.failed && p >= st.expected:
		return fateDiscarded
	case p == st.expected:
		return fateExpected
	case p < st.expected:
		return fateDuplicate
	case st.awaiting:
		return fateDiscarded
	}
	return fateAhead
}

// receive changes the state by arrival a, whose fate is known.
func (st *receipt) receive(a *arrival) {
	switch a.fate {
	case fateExpected:
		if a.flaw != 0 {
			st.failed = true
			return
		}
		st.accept(a)
	case fateAhead:
		st.awaiting = true
	case fateTrimmed:
		st.awaiting = st.awaiting || st.answersTrims
	case fateDuplicate, fateDiscarded, fateHeader:
	}
}

// accept moves the state on by a valid arrival that is expected.
func (st *receipt) accept(a *arrival) {
	if a.op.Starts() {
		st.open, st.left = a.op.Verb(), int64(a.length)
	}
	st.left -= int64(a.payload)
	st.expected = a.pos + a.psns
	st.awaiting = false
	if a.op.Ends() {
		st.open = packet.VerbNone
		st.msn++
	}
}

// arrivals is the interval [least, most] of one responder: the state that its responses prove, the requests that may
// have arrived since, and the state after all of them. The fates assume that the responder accepts what it can. An RNR
// or fatal NAK shows that it did not; later fates are then computed again.
type arrivals struct {
	least, most receipt
	ring        []arrival // len is a power of two
	head, len   int
	pushed      int64 // arrivals ever
	mtu         int   // 0: not known
	validates   bool  // every arrival is known and was valid when it was sent: the injector made any invalid one
	gaps        int   // arrivals with fateAhead
	duplicates  int   // arrivals with fateDuplicate
	headers     int   // arrivals with fateTrimmed
}

const (
	arrivalsMin = 4
	arrivalsMax = 1 << 15 // 1.5 MB; a responder that leaves more unanswered is followed approximately from there on
)

func (l *arrivals) at(i int) *arrival { return &l.ring[(l.head+i)&(len(l.ring)-1)] }

// push adds a request that passed and returns it, or nil if there is no room.
func (l *arrivals) push(a arrival) *arrival {
	if l.len == len(l.ring) {
		if len(l.ring) >= arrivalsMax {
			return nil
		}
		l.grow()
	}
	a.number = l.pushed
	l.assess(&a)
	l.count(a.fate, 1)
	l.len++
	l.pushed++
	slot := l.at(l.len - 1)
	*slot = a
	return slot
}

// assess determines the fate of a after all earlier arrivals and advances most by it.
func (l *arrivals) assess(a *arrival) {
	a.fate, a.flaw = l.most.judge(a.pos, a.header), 0
	if l.validates && a.fate == fateDuplicate && a.stray && a.op != packet.ReadRequest {
		a.fate = fateDiscarded // an atomic that was never executed has no result
	}
	if a.fate == fateDuplicate {
		a.got = max(a.got, a.pos)
	}
	a.stray = a.stray || a.fate == fateDuplicate && a.op == packet.ReadRequest && a.pos+a.psns > l.most.expected
	if a.fate == fateExpected && l.validates {
		a.flaw = l.most.validate(a, l.mtu)
	}
	l.most.receive(a)
}

func (l *arrivals) grow() {
	ring := make([]arrival, max(arrivalsMin, 2*len(l.ring)))
	for i := range l.len {
		ring[i] = *l.at(i)
	}
	l.ring, l.head = ring, 0
}

func (l *arrivals) count(f fate, n int) {
	switch f {
	case fateAhead:
		l.gaps += n
	case fateDuplicate:
		l.duplicates += n
	case fateTrimmed:
		l.headers += n
	case fateExpected, fateDiscarded, fateHeader:
	}
}

// pop advances the least state by the oldest arrival and returns it; it is valid until the next push.
func (l *arrivals) pop() *arrival {
	a := l.at(0)
	l.least.receive(a)
	l.count(a.fate, -1)
	l.head = (l.head + 1) & (len(l.ring) - 1)
	l.len--
	return a
}

// popAccepted is pop if the oldest arrival was accepted, is valid and required at most an ACK; otherwise it returns nil
// and changes nothing.
func (l *arrivals) popAccepted() *arrival {
	a := l.at(0)
	if a.fate != fateExpected || a.flaw != 0 || a.owesData() {
		return nil
	}
	l.least.accept(a)
	l.head = (l.head + 1) & (len(l.ring) - 1)
	l.len--
	return a
}

// remove takes out arrivals that change no state: duplicates.
func (l *arrivals) remove(out func(i int, a *arrival) bool) {
	kept := 0
	for i := range l.len {
		a := *l.at(i)
		if out(i, &a) {
			l.count(a.fate, -1)
			continue
		}
		*l.at(kept) = a
		kept++
	}
	l.len = kept
}

// refuse removes the oldest arrival, which the responder did not accept, and computes all later fates again. It reports
// whether the same request has passed a second time: that is the next to be accepted or refused.
func (l *arrivals) refuse() (repeated bool) {
	p := l.at(0).pos
	l.remove(func(i int, _ *arrival) bool { return i == 0 })
	l.least.awaiting = true
	l.rejudge()
	return l.find(func(a *arrival) bool { return a.pos == p }) >= 0
}

// rejudge computes all fates again from the least state on.
func (l *arrivals) rejudge() {
	l.most = l.least
	for i := range l.len {
		a := l.at(i)
		l.count(a.fate, -1)
		open := l.most.awaiting
		l.assess(a)
		l.count(a.fate, 1)
		if open && a.fate == fateExpected {
			l.repaired(i)
		}
	}
}

// repaired marks the gap that arrival i closed as one whose NAK may not have left.
func (l *arrivals) repaired(i int) {
	for i--; i >= 0; i-- {
		if a := l.at(i); a.fate == fateAhead {
			a.outrun = true
			return
		}
	}
}

// completedThrough returns a lower bound of the requests completed through p, which the least state has passed: each
// later request takes at least one PSN.
func (l *arrivals) completedThrough(p pos) int64 { return l.least.msn - max(0, l.least.expected-p-1) }

// find returns the index of the oldest arrival that ok accepts, or -1.
func (l *arrivals) find(ok func(*arrival) bool) int {
	for i := range l.len {
		if ok(l.at(i)) {
			return i
		}
	}
	return -1
}

// answer records an answer for p, which all duplicates that have passed may share.
func (l *arrivals) answer(p pos) {
	for i := 0; l.duplicates > 0 && i < l.len; i++ {
		if a := l.at(i); a.fate == fateDuplicate && a.got == p {
			a.got++
		}
	}
}

// acknowledge records that r acknowledges everything up to p, and thereby the duplicates of it that have passed.
func (l *arrivals) acknowledge(r *trace.Record, p pos) {
	if r.Opcode == packet.Acknowledge && !r.Syndrome.IsAck() {
		p--
	}
	for i := 0; l.duplicates > 0 && i < l.len; i++ {
		if a := l.at(i); a.fate == fateDuplicate && !a.owesData() && a.pos <= p {
			a.got = a.pos + 1
		}
	}
}

// unanswered reports whether a is a duplicate that requires an answer and has none.
func (a *arrival) unanswered() bool {
	return a.fate == fateDuplicate && a.owesData() && a.pos >= 0 && a.got < a.pos+a.psns && !a.stray && !a.altered &&
		!a.foreignKey
}

// inherit makes the oldest repetition of the unanswered READ or atomic request at p one that must be answered.
func (l *arrivals) inherit(p pos) {
	if i := l.find(func(a *arrival) bool { return a.fate == fateDuplicate && a.owesData() && a.pos == p }); i >= 0 {
		l.at(i).heir = true
	}
}

// gapAt reports whether some arrival is owed a NAK for p.
func (l *arrivals) gapAt(p pos) bool {
	st := l.least
	for i := range l.len {
		a := l.at(i)
		if l.showsGap(a) && st.expected == p {
			return true
		}
		st.receive(a)
	}
	return false
}

// requestPassed adds r to what may have reached the responder.
func (s *session) requestPassed(r *trace.Record) {
	if !s.req.started {
		return
	}
	s.noteFate(r)
	if s.a.forged(r) && (r.Opcode == packet.ReadRequest || s.a.original.Opcode == packet.ReadRequest) {
		s.req.misled = true // the answer is not what it asked for
	}
	s.rsp.forged = s.rsp.forged || s.a.forged(r)
	p := s.unwrap(r.PSN)
	if r.Delivered() {
		s.uncertainArrived(p)
	} else {
		s.lossBefore = s.lossBefore || s.captured
		s.uncertainTrimmed(r, p)
	}
	if s.rsp.state == rsFailed && s.exact() && r.Delivered() {
		s.step(arrivalInput[s.rsp.log.most.judge(p, false)])
	}
	if s.rsp.state == rsFailed || s.rsp.adrift && !s.rsp.unsettled {
		return
	}
	// In a plain capture the log holds each request once, at its first transmission: see uncertainFold.
	header := !s.captured && r.HeaderArrives() && s.trims != trace.TrimIgnored
	if s.captured && !s.req.fresh || !s.captured && (s.fateUnknown || !r.Delivered() && !header) {
		return
	}
	awaiting := s.rsp.log.most.awaiting
	a := s.rsp.log.push(arrival{
		id: r.ID, timeNS: r.TimeNS, pos: p, psns: s.psns(r), length: r.DMALen, op: r.Opcode, ackReq: r.Has(trace.AckReq),
		payload: r.PayloadLen, foreignKey: r.Has(trace.ForeignRKey), header: header, stray: s.strays(r.Opcode, p, s.psns(r)),
		altered: s.altered(r.Opcode, p),
	})
	if a == nil {
		s.rsp.adrift, s.rsp.unsettled = true, false
		return
	}
	s.followGap(a, awaiting)
	s.rsp.late = s.rsp.late || !r.Has(trace.Sent) && (r.Event.Late() || s.a.forged(r))
	if !s.rsp.adrift {
		s.a.responder.Step(&s.rsp.state, arrivalInput[a.fate])
	}
}

// strays reports whether a duplicate request for n positions from p on repeats nothing: a READ that is not part of the
// first one there, or an atomic where there was none. The standard does not say how a responder handles it.
func (s *session) strays(op packet.Opcode, p, n pos) bool {
	if op != packet.ReadRequest && op.Verb() != packet.VerbAtomic || p < 0 {
		return false
	}
	if sp, ok := s.req.spans.covering(p); ok {
		return sp.atomic != (op != packet.ReadRequest) || p+n-1 > sp.last
	}
	first, ok := s.req.window.get(p)
	return ok && carriesPayload(first.first)
}

// altered reports whether a request at p is an atomic of another kind than the first one there.
func (s *session) altered(op packet.Opcode, p pos) bool {
	if op.Verb() != packet.VerbAtomic {
		return false
	}
	first, ok := s.req.window.get(p)
	return ok && first.first != op
}

var arrivalInput = [...]uint8{
	fateExpected: rsExpected, fateDuplicate: rsDuplicate, fateAhead: rsAhead, fateDiscarded: rsDiscarded,
	fateTrimmed: rsTrimmed, fateHeader: rsDiscarded,
}
