package rounds

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// stream is the requests of one side of a connection and their responses.
type stream struct {
	mtu     int64
	near    int64 // place of the latest packet …
	nearPSN packet.PSN
	started bool

	// The sender of requests, as the observer sees it.
	next                int64 // place after the latest request
	high                int64 // place after the highest request
	sent                txLog
	round               Cause
	repaired            bool // this round has repaired a loss
	timed               bool // this round certainly started with a new timer
	lost                int  // packets whose latest transmission was lost
	retries, rnrRetries int
	timeout             struct{ place, ns int64 }
	activity            int64
	timerNS             int64 // when the timer was last started or reloaded: busy again, progress, timeout

	// What responses passed to the sender.
	una    int64 // place of the oldest request not acknowledged
	unaNS  int64 // when a response first said so; Never at the start
	stalls stalls
	naks   [maxNaks]nak
	nNaks  int
	// pending counts causes of restarts that were not seen: the sender may have progressed before it restarted.
	pending   int
	pendingNS int64 // when the latest of it was incurred
	owedNS    int64 // until when such a restart may be seen although everything was acknowledged meanwhile
	// carried is what was pending before the latest progress: its restart goes to the oldest unacknowledged packet by
	// then, and was counted before the progress restored the retries.
	carried   int
	carriedNS int64
	// unspent is a NAK to whose place a restart went that an older NAK may have caused: it may cause another one there.
	unspent struct{ place, ns int64 }
	// doubtful is the place of a NAK, sent or implied, whose restart a timeout may also explain if the timer ran for
	// quiet: the NAK may then cause another restart there.
	doubtful, quiet int64

	// The responder.
	want int64 // next request it accepts
	// unsure: an RNR NAK crossed a repetition of the request that it refuses, so want may be too low.
	unsure        bool
	highDuplicate int64
	lossKnown     bool  // the observer sees every loss
	gapNS         int64 // when the first out-of-order request passed; Never: in order, or already answered

	// READ and atomic responses.
	reads   readQueue
	readGap struct {
		open, answered     bool
		repeated, advanced bool // another out-of-order response since the answer; the first one acknowledged something new
		restores           bool // a NAK opened it that acknowledged something new, which restores the retries
		place, ns          int64
	}
	replies txLog
	replay  struct {
		active, repaired, begun bool
		cause                   Cause
		from, end, ns           int64
	}
	gapOpen bool

	// Trimmed headers: how their receivers react, and when the latest of a READ response passed that may still cause a
	// repeated READ request.
	responderTrims, requesterTrims trace.TrimReaction
	trimNS                         int64
	trimmed                        bool
}

const maxNaks = 8

// nak is a sequence NAK, or an RNR NAK with the time to wait.
type nak struct {
	place, ns, timerNS int64
	advanced           bool // it acknowledged something new, so that its place cannot have been the oldest before
}

// place unwraps psn next to the latest packet of the stream.
func (s *stream) place(psn packet.PSN) int64 { return s.near + int64(psn.Sub(s.nearPSN)) }

// lost reports whether the receiver does not get the packet. Without known events only a bad iCRC shows it.
func lost(r *trace.Record) bool {
	return r.Lost() || r.ICRC == packet.ICRCInvalid
}

// readLike reports whether an o request is answered by responses rather than by an ACK.
func readLike(o packet.Opcode) bool {
	return o == packet.ReadRequest || o == packet.CmpSwap || o == packet.FetchAdd
}

// span returns how many places a request takes.
func (s *stream) span(r *trace.Record) int64 {
	if r.Opcode != packet.ReadRequest || !r.Has(trace.HasRETH) {
		return 1
	}
	return max(1, (int64(r.DMALen)+s.mtu-1)/s.mtu)
}

// ordinary handles r if it is what nearly all requests are: a packet of a SEND or WRITE, sent for the first time, in
// order, to a responder that expects and gets it. It does what request does for such a packet (a test compares them).
// For any other packet it returns false and does nothing.
func (s *stream) ordinary(r *trace.Record) bool {
	if !s.started || r.Event != trace.EventNone ||
		r.Flags&(trace.Sent|trace.Passed|trace.ForeignPKey) != trace.Sent|trace.Passed ||
		r.ICRC == packet.ICRCInvalid || readLike(r.Opcode) || s.unsure {
		return false
	}
	place := s.place(r.PSN)
	if place != s.next || place != s.high || place != s.want {
		return false
	}
	s.near, s.nearPSN = place, r.PSN
	if s.una == s.high {
		s.timerNS = r.TimeNS
	}
	s.sent.put(place, s.una, txEntry{ns: r.TimeNS, timer: true})
	s.next, s.high, s.want, s.activity = place+1, place+1, place+1, r.TimeNS
	s.gapOpen, s.gapNS = false, Never
	return true
}

