package gbn_test

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// simRequester sends the messages; end is the PSN after the last.
type simRequester struct {
	s              *simulation
	end            int64
	una, cur, next int64
	skip           bool  // skips what is acknowledged when it can
	pipeline       int   // packets still sent between a NACK and the restart
	pending        int   // packets left until the restart; 0: none pending
	pausedUntil    int64 // RNR
	timer          int   // generation
	pumping        bool
	implied        int64 // missing response that was requested again
	gaveUp         bool
}

func (a *simRequester) armTimer() {
	a.timer++
	gen, t := a.timer, a.s.cfg.timeoutNS
	if a.s.cfg.bug == bugEarlyTimeout {
		t /= 50
	}
	a.s.after(t+a.s.rng.Int64N(t), func() {
		if gen != a.timer || a.una >= a.next || a.gaveUp {
			return
		}
		if a.s.cfg.bug == bugEarlyTimeout {
			a.s.fired = true
		}
		a.implied = -1
		a.restart()
		a.wake()
	})
}

func (a *simRequester) wake() {
	if !a.pumping {
		a.pumping = true
		a.s.after(a.s.rng.Int64N(300)+1, a.pump)
	}
}

// restart goes back to the oldest unacknowledged packet.
func (a *simRequester) restart() {
	a.cur, a.pending = a.una, 0
	if a.una >= a.next {
		a.cur = a.next
		return
	}
	a.armTimer()
	switch a.s.cfg.bug {
	case bugRestartNext:
		if a.una+1 < a.next && a.s.messageAt(a.una).verb != packet.VerbRead {
			a.cur, a.s.fired = a.una+1, true
		}
	case bugRestartEarlier:
		if a.una > 2 && a.s.messageAt(a.una-2).verb != packet.VerbRead {
			a.cur, a.s.fired = a.una-2, true
		}
	}
}

func (a *simRequester) pump() {
	a.pumping = false
	if a.gaveUp {
		return
	}
	if a.s.nowNS < a.pausedUntil {
		a.s.after(a.pausedUntil-a.s.nowNS, a.wake)
		return
	}
	if a.pending > 0 {
		if a.pending--; a.pending == 0 {
			a.restart()
		}
	}
	if a.skip && a.cur < a.una {
		a.cur = a.una
	}
	if a.cur >= a.end || a.cur >= a.next && a.next-a.una >= int64(a.s.cfg.window) {
		if a.pending > 0 {
			a.restart()
			a.wake()
		}
		return
	}
	a.sendOne()
	a.wake()
}

func (a *simRequester) sendOne() {
	p, n := a.build(a.cur)
	repeated := a.cur < a.next
	if !repeated && a.s.cfg.bug == bugSkipPSN && a.cur > 5 && !a.s.fired && a.s.messageAt(a.cur).verb != packet.VerbRead &&
		a.cur+1 < a.end {
		a.s.fired = true
		a.cur++
		p, n = a.build(a.cur)
	}
	if repeated && a.s.cfg.bug == bugChangeLength && p.PayloadLen > 8 {
		p.PayloadLen -= 4
		a.s.fired = true
	}
	if a.una == a.next {
		defer a.armTimer()
	}
	a.s.send(true, p)
	a.cur += n
	if repeated && a.s.cfg.bug == bugSelective && a.cur < a.next && a.una == a.cur-1 {
		a.cur = a.next
		a.s.fired = a.s.fired || a.next < a.end && a.next-a.una < int64(a.s.cfg.window)
	}
	a.next = max(a.next, a.cur)
}

// build makes the request at rel and returns how many PSNs it takes.
func (a *simRequester) build(rel int64) (simPacket, int64) {
	m := a.s.messageAt(rel)
	p := simPacket{rel: rel}
	done := (rel - m.first) * mtu
	switch m.verb {
	case packet.VerbRead:
		p.Opcode, p.Flags = packet.ReadRequest, trace.HasRETH|trace.AckReq
		p.VA, p.DMALen = uint64(m.first*4096+done), uint32(m.length-done)
		if a.s.cfg.bug == bugReadRestartOld && done > 0 {
			p.DMALen, a.s.fired = uint32(m.length), true
		}
		return p, m.last + 1 - rel
	case packet.VerbAtomic:
		p.Opcode, p.Flags = packet.FetchAdd, trace.AckReq
		return p, 1
	}
	base := packet.SendFirst
	if m.verb == packet.VerbWrite {
		base = packet.WriteFirst
		if rel == m.first {
			p.VA, p.DMALen, p.Flags = uint64(m.first*4096), uint32(m.length), trace.HasRETH
		}
	}
	p.Opcode, p.PayloadLen = base+1, mtu
	switch {
	case m.first == m.last:
		p.Opcode = base + 4
	case rel == m.first:
		p.Opcode = base
	case rel == m.last:
		p.Opcode = base + 2
	case a.s.cfg.bug == bugWrongMiddleSize:
		p.PayloadLen, a.s.fired = mtu-4, true
	}
	if rel == m.last {
		p.PayloadLen = uint16(m.length - done)
		p.Flags |= trace.AckReq
	} else if rel%7 == 3 {
		p.Flags |= trace.AckReq
	}
	p.PadCount = uint8(-int(p.PayloadLen) & 3)
	if a.s.cfg.bug == bugWrongPad && p.PadCount != 0 {
		p.PadCount, a.s.fired = 0, true
	}
	return p, 1
}

// readAhead returns the first PSN at or after una that only data can acknowledge, or end.
func (a *simRequester) readAhead() int64 {
	for rel := a.una; rel < a.next; {
		m := a.s.messageAt(rel)
		if m.verb == packet.VerbRead || m.verb == packet.VerbAtomic {
			return rel
		}
		rel = m.last + 1
	}
	return a.end + 1
}

func (a *simRequester) advance(una int64) {
	if una = min(una, a.next); una <= a.una {
		return
	}
	a.una = una
	if a.s.cfg.bug == bugIgnoreNak && a.una == a.end {
		return
	}
	if a.una < a.next {
		a.armTimer()
	} else {
		a.timer++
	}
	a.wake()
}

func (a *simRequester) goBack() {
	if a.s.cfg.bug == bugIgnoreNak {
		a.gaveUp, a.s.fired = true, true
		return
	}
	if a.pending == 0 {
		a.pending = 1 + a.s.rng.IntN(a.pipeline+1)
	}
	a.armTimer()
	a.wake()
}

func (a *simRequester) implyNak() {
	if a.implied != a.una {
		a.implied = a.una
		a.goBack()
	}
}

func (a *simRequester) receive(p simPacket) {
	read := a.readAhead()
	switch {
	case p.Opcode != packet.Acknowledge:
		if p.rel == read {
			a.advance(p.rel + 1)
		} else if p.rel > read {
			a.advance(read)
			a.implyNak()
		}
	case p.Syndrome.IsAck():
		a.advance(min(p.rel+1, read))
		if p.rel >= read {
			a.implyNak()
		}
	default:
		if p.rel < a.una {
			return
		}
		a.advance(min(p.rel, read))
		if p.Syndrome.IsRNR() {
			a.pausedUntil = a.s.nowNS + packet.RNRTimer(p.Syndrome.TimerCode())
			a.pending = 1
			a.timer++ // starts again at the restart
			a.wake()
			return
		}
		a.goBack()
	}
}
