package gbn

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A requester is what the observer knows of the sender of requests.
type requester struct {
	started bool
	state   uint8
	next    pos // follows the highest PSN sent so far
	cur     pos // continues the current round
	una     frontier
	spans   spans
	window  window
	message message

	// ITER of data packets as the injector counts it, for reports.
	iter     int
	lastData pos

	contrary  pos // of a NACK for what was acknowledged before, -1: none
	restartAt pos // where the last restart went
	restarts  int // how often in a row, NACKs and timeouts
	rnrs      int // how often in a row, after RNR NAKs
	lowest    pos // the lowest position that was ever sent again
	lastID    uint64
}

func (q *requester) init() {
	q.una = newFrontier(0)
	q.window = newWindow()
	q.iter, q.lastData = 1, -1
	q.restartAt, q.contrary, q.lowest = -1, -1, 1<<62
}

// requestSent judges a request on what it shows of its sender.
func (s *session) requestSent(r *trace.Record) {
	q := &s.req
	if !q.started {
		s.start(r)
	}
	s.learnMTU(r)
	p := s.unwrap(r.PSN)
	n := s.psns(r)
	q.countIter(r.Opcode, p)
	input := s.place(r, p)
	rule := s.a.requester.step(&q.state, input)
	if rule != "" {
		s.misplaced(rule, r, p)
	}
	if p >= q.next {
		s.sentFirst(r, p, n, input)
	} else {
		n = s.sentAgain(r, p, n)
	}
	q.cur = p + n
	q.next = max(q.next, q.cur)
	q.lastID = r.ID
}

// start takes the first request seen as the first one sent where the initial PSN is not known.
func (s *session) start(r *trace.Record) {
	s.req.started = true
	if s.midway {
		s.ipsn = r.PSN
		if !r.Opcode.Starts() || s.captured {
			s.req.message.unknown = !r.Opcode.Starts()
			s.rsp.adrift = s.rsp.adrift || !r.Opcode.Starts()
		}
	}
}

