package tcp

import (
	"fmt"
	"math"

	"candela.dev/candela/clock"
)

// Swift is what the analyzer must know of hosts with Swift (Kumar et al., SIGCOMM 2020; sections below are of that
// paper). Windows are in segments. The zero value: another congestion control.
type Swift struct {
	On             bool
	BaseTarget     clock.Duration // of the fabric delay (3.5)
	HopScale       clock.Duration // added for each switch: ħ
	FlowRange      clock.Duration // fs_range
	FlowMin        float64        // fs_min_cwnd
	FlowMax        float64        // fs_max_cwnd
	EndpointTarget clock.Duration // of the endpoint delay (3.3)
	Increase       float64        // ai (algorithm 1)
	Beta           float64
	MaxDecrease    float64 // max_mdf
	MinWindow      float64
	MaxWindow      float64
	ResetAfter     int // RETX_RESET_THRESHOLD
	InitialTTL     uint8
	// Immediate: packets leave their NIC when their host decides to send them, so the trace has what the sender measured.
	// Otherwise windows are not judged.
	Immediate bool
}

// target returns the target of the fabric delay in picoseconds.
func (c *Swift) target(window float64, hops int) float64 {
	low, high := 1/math.Sqrt(c.FlowMax), 1/math.Sqrt(c.FlowMin)
	scale := min(max((1/math.Sqrt(window)-low)/(high-low), 0), 1)
	return float64(c.BaseTarget) + float64(hops)*float64(c.HopScale) + float64(c.FlowRange)*scale
}

// steered is one of Swift's windows: it is between two values and was decreased last between two instants. Without
// doubt about losses and timeouts, they are equal.
type steered struct {
	least, most float64
	from, to    clock.Time // before the first decrease: far in the past
}

// swiftSender is what is known of a sender's Swift.
type swiftSender struct {
	fabric, endpoint steered
	rtt              clock.Duration // smoothed; 0: no sample yet
	remote           float64        // endpoint delay in ps, averaged; negative: not known yet
	least, most      int            // timeouts in a row
	told             bool           // something has been acknowledged

	// what the packet that has just arrived acknowledges
	news      int
	ordinal   uint64 // of the latest transmission among it
	sent      clock.Time
	ambiguous bool // it is a retransmission (Karn)

	sending clock.Time // when data was seen to leave last
	began   bool
}

// longAgo is before every decrease.
const longAgo = -clock.Time(clock.Second) * 1_000_000

func newSwift(c *Config) *swiftSender {
	if !c.Swift.On {
		return nil
	}
	w := min(float64(c.InitialWindow), c.Swift.MaxWindow)
	first := steered{w, w, longAgo, longAgo}
	return &swiftSender{fabric: first, endpoint: first, remote: -1}
}

// delivers takes a segment that is acknowledged or SACKed for the first time.
func (w *swiftSender) delivers(g *segment) {
	if w == nil {
		return
	}
	w.news++
	if g.ordinal > w.ordinal {
		w.ordinal, w.sent, w.ambiguous = g.ordinal, g.sent, g.times > 1
	}
}

// restrict limits the initial window to a segment, after a SYN that was lost twice.
func (w *swiftSender) restrict() {
	if w != nil {
		w.fabric.least, w.fabric.most, w.endpoint.least, w.endpoint.most = 1, 1, 1, 1
	}
}

// window returns the bounds of the window, in segments: the smaller one of two holds (3.3).
func (w *swiftSender) window() (least, most float64) {
	return min(w.fabric.least, w.endpoint.least), min(w.fabric.most, w.endpoint.most)
}

// nearly is how far floating-point results may differ.
const nearly = 1e-9

// applies has the greatest window hold.
func (a *Analyzer) applies(s *stream) {
	_, most := s.swift.window()
	if !a.cfg.Swift.Immediate {
		most = a.cfg.Swift.MaxWindow
	}
	s.size = float64(a.cfg.MSS) * math.Floor(max(1, most)*(1+nearly))
}

