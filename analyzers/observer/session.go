package observer

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A session is one direction of requests on a connection: its requester and its responder.
type session struct {
	cfg     *Config
	limits  *Limits
	flow    trace.FlowID // of the requests
	ipsn    packet.PSN
	mtu     int
	full    int32   // the path MTU if it is given, else 0: an inferred one may be wrong
	midway  bool    // the connection may be older than the trace
	exact   bool    // the trace shows which frames arrive, and in which order
	pair    bool    // a second tap shows what arrives, whatever happened before
	vouched [2]bool // the tap saw every frame from and to the requester, the responder
	started bool
	bounded bool // messages end before the gap and start after it
	counts  bool // whether counted is known

	frames    []frame // from index base on
	base      int64
	requests  sentRequests
	results   map[int64]uint64 // what atomics brought back first
	first     int64            // PSN of the first packet
	top       int64            // follows the highest PSN that was sent
	ghosts    int64            // index of the latest response to something that was not seen
	ghostPSN  int64            // that it is about
	repeated  int64            // index of the latest request that was not new
	arrived   int64            // index of the latest response that arrives; of exact sessions
	odd       int64            // the same of one that does not just acknowledge what was sent
	fresh     int              // new requests since
	ended     int64            // messages sent to their end
	gap       psnRange         // that the requester left out last, and no NAK has named since
	gapAt     int64            // where it did
	doubtEnd  int64            // index of the first frame after the open span of doubt
	accepted  int64            // PSNs that the requester left out and the responder accepted
	uncounted int64            // gaps of whole messages that the responder accepted, since the latest tally
	more      int64            // messages that it had counted by then beyond those that the tap saw
	swallowed int              // gaps of which it has not counted the messages
	counted   int64            // messages that the responder had counted before the first one that the tap saw
	credit    int64            // how many more states may be looked at

	req      tracker[sender]
	rsp      tracker[receiver]
	fold     *senderStep // room for foldRequester; few sessions need it
	observed [2]analyzers.Observed
	stumbled int
	spokeNS  int64 // when the requester sent its latest frame; 0: never
}

const (
	// maxStumbles bounds what one session reports.
	maxStumbles = 32
	// firstCredit and creditPerFrame bound the work of searches; ordinary traffic needs none. If a search exhausts the
	// credit, it stops and the endpoint is not judged.
	firstCredit, creditPerFrame = 1 << 18, 16
)

func newSession(cfg *Config, meta *trace.Meta, flow trace.FlowID) *session {
	s := &session{
		cfg: cfg, limits: cfg.limits(flow.Connection()), flow: flow, ipsn: meta.Connections.InitialPSN(flow, packet.Requests),
		midway: !meta.Connections.Certain(flow), counts: meta.Connections.Certain(flow), ghosts: -1, repeated: -1,
		arrived: -1, odd: -1,
		exact:    meta.Kind != trace.KindPlain || meta.EventsKnown,
		pair:     meta.Kind == trace.KindPair,
		requests: sentRequests{low: 1 << 62, high: -1 << 62}, credit: firstCredit,
	}
	if conn, ok := meta.Connections.Get(flow); ok {
		s.mtu = conn.MTU
		if !s.midway {
			s.full = int32(conn.MTU)
		}
	}
	for i, of := range [...]trace.FlowID{flow, flow.Peer()} {
		s.vouched[i] = s.exact || meta.SeesAll(of)
		s.observed[i].Away = !s.vouched[i] && !meta.AtTap(of)
	}
	s.req.timed = s.exact
	s.req.vouched, s.rsp.vouched = s.vouched[0], s.vouched[1]
	s.req.x, s.req.m = s, &requester{s}
	s.rsp.x, s.rsp.m = s, &responder{s}
	s.begin()
	if s.midway {
		s.lose(0)
		s.lose(1)
	}
	return s
}

