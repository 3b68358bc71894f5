package switchtest_test

import (
	"candela.dev/candela/clock"
	packet "candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// lockRequest names a request of a client.
type lockRequest struct {
	lock, tid uint32
	host      fabric.HostID
	thread    uint8
}

// lockUse is what the taps of a switch show of a request.
type lockUse struct {
	mode          packet.Mode
	first         clock.Time // ACQUIRE
	asks, answers int
	absorbed      int  // ACQUIREs that the switch dropped
	rejects       int  // of the answers
	forwarded     int  // copies that went to a server
	away          int  // of them, those that may be there
	released      bool // once
	askedSince    bool // the last time that it was released
	since         int  // place of its hold in holds plus 1; 0: it holds nothing
}

// lockHold is a grant of a request until its release. A lease ends it after earliest at the earliest, and after latest
// if it began as the grant left. Doubtful: an answer to a copy that may have been on its way when the lock was
// released.
type lockHold struct {
	request                  lockRequest
	mode                     packet.Mode
	asked, granted, released clock.Time
	earliest, latest         clock.Time
	doubtful                 bool
}

// lockTaps makes histories of locks from what enters and leaves a switch.
type lockTaps struct {
	lease    clock.Duration
	uses     map[lockRequest]*lockUse
	holds    []lockHold
	last     clock.Time // packet
	unasked  int        // answers without a request
	suspects int        // answers for which no copy of the request may have been left
}

func (h *lockTaps) packet(t *trace.SwitchTap, p *packet.Header) {
	answers := t.Flags&trace.Returned != 0
	client := t.Src
	if answers {
		client = t.Dst
	}
	k := lockRequest{p.Lock, p.Transaction, fabric.HostID(client), p.Client}
	u := h.uses[k]
	h.last = t.Time
	switch {
	case t.Internal && t.Stage != trace.Dropped:
	case t.Stage == trace.Entered:
		h.enters(t, k, p, answers)
	case u == nil && (t.Stage != trace.Left || !answers):
	case t.Stage == trace.Dropped:
		const taken = fabric.ReasonOwn // by the switch, which processes it
		if p.Op == packet.Acquire && !answers && fabric.Reason(t.Reason) != taken {
			u.absorbed++
		}
	case !answers && p.Op == packet.Acquire:
		u.forwarded++
		u.away++
	case !answers:
	case p.Op == packet.Reject:
		if h.answered(u) {
			u.rejects++
		}
	case p.Op == packet.Acquire, p.Op == packet.PushBack, p.Op == packet.GrantFromServer:
		h.granted(t.Time, k, u)
	}
}

// enters follows what comes to the switch.
func (h *lockTaps) enters(t *trace.SwitchTap, k lockRequest, p *packet.Header, answers bool) {
	u := h.uses[k]
	switch {
	case p.Op == packet.Acquire && !answers:
		if u == nil {
			u = &lockUse{mode: p.Mode, first: t.Time}
			h.uses[k] = u
		}
		u.asks++
		u.askedSince = true
	case u == nil:
	case p.Op == packet.Release && u.since > 0:
		h.holds[u.since-1].released = t.Time
		u.since, u.released, u.askedSince = 0, true, false
	case p.Op == packet.PushBack && u.away > 0:
		u.away--
		u.askedSince = true
	}
}

// answered counts an answer to a request and reports whether there is one that it may be for.
func (h *lockTaps) answered(u *lockUse) bool {
	switch {
	case u == nil || u.answers >= u.asks:
		h.unasked++
		return false
	case u.answers >= u.asks-u.absorbed || u.released && u.since == 0 && !u.askedSince && u.away == 0:
		h.suspects++
	}
	u.answers++
	return true
}

func (h *lockTaps) granted(now clock.Time, k lockRequest, u *lockUse) {
	if !h.answered(u) {
		return
	}
	if u.since > 0 && (h.lease == 0 || now <= h.holds[u.since-1].latest) {
		return // it holds already
	}
	hold := lockHold{request: k, mode: u.mode, asked: u.first, granted: now, released: clock.Never, earliest: clock.Never,
		latest: clock.Never, doubtful: u.answers > 1}
	if h.lease > 0 {
		hold.earliest, hold.latest = u.first.Add(h.lease), now.Add(h.lease)
	}
	h.holds = append(h.holds, hold)
	u.since = len(h.holds)
}

// waiting counts the requests that have no grant at the end. lost: those that certainly should have one, as a switch
// that loses nothing has them, or a server that gets everything, and nobody has the lock. most: those of which a copy
// has no answer.
func (h *lockTaps) waiting(lossy bool) (lost, most int) {
	taken := make(map[uint32]bool)
	for i := range h.holds {
		if u := &h.holds[i]; u.released == clock.Never && h.lease == 0 {
			taken[u.request.lock] = true
		}
	}
	for k, u := range h.uses {
		if u.answers < u.asks-u.absorbed {
			most++
		}
		if u.answers == u.rejects && u.asks > u.absorbed+u.rejects && !taken[k.lock] && (!lossy || u.forwarded == 0) {
			lost++
		}
	}
	return lost, most
}
