package rounds

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func (s *stream) response(r *trace.Record, step *Step) {
	if !s.started {
		return
	}
	if r.Has(trace.Sent) {
		s.answer(r, step)
	}
	if r.Delivered() {
		s.learn(r, step)
		s.activity = max(s.activity, r.TimeNS)
	} else if r.HeaderArrives() {
		s.learnHeader(r, step)
	}
}

// answer handles a response, which proves what the responder had received.
func (s *stream) answer(r *trace.Record, step *Step) {
	place := step.Place
	switch {
	case r.Opcode != packet.Acknowledge:
		s.reply(r, step)
	case r.Syndrome.IsAck():
		if place >= s.want && place < s.high {
			s.want = place + 1
			s.gapOpen, s.gapNS = false, Never
		}
	case r.Syndrome == packet.SyndromeNakSequence:
		s.answersGap(step)
		if place == s.want || !s.lossKnown { // an older one was sent before the repetition arrived
			s.reject(place)
		}
	case r.Syndrome.IsRNR():
		if place <= s.highDuplicate {
			s.unsure = true
			step.Marks |= Unsure
		}
		s.reject(place)
	}
}

// answersGap finds the packet that a sequence NAK requests. If the loss was not visible, it is the packet after the
// missing one.
func (s *stream) answersGap(step *Step) {
	switch {
	case s.gapOpen && s.gapNS != Never && step.Place == s.want:
		step.Marks |= AnswersGap
		step.CauseNS = s.gapNS
	case !s.gapOpen && step.Place < s.want:
		if behind := s.sent.get(step.Place + 1); behind.Known && !behind.Lost {
			step.Marks |= AnswersGap
			step.CauseNS = behind.NS
		}
	}
}

// reject records that the responder waits for place: later requests are dropped silently until it arrives.
func (s *stream) reject(place int64) {
	if place <= s.want {
		s.want = place
		s.highDuplicate = min(s.highDuplicate, place-1)
		s.gapOpen, s.gapNS = true, Never
	}
}

// reply handles a READ response or an atomic ACK.
func (s *stream) reply(r *trace.Record, step *Step) {
	place := step.Place
	prev := s.replies.get(place)
	e := txEntry{ns: r.TimeNS, lost: lost(r), tries: prev.Tries}
	rp := &s.replay
	if rp.active && place >= rp.from && place < rp.end {
		step.Cause, step.Prev = rp.cause, prev
		if prev.Known {
			step.Marks |= Retransmitted
		}
		if place == rp.from && !rp.begun {
			rp.begun = true
			step.Marks |= FirstReplay
			step.CauseNS = rp.ns
		}
		if !rp.repaired && (prev.Lost || prev.Known && step.Is(FirstReplay)) {
			rp.repaired = true
			step.Marks |= Repair
		}
		if rp.cause == Timeout && prev.Known {
			e.tries++
		}
	}
	s.replies.put(place, s.una, e)
}

// learn follows a response on its way to the sender.
func (s *stream) learn(r *trace.Record, step *Step) {
	place := step.Place
	acked := place + 1
	before, beforeNS := s.pending, s.pendingNS
	switch {
	case r.Opcode != packet.Acknowledge:
		if !s.reads.deliver(place) {
			s.skipped(r, step, place)
		} else if s.readGap.open && place >= s.readGap.place {
			s.readGap.open = false
		}
		acked = s.reads.limit(acked)
	case r.Syndrome.IsAck():
		s.skipped(r, step, place)
	case r.Syndrome == packet.SyndromeNakSequence, r.Syndrome.IsRNR():
		acked = place
		s.skipped(r, step, place-1)
		if s.reads.limit(place) == place { // otherwise what is missing before it is asked for first
			s.pushNak(nak{place: place, ns: r.TimeNS, timerNS: rnrTimer(r.Syndrome), advanced: place > s.una})
		}
	case r.Syndrome.IsNak(): // it ends the connection, unless something before it is missing
		acked = place
		s.skipped(r, step, place-1)
	default:
		return
	}
	if s.pending > before {
		s.pendingNS = r.TimeNS
	}
	s.acknowledge(min(s.reads.limit(acked), s.high), r.TimeNS, step)
	if step.Is(Progress) && before > 0 {
		s.carried, s.carriedNS = before, beforeNS
	}
}

// rnrTimer returns the wait in an RNR NAK, 0 for other syndromes.
func rnrTimer(s packet.Syndrome) int64 {
	if !s.IsRNR() {
		return 0
	}
	return packet.RNRTimer(s.TimerCode())
}

// skipped handles a response for place while an earlier READ or atomic response is due: an implied NAK.
func (s *stream) skipped(r *trace.Record, step *Step, place int64) {
	due := s.reads.first()
	if due == nil || place < due.next {
		return
	}
	if place >= s.high { // of a request that was not sent yet, but may be by the time the response arrives
		s.carried++
		s.carriedNS, s.owedNS = r.TimeNS, r.TimeNS+StallWindowNS
		return
	}
	step.Marks |= OutOfOrder
	if r.Opcode == packet.Acknowledge {
		step.Marks |= ByAck
	}
	g := &s.readGap
	switch {
	case !g.open:
		g.open, g.answered, g.repeated, g.advanced = true, false, false, due.next > s.una
		g.restores = g.advanced && r.Opcode == packet.Acknowledge && !r.Syndrome.IsAck()
		g.place, g.ns = due.next, r.TimeNS
		step.Marks |= GapOpened
		s.pending++
	case g.answered && !g.repeated:
		g.repeated = true
		s.pending++
	}
}

func (s *stream) pushNak(n nak) {
	if s.nNaks == maxNaks {
		s.dropNaks(1)
	}
	s.pending++
	s.naks[s.nNaks] = n
	s.nNaks++
}

// acknowledge moves the oldest unacknowledged request up to una.
func (s *stream) acknowledge(una, ns int64, step *Step) {
	if una <= s.una {
		return
	}
	step.Marks |= Progress
	step.QuietNS = ns - s.timerNS
	s.stalls.add(ns, step.QuietNS)
	s.una, s.unaNS = una, ns
	if s.nNaks == 0 {
		s.timerNS = ns
	}
	s.retries, s.rnrRetries = 0, 0
	if s.una == s.high {
		if s.pending > 0 {
			s.owedNS = ns + StallWindowNS // the requester may send on before it gets round to the restart
		}
		s.lost, s.pending, s.unsure = 0, 0, false
		s.want = max(s.want, s.high)
		s.forgetNaks()
	}
}

// forgetNaks drops what can no longer cause a restart inside the window.
func (s *stream) forgetNaks() {
	kept := 0
	for i := range s.nNaks {
		if s.naks[i].place >= s.una {
			s.naks[kept] = s.naks[i]
			kept++
		}
	}
	s.nNaks = kept
}