func (s *stream) request(r *trace.Record, step *Step, strict bool) {
	place, end := step.Place, step.Place+s.span(r)
	if !s.started {
		s.start(place, strict)
	}
	s.near, s.nearPSN = place, r.PSN
	if r.Has(trace.Sent) {
		s.send(r, step, end)
	}
	if r.Delivered() {
		s.receive(r, step, end)
	} else if r.HeaderArrives() {
		s.receiveHeader(step)
	}
}

func (s *stream) start(place int64, strict bool) {
	s.started = true
	s.next, s.high, s.una, s.want = place, place, place, place
	if strict {
		s.want = 1
	}
	s.unaNS, s.gapNS, s.doubtful, s.highDuplicate = Never, Never, Never, Never
	s.timeout.place, s.unspent.place, s.activity, s.owedNS = Never, Never, Never, Never
}

// send follows a request on its way from the sender.
func (s *stream) send(r *trace.Record, step *Step, end int64) {
	place := step.Place
	if place < s.high {
		step.Marks |= Retransmitted
		step.Prev = s.sent.get(place)
	}
	if place < s.next {
		s.restart(r, step)
	}
	if s.una == s.high {
		s.timerNS = r.TimeNS
	}
	e := txEntry{ns: r.TimeNS, lost: lost(r), timer: true}
	if step.Is(Retransmitted) {
		step.Cause = s.round
		s.repair(r, step)
		e.tries = step.Prev.Tries
		if s.round == Timeout {
			e.tries++
		}
		e.timer = s.timed // a NIC may let the timer run on over a NAK
	}
	s.count(step.Prev, e.lost)
	s.sent.put(place, s.una, e)
	if readLike(r.Opcode) {
		s.ask(r, step, end)
	}
	s.next, s.high, s.activity = end, max(s.high, end), r.TimeNS
}

// count keeps the number of packets whose latest transmission was lost.
func (s *stream) count(prev Transmission, lostNow bool) {
	if prev.Lost && s.lost > 0 {
		s.lost--
	}
	if lostNow {
		s.lost++
	}
}

// repair marks the first retransmission of a round that repairs a loss. A repeated READ whose request was not lost
// repairs lost responses: their replay is the repair.
func (s *stream) repair(r *trace.Record, step *Step) {
	blind := s.lost == 0 && step.Is(Restart) && !(readLike(r.Opcode) && s.replies.get(step.Place).Known)
	if !s.repaired && (step.Prev.Lost || blind) {
		s.repaired = true
		step.Marks |= Repair
	}
}