// begin sets both endpoints to their state before the first packet.
func (s *session) begin() {
	for i := range s.observed {
		s.observed[i] = analyzers.Observed{Connection: s.flow.Connection(), Flow: s.flow, Responder: i == 1,
			Vouched: s.vouched[i], Away: s.observed[i].Away}
	}
	s.stumbled, s.gap = 0, psnRange{}
	const longAgo = -1 << 61
	s.req.start(senderNode{state: sender{hazy: none}, route: route{now: longAgo, timer: longAgo}}, 0)
	s.rsp.start(receiverNode{state: receiver{acks: none, duplicate: none, anyMSN: s.midway}, route: route{now: longAgo}},
		0)
}

func (s *session) end() int64 { return s.base + int64(len(s.frames)) }

// latest returns the instant by which f has certainly arrived.
func (s *session) latest(f *frame) int64 {
	if s.limits.HostDelayNS == 0 {
		return 1<<63 - 1
	}
	return f.timeNS + s.limits.HostDelayNS + s.cfg.clockNS
}

func (s *session) frame(i int64) *frame { return &s.frames[i-s.base] }

// result returns what the atomic at psn brought back first.
func (s *session) result(psn int64, now uint64) uint64 {
	if first, ok := s.results[psn]; ok {
		return first
	}
	return now
}

// lose makes an endpoint one that is not judged.
func (s *session) lose(endpoint int) {
	if endpoint == 0 {
		s.req.blind = true
	} else {
		s.rsp.blind = true
	}
}

// observe follows one packet.
func (s *session) observe(r *trace.Record) {
	if !s.started {
		if !r.Opcode.IsRequest() && s.midway {
			return
		}
		s.begins(r)
	}
	psn := s.top + int64(r.PSN.Sub(packet.NewPSN(int64(s.ipsn)+s.top)))
	if s.midway && psn < s.first {
		s.mark(r.ID)
		return
	}
	n := s.announced(r)
	f := newFrame(r, psn, n, s.full)
	f.back = r.Opcode.IsResponse()
	at := s.end()
	s.frames = append(s.frames, f)
	s.credit += creditPerFrame
	if s.exact {
		s.arrives(s.frame(at), at, r)
	}
	if !f.sent {
		return
	}
	if f.back {
		s.response(s.frame(at), at)
	} else {
		s.request(s.frame(at), at)
	}
	s.mark(r.ID)
	s.trust(at)
	s.req.settle(at + 1)
	s.rsp.settle(at + 1)
	s.trim()
}

// begins handles the first packet. Unless it is the first request, the connection is older than the capture, and what
// its endpoints have received and sent is unknown.
func (s *session) begins(r *trace.Record) {
	s.started = true
	switch {
	case s.exact:
	case s.midway:
		s.ipsn = r.PSN
	case !r.Opcode.IsRequest() || r.PSN != s.ipsn:
		s.midway, s.counts = true, false
		s.first = int64(r.PSN.Sub(s.ipsn))
		s.top = s.first
		s.lose(0)
		s.lose(1)
	}
}

// announced returns how many packets the RETH of r announces.
func (s *session) announced(r *trace.Record) int64 {
	if s.mtu == 0 && r.PayloadLen > 0 && !r.Opcode.Ends() {
		s.mtu = int(r.PayloadLen)
	}
	if !r.Has(trace.HasRETH) {
		return 0
	}
	if s.mtu == 0 {
		if r.Opcode == packet.ReadRequest {
			s.lose(0)
			s.lose(1)
		}
		return 1
	}
	return (int64(r.DMALen) + int64(s.mtu) - 1) / int64(s.mtu)
}

