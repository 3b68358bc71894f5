package config

import (
	"fmt"
	"math/bits"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// maxShift is the base-2 logarithm of the maximum factor for times.
const maxShift = 14

// Limits of times that are scaled, as in the schema.
const (
	longestDelay = 10 * clock.Second
	longestBound = 86_400 * clock.Second
)

// LongestBetweenCNPs is the longest minimum time between CNPs.
const LongestBetweenCNPs = clock.Second

// defaultTimeoutFloor is the floor of network namespaces: 67.1 ms. A host there is a process that occasionally waits
// several milliseconds for a CPU. A run tolerates waits of up to a quarter of the timeout.
const defaultTimeoutFloor = 14

const longestTimeout = 31

// Floor returns the least exponent of a local ACK timeout that the testbed supports; 0: any.
func (t *Testbed) Floor() int {
	switch {
	case t.TimeoutFloor != nil:
		return *t.TimeoutFloor
	case t.Kind == KindNetns:
		return defaultTimeoutFloor
	}
	return 0
}

func timeScaleFields() []field {
	return []field{
		{key: "timeout-floor", doc: "The least min-retransmit-timeout, as exponent, that tests run with here; 14 is 67.1 " +
			"ms. A test with a shorter one is slowed down, " +
			"or refused: see timeout-scale. Software hosts wait for a CPU now and then, which a short timer takes for a loss.",
			kind:   optional[int]{integer{min: 0, max: longestTimeout, code: timeoutCode}},
			defDoc: "14 of kind netns, otherwise 0: any",
			at:     at(func(t *Testbed) **int { return &t.TimeoutFloor })},
		{key: "timeout-scale", doc: "By what min-retransmit-timeout, min-rnr-timer, min-time-between-cnps, " +
			"rx-repost-delay-us, the delay-us of events and the " +
			"bounds of latencies in expect are multiplied: a power of two. By default each test is multiplied by as much as " +
			"brings its timeout to timeout-floor. 1 leaves " +
			"tests as they are; those with a timeout below the floor are then refused.",
			kind: optional[int]{integer{min: 1, max: 1 << maxShift}}, defDoc: "as much as timeout-floor needs",
			at: at(func(t *Testbed) **int { return &t.TimeoutScale })},
	}
}

// validateTimeScale refuses a scale that is not a power of two, as exponents cannot represent it.
func (d *decoder) validateTimeScale(t *Testbed) {
	if s := t.TimeoutScale; s != nil && bits.OnesCount(uint(*s)) != 1 && d.fine("timeout-scale") {
		d.problemAt("timeout-scale", fmt.Sprintf("%d is not a power of two", *s),
			"timeouts are powers of two: 1, 2, 4 and so on")
	}
}

// validatePlace refuses a test that is not meant for its testbed, or that exceeds the testbed's limits.
func (d *decoder) validatePlace(t *Test) {
	messages := t.Traffic.Connections * t.Traffic.Messages
	if t.Traffic.Bidirectional {
		messages *= 2
	}
	if t.Testbed.IsLive() && messages > maxLiveMessages &&
		d.fine("traffic.num-msgs-per-qp", "traffic.num-connections", "testbed") {
		d.problemAt("traffic.num-msgs-per-qp", fmt.Sprintf("makes %d messages", messages),
			fmt.Sprintf("agents take up to %d for all connections", maxLiveMessages))
	}
	if !t.Testbed.HasInjector() && d.fine("testbed") {
		d.problemAt("testbed", "testbed "+t.Testbed.Name+" has no injector (switch: {driver: none})",
			"it runs switch tests only; a test of NICs needs a lab with an injector")
	}
	if len(t.Testbeds) > 0 && !slices.Contains(t.Testbeds, TestbedKind(t.Testbed.Kind)) && d.fine("testbeds", "testbed") {
		d.problemAt("testbeds", "the test is for testbeds of kind "+oneOf(enum[TestbedKind]{values: t.Testbeds}.names()),
			fmt.Sprintf("testbed %s is of kind %s", t.Testbed.Name, t.Testbed.Kind))
	}
}

// scaleTimes scales the times of t as its testbed requires, or refuses t. Afterwards t has the times of the run, and
// its testbed requires no further scaling.
func (d *decoder) scaleTimes(t *Test) {
	const key = "traffic.min-retransmit-timeout"
	floor, timeout := t.Testbed.Floor(), t.Traffic.AckTimeout
	shift := 0
	if s := t.Testbed.TimeoutScale; s != nil {
		shift = bits.TrailingZeros(uint(*s))
	} else if timeout > 0 {
		shift = max(0, floor-timeout)
	}
	switch scaled := timeout + shift; {
	case timeout == 0: // no timer
	case scaled < floor || shift > maxShift:
		why := fmt.Sprintf("testbed %s has a timeout-floor of %d, %v", t.Testbed.Name, floor, exponent(floor))
		if t.Testbed.TimeoutScale != nil {
			why += fmt.Sprintf(", and a timeout-scale of %d; without the latter the test is slowed down",
				*t.Testbed.TimeoutScale)
		}
		d.problemAt(key, fmt.Sprintf("%d, %v, is too short for the testbed", timeout, exponent(timeout)), why)
		return
	case scaled > longestTimeout:
		d.problemAt(key, fmt.Sprintf("%d becomes %d by the testbed's timeout-scale", timeout, scaled),
			fmt.Sprintf("the longest timeout is %d", longestTimeout))
		return
	}
	if shift > 0 && d.staysInRange(t, shift) {
		t.scale(shift)
	}
}

// staysInRange reports whether every scaled time of a test is within its limit; it reports a problem for each that is
// not.
func (d *decoder) staysInRange(t *Test, shift int) bool {
	before := len(d.problems)
	check := func(path string, v, most clock.Duration) {
		if v > most>>shift {
			d.problemAt(path, fmt.Sprintf("%v times %d is more than %v", v, 1<<shift, most),
				fmt.Sprintf("timeout-floor and timeout-scale of testbed %s lengthen the times of the test", t.Testbed.Name))
		}
	}
	check("traffic.rx-repost-delay-us", t.Traffic.RxRepostDelay, longestDelay)
	for _, side := range []Side{Requester, Responder} {
		check(side.String()+".roce-parameters.min-time-between-cnps", t.Host(side).RoCE.MinTimeBetween, LongestBetweenCNPs)
	}
	checkAll := func(path string, params Params) {
		for key, v := range params.Durations() {
			check(path+"."+key, v, longestDelay)
		}
	}
	for _, e := range t.Traffic.DataEvents {
		checkAll("traffic.data-pkt-events["+itoa(e.Origin.Item)+"]", e.Params)
	}
	for _, e := range t.Traffic.ControlEvents {
		checkAll("traffic.control-pkt-events["+itoa(e.Origin.Item)+"]", e.Params)
	}
	for _, b := range t.latencyBounds() {
		if *b.bound == nil {
			continue
		}
		for _, l := range (*b.bound).Limits() {
			for _, v := range []*clock.Duration{l.Min, l.Max} {
				if v != nil {
					check(b.path, *v, longestBound)
				}
			}
		}
	}
	return len(d.problems) == before
}

// Limits of agents.
const (
	maxLiveMessages = 10_000_000
	maxLiveCores    = 64
)

// exponent returns the timeout of an exponent (IBTA volume 1, 9.7.6.1.3).
func exponent(t int) string { return fmt.Sprintf("%.3g ms", float64(uint64(4096)<<t)/1e6) }

func (t *Test) scale(shift int) {
	t.TimeScale = 1 << shift
	bed, one := *t.Testbed, 1
	bed.TimeoutScale, t.Testbed = &one, &bed

	tr := &t.Traffic
	if tr.AckTimeout > 0 {
		tr.AckTimeout += shift
	}
	tr.RxRepostDelay <<= shift
	for _, h := range t.Hosts() {
		h.RoCE.MinTimeBetween <<= shift
	}
	tr.MinRNRTimer = rnrTimerOf(packet.RNRTimer(uint8(tr.MinRNRTimer)) << shift)
	t.Deadline = max(t.Deadline, min(t.Deadline<<shift, longestDeadline))
	tr.DataEvents, tr.ControlEvents = slices.Clone(tr.DataEvents), slices.Clone(tr.ControlEvents)
	for i := range tr.DataEvents {
		tr.DataEvents[i].Params = tr.DataEvents[i].Params.scaled(shift)
	}
	for i := range tr.ControlEvents {
		tr.ControlEvents[i].Params = tr.ControlEvents[i].Params.scaled(shift)
	}
	for _, b := range t.latencyBounds() {
		if *b.bound != nil {
			*b.bound = (*b.bound).scaled(shift)
		}
	}
}

// pathBound is a bound of latencies and its path.
type pathBound struct {
	path  string
	bound **Bound
}

// latencyBounds returns the bounds that scale with the times of a test. The gain over a paired run is omitted.
func (t *Test) latencyBounds() []pathBound {
	r, trim := &t.Expect.Retrans, &t.Expect.Trim
	return []pathBound{
		{"expect.retrans.nack-generation-us", &r.NackGeneration}, {"expect.retrans.nack-reaction-us", &r.NackReaction},
		{"expect.retrans.retransmission-us", &r.Retransmission}, {"expect.retrans.timeout-us", &r.Timeout},
		{"expect.trim.nack-us", &trim.Nack}, {"expect.trim.reaction-us", &trim.Reaction},
		{"expect.trim.recovery-us", &trim.Recovery},
	}
}

// longestDeadline limits the scaling of deadlines. It is the default deadline; every test that does not hang finishes
// within it.
const longestDeadline = 60 * clock.Second

// scaled returns a copy of b with its times multiplied by a power of two.
func (b *Bound) scaled(shift int) *Bound {
	c := *b
	c.Min, c.Max = scaled(b.Min, shift), scaled(b.Max, shift)
	for _, l := range []**TimeLimit{&c.Mean, &c.P50, &c.P99} {
		if *l != nil {
			*l = &TimeLimit{scaled((*l).Min, shift), scaled((*l).Max, shift)}
		}
	}
	return &c
}

func scaled(d *clock.Duration, shift int) *clock.Duration {
	if d == nil {
		return nil
	}
	s := *d << shift
	return &s
}

// rnrTimerOf returns the code of the shortest RNR timer that is at least ns, or of the longest timer if none is.
func rnrTimerOf(ns int64) int {
	for code := 1; code < 32; code++ {
		if packet.RNRTimer(uint8(code)) >= ns {
			return code
		}
	}
	return 0 // 655.36 ms
}

// MeasuresWaits reports whether a run fails as an infrastructure failure if a host waits for a CPU for more than a
// quarter of the shortest timeout.
func (t *Testbed) MeasuresWaits() bool { return t != nil && t.IsLive() && !t.SoftwareHosts() }

// HardwareTimes reports whether the hosts have the latencies of hardware, as RDMA devices and simulated NICs do.
// Otherwise expectations
// of latencies are reported, not judged.
func (t *Testbed) HardwareTimes() bool {
	return t == nil || t.Kind == KindVirtual || t.Live.HasDevices() && !t.Live.software()
}

// WaitsForCNPs reports whether the number of CNPs depends on the arrival times of marked packets, because a
// notification point has a minimum time between CNPs.
func (t *Test) WaitsForCNPs() bool {
	return t.Requester.RoCE.DCQCNNP && t.Requester.RoCE.MinTimeBetween > 0 || t.Responder.RoCE.DCQCNNP &&
		t.Responder.RoCE.MinTimeBetween > 0
}