// steers updates the windows by what an acknowledgement says (algorithm 1).
func (a *Analyzer) steers(s *stream, o *Observation) {
	w := s.swift
	if w == nil || w.news == 0 {
		return
	}
	acked, sent, ambiguous := float64(w.news), w.sent, w.ambiguous
	w.news, w.ordinal, w.told = 0, 0, true
	w.least, w.most = 0, 0
	if !a.cfg.Swift.Immediate || ambiguous {
		return
	}
	rtt, before := a.now.Sub(sent), w.rtt
	if w.rtt == 0 {
		w.rtt = rtt
	} else {
		w.rtt += (rtt - w.rtt) / 8
	}
	fabric := rtt
	if o.HasDelay {
		remote := clock.Duration(o.Delay) * clock.Nanosecond
		fabric = max(rtt-remote, 0)
		if w.remote < 0 {
			w.remote = float64(remote)
		} else {
			w.remote += (float64(remote) - w.remote) / 8
		}
	}
	c, hops := &a.cfg.Swift, int(a.cfg.Swift.InitialTTL)-int(o.TTL)
	w.fabric.move(c, a.now, before, acked, float64(fabric), func(window float64) float64 { return c.target(window, hops) })
	if w.remote >= 0 {
		w.endpoint.move(c, a.now, before, acked, w.remote, func(float64) float64 { return float64(c.EndpointTarget) })
	}
	a.applies(s)
}

// increase returns the window after an increase.
func (c *Swift) increase(window, acked float64) float64 {
	if window < 1 {
		return window + c.Increase*acked
	}
	return window + c.Increase*acked/window
}

// decrease returns the window after a decrease.
func (c *Swift) decrease(window, delay, target float64) float64 {
	return window * max(1-c.Beta*(delay-target)/delay, 1-c.MaxDecrease)
}

// increases returns the least and the greatest window after an increase. Above one segment, the result is least where
// the window is the root of what is added.
func (c *Swift) increases(least, most, acked float64) (low, high float64) {
	low, high = c.increase(least, acked), c.increase(most, acked)
	low, high = min(low, high), max(low, high)
	if turn := math.Sqrt(c.Increase * acked); turn > max(least, 1) && turn < most {
		low = min(low, c.increase(turn, acked))
	}
	return low, high
}

// move applies an acknowledgement. The target falls as the window rises: if the least window's target is not above the
// delay, every window decreases, if the greatest one's is, every window increases. What a decrease leaves rises with
// the window.
func (v *steered) move(c *Swift, now clock.Time, rtt clock.Duration, acked, delay float64,
	target func(float64) float64) {
	first, last := target(v.least), target(v.most) // the highest and the lowest target
	may, must := now.Sub(v.from) >= rtt, now.Sub(v.to) >= rtt
	rises, falls := last > delay*(1+nearly), first < delay*(1-nearly)
	low, high := c.increases(v.least, v.most, acked)
	switch {
	case rises:
		v.least, v.most = low, high
	case falls && must:
		v.set(c, now, c.decrease(v.least, delay, first), c.decrease(v.most, delay, last), true)
		return
	case falls && may:
		v.set(c, now, c.decrease(v.least, delay, first), v.most, false)
		return
	case falls:
	default:
		if v.most = max(v.most, high); may {
			v.to = now
		}
	}
	v.least, v.most = min(v.least, c.MaxWindow), min(v.most, c.MaxWindow)
}

// set takes what may have been a decrease and, if it is certain, was one.
func (v *steered) set(c *Swift, now clock.Time, least, most float64, certain bool) {
	if v.most > c.MinWindow { // otherwise it stays as it is, and that is no decrease
		if v.to = now; certain && v.least > c.MinWindow {
			v.from = now
		}
	}
	v.least, v.most = max(least, c.MinWindow), max(most, c.MinWindow)
}

// swiftLoses handles a loss that the sender has certainly noticed, or may have.
func (a *Analyzer) swiftLoses(s *stream, certain bool) {
	w, c := s.swift, &a.cfg.Swift
	if w == nil {
		return
	}
	if w.least = 0; certain {
		w.most = 0
	}
	for _, v := range []*steered{&w.fabric, &w.endpoint} {
		rest := 1 - c.MaxDecrease
		switch may, must := a.now.Sub(v.from) >= w.rtt, a.now.Sub(v.to) >= w.rtt; {
		case certain && must:
			v.set(c, a.now, v.least*rest, v.most*rest, true)
		case may:
			v.set(c, a.now, v.least*rest, v.most, false)
		}
	}
	a.applies(s)
}

// swiftTimesOut handles a timeout that is certain, or possible. There may have been more of them.
func (a *Analyzer) swiftTimesOut(s *stream, certain bool) {
	w, c := s.swift, &a.cfg.Swift
	if w == nil {
		return
	}
	w.most += c.ResetAfter
	if certain {
		w.least++
	}
	for _, v := range []*steered{&w.fabric, &w.endpoint} {
		at := a.decided(s.key.src) // the timer ran out between then and now
		most, must := v.most, at.Sub(v.to) >= w.rtt
		switch {
		case certain && w.least >= c.ResetAfter:
			most = c.MinWindow
		case certain && must:
			most *= 1 - c.MaxDecrease
		}
		v.set(c, a.now, c.MinWindow, most, false)
		if certain && must {
			v.from = max(v.from, at)
		}
	}
	a.applies(s)
}