func (s *session) request(f *frame, at int64) {
	s.spokeNS = f.timeNS
	if f.damaged {
		f.lost = true
		s.note(0, s.req.sent(at))
		return
	}
	s.requests.bound(f)
	f.fresh = f.psn == s.top
	if s.fresh++; !f.fresh {
		s.fresh, s.repeated = 0, at
	}
	if s.requests.learn(f) {
		if f.op.Ends() {
			s.ended++
		}
		// States that need unseen frames have guessed what this request is.
		if s.req.anyState(func(n *senderNode) bool { return n.state.next > f.psn }) {
			s.note(0, s.req.refresh(at-1))
		}
		if s.rsp.anyState(func(n *receiverNode) bool { return n.state.expect > f.psn }) {
			s.note(1, s.rsp.refresh(at-1))
		}
	}
	if f.psn > s.top {
		s.gap, s.gapAt = psnRange{s.top, f.psn}, at
		before := s.requests.at(s.top - 1)
		s.bounded = before != nil && before.op.Ends() && f.op.Starts()
		if s.ghosts >= s.base && s.ghosts < at && s.ghostPSN >= s.top && s.ghostPSN < f.psn {
			s.gapAt = s.ghosts // the responder has acknowledged what its requester left out
			s.acceptGap(at)
		}
	} else if f.psn < s.gap.to && f.end > s.gap.from {
		s.gap = psnRange{} // it was left out and is sent later
	}
	s.top = max(s.top, f.end)
	s.note(0, s.req.sent(at))
	if s.req.blind && s.fresh >= resyncAfter && !s.exact {
		s.resyncRequester(at + 1)
	}
}

func (s *session) response(f *frame, at int64) {
	if f.damaged {
		f.lost = true
		return
	}
	s.requests.bound(f)
	if f.psn >= s.top {
		s.ghosts, s.ghostPSN = at, f.psn
	}
	if f.op == packet.AtomicAcknowledge {
		s.remember(f)
	}
	s.note(1, s.rsp.sent(at))
	if s.exact {
		return
	}
	s.testify(f, at)
	s.tally(f, at)
	if s.rsp.blind {
		s.resyncResponder(f, at+1)
	}
}

// A psnRange is the PSNs from from to before to.
type psnRange struct{ from, to int64 }

// maxSwallowed is how many gaps a responder may accept without counting their messages: the requester may have sent
// other requests in one gap than those that were seen.
const maxSwallowed = 1

// tally compares the MSN of f with the messages that the tap saw. If the responder has counted messages of an unseen
// gap, the tap missed them. If not, the responder accepts gaps.
func (s *session) tally(f *frame, at int64) {
	if f.op != packet.Acknowledge || !f.syndrome.IsAck() || f.psn != s.top-1 {
		return
	}
	if !s.counts {
		s.counted, s.counts, s.uncounted = int64(f.msn)-s.ended, s.midway, 0
		return
	}
	more := int64(int32((f.msn-uint32(s.counted+s.ended))<<8) >> 8)
	switch {
	case more > 0 && more <= s.accepted:
		s.observed[1].Missed = true
	case s.uncounted > 0 && more < s.more+s.uncounted:
		if s.swallowed++; s.swallowed > maxSwallowed {
			s.note(1, &stumble{at: at, id: f.id, why: reasonMSN, needs: maxUnseen + 1})
		}
	}
	s.more, s.uncounted = more, 0
}

// testify keeps whether f acknowledges what the requester seems to have left out. A responder refuses requests after a
// gap, so both endpoints then show that the tap missed frames.
func (s *session) testify(f *frame, at int64) {
	switch {
	case s.gap.to == 0:
	case f.op == packet.Acknowledge && !f.syndrome.IsAck():
		if f.psn < s.gap.to {
			s.gap = psnRange{}
		}
	case f.psn >= s.gap.to-1:
		s.acceptGap(at)
	}
}

// acceptGap notes that both endpoints show requests to be missing.
func (s *session) acceptGap(at int64) {
	s.accepted += s.gap.to - s.gap.from
	s.doubt(at)
	s.gap = psnRange{}
	if s.bounded {
		s.uncounted++
	}
}

// doubtSpan is how many frames before and after an unseen one are in doubt: as many as states with unseen frames are
// followed through.
const doubtSpan = 2 * anchorSpan

// doubt keeps that the responder acted at frame at on a request that was not seen.
func (s *session) doubt(at int64) {
	list := &s.observed[1].Doubted
	if n := len(*list); n == 0 || (*list)[n-1].To != 0 {
		if n >= maxStumbles {
			return
		}
		*list = append(*list, analyzers.Span{From: s.frame(max(s.base, s.gapAt-doubtSpan)).id})
	}
	s.doubtEnd = at + doubtSpan
}

