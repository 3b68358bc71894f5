package switchtest

import (
	"slices"

	"candela.dev/candela/analyzers"
	judgendp "candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/testbeds/virtual/fabric/parameter"
)

func ndpAnalyzer() analyzer {
	return analyzer{
		name: judgendp.Name, rules: judgendp.Rules(),
		applies: func(r *run) bool {
			return slices.ContainsFunc(r.plan.Flows, func(f Flow) bool { return f.Transport == "ndp" })
		},
		build: newNDPJudge,
	}
}

// ndpJudge is the NDP analyzer, which observes at the NICs of the hosts: what lies between is the network.
type ndpJudge struct {
	judge *judgendp.Analyzer
	tap   fabric.Tap
}

func newNDPJudge(r *run) (judge, error) {
	j := &ndpJudge{judge: judgendp.New(r.ndpConfig())}
	j.tap = fabric.NDPTaps(-1, headerBytes("ndp", r.overIPv6()), j.judge.Observe)
	return j, nil
}

// ndpConfig says what the analyzer has to know of the hosts.
func (r *run) ndpConfig() judgendp.Config {
	t := r.plan.Test
	values := ndpTransport().Parameters.Defaults()
	if t.Hosts.Model == "ndp" {
		values = t.Hosts.Values
	}
	c := judgendp.Config{
		InitialWindow: values.Int("initial-window"), RTO: values.Duration("rto-us"), RoundTrip: r.roundTrip(),
		Number: r.ndpFlow,
		Paused: len(t.Switch.Values.Integers("pfc-classes")) > 0,
	}
	window := values.Int("initial-window")
	copies := copiesWithin(c.RoundTrip+r.backlog(window)+r.roundTripBound(), c.RTO)
	c.Answer, c.Transit = r.answerTime(window, copies, c.RoundTrip), r.transit()
	if c.Paused { // hosts that are silenced catch up when they like
		c.Answer = max(c.Answer, t.Deadline)
		return c
	}
	if gap, alike := r.pullGap(values); alike {
		l := t.Topology.Link
		c.PullGap, c.Occupies = gap, func(bytes int) clock.Duration { return l.Rate.Serialise(bytes + l.Framing) }
	}
	return c
}

// ndpFlow returns the number of the flow that a connection belongs to. A connection that no host has announced, as when only a
// recording is left of the run, is of the loop between its hosts if there is one; otherwise 0.
func (r *run) ndpFlow(from, to, id uint32) int {
	if n, ok := r.ledger.named[ownerKey(fabric.NDP, fabric.HostID(from), id)]; ok {
		return n
	}
	number := 0
	for i := range r.plan.Flows {
		f := &r.plan.Flows[i]
		src, dst := uint32(f.Src), uint32(f.Dst)
		if f.Kind != Loop || f.Transport != "ndp" || (src != from || dst != to) && (src != to || dst != from) {
			continue
		}
		if number != 0 {
			return 0
		}
		number = f.Number
	}
	return number
}

// roundTrip bounds how long a host's reaction takes to show at its switch: both ways of the slowest link, the latency of the switch,
// which passes before a packet is seen there, and a few full packets that may be in front of it at the NIC.
func (r *run) roundTrip() clock.Duration {
	var most clock.Duration
	for id := range r.net.Hosts() {
		l := r.plan.Test.Topology.HostLinkOf(id)
		const ahead = 16 // packets
		most = max(most, 2*l.Delay+ahead*l.Rate.Serialise(r.packetSize()+l.Framing))
	}
	return 2*most + r.plan.Test.Switch.Values.Duration("latency-ns")
}

// backlog bounds how long packets may wait at a host's NIC when the timeouts of whole windows run out together.
func (r *run) backlog(window int) clock.Duration {
	packets := map[fabric.HostID]int64{}
	most := int64(0)
	for i := range r.plan.Flows {
		f := &r.plan.Flows[i]
		n := int64(window)
		if f.Packets > 0 {
			n = min(n, f.Packets)
		}
		packets[f.Src] += n
		most = max(most, packets[f.Src])
	}
	return clock.Duration(most) * r.slowest(r.packetSize())
}

// copiesWithin returns how many copies of a packet a sender can have in flight if it hears of the first one only after a while: the RTO
// doubles six times.
func copiesWithin(way, rto clock.Duration) int64 {
	count := int64(1)
	if rto == 0 {
		return count
	}
	wait := rto
	for ; wait < rto<<6 && way >= wait; count++ {
		way -= wait
		wait *= 2
	}
	return count + int64(way/wait)
}

// answerTime bounds how long after a data packet its answer passes: the answers to all copies of the first windows of all flows, and as many
// PULLs, may be in front of it at a NIC that is as slow as the slowest.
func (r *run) answerTime(window int, copies int64, roundTrip clock.Duration) clock.Duration {
	const least = 500 * clock.Microsecond
	packets := int64(0)
	for i := range r.plan.Flows {
		f := &r.plan.Flows[i]
		most := int64(window)
		if f.Packets > 0 {
			most = min(most, f.Packets)
		}
		packets += most
	}
	each := r.slowest(headerBytes("ndp", true))
	if most := int64(r.plan.Test.Deadline / each); packets*copies > most/4 {
		return roundTrip + r.plan.Test.Deadline // longer than the test
	}
	return roundTrip + max(least, 4*clock.Duration(packets*copies)*each)
}

