package gbn

import (
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A requester is what the observer knows of the sender of requests.
type requester struct {
	// What every request needs, close together in memory.
	started  bool
	state    uint8
	fresh    bool   // the latest request was sent for the first time
	next     pos    // follows the highest PSN sent so far
	cur      pos    // continues the current round
	lastData pos    // of data packets, for iter
	fatalID  uint64 // of the NAK that ended the connection
	lastID   uint64
	lastNS   int64 // when the latest request was sent
	ended    int64 // messages sent to their end
	message  message
	window   window
	// what responses to requests that were never sent acknowledge or ask for if they are sent by the time the responses
	// arrive, oldest first
	claims []knowledge
	late   []pos // of READ responses and atomic ACKs that were delayed after the observer
	una    frontier

	spans spans
	iter  int // ITER of data packets as the injector counts it, for reports

	contrary  pos    // of a NACK for what was acknowledged before, -1: none
	carried   uint32 // NACKs of discarded states that may still cause a restart
	jumpNS    int64  // when the latest restart was seen
	carriedNS int64  // when the latest passed
	stallNS   int64  // the longest recent wait for progress
	stalledAt pos    // at this position
	waitingNS int64  // which began
	stalledNS int64  // and ended at this instant; 0: there was none
	uncounted uint32 // how many of the carried may have been counted as retries before the requester learned of progress
	failsNS   int64  // when it passed
	failsAt   pos    // unless a request that it fits had been sent there when it arrived
	failsOp   packet.Opcode
	failsLen  uint16
	dubious   bool  // some response was about what was never sent
	fails     bool  // a response may have ended the connection
	rewound   bool  // it went back to what was doubted
	misled    bool  // it received a response that its peer did not send: it may have ended in error
	refused   bool  // an RNR NAK has passed
	exhausted bool  // a NACK passed after as many restarts as the retries allow, or one more restart was seen
	doubted   pos   // PSN of a response of the wrong form that it may have dropped, -1: none
	tried     int   // restarts since everything was acknowledged
	lastNack  int64 // when a NACK passed for which it may have had no retry left, 0: none has
	restartAt pos   // where the last restart went
	restarts  int   // how often in a row, NACKs and timeouts
	rnrs      int   // how often in a row, after RNR NAKs
	vague     int   // how often in a row, after an RNR NAK or a timeout
	free      int   // how often in a row, for a reason that may have cost no retry
	mute      int   // responses that were lost since the latest progress
	lowest    pos   // the lowest position that was ever retransmitted
	fatalNS   int64 // when the NAK that ended the connection passed
	// the latest restart of known cause: its PSN, when it was seen, and the earliest time at which it can have left the
	// host
	timedAt, timedNS, timedFromNS int64
}

func (q *requester) init() {
	q.una = newFrontier(0)
	q.window = newWindow()
	q.iter, q.lastData = 1, -1
	q.restartAt, q.contrary, q.doubted, q.timedAt, q.lowest = -1, -1, -1, -1, never
}

// never is a position that no request has.
const never pos = 1 << 62

// requestSent judges a request on what it shows of its sender.
func (s *session) requestSent(r *trace.Record) {
	q := &s.req
	if !q.started {
		s.start(r)
	}
	if len(q.claims) > 0 {
		s.settleClaims(r)
	}
	s.learnMTU(r)
	p := s.unwrap(r.PSN)
	n := s.psns(r)
	if q.fatalID != 0 && !s.captured && !s.fateUnknown && r.TimeNS-q.fatalNS > s.a.delay {
		say(s.report(RuleAfterError, r, p, q.fatalID), "nothing after the NAK that ends the connection",
			s.request(r.Opcode, p), s.causeAfterError(p))
		return
	}
	s.checkSolicited(r, p)
	q.countIter(r.Opcode, p)
	input := s.place(r, p)
	if p < q.cur {
		q.jumpNS = r.TimeNS
	}
	rule := s.a.requester.Step(&q.state, input)
	if rule != "" {
		s.misplaced(rule, r, p)
	}
	if input == rqCaptureGap {
		s.captureGap(r, p)
	}
	if q.fresh = p >= q.next; q.fresh {
		s.sentFirst(r, p, n)
	} else {
		n = s.retransmitted(r, p, n)
	}
	q.cur = p + n
	q.next = max(q.next, q.cur)
	q.lastID, q.lastNS = r.ID, r.TimeNS
	if len(q.claims) > 0 {
		s.settleClaims(r)
	}
}

// start takes the first request seen as the first one sent if the initial PSN is unknown.
func (s *session) start(r *trace.Record) {
	s.req.started = true
	if s.midway {
		s.ipsn = r.PSN
		if !r.Opcode.Starts() || s.captured {
			s.req.message.unknown = !r.Opcode.Starts()
			s.rsp.adrift = s.rsp.adrift || !r.Opcode.Starts()
			s.captured = s.captured || !r.Opcode.Starts()
		}
	}
}

func (s *session) learnMTU(r *trace.Record) {
	if !s.mtuShown && !r.Opcode.Ends() {
		s.mtuShown = true
		if s.mtu == 0 && r.Opcode.Starts() {
			s.mtu = int(r.PayloadLen)
		}
	}
}

// countIter follows the injector's ITER (connection scope).
func (q *requester) countIter(op packet.Opcode, p pos) {
	if !op.IsData() {
		return
	}
	if p <= q.lastData {
		q.iter++
	}
	q.lastData = p
}

// place returns the requester's input for a request at p. It also raises the least: only a jump shows what the
// requester knows.
func (s *session) place(r *trace.Record, p pos) uint8 {
	q := &s.req
	if p == q.cur {
		if p == q.next {
			return rqNew
		}
		s.answerInPassing(p)
		return rqRepeat
	}
	s.expire(r)
	if p < q.cur {
		q.lowest = min(q.lowest, p)
	}
	i := q.una.search(p)
	if i < q.una.len && q.una.at(i).una == p && p < q.next {
		return s.restart(r, p, i)
	}
	if p == q.contrary && (s.captured || s.fateUnknown) {
		return rqRestartNack
	}
	if most := q.una.most().una; p > most && p < q.next && q.lateUpTo(most, p) {
		kind := nakNone
		if q.state == rqNacked {
			kind = nakImplied
		}
		// That it asks for what follows shows that they have arrived.
		for m, ok := q.spans.missing(); ok && m < p; m, ok = q.spans.missing() {
			q.spans.answered()
		}
		s.learn(r, p, kind)
		return s.restart(r, p, q.una.search(p))
	}
	if !s.seesAll() {
		return rqCaptureGap // the packets in between, or the start of the round, may have been lost before the tap
	}
	switch most := q.una.most().una; {
	case p > q.next && s.captured:
		return rqCaptureGap
	case p > q.next:
		return rqPSNSkip
	case q.confused(p) && p < q.cur:
		q.rewound = true
		return rqRestartTimeout
	case q.confused(p):
		return rqSkipAcked
	case p > q.cur && p <= most:
		q.una.raise(i)
		return rqSkipAcked
	case p > q.cur:
		return rqRoundGap
	case q.una.forgotten >= 0 && p >= q.una.forgotten && p < q.una.least().una, s.midway && p < 0:
		return rqRestartTimeout
	case p < q.una.least().una:
		return rqRestartAcked
	case p > most:
		return rqRestartBeyond
	}
	return rqRestartOff
}

// mostLate bounds the late responses that are kept of a connection.
const mostLate = 64

// arrivesLate records that the answer at p was delayed after the observer: it may close a gap when it arrives.
func (q *requester) arrivesLate(p pos) {
	least := q.una.least().una
	q.late = slices.DeleteFunc(q.late, func(p pos) bool { return p < least })
	if len(q.late) < mostLate {
		q.late = append(q.late, p)
	}
}

// lateUpTo reports whether delayed answers can have acknowledged everything from una up to p.
func (q *requester) lateUpTo(una, p pos) bool {
	for ; una < p; una++ {
		if !slices.Contains(q.late, una) {
			return false
		}
	}
	return true
}

// expire raises the least to what is certainly known by now: nothing, where a response may have been lost or delayed
// after the observer.
func (s *session) expire(r *trace.Record) {
	if s.captured || s.fateUnknown {
		return
	}
	if n := s.req.una.known(r.TimeNS - s.a.delay); n > 0 {
		s.req.carry(n)
		s.req.una.raise(n)
	}
}

// answerInPassing records that a round of retransmission reached a packet that a NACK requests.
func (s *session) answerInPassing(p pos) {
	q := &s.req
	if i := q.una.search(p); i < q.una.len && q.una.at(i).una == p {
		q.una.at(i).answered = true
	}
}

// restart judges a jump to the oldest unacknowledged PSN of state i.
func (s *session) restart(r *trace.Record, p pos, i int) uint8 {
	q := &s.req
	if q.doubted >= 0 && p > q.doubted && !q.rewound && p < q.cur {
		q.doubted = -1 // it has not dropped that response
	}
	if s.seesAll() {
		q.carry(i)
		q.una.raise(i)
		i = 0
	}
	k := q.una.at(i)
	forward := p > q.cur
	certain := !s.captured && !s.fateUnknown
	if certain && q.fatalID != 0 && k.id == q.fatalID && !forward { // nothing but that NAK has acknowledged what is before
		say(s.report(RuleAfterError, r, p, q.fatalID), "nothing after the NAK that ends the connection",
			s.request(r.Opcode, p), s.causeAfterError(p))
		return rqRestartTimeout
	}
	kind := k.nak
	if k.spent >= k.asks {
		kind = nakNone
	}
	k.answered = true
	// The NACK may arrive after a restart by timeout and then cause another. A NACK is spent only if nothing else explains
	// this restart. Carried NACKs are older than its own and lapse first.
	if kind != nakNone && !forward && s.ruledOut(r, p, k) && !s.spendCarried(r) {
		k.spent++
	}
	if !forward {
		s.countRestart(r, p, k, kind)
	}
	if !forward && certain && s.a.cfg.HostDelayNS > 0 && !s.a.unpunctual() && r.TimeNS-k.askNS > s.a.delay {
		k.spent = k.asks // they have all arrived, and this restart answers them, whatever caused it
	}
	switch kind {
	case nakSequence:
		s.noteNacked(r, p, k, forward)
		return rqRestartNack
	case nakImplied:
		return rqRestartImplied
	case nakRNR:
		s.checkRNRTimer(r, p, k)
		return rqRestartRNR
	case nakNone:
	}
	if forward {
		return rqSkipAcked
	}
	if s.obeysNoNack(r, p, k) {
		return rqRestartOff
	}
	s.checkTimeout(r, p, k)
	s.noteTimed(r, p, k)
	return rqRestartTimeout
}

// obeysNoNack reports whether a restart at another PSN than the NACK's is too soon for a timeout that crossed that
// NACK, where the requester's settings are unknown.
func (s *session) obeysNoNack(r *trace.Record, p pos, k *knowledge) bool {
	if s.limits != (Limits{}) || s.a.unpunctual() || s.req.state != rqNacked || s.req.carried > 0 ||
		p == s.req.una.most().una {
		return false
	}
	return s.sooner(r, p, k, bounds.ShortestTimeoutNS)
}

// carry keeps the NACKs of the states before i that caused no restart. One may still cause one, at whatever is then
// unacknowledged.
func (q *requester) carry(i int) {
	id := q.una.at(i).id
	for j := range i {
		k := q.una.at(j)
		asks := k.asks - k.refusals
		if asks > 0 && k.askID == id {
			asks-- // a response is either a NACK or an acknowledgement to the requester, not both
		}
		if asks > k.spent {
			q.carried += asks - k.spent
			q.uncounted += asks - k.spent
			q.carriedNS = k.askNS
		}
	}
}

// spendCarried explains a restart by a carried NACK, or returns false if none can be that late.
func (s *session) spendCarried(r *trace.Record) bool {
	q := &s.req
	if q.carried == 0 || r.TimeNS-q.carriedNS > s.a.delay {
		return false
	}
	q.carried--
	return true
}

// countRestart bounds the retransmissions of one PSN without progress. A restart that a NACK from before the progress
// may have caused is not counted: progress restored the retries in between. An RNR NAK explains at most one.
func (s *session) countRestart(r *trace.Record, p pos, k *knowledge, kind nakKind) {
	q := &s.req
	if p != q.restartAt {
		q.restartAt, q.restarts, q.rnrs, q.vague, q.free = p, 0, 0, 0, 0
	}
	q.tried++
	if q.uncounted > 0 && r.TimeNS-q.carriedNS <= s.a.delay {
		q.uncounted--
		q.free++
		return
	}
	if k.restores && kind == nakImplied {
		k.restores = false
		q.free++
		return
	}
	count, limit, name, why := &q.restarts, s.limits.Retry, "retry_cnt", causeRetries
	switch rnr := k.obeyed < k.rnrs && k.waitNS != 0 && r.TimeNS-k.waitNS >= k.rnrNS; {
	case rnr && (kind == nakSequence || k.asks > k.rnrs), rnr && !s.refusedSurely(r, k) && s.limits.TimeoutNS > 0 &&
		!s.ruledOut(r, p, k):
		q.vague++
		s.checkBoth(r, p)
		return
	case rnr:
		k.obeyed++
		count, limit, name, why = &q.rnrs, s.limits.RNRRetry, "rnr_retry", causeRNRRetries
		limit.Known = limit.Known && limit.Max < infiniteRNRRetry
	}
	*count++
	if limit.Known && *count > limit.Max {
		q.exhausted = true
		say(s.report(RuleRetryExceeded, r, p),
			fmt.Sprintf("at most %d retransmissions of psn %d (%s)", limit.Max, p+1, name),
			fmt.Sprintf("%s, retransmission %d without progress", s.request(r.Opcode, p), *count),
			why(s.requester(), psnOf(p), *count, limit.Max))
	}
}

// checkBoth bounds retransmissions that may be timeouts or answers to RNR NAKs.
func (s *session) checkBoth(r *trace.Record, p pos) {
	q, l := &s.req, &s.limits
	n, most := q.restarts+q.rnrs+q.vague, l.Retry.Max+l.RNRRetry.Max
	if l.Retry.Known && l.RNRRetry.Known && l.RNRRetry.Max < infiniteRNRRetry && n > most {
		say(s.report(RuleRetryExceeded, r, p),
			fmt.Sprintf("at most %d retransmissions of psn %d (retry_cnt and rnr_retry)", most, p+1),
			fmt.Sprintf("%s, retransmission %d without progress", s.request(r.Opcode, p), n),
			causeBothRetries(s.requester(), psnOf(p), n, most))
	}
}

// timerStart returns the earliest time at which the timer that guards p can have started: progress and a retransmission
// restart it, and the first packet of an idle requester starts it (IBTA volume 1, 9.7.6.1.3).
func (s *session) timerStart(p pos, k *knowledge) (startNS int64, id uint64, ok bool) {
	first, ok := s.req.window.get(p)
	if !ok && k.id != 0 { // inside a READ, whose earlier responses brought k
		return max(k.timeNS, s.req.jumpNS), k.id, true
	}
	return max(first.firstNS, k.timeNS, s.req.jumpNS), first.id, ok
}

// tooEarly reports whether a timeout cannot explain a retransmission of p now: T is known and has not passed. Varying
// delays between host and observer may make the time between two packets look shorter: package bounds says by how much.
func (s *session) tooEarly(r *trace.Record, p pos, k *knowledge) bool {
	return s.sooner(r, p, k, s.limits.TimeoutNS)
}

// ruledOut reports whether a timeout cannot have caused the retransmission of p now, so that something else did.
// Software hosts may delay a packet as long as a timer runs: their times prove nothing here, and the rules about times
// are only reported for them.
func (s *session) ruledOut(r *trace.Record, p pos, k *knowledge) bool {
	return !s.a.unpunctual() && s.tooEarly(r, p, k)
}

// sooner reports whether p is retransmitted before a timer of t can have expired.
func (s *session) sooner(r *trace.Record, p pos, k *knowledge, t int64) bool {
	if t <= 0 || s.fateUnknown || s.captured {
		return false
	}
	slack := s.a.host.BesideNS(t)
	stalled := s.req.stallNS+2*slack >= t // the request left before it passed, and the progress arrived after that
	if s.a.unpunctual() {
		slack = max(slack, t/2)
	}
	start, _, ok := s.timerStart(p, k)
	if since, timed := s.timedSince(p, start); ok && timed && r.TimeNS < since+t {
		return true
	}
	if stalled && s.req.stalledNS != 0 && p > s.req.stalledAt && r.TimeNS-s.req.waitingNS >= t-slack &&
		r.TimeNS-s.req.stalledNS <= s.a.delay+bounds.SlowestReactionNS {
		return false // the timer may have expired before the progress to p was known
	}
	return ok && r.TimeNS-start < t-slack
}

// noteStall keeps how long the requester may have waited for the progress that r brings.
func (s *session) noteStall(r *trace.Record) {
	q := &s.req
	most := q.una.most()
	start, _, ok := s.timerStart(most.una, most)
	if waited := r.TimeNS - start; ok && (waited >= q.stallNS || r.TimeNS-q.stalledNS > s.a.delay) {
		q.stallNS, q.stalledAt, q.waitingNS, q.stalledNS = waited, most.una, start, r.TimeNS
	}
	l := &s.limits
	if !ok || !l.Retry.Known || l.TimeoutNS <= 0 || q.tried < s.fewest() {
		return
	}
	if r.TimeNS-start+2*s.a.host.BesideNS(l.TimeoutNS) >= l.TimeoutNS {
		q.exhausted = true // the last retry may have timed out before
	}
}

// checkTimeout judges the instant of a restart that no NACK asked for.
func (s *session) checkTimeout(r *trace.Record, p pos, k *knowledge) {
	if !s.tooEarly(r, p, k) {
		return
	}
	if s.spendCarried(r) {
		return
	}
	certain := s.ruledOut(r, p, k)
	if certain && s.req.state == rqNacked && p != s.req.una.most().una {
		s.misplaced(RuleRetransmitFirst, r, p) // no timeout crossed the NACK
		return
	}
	if certain && s.req.fatalID != 0 { // only that NAK can have caused it
		say(s.report(RuleAfterError, r, p, s.req.fatalID), "nothing after the NAK that ends the connection",
			s.request(r.Opcode, p), s.causeAfterError(p))
		return
	}
	start, id, _ := s.timerStart(p, k)
	say(s.report(RuleTimeoutEarly, r, p, id),
		fmt.Sprintf("no retransmission of psn %d before %.3f us without a NACK", p+1, float64(s.limits.TimeoutNS)/1000),
		fmt.Sprintf("%s after %.3f us", s.request(r.Opcode, p), float64(r.TimeNS-start)/1000),
		causeTimeoutEarly(s.requester(), psnOf(p), duration(r.TimeNS-start), duration(s.limits.TimeoutNS)))
}

// checkRNRTimer judges the time of a restart after an RNR NAK. Delays only lengthen the observed wait. A local ACK
// timeout may have crossed the RNR NAK, which can be excluded only if T is known.
func (s *session) checkRNRTimer(r *trace.Record, p pos, k *knowledge) {
	waited := r.TimeNS - k.nakNS
	if k.waitNS != 0 {
		waited = r.TimeNS - k.waitNS
	}
	otherNack := k.asks > k.spent || s.req.carried > 0
	// Only the RNR NAK acknowledged what is before: the requester has received it.
	known := k.id == k.nakID && k.asks == 1 && !k.dubious && s.req.carried == 0 && !s.captured && !s.fateUnknown &&
		!s.disturbed
	if waited < k.rnrNS && !known && (otherNack || !s.tooEarly(r, p, k)) {
		return // something else caused the restart; the RNR NAK may still be in flight, and its wait ahead
	}
	if k.waitNS = 0; k.obeyed < k.rnrs {
		// another RNR NAK was in flight when the wait for the first ended: the wait starts again
		k.waitNS = k.nakNS
	}
	if waited >= k.rnrNS {
		return
	}
	say(s.report(RuleRNREarly, r, p, k.nakID),
		fmt.Sprintf("no retransmission of psn %d before %.3f us after the RNR NAK", p+1, float64(k.rnrNS)/1000),
		fmt.Sprintf("%s after %.3f us", s.request(r.Opcode, p), float64(waited)/1000),
		causeRNREarly(s.requester(), psnOf(p), duration(waited), duration(k.rnrNS)))
}

// misplaced reports a request at a wrong PSN.
func (s *session) misplaced(rule Rule, r *trace.Record, p pos) {
	q := &s.req
	actual, who := s.request(r.Opcode, p), s.requester()
	most := q.una.most()
	switch rule {
	case RulePSNSkip:
		say(s.report(rule, r, p, q.lastID), fmt.Sprintf("psn %d, the next one", q.next+1), actual,
			causeSkipped(who, psnsOf(q.next, p-1), psnOf(p)))
	case RuleRoundGap:
		say(s.report(rule, r, p, q.lastID), fmt.Sprintf("%s, which continues the round", s.retransmission(q.cur)), actual,
			causeLeftOut(who, psnsOf(q.cur, p-1), psnOf(p)))
	case RuleRetransmitFirst:
		say(s.report(rule, r, p, most.nakID), s.retransmission(most.una)+", the packet that the NACK asked for", actual,
			causeRestartedElsewhere(who, psnOf(p), psnOf(most.una), nakWord(most.nak), s.instant(most.nakNS)))
	case RuleResendAcknowledged:
		least := q.una.least()
		say(s.report(rule, r, p, least.id), s.retransmission(least.una)+" or later: everything before is acknowledged",
			actual, causeAcknowledgedBefore(who, psnOf(p), psnOf(least.una)))
	default:
		say(s.report(rule, r, p, most.id), s.retransmission(most.una)+", the oldest unacknowledged packet", actual,
			causeTimeoutElsewhere(who, psnOf(p), psnOf(most.una)))
	}
}

// sentFirst follows a request that was not sent before.
func (s *session) sentFirst(r *trace.Record, p, n pos) {
	q := &s.req
	if p > q.next {
		q.message = message{unknown: true}
	}
	if r.Opcode.Ends() {
		q.ended++
	}
	if r.ICRC == packet.ICRCInvalid {
		q.message = message{unknown: true}
	} else {
		s.checkMessage(r, p, n)
	}
	if r.Opcode == packet.ReadRequest || r.Opcode.Verb() == packet.VerbAtomic {
		q.spans.push(span{
			first: p, last: p + n - 1, va: r.VA, id: r.ID, length: r.DMALen, rkey: r.RKey,
			atomic: r.Opcode != packet.ReadRequest,
			high:   p - 1,
		})
	}
	q.window.put(p, q.una.most().una, r)
}

// captureGap records that the requester sent, or left out, something that the capture does not show.
func (s *session) captureGap(r *trace.Record, p pos) {
	q := &s.req
	if p > q.next {
		s.rsp.adrift = true
		s.lossBefore = true
	}
	say(s.report(RuleCaptureGap, r, p, q.lastID),
		fmt.Sprintf("%s, the next one, or a restart at the oldest unacknowledged packet", s.retransmission(q.cur)),
		fmt.Sprintf("%s: others were lost before the tap, by the capture, or never sent", s.request(r.Opcode, p)),
		causeRequestsMissing(s.requester(), psnOf(p)))
}

// retransmitted compares a repeated request with the original, and returns how many PSNs it should take.
func (s *session) retransmitted(r *trace.Record, p, n pos) pos {
	q := &s.req
	if sp, ok := q.spans.covering(p); ok && !sp.atomic {
		s.readRepeated(r, p, sp)
		n = sp.last + 1 - p
	} else if old, ok := q.window.get(p); ok && !old.damaged && r.ICRC != packet.ICRCInvalid {
		if old.opcode != r.Opcode || old.payload != r.PayloadLen || old.va != r.VA || old.dmaLen != r.DMALen ||
			old.rkey != r.RKey {
			say(s.report(RuleRetransmitChanged, r, p, old.id),
				fmt.Sprintf("%v of %d bytes, va 0x%x, rkey 0x%x, dma length %d", old.opcode, old.payload, old.va, old.rkey,
					old.dmaLen),
				fmt.Sprintf("%v of %d bytes, va 0x%x, rkey 0x%x, dma length %d", r.Opcode, r.PayloadLen, r.VA, r.RKey, r.DMALen),
				causeChanged(s.requester(), psnOf(p), r, old))
		}
	}
	q.window.put(p, q.una.most().una, r)
	return n
}

// readRepeated compares a repeated READ request with the rest of the original from p on.
func (s *session) readRepeated(r *trace.Record, p pos, sp *span) {
	sp.restarts++
	done := (p - sp.first) * int64(s.mtu)
	va, length := sp.va+uint64(done), int64(sp.length)-done
	if r.Opcode == packet.ReadRequest && r.VA == va && int64(r.DMALen) == length && r.RKey == sp.rkey || !s.mtuShown {
		return
	}
	say(s.report(RuleReadRestart, r, p, sp.id),
		fmt.Sprintf("READ_REQUEST of %d bytes at va 0x%x, rkey 0x%x", length, va, sp.rkey),
		fmt.Sprintf("%v of %d bytes at va 0x%x, rkey 0x%x", r.Opcode, r.DMALen, r.VA, r.RKey),
		causeReadRestart(s.requester(), psnOf(p), r, va, length, sp.rkey))
}

// finishRequester judges the end state of the requester.
func (s *session) finishRequester() {
	q := &s.req
	most := q.una.most()
	if most.una >= q.next || s.mayHaveFailed() || s.limits.ErrorsExpected || s.rsp.earned && q.fatalID != 0 ||
		s.endedByPeer() {
		return
	}
	rule := RuleIncomplete
	// Without a known timer a requester may wait for ever for a missing response, but not after a NAK.
	if most.nak != nakNone && (most.nak != nakImplied || s.limits.TimeoutNS > 0 || !s.limits.AtRest) && !most.answered &&
		q.state == rqNacked {
		rule = RuleNakUnanswered
	}
	var last uint64
	if k, ok := q.window.get(most.una); ok {
		last = k.id
	}
	f := s.report(rule, nil, most.una, last, most.nakID)
	if rule == RuleNakUnanswered && s.mayHaveGivenUp(most) {
		if f != nil {
			f.Severity = analyzers.Note
		}
		say(f, "a retransmission, unless the retries were used up", "none: the requester may have given up",
			causeMayHaveGivenUp(s.requester(), psnOf(most.una), nakWord(most.nak), s.instant(most.nakNS)))
		return
	}
	if retries, setting, ok := s.exhaustedBy(most); ok {
		if f != nil {
			f.Severity = analyzers.Note
		}
		say(f, fmt.Sprintf("the requester gives up: psn %d was retransmitted %d times without progress (%s)", most.una+1,
			retries, setting),
			"it gave up", causeGaveUp(rule, s.requester(), psnOf(most.una), retries, setting))
		return
	}
	switch {
	case f != nil && q.fatalID != 0 && s.a.meta.Kind == trace.KindPair:
		// an application may have requested what its peer must refuse: captures do not show the keys
		f.Doubt(analyzers.Warning, "")
	case f == nil || !s.captured:
	case most.id == 0, s.a.meta.EventsKnown:
		f.Doubt(analyzers.Note, "") // the capture shows one direction, or began after the acknowledgement
	default:
		f.Doubt(analyzers.Warning, "") // the capture may simply have ended
	}
	say(f, fmt.Sprintf("everything up to psn %d acknowledged", q.next),
		fmt.Sprintf("nothing acknowledged from psn %d on", most.una+1), s.causeIncomplete(rule))
}