// paces judges data that leaves with a window below one segment: RTT / cwnd after the data before it (3.4). What a loss
// or a timeout has retransmitted is not paced.
func (a *Analyzer) paces(s *stream, fresh bool, number uint64) {
	w := s.swift
	if w == nil {
		return
	}
	_, most := w.window()
	gap := a.now.Sub(w.sending)
	if least := clock.Duration(float64(w.rtt) / most); a.cfg.Swift.Immediate && fresh && w.began &&
		most < 1-nearly && float64(gap+clock.Nanosecond) < float64(least)*(1-nearly) {
		a.blame(causeSwiftPacing(a.tx(s), gap, least), s, number,
			fmt.Sprintf("new data at least %s after the data before it: the window is at most %.3g segments", least.Text(),
				most),
			fmt.Sprintf("the sender sent new data %s after the data before it", gap.Text()))
	}
	w.sending, w.began = a.now, true
}

// swiftWithholds judges, before something else reaches a sender, what it has left unsent since the last time: a sender
// with more to send fills its window.
func (a *Analyzer) swiftWithholds(s *stream, heard clock.Time) {
	w, c := s.swift, &a.cfg
	if w == nil || !c.Swift.Immediate || c.ECN.Written == nil {
		return
	}
	mss := int64(c.MSS)
	least, _ := w.window()
	floor := int64(min(least*(1-nearly), c.Swift.MaxWindow)) * mss
	switch {
	case floor < mss || s.next == 0 || !a.mustFill(s, heard):
	case s.limit-s.next < mss || c.ECN.Written(s.key.src, s.key.dst, s.key.connection)-s.next < mss:
	case s.flight+swiftSlack*mss < floor:
		a.blame(causeSwiftIdle(a.tx(s), s.flight, float64(floor)), s, 0,
			fmt.Sprintf("at least %d bytes in flight: the window is at least %.3g segments", floor, least),
			fmt.Sprintf("%d bytes are in flight, and there is more to send; the window is at least %.3g segments", s.flight,
				least))
		most := max(float64(s.flight/mss+1), c.Swift.MinWindow)
		w.fabric.least, w.endpoint.least = min(w.fabric.least, most), min(w.endpoint.least, most)
	}
}

// swiftSlack is how many segments less than its least window a sender may have in flight. Limited transmit (RFC 3042)
// shows no window that is too large here: duplicate ACKs are excluded.
const swiftSlack = 1

// holds judges for how long a receiver says that it has held the latest segment (3.2), to the nanosecond.
func (a *Analyzer) holds(s *stream, o *Observation) {
	if !a.cfg.Swift.On || !a.cfg.Swift.Immediate || !s.came || o.SACKStart != o.SACKEnd {
		return
	}
	want := uint32(min(a.now.Sub(s.cameAt).Nanoseconds(), math.MaxUint32))
	if o.HasDelay && o.Delay == want {
		return
	}
	said := "nothing"
	if o.HasDelay {
		said = fmt.Sprintf("%d ns", o.Delay)
	}
	a.blame(causeSwiftDelay(a.rx(s), clock.Duration(want)*clock.Nanosecond), s, o.Number,
		fmt.Sprintf("a delay of %d ns: since the latest segment arrived", want),
		"the receiver says that it has held the latest segment for "+said)
}

// swiftOverruns reports what exceeds Swift's window.
func (a *Analyzer) swiftOverruns(s *stream, most float64, number uint64) {
	_, window := s.swift.window()
	a.breaks(s, txBeyondWindow, causeSwiftWindow(a.tx(s), s.flight, most), number,
		fmt.Sprintf("at most %.0f bytes in flight: the window is at most %.3g segments", most, window),
		fmt.Sprintf("%d bytes are in flight; delays and losses allow %.0f", s.flight, most))
	s.size = max(s.size, float64(s.flight)-s.dups.extra) // once for each excess
}

// unjudgedSwift notes the senders whose windows were not judged.
func (a *Analyzer) unjudgedSwift() {
	for _, s := range a.order {
		if w := s.swift; w != nil && w.told && !a.cfg.Swift.Immediate {
			a.blame(causeSwiftUnjudged(a.tx(s)), s, 0, "packets that leave when their host decides to send them",
				"the sender's Swift window is not judged: its packets may have waited, so the delays that it measured are unknown")
		}
	}
}