// trust ends the span of doubt at frame at if no gap was seen for long.
func (s *session) trust(at int64) {
	if s.doubtEnd == 0 || at < s.doubtEnd {
		return
	}
	list := s.observed[1].Doubted
	list[len(list)-1].To, s.doubtEnd = s.frame(at).id, 0
}

// remember keeps the first result of an atomic.
func (s *session) remember(f *frame) {
	if s.results == nil {
		s.results = map[int64]uint64{}
	}
	if len(s.results) > maxExtents {
		clear(s.results)
	}
	if _, ok := s.results[f.psn]; !ok {
		s.results[f.psn] = f.va
	}
}

// resyncAfter is how many consecutive new requests show the state of a requester.
const resyncAfter = 8

func (s *session) resyncRequester(at int64) {
	n := senderNode{state: sender{una: s.top, cur: s.top, next: s.top, hazy: s.top}}
	n.in, n.now, n.timer = at, -1<<61, -1<<61
	s.req.start(n, at)
}

// resyncResponder takes the state of the responder from an acknowledgement of everything sent, if all of it was sent
// once.
func (s *session) resyncResponder(f *frame, at int64) {
	if s.stumbled >= maxStumbles || f.op != packet.Acknowledge || !f.syndrome.IsAck() || f.psn != s.top-1 ||
		s.fresh < resyncAfter && !s.whole(f) {
		return
	}
	last := s.requests.at(f.psn)
	if last == nil || demands(last.op) {
		return
	}
	n := receiverNode{state: receiver{expect: s.top, acks: none, duplicate: none, msn: int64(f.msn), said: int64(f.msn),
		rest: -1, message: inSomething}}
	if last.op.Ends() {
		n.state.message, n.state.rest = betweenMessages, 0
	}
	n.in, n.now = at, -1<<61
	s.rsp.start(n, at)
	if s.req.blind && s.whole(f) {
		s.resyncRequester(at)
	}
}

// whole reports whether f shows that the trace holds the connection from its first request on: the MSN counts all
// messages seen.
func (s *session) whole(f *frame) bool { return s.midway && s.repeated < 0 && int64(f.msn) == s.ended }

// trim forgets frames that nobody needs any more.
func (s *session) trim() {
	if s.end()-s.req.oldest() > maxLag {
		if s.exact {
			s.absorb()
		} else {
			s.foldRequester(s.end() - maxLag/2)
		}
	}
	if s.end()-s.rsp.oldest() > maxFrames {
		s.rsp.blind = true
	}
	if s.base == 0 && s.stumbled > 0 && len(s.frames) <= anchorSpan {
		return // rejudge will need them
	}
	low := min(s.req.oldest(), s.rsp.oldest())
	if drop := int(low - s.base); drop > len(s.frames)/2 && drop > 8 {
		s.frames = append(s.frames[:0], s.frames[drop:]...)
		s.base = low
	}
}

const (
	// maxLag is how many frames may pass before a requester that never goes back is taken to have received the older ones.
	// Its reaction to earlier PSNs is then not judged.
	maxLag = 64
	// maxFrames bounds what is remembered of a session.
	maxFrames = 2048
)

// maxPending bounds the frames that the requester of an exact session may still receive.
const maxPending = 1 << 14

// absorb moves the requester of an exact session past what it must have received.
func (s *session) absorb() {
	s.req.absorb(s.end() - 1)
	if s.end()-s.req.oldest() > maxPending {
		s.lose(0)
	}
}