// transit bounds how long a packet that is not lost may be inside the network: the propagation of a way, and at each switch of it no more than
// what the switch has room for, at the slowest rate and the least weight.
func (r *run) transit() clock.Duration {
	const least = 10 * clock.Millisecond
	v := r.plan.Test.Switch.Values
	// It may be paused, or wait for as long as others fill a queue that is always served first.
	if strict := v.Table().Find("scheduler") >= 0 && v.Word("scheduler") == "strict"; strict || len(v.Integers("pfc-classes")) > 0 {
		return max(least, r.plan.Test.Deadline)
	}
	return max(least, r.queueing()+r.propagation())
}

// hops is how many switches there are on the longest way.
const hops = 5

// queueing bounds how long a packet waits in all switches of a way together.
func (r *run) queueing() clock.Duration {
	const frame = 1500
	frames := int64(0)
	v := r.plan.Test.Switch.Values
	for _, name := range []string{"data-queue-bytes", "header-queue-bytes", "recirculation-queue-bytes"} {
		if v.Table().Find(name) >= 0 {
			frames += int64(v.Int(name))/frame + 1
		}
	}
	if v.Table().Find("buffer-bytes") >= 0 {
		frames += r.buffered()
	}
	if v.Table().Find("header-weight") >= 0 {
		frames *= int64(v.Int("header-weight")) + 1
	}
	takes := hops * r.slowest(frame)
	if frames > int64(r.plan.Test.Deadline/takes) {
		return r.plan.Test.Deadline + takes // longer than the test
	}
	return clock.Duration(frames) * takes
}

// propagation bounds what the links and switches of a way take without queues.
func (r *run) propagation() clock.Duration {
	top := &r.plan.Test.Topology
	delay := top.Trunk.Delay
	for id := range r.net.Hosts() {
		delay = max(delay, top.HostLinkOf(id).Delay)
	}
	return (hops+1)*delay + hops*r.plan.Test.Switch.Values.Duration("latency-ns")
}

// roundTripBound bounds how long a packet takes to its receiver and an answer back, queues included.
func (r *run) roundTripBound() clock.Duration { return 2 * (r.queueing() + r.propagation()) }

// buffered bounds how many frames of 1500 bytes a packet may wait for in a shared buffer: it may be full of copies, each of which a
// scheduler by weights serves after a whole packet of another queue.
func (r *run) buffered() int64 {
	const frame = 1500
	v := r.plan.Test.Switch.Values
	smallest := int64(frame)
	if v.Table().Find("trim-size") >= 0 {
		smallest = min(smallest, int64(v.Int("trim-size")))
	}
	return (int64(v.Int("buffer-bytes"))/smallest + 1) * (int64(r.packetSize())/frame + 1)
}

// slowest returns how long a frame occupies the slowest link.
func (r *run) slowest(bytes int) clock.Duration {
	top := &r.plan.Test.Topology
	most := top.Trunk.Rate.Serialise(bytes + top.Trunk.Framing)
	for id := range r.net.Hosts() {
		l := top.HostLinkOf(id)
		most = max(most, l.Rate.Serialise(bytes+l.Framing))
	}
	return most
}

// overIPv6 reports whether the NDP flows, which are alike in that, use IPv6.
func (r *run) overIPv6() bool {
	return slices.ContainsFunc(r.plan.Flows, func(f Flow) bool { return f.Transport == "ndp" && f.Mark.IPv6 })
}

func (r *run) packetSize() int {
	size := 0
	for i := range r.plan.Flows {
		size = max(size, r.plan.Flows[i].PacketSize)
	}
	return size
}

// pullGap returns the time between two PULLs of a host; alike is false if hosts differ, or if PULLs share their NIC with other
// transports, whose packets hold them up.
func (r *run) pullGap(v parameter.Values) (gap clock.Duration, alike bool) {
	if slices.ContainsFunc(r.plan.Flows, func(f Flow) bool { return f.Transport != "ndp" }) {
		return 0, false
	}
	top := &r.plan.Test.Topology
	if len(top.Links) > 0 {
		return 0, false
	}
	cfg := fabric.NDPConfig{PacketSize: v.Int("packet-size") + top.Link.Framing, PullRate: v.Number("pull-rate")}
	return cfg.PullGap(top.Link.Rate), true
}

func (j *ndpJudge) name() string { return judgendp.Name }

func (j *ndpJudge) observe(at fabric.Point, now clock.Time, p *fabric.Packet) { j.tap(at, now, p) }

func (j *ndpJudge) changed(clock.Time, int, parameter.Values) {}

func (j *ndpJudge) finish(r *run) (analyzers.Result, error) {
	if r.quiet {
		j.judge.Drain()
	}
	return j.judge.Finish(), nil
}