// restart finds out why the sender jumped back to step.Place.
func (s *stream) restart(r *trace.Record, step *Step) {
	place := step.Place
	step.Marks |= Restart
	step.OutOfWindow = place < s.una
	step.ActivityNS = s.activity
	step.QuietNS = r.TimeNS - s.timerNS
	step.StallNS = s.stalls.recent(r.TimeNS)
	step.ProgressNS, step.TimerNS = s.timerStart(place, step.Prev)
	step.Certain = place == s.una
	sure := false
	older := s.carried > 0 && r.TimeNS-s.carriedNS < StallWindowNS
	unspent := s.unspent.place == place && r.TimeNS-s.unspent.ns < StallWindowNS
	switch i := s.findNak(place); {
	// too soon for this RNR NAK, which is still to be obeyed
	case i >= 0 && (older || unspent) && r.TimeNS-s.naks[i].ns < s.naks[i].timerNS:
		step.Cause, step.CauseNS, step.Certain = Nack, s.carriedNS, false
		s.pending--
		s.doubt(step)
		if !older {
			older, s.unspent.place = true, Never
		}
	case i >= 0:
		if older && s.naks[i].timerNS == 0 {
			s.unspent.place, s.unspent.ns = place, s.naks[i].ns
		}
		s.explain(step, s.naks[i])
		s.dropNaks(i + 1)
	case readLike(r.Opcode) && s.readGap.open && !s.readGap.answered && place == s.readGap.place:
		step.Cause, step.CauseNS = Implied, s.readGap.ns
		step.Certain = s.readGap.advanced
		if s.trimmed && s.trimNS < s.readGap.ns && s.requesterTrims == trace.TrimAnswered {
			step.CauseNS = s.trimNS
		}
		s.trimmed = false
		s.readGap.answered, s.readGap.repeated = true, false
		if s.readGap.restores { // maybe after the restart was counted
			older, s.readGap.restores = true, false
		}
		s.pending--
		s.doubt(step)
	case s.byTrim(r):
		step.Cause, step.CauseNS = Implied, s.trimNS
		step.Marks |= ByTrim
		step.Certain = false
		s.pending--
		s.trimmed = false
		s.doubt(step)
	default:
		step.Cause = Timeout
		step.Certain = step.Certain && s.pending <= 0 && r.TimeNS > s.owedNS
		if s.doubtful == place {
			step.DoubtNS = s.quiet
		}
		s.doubtful = Never
		s.timerNS = r.TimeNS
		if sure = step.Certain && step.DoubtNS == 0; sure {
			s.timeout.place, s.timeout.ns = place, r.TimeNS
		}
	}
	step.Carried = older
	switch {
	case step.Carried:
		s.carried = max(0, s.carried-1)
	case step.OutOfWindow: // it was sent before the acknowledgement arrived, which then reloaded the retries
	case step.Cause == RNR:
		s.rnrRetries++
	case !s.notReady():
		s.retries++
	}
	step.Retries, step.RNRRetries = s.retries, s.rnrRetries
	s.round, s.repaired, s.timed = step.Cause, false, sure
}

// explain attributes a restart to n.
func (s *stream) explain(step *Step, n nak) {
	step.Cause, step.CauseNS, step.RNRTimerNS = Nack, n.ns, n.timerNS
	s.pending--
	step.Certain = n.advanced
	if n.timerNS > 0 {
		step.Cause = RNR
	}
	s.doubt(step)
}

// notReady reports whether an RNR NAK waits for its restart.
func (s *stream) notReady() bool {
	for i := range s.nNaks {
		if s.naks[i].timerNS > 0 {
			return true
		}
	}
	return false
}

// doubt remembers a restart that a timeout could also explain.
func (s *stream) doubt(step *Step) {
	s.doubtful, s.quiet = step.Place, step.QuietNS
	if step.Certain {
		s.doubtful = Never
	}
}

// timerStart returns lower bounds for the start of the timer that now expired for place.
func (s *stream) timerStart(place int64, prev Transmission) (progress, timer int64) {
	progress, timer = Never, Never
	if place == s.una {
		progress = s.unaNS
	}
	if prev.Known && prev.timer {
		timer = prev.NS
	}
	if s.timeout.place == place {
		timer = max(timer, s.timeout.ns)
	}
	return progress, timer
}

func (s *stream) findNak(place int64) int {
	for i := range s.nNaks {
		if s.naks[i].place == place {
			return i
		}
	}
	return -1
}

// dropNaks forgets the n oldest NAKs: the sender handles them in order.
func (s *stream) dropNaks(n int) {
	copy(s.naks[:], s.naks[n:s.nNaks])
	s.nNaks -= n
}

// ask follows a READ or atomic request.
func (s *stream) ask(r *trace.Record, step *Step, end int64) {
	if step.Place >= s.high {
		s.reads.push(read{next: step.Place, end: end})
		return
	}
	if !step.Is(Retransmitted) {
		return
	}
	s.replay.active = !lost(r)
	s.replay.cause, s.replay.from, s.replay.end, s.replay.ns = s.round, step.Place, end, r.TimeNS
	s.replay.begun = false
	s.replay.repaired = step.Is(Repair)
}

// receive follows a request that reaches the responder.
func (s *stream) receive(r *trace.Record, step *Step, end int64) {
	if s.unsure {
		step.Marks |= Unsure
	}
	switch place := step.Place; {
	case place < s.want:
		step.Marks |= Duplicate
		s.highDuplicate = max(s.highDuplicate, place)
	case place == s.want:
		s.want = end
		s.gapOpen, s.gapNS = false, Never
	default:
		step.Marks |= OutOfOrder
		if !s.gapOpen {
			s.gapOpen, s.gapNS = true, r.TimeNS
			step.Marks |= GapOpened
		}
	}
}