// arrives keeps a frame of an exact session. After an event that changes what arrives, or when, nothing is judged
// unless a second tap shows the effect.
func (s *session) arrives(f *frame, at int64, r *trace.Record) {
	switch r.Event {
	case trace.EventNone, trace.EventDrop, trace.EventCorrupt, trace.EventECN:
	case trace.EventTrim: // its receiver may react to the header
		if f.back {
			s.lose(0)
		} else {
			s.lose(1)
		}
	default:
		if !s.pair {
			s.lose(0)
			s.lose(1)
		}
	}
	if !f.back || f.lost {
		return
	}
	s.arrived = at
	if f.psn >= s.top || f.op == packet.Acknowledge && !f.syndrome.IsAck() {
		s.odd = at
	}
}

// foldRequester makes the requester one that has received the responses before cut. If one of them was missing, the
// requester has long shown no sign of it: the tap may have missed it.
func (s *session) foldRequester(cut int64) {
	t := &s.req
	calm := len(t.set) > 0
	for i := range t.set {
		calm = calm && t.set[i].state.cur == t.set[i].state.next && t.set[i].state.next == s.top
	}
	if !calm {
		if s.end()-t.oldest() > 8*maxLag {
			t.blind = true
		}
		return
	}
	best := s.received(t.set[0], cut)
	for i := range t.set[1:] {
		if n := s.received(t.set[i+1], cut); n.state.una > best.state.una {
			best = n
		}
	}
	una, asked := max(best.state.una, s.acknowledged(best.in, cut)), best.state
	best.state = sender{una: una, cur: s.top, next: s.top, hazy: una}
	if best.in = cut; una > asked.una {
		best.ready = 0
	} else { // a NAK that it has not obeyed yet still explains a restart
		best.state.nak, best.state.implied, best.state.rnr, best.state.resent = asked.nak, asked.implied, asked.rnr,
			asked.resent
	}
	level := t.level
	t.start(best, s.end())
	t.level = level
	t.freeze(s.end())
}

// received returns the requester after every response before cut that acknowledges something.
func (s *session) received(best senderNode, cut int64) senderNode {
	for k := max(best.in, s.base); k < cut; k++ {
		f := s.frame(k)
		if !f.back || f.lost {
			continue
		}
		if s.fold == nil {
			s.fold = &senderStep{}
		}
		st := s.fold
		st.t, st.goal, st.queue = &s.req, f, st.queue[:0]
		n := best
		n.now = max(n.now, f.timeNS)
		s.req.m.receive(st, n, f)
		for _, m := range st.queue {
			if m.state.una > best.state.una || m.state.una == best.state.una && m.state.asked() && !best.state.asked() &&
				m.now <= n.now {
				best = m
			}
		}
	}
	return best
}

// asked reports whether a response asks for what is the oldest.
func (s *sender) asked() bool { return s.nak || s.implied || s.rnr }

// acknowledged returns the PSN after the highest one that responses between two frames acknowledge.
func (s *session) acknowledged(from, to int64) int64 {
	high := int64(-1 << 62)
	for k := max(from, s.base); k < to; k++ {
		f := s.frame(k)
		switch {
		case !f.back || f.lost || f.psn >= s.top:
		case f.op == packet.Acknowledge && !f.syndrome.IsAck():
			high = max(high, f.psn)
		default:
			high = max(high, f.psn+1)
		}
	}
	return high
}

// note keeps a stumble.
func (s *session) note(endpoint int, st *stumble) {
	if st == nil {
		return
	}
	if s.stumbled++; s.stumbled >= maxStumbles {
		s.lose(endpoint)
	}
	if s.stumbled > maxStumbles {
		return
	}
	severity := analyzers.Warning
	if st.needs > maxUnseen || s.vouched[endpoint] || st.total > s.allowance() {
		severity = analyzers.Violation
	}
	broken, who := &ruleOf[st.why], cause.Requester(s.flow)
	if endpoint == 1 {
		who = cause.Responder(s.flow)
	}
	f := analyzers.Finding{Severity: severity, Connection: s.flow.Connection(), Packets: []uint64{}}
	if st.id == 0 {
		if endpoint == 1 {
			broken = &owedAtEnd
		}
		f.Actual = "nothing more by the end of the trace"
		f.PSN, f.PSNAbs = s.top, uint32(packet.NewPSN(int64(s.ipsn)+s.top-1))
		f.Because(broken.cause(who, cause.PSNs{First: cause.PSN(s.top), Last: cause.PSN(s.top)}))
	} else {
		at := s.frame(st.at)
		f.Actual, f.Packets, f.TimeNS = at.describe(), []uint64{st.id}, at.timeNS
		f.PSN, f.PSNAbs = at.psn+1, uint32(packet.NewPSN(int64(s.ipsn)+at.psn))
		f.Because(broken.cause(who, packetWord(f.Actual)))
	}
	f.Rule, f.Expected = broken.rule, broken.expected
	s.observed[endpoint].Unexplained = append(s.observed[endpoint].Unexplained, f)
}

