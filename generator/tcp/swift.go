package tcp

import (
	"fmt"
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// Swift configures Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
// Datacenter", SIGCOMM 2020; sections below are of that paper). Windows are in segments.
type Swift struct {
	BaseTarget     clock.Duration // of the fabric delay (3.5)
	HopScale       clock.Duration // added to it for each switch of the path: ħ (3.5)
	FlowRange      clock.Duration // most that flow scaling adds: fs_range (3.5)
	FlowMin        float64        // window from which on down flow scaling adds fs_range: fs_min_cwnd
	FlowMax        float64        // window from which on it adds nothing: fs_max_cwnd
	EndpointTarget clock.Duration // of the endpoint delay (3.3)
	Increase       float64        // additive increment of a round trip: ai (algorithm 1)
	Beta           float64        // multiplicative decrease: β
	MaxDecrease    float64        // greatest part that one decrease takes: max_mdf
	MinWindow      float64        // min_cwnd
	MaxWindow      float64        // max_cwnd
	ResetAfter     int            // timeouts in a row that reset the window to its minimum: RETX_RESET_THRESHOLD
}

func (c *Swift) validate(ecn packet.ECN) error {
	switch {
	case ecn != packet.NotECT:
		return fmt.Errorf("swift with ECN codepoint %d: Swift does not use ECN", ecn)
	case c.BaseTarget <= 0 || c.EndpointTarget <= 0 || c.HopScale < 0 || c.FlowRange < 0:
		return fmt.Errorf("swift's targets %v (fabric) and %v (endpoint): must be above 0, and what is added at least 0",
			c.BaseTarget, c.EndpointTarget)
	case !(c.FlowMin > 0 && c.FlowMin < c.FlowMax):
		return fmt.Errorf("swift's flow scaling from %v to %v segments: the first must be above 0 and below the second",
			c.FlowMin, c.FlowMax)
	case !(c.Increase > 0 && c.Beta > 0 && c.Beta <= 1 && c.MaxDecrease > 0 && c.MaxDecrease < 1):
		return fmt.Errorf("swift's increment %v, beta %v and greatest decrease %v: must be above 0, at most 1 and below 1",
			c.Increase, c.Beta, c.MaxDecrease)
	case !(c.MinWindow > 0 && c.MinWindow <= 1 && c.MaxWindow >= 1):
		return fmt.Errorf("swift's windows %v to %v segments: must be above 0 to at most 1, and at least 1", c.MinWindow,
			c.MaxWindow)
	case c.ResetAfter < 1:
		return fmt.Errorf("swift's reset after %d timeouts: must be at least 1", c.ResetAfter)
	}
	return nil
}

// target returns the target of the fabric delay in picoseconds, of a window and a path of so many switches (3.5).
func (c *Swift) target(window float64, hops int) float64 {
	low, high := 1/math.Sqrt(c.FlowMax), 1/math.Sqrt(c.FlowMin)
	scale := (1/math.Sqrt(window) - low) / (high - low)
	return float64(c.BaseTarget) + float64(hops)*float64(c.HopScale) + float64(c.FlowRange)*min(max(scale, 0), 1)
}

// aimd is one of Swift's two windows (algorithm 1).
type aimd struct {
	size    float64
	reduced clock.Time // latest decrease
}

// swift is a sender's state of Swift.
type swift struct {
	cfg              *Swift
	fabric, endpoint aimd
	rtt              clock.Duration // smoothed as SRTT is; 0: no sample yet
	remote           float64        // endpoint delay in ps, averaged; negative: not known yet
	timeouts         int            // in a row
	news             news
	sent             clock.Time // latest transmission
	began            bool       // there is one
}

// news is what the packet that has just arrived acknowledges.
type news struct {
	segments  int
	ordinal   uint64 // of the latest transmission among them
	sent      clock.Time
	ambiguous bool // it is a retransmission (Karn)
}

func newSwift(cfg *Config) *swift {
	if cfg.Control != SwiftControl {
		return nil
	}
	first := aimd{min(float64(cfg.InitialWindow), cfg.Swift.MaxWindow), -clock.Never}
	return &swift{cfg: &cfg.Swift, fabric: first, endpoint: first, remote: -1}
}

// delivers takes a segment that is acknowledged or SACKed for the first time.
func (w *swift) delivers(g *segment) {
	if w == nil {
		return
	}
	w.news.segments++
	if g.ordinal > w.news.ordinal {
		w.news.ordinal, w.news.sent, w.news.ambiguous = g.ordinal, g.sent, g.retransmitted
	}
}

// steer updates the windows after an acknowledgement that came through so many switches (algorithm 1). Its round trip
// is measured from the latest segment that is newly acknowledged, unless that is a retransmission.
func (h *Host) steer(now clock.Time, s *sender, a *Header, hops int) {
	w := s.swift
	if w == nil || w.news.segments == 0 {
		return
	}
	n := w.news
	w.news = news{}
	w.timeouts = 0
	if n.ambiguous {
		return
	}
	rtt, before := now.Sub(n.sent), w.rtt
	if w.rtt == 0 {
		w.rtt = rtt
	} else {
		w.rtt += (rtt - w.rtt) / 8
	}
	fabric := rtt
	if delay, ok := a.Delay(); ok {
		remote := clock.Duration(delay) * clock.Nanosecond
		if !h.bugs.Has(BugSwiftWholeRTT) {
			fabric = max(rtt-remote, 0)
		}
		if w.remote < 0 {
			w.remote = float64(remote)
		} else {
			w.remote += (float64(remote) - w.remote) / 8
		}
	}
	scaled := w.fabric.size
	if h.bugs.Has(BugSwiftNoFlowScaling) {
		scaled = w.cfg.FlowMax
	}
	h.adjust(w, &w.fabric, now, float64(fabric), w.cfg.target(scaled, hops), n.segments, before)
	if w.remote >= 0 {
		h.adjust(w, &w.endpoint, now, w.remote, float64(w.cfg.EndpointTarget), n.segments, before)
	}
	s.resize(now)
}

// adjust moves one window towards its target (algorithm 1).
func (h *Host) adjust(w *swift, a *aimd, now clock.Time, delay, target float64, segments int, rtt clock.Duration) {
	size := a.size
	switch {
	case delay < target || h.bugs.Has(BugSwiftIgnoresDelay):
		step := w.cfg.Increase * float64(segments)
		if size >= 1 && !h.bugs.Has(BugSwiftEagerIncrease) {
			step /= size
		}
		size += step
	case a.mayDecrease(now, rtt) || h.bugs.Has(BugSwiftDecreasesAlways):
		least := 1 - w.cfg.MaxDecrease
		if h.bugs.Has(BugSwiftDeepDecrease) {
			least = 0.05
		}
		size *= max(1-w.cfg.Beta*(delay-target)/delay, least)
	}
	w.set(a, now, size)
}

// mayDecrease reports whether the latest decrease is a round trip ago.
func (a *aimd) mayDecrease(now clock.Time, rtt clock.Duration) bool {
	return a.reduced < 0 || now.Sub(a.reduced) >= rtt
}

// set enforces the bounds of a window.
func (w *swift) set(a *aimd, now clock.Time, size float64) {
	size = min(max(size, w.cfg.MinWindow), w.cfg.MaxWindow)
	if size < a.size {
		a.reduced = now
	}
	a.size = size
}

// lose decreases the windows after a loss, or resets them after too many timeouts in a row (algorithm 1).
func (s *sender) swiftLoss(now clock.Time, reset bool) {
	w := s.swift
	for _, a := range []*aimd{&w.fabric, &w.endpoint} {
		switch {
		case reset:
			w.set(a, now, w.cfg.MinWindow)
		case a.mayDecrease(now, w.rtt):
			w.set(a, now, a.size*(1-w.cfg.MaxDecrease))
		}
	}
	s.resize(now)
}

// swiftTimeout handles a timeout.
func (s *sender) swiftTimeout(now clock.Time) {
	s.swift.timeouts++
	s.swiftLoss(now, s.swift.timeouts >= s.swift.cfg.ResetAfter)
}

// restrict limits the initial window to a segment, after a SYN that was lost twice.
func (w *swift) restrict() {
	if w != nil {
		w.fabric.size, w.endpoint.size = 1, 1
	}
}

// resize applies the windows: the smaller one holds (3.3).
func (s *sender) resize(now clock.Time) {
	s.window.size = min(s.swift.fabric.size, s.swift.endpoint.size)
	s.pace(now)
}

// pace decides when the next segment may go with a window below one segment: RTT / cwnd after the latest one (3.4).
func (s *sender) pace(now clock.Time) {
	w := s.swift
	s.paced = clock.Never
	if s.window.size >= 1 || !w.began || s.bugs.Has(BugSwiftNoPacing) {
		return
	}
	if at := w.sent.Add(clock.Duration(float64(w.rtt) / s.window.size)); at > now {
		s.paced = at
	}
}

// paces takes a transmission.
func (s *sender) paces(now clock.Time) {
	if s.swift != nil {
		s.swift.sent, s.swift.began = now, true
		s.pace(now)
	}
}

// delay fills in how long ago the latest segment arrived (3.2). A SACK block takes its place: such an acknowledgement
// goes at once.
func (h *Host) delay(now clock.Time, r *receiver, to *Header) {
	if h.cfg.Control != SwiftControl || !r.began || to.SACK != (Block{}) {
		return
	}
	waited := now.Sub(r.arrivedAt)
	if h.bugs.Has(BugSwiftHidesDelay) {
		waited = 0
	}
	to.SetDelay(uint32(min(waited.Nanoseconds(), math.MaxUint32)))
}