func (s *session) learnMTU(r *trace.Record) {
	if s.mtu == 0 && r.Opcode.Starts() && !r.Opcode.Ends() {
		s.mtu = int(r.PayloadLen)
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

// place finds out what a request at p amounts to: the requester's input. It is here that knowledge is raised: only a jump
// shows what the requester knows.
func (s *session) place(r *trace.Record, p pos) uint8 {
	q := &s.req
	if p == q.cur {
		if p == q.next {
			return rqNew
		}
		s.answerInPassing(p)
		return rqRepeat
	}
	q.una.expire(r.TimeNS - s.a.delay)
	if p < q.cur {
		q.lowest = min(q.lowest, p)
	}
	i := q.una.search(p)
	if i < q.una.len && q.una.at(i).una == p && p < q.next {
		return s.restart(r, p, i)
	}
	switch most := q.una.most().una; {
	case p == q.contrary:
		return rqRestartNack
	case p > q.next:
		if s.captured {
			return rqCaptureGap
		}
		return rqPSNSkip
	case p > q.cur && p <= most:
		q.una.raise(i)
		return rqSkipAcked
	case p > q.cur && s.captured:
		return rqCaptureGap
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

// answerInPassing notes that a round of retransmission reached a packet that a NACK asks for.
func (s *session) answerInPassing(p pos) {
	q := &s.req
	if i := q.una.search(p); i < q.una.len && q.una.at(i).una == p {
		q.una.at(i).answered = true
	}
}

// restart judges a jump to the oldest unacknowledged PSN of state i.
func (s *session) restart(r *trace.Record, p pos, i int) uint8 {
	q := &s.req
	q.una.raise(i)
	k := q.una.least()
	forward := p > q.cur
	kind := k.nak
	if k.spent {
		kind = nakNone
	}
	k.answered = true
	// A timeout may have crossed the NACK, which then asks once more when it arrives. The NACK is spent only if its arrival is
	// the one thing that explains this restart.
	k.spent = k.spent || s.tooEarly(r, p)
	if !forward {
		s.countRestart(r, p, kind)
	}
	switch kind {
	case nakSequence:
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
	s.checkTimeout(r, p)
	return rqRestartTimeout
}

// countRestart bounds the retransmissions of one PSN without progress.
func (s *session) countRestart(r *trace.Record, p pos, kind nakKind) {
	q := &s.req
	if p != q.restartAt {
		q.restartAt, q.restarts, q.rnrs = p, 0, 0
	}
	count, limit, name := &q.restarts, s.limits.Retry, "retry_cnt"
	if kind == nakRNR {
		count, limit, name = &q.rnrs, s.limits.RNRRetry, "rnr_retry"
		if limit.Max >= infiniteRNRRetry {
			limit.Known = false
		}
	}
	*count++
	if limit.Known && *count > limit.Max {
		say(s.report(RuleRetryExceeded, r, p),
			fmt.Sprintf("at most %d retransmissions of psn %d (%s)", limit.Max, p+1, name),
			fmt.Sprintf("%s, retransmission %d without progress", s.request(r.Opcode, p), *count))
	}
}

// tooEarly reports whether a timeout certainly cannot explain that p is sent again now: T is known and has not passed. Delays
// between host and observer may make the span between two packets look shorter than it was; without a measured bound half
// of T is allowed for that.
func (s *session) tooEarly(r *trace.Record, p pos) bool {
	t := s.limits.TimeoutNS
	if t <= 0 || s.fateUnknown || s.captured {
		return false
	}
	last, ok := s.req.window.get(p)
	if !ok {
		return false
	}
	slack := t / 2
	if s.a.cfg.HostDelayNS > 0 {
		slack = s.a.cfg.HostDelayNS
	}
	return r.TimeNS-last.timeNS < t-slack
}

// checkTimeout judges the instant of a restart that no NACK asked for.
func (s *session) checkTimeout(r *trace.Record, p pos) {
	if !s.tooEarly(r, p) {
		return
	}
	last, _ := s.req.window.get(p)
	say(s.report(RuleTimeoutEarly, r, p, last.id),
		fmt.Sprintf("no retransmission of psn %d before %.3f us without a NACK", p+1, float64(s.limits.TimeoutNS)/1000),
		fmt.Sprintf("%s after %.3f us", s.request(r.Opcode, p), float64(r.TimeNS-last.timeNS)/1000))
}

// checkRNRTimer judges the instant of a restart after an RNR NAK. Delays only lengthen what the observer sees of the timer,
// but a local ACK timeout may have crossed the RNR NAK: only where T is known can that be ruled out.
func (s *session) checkRNRTimer(r *trace.Record, p pos, k *knowledge) {
	waited := r.TimeNS - k.nakNS
	if waited >= k.rnrNS || !s.tooEarly(r, p) {
		return
	}
	say(s.report(RuleRNREarly, r, p, k.nakID),
		fmt.Sprintf("no retransmission of psn %d before %.3f us after the RNR NAK", p+1, float64(k.rnrNS)/1000),
		fmt.Sprintf("%s after %.3f us", s.request(r.Opcode, p), float64(waited)/1000))
}

// misplaced reports a request at a PSN at which it must not be.
func (s *session) misplaced(rule Rule, r *trace.Record, p pos) {
	q := &s.req
	actual := s.request(r.Opcode, p)
	most := q.una.most()
	switch rule {
	case RulePSNSkip:
		say(s.report(rule, r, p, q.lastID), fmt.Sprintf("psn %d, the next one", q.next+1), actual)
	case RuleRoundGap:
		say(s.report(rule, r, p, q.lastID), fmt.Sprintf("%s, which continues the round", s.retransmission(q.cur)), actual)
	case RuleRetransmitFirst:
		say(s.report(rule, r, p, most.nakID), s.retransmission(most.una)+", the packet that the NACK asked for", actual)
	case RuleResendAcknowledged:
		least := q.una.least()
		say(s.report(rule, r, p, least.id), s.retransmission(least.una)+" or later: everything before is acknowledged", actual)
	default:
		say(s.report(rule, r, p, most.id), s.retransmission(most.una)+", the oldest unacknowledged packet", actual)
	}
}

// sentFirst follows a request that was not sent before.
func (s *session) sentFirst(r *trace.Record, p, n pos, input uint8) {
	q := &s.req
	switch input {
	case rqCaptureGap:
		s.captureGap(r, p)
	case rqPSNSkip:
		q.message = message{unknown: true}
	}
	s.checkMessage(r, p, n)
	s.checkLateAck(r, p)
	if r.Opcode == packet.ReadRequest || r.Opcode.Verb() == packet.VerbAtomic {
		q.spans.push(span{
			first: p, last: p + n - 1, va: r.VA, id: r.ID, length: r.DMALen, atomic: r.Opcode != packet.ReadRequest,
		})
	}
	q.window.put(p, q.una.most().una, r)
}

func (s *session) captureGap(r *trace.Record, p pos) {
	q := &s.req
	q.message = message{unknown: true}
	s.rsp.adrift = true
	say(s.report(RuleCaptureGap, r, p, q.lastID),
		fmt.Sprintf("psn %d, the next one", q.next+1),
		fmt.Sprintf("%s: lost before the tap, by the capture, or never sent", s.request(r.Opcode, p)))
}

// sentAgain compares a repeated request with the original, and returns how many PSNs it should take.
func (s *session) sentAgain(r *trace.Record, p, n pos) pos {
	q := &s.req
	if sp, ok := q.spans.covering(p); ok && !sp.atomic {
		s.readAgain(r, p, sp)
		n = sp.last + 1 - p
	} else if old, ok := q.window.get(p); ok {
		if old.opcode != r.Opcode || old.payload != r.PayloadLen || old.va != r.VA || old.dmaLen != r.DMALen {
			say(s.report(RuleRetransmitChanged, r, p, old.id),
				fmt.Sprintf("%v of %d bytes, va 0x%x, dma length %d", old.opcode, old.payload, old.va, old.dmaLen),
				fmt.Sprintf("%v of %d bytes, va 0x%x, dma length %d", r.Opcode, r.PayloadLen, r.VA, r.DMALen))
		}
	}
	q.window.put(p, q.una.most().una, r)
	return n
}

// readAgain compares a repeated READ request with the rest of the original from p on.
func (s *session) readAgain(r *trace.Record, p pos, sp *span) {
	done := (p - sp.first) * int64(s.mtu)
	va, length := sp.va+uint64(done), int64(sp.length)-done
	if r.Opcode == packet.ReadRequest && r.VA == va && int64(r.DMALen) == length {
		return
	}
	say(s.report(RuleReadRestart, r, p, sp.id),
		fmt.Sprintf("READ_REQUEST of %d bytes at va 0x%x", length, va),
		fmt.Sprintf("%v of %d bytes at va 0x%x", r.Opcode, r.DMALen, r.VA))
}

// finishRequester judges the end state of the requester.
func (s *session) finishRequester() {
	q := &s.req
	most := q.una.most()
	if most.una >= q.next || s.limits.ErrorsExpected {
		return
	}
	rule := RuleIncomplete
	if most.nak != nakNone && !most.answered && q.state == rqNacked {
		rule = RuleNakUnanswered
	}
	var last uint64
	if k, ok := q.window.get(most.una); ok {
		last = k.id
	}
	f := s.report(rule, nil, most.una, last, most.nakID)
	if f != nil && s.captured {
		f.Severity = analyzers.Warning // the capture may simply have ended
	}
	say(f, fmt.Sprintf("everything up to psn %d acknowledged", q.next),
		fmt.Sprintf("nothing acknowledged from psn %d on", most.una+1))
}
