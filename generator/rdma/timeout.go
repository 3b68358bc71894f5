package rdma

import "candela.dev/candela/clock"

// timer returns the duration of the local ACK timer if it starts now.
func (r *requester) timer() clock.Duration {
	n := r.q.nic
	p := &n.profile
	if n.cfg.AdaptiveRetrans {
		return r.adaptiveTimer()
	}
	if r.expiries > 0 || p.FirstTimeoutHigh == 0 {
		return r.ackTimeout
	}
	share := p.FirstTimeoutLow + float64((p.FirstTimeoutHigh-p.FirstTimeoutLow)*n.cfg.Rand.Float64())
	return clock.Duration(float64(r.ackTimeout) * share)
}

// adaptiveTimer returns the timeout at the current level of the profile's adaptive schedule.
func (r *requester) adaptiveTimer() clock.Duration {
	p := &r.q.nic.profile
	unit := float64(r.ackTimeout) / p.TimeoutFactor
	return clock.Duration(unit * p.AdaptiveSchedule[r.level])
}

// adapt serves the expiry of an adaptive timer and advances the schedule, which the end of a message does not reset. It
// reports whether the expiry is charged to the retry count (Lumina, table 5-II).
func (r *requester) adapt() (charged bool) {
	p := &r.q.nic.profile
	r.q.nic.counters.AdaptiveRet++
	last := len(p.AdaptiveSchedule) - 1
	atCeiling := r.level == last
	free := p.AdaptiveSchedule[r.level] <= p.AdaptiveFreeUpTo || r.expiries == 1 && (p.AdaptiveFirstFree || !atCeiling)
	r.level = min(r.level+1, last)
	return !free
}

// nackReaction returns the time from a NAK at now to its retransmission, with random spread.
func (n *NIC) nackReaction(now clock.Time) clock.Duration {
	d := n.profile.NackReaction
	if s := n.profile.NackReactionSpread; s > 0 {
		d += clock.Duration(n.cfg.Rand.Int64N(int64(s) + 1))
	}
	if n.profile.SerialReaction {
		n.reacted = max(n.reacted, now).Add(d)
		return n.reacted.Sub(now)
	}
	return d
}
