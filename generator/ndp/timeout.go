package ndp

import (
	"math/bits"

	"candela.dev/candela/clock"
)

// timeout is a retransmission timer. Timers of one level have one duration and expire in the order of their start, so
// each level has a FIFO. An answered timer is dropped at the front of its queue.
type timeout struct {
	at     clock.Time
	sender uint32
	seq    uint32 // or stalled
	sent   uint32 // ordinal of the transmission; a later one has its own timer
}

const (
	timeoutLevels = 7 // RTO << 0 to RTO << 6
	stalled       = 1<<32 - 1
)

func (h *Host) rto(level int) clock.Duration {
	d := h.cfg.RTO
	if h.cfg.Bugs.Has(BugEarlyTimeout) {
		d /= 16
	}
	return d << level
}

// arm starts the timer of a packet that was just sent.
func (h *Host) arm(now clock.Time, s *sender, seq uint32, slot *slot) {
	level := min(int(slot.tries), timeoutLevels-1)
	h.start(now, level, timeout{sender: s.index, seq: seq, sent: slot.sent})
}

// armStall starts the timer of a connection with no packets in flight and no credit: its PULL may be lost.
func (h *Host) armStall(now clock.Time, s *sender) {
	h.start(now, 0, timeout{sender: s.index, seq: stalled, sent: s.ordinal + s.heard + s.pulled})
}

// start starts a timer. When there is no room for it, answered ones leave; room is made if these were few.
func (h *Host) start(now clock.Time, level int, t timeout) {
	q := &h.timeouts[level]
	if q.len() == len(q.ring) {
		for q.len() > 0 && !h.stands(q.front()) {
			q.head++
		}
		if q.len() > len(q.ring)/4*3 {
			q.grow()
		}
	}
	t.at = now.Add(h.rto(level))
	q.push(t)
	h.armed |= 1 << level
	h.expiry = min(h.expiry, t.at)
}

// stands reports whether t is still unanswered.
func (h *Host) stands(t *timeout) bool {
	s := h.senders[t.sender]
	if s.done {
		return false
	}
	if t.seq == stalled {
		return s.inFlight == 0 && s.ordinal+s.heard+s.pulled == t.sent
	}
	if !s.window.holds(t.seq) {
		return false
	}
	slot := s.window.at(t.seq)
	return slot.state == unanswered && slot.sent == t.sent
}

// nextTimeout returns when the first unanswered timer expires.
func (h *Host) nextTimeout() clock.Time {
	at := clock.Never
	for armed := h.armed; armed != 0; armed &= armed - 1 {
		level := bits.TrailingZeros8(armed)
		q := &h.timeouts[level]
		for q.len() > 0 && !h.stands(q.front()) {
			q.head++
		}
		if q.len() > 0 {
			at = min(at, q.front().at)
		} else {
			h.armed &^= 1 << level
		}
	}
	return at
}

func (h *Host) serveTimeouts(now clock.Time) {
	for level := range h.timeouts {
		q := &h.timeouts[level]
		for q.len() > 0 && q.front().at <= now {
			if t := q.pop(); h.stands(&t) {
				h.expire(now, t)
			}
		}
	}
	h.expiry = h.nextTimeout()
}

// expire sends one packet without a PULL: the lost one, or the next one of a stalled connection.
func (h *Host) expire(now clock.Time, t timeout) {
	s := h.senders[t.sender]
	h.counters.Timeouts++
	if t.seq != stalled {
		s.window.at(t.seq).tries++
		s.missing(t.seq, CauseTimeout)
	}
	s.credits++
	h.report(now, Event{Kind: TimedOut, Sender: h.cfg.Address, Receiver: s.to, Connection: s.connection, Seq: t.seq})
	s.activate()
}