// allowance bounds the frames of a session that a tap may have missed.
func (s *session) allowance() int64 { return maxUnseen + max(0, s.end()-maxShort)/8 }

// maxShort is the length of traces of which a tap misses at most maxUnseen frames.
const maxShort = 12

// mark notes which endpoints are judged at the packet id.
func (s *session) mark(id uint64) {
	for i, blind := range [2]bool{s.req.blind, s.rsp.blind} {
		o := &s.observed[i]
		n := len(o.Blind)
		switch open := n > 0 && o.Blind[n-1].To == 0; {
		case blind && !open && n < maxStumbles:
			o.Blind = append(o.Blind, analyzers.Span{From: id})
		case !blind && open:
			o.Blind[n-1].To = id
		}
	}
}

// excused returns what is missing at the end if the other host sends requests, too: an unseen frame may have put the
// queue pair in error.
func (st *stumble) excused(peer *session) *stumble {
	if st != nil && peer != nil && !(peer.vouched[0] && peer.vouched[1]) && st.needs > maxUnseen {
		st.needs, st.total = 1, st.total+1
	}
	return st
}

// finish judges the end and returns what was observed of both endpoints. Peer is the session of the other host's
// requests, or nil. A queue pair in error owes neither requests nor responses.
func (s *session) finish(peer *session) []analyzers.Observed {
	if s.limits.AtRest {
		failed, known := peer.failed(1)
		judged := s.finishEndpoint(0, peer, s.req.finish, failed, known)
		failed, known = peer.failed(0)
		if failed && s.exact && s.limits.HostDelayNS > 0 && peer.spokeNS > 0 {
			s.rsp.aliveNS, failed = peer.spokeNS, false
		}
		s.observed[1].AtRest = s.finishEndpoint(1, peer, s.rsp.finish, failed, known)
		s.observed[0].AtRest = judged
	}
	for i := range s.observed {
		s.observed[i].Short = s.end() <= maxShort
	}
	return s.observed[:]
}

// failed reports whether the queue pair of an endpoint may be in error at the end, and whether that is known.
func (s *session) failed(endpoint int) (failed, known bool) {
	switch {
	case s == nil:
		return false, true
	case endpoint == 0:
		return s.req.endsInError()
	}
	return s.rsp.endsInError()
}

// finishEndpoint keeps what an endpoint owes at the end, and reports whether that was judged. Failed says that requests
// of the other host may have put its queue pair in error.
func (s *session) finishEndpoint(endpoint int, peer *session, finish func() (*stumble, bool), failed,
	known bool) bool {
	if failed {
		return known || !s.exact
	}
	st, judged := finish()
	s.note(endpoint, st.excused(peer))
	return judged || !s.exact
}

// rejudge follows a short session a second time, when the later requests are known: they show what an unseen request
// must have been.
func (s *session) rejudge() {
	if s.base > 0 || len(s.frames) > anchorSpan || s.midway || s.exact {
		return
	}
	missed, doubted := s.observed[1].Missed, s.observed[1].Doubted
	s.begin()
	s.observed[1].Missed, s.observed[1].Doubted = missed, doubted
	for at := range s.end() {
		f := s.frame(at)
		switch {
		case !f.back:
			s.note(0, s.req.sent(at))
		case !f.damaged:
			s.note(1, s.rsp.sent(at))
		}
		s.mark(f.id)
	}
}
