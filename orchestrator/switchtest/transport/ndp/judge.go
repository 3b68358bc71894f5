package ndp

import (
	"candela.dev/candela/analyzers"
	judge "candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/switchtest/transport"
	wire "candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// judgement declares the NDP analyzer, which observes at the NICs of the hosts: what lies between is the network.
func judgement() *transport.Judge {
	return &transport.Judge{
		Rules:     judge.Rules(),
		OfNetwork: func(rule string) bool { return judge.OfNetwork(judge.Rule(rule)) },
		New: func(t *transport.Trial) transport.Observer {
			return &observer{trial: t, judge: judge.New(configure(t)), header: ndp.Codec().HeaderSize(t.IPv6())}
		},
		Recorded: record,
	}
}

// observer judges a run.
type observer struct {
	trial  *transport.Trial
	judge  *judge.Analyzer
	header int // bytes of the headers of a frame
	seen   trace.Tap
	lost   trace.Tap
}

// Observe implements transport.Observer.
func (o *observer) Observe(at fabric.Point, now clock.Time, p *fabric.Packet) {
	if p.Protocol != fabric.NDP {
		return
	}
	if at.Reason.Outage() {
		o.lost = trace.Tap{Src: uint32(p.Src), Dst: uint32(p.Dst), NDP: p.NDP}
		o.judge.Outage(&o.lost)
	}
	if !at.Host || at.Stage > fabric.Egress {
		return
	}
	fabric.FillNDPTap(at, now, p, o.header, &o.seen)
	if o.trial.Follows == nil || o.follows() {
		o.judge.Observe(&o.seen)
	} else {
		o.judge.Pass(now)
	}
}

// follows reports whether the packet that was seen is of a flow that is judged. Only their connections have been
// announced.
func (o *observer) follows() bool {
	tap := &o.seen
	sender := tap.Src
	if (tap.NDP.Kind == wire.Data) == tap.Returned() { // feedback goes to the sender of data
		sender = tap.Dst
	}
	_, known := o.trial.FlowOf(fabric.HostID(sender), tap.NDP.Connection)
	return known
}

// Finish implements transport.Observer.
func (o *observer) Finish(_ clock.Time, drained bool) analyzers.Result {
	return finish(o.judge, drained)
}

func finish(j *judge.Analyzer, drained bool) analyzers.Result {
	if drained {
		j.Drain()
	}
	return j.Finish()
}

// recorder judges captures.
type recorder struct {
	transport.Sightings[trace.Tap]
	decoder trace.TapDecoder
	cfg     judge.Config
}

func record(t *transport.Trial) (transport.Recorder, string) {
	switch {
	case t.Test.Stops():
		return nil, "a switch was stopped, and captures do not show what it lost"
	case t.Test.ChangesTrunks():
		return nil, "a trunk was changed, and captures do not show what it lost"
	}
	r := &recorder{Sightings: transport.NewSightings[trace.Tap](t), cfg: configure(t)}
	for h := range t.Test.Topology.HostCount() {
		r.decoder.Know(fabric.HostID(h).IPv4(), uint32(h))
		r.decoder.Know(fabric.HostID(h).IPv6(), uint32(h))
	}
	// a packet may have waited for a pause to end, and captures hold no pauses: no host must have known anything
	if r.cfg.Paused {
		r.cfg.RoundTrip = max(r.cfg.RoundTrip, t.LongestRun())
	}
	return r, ""
}

// Frame implements transport.Recorder.
func (r *recorder) Frame(f *transport.Frame) error {
	var t trace.Tap
	point := trace.TapBefore
	if f.Behind {
		point = trace.TapAfter
	}
	if !r.decoder.Decode(f.Frame, point, 0, &t) {
		return nil
	}
	host, known := r.HostOf(f)
	if !known {
		return nil
	}
	if f.Known {
		t.At = uint32(host) + 1
	}
	t.Time, _ = r.At(f, host)
	return r.Add(f, t.Time, t)
}

// Finish implements transport.Recorder.
func (r *recorder) Finish(_ clock.Time, drained bool) analyzers.Result {
	j := judge.New(r.cfg)
	number := uint64(0)
	r.Each(drained, func(t *trace.Tap) {
		number++
		t.Number = number
		j.Observe(t)
	})
	return finish(j, drained)
}

// configure says what the analyzer has to know of the hosts.
func configure(t *transport.Trial) judge.Config {
	window := t.Values.Int("initial-window")
	c := judge.Config{
		InitialWindow: window, RTO: t.Values.Duration("rto-us"), RoundTrip: t.RoundTrip() + t.Slack,
		Number: func(from, to, id uint32) int { return flowOf(t, from, to, id) }, Paused: t.Pauses(),
	}
	if v := t.Values; v.Bool("path-penalty") {
		c.Scoreboard = judge.Scoreboard{Paths: v.Int("paths"), Answers: v.Int("penalty-answers"),
			SharePercent: v.Int("penalty-share-percent"), FactorPercent: v.Int("penalty-factor-percent"),
			Periods: v.Int("penalty-periods")}
	}
	copies := copiesWithin(c.RoundTrip+t.Backlog(window)+t.RoundTripBound(), c.RTO)
	c.Answer, c.Transit = answerTime(t, window, copies, c.RoundTrip), t.Transit()+t.Slack
	if c.Paused { // hosts that are silenced catch up when they like
		c.Answer = max(c.Answer, t.LongestRun())
		return c
	}
	if gap, alike := pullGap(t); alike {
		l := t.Test.Topology.Link
		const burst = 8 // gaps: the analyzer's default
		c.Burst = burst*gap + t.Slack
		c.PullGap, c.Occupies = gap, func(bytes int) clock.Duration { return l.Rate.Serialise(bytes + l.Framing) }
	}
	return c
}

// flowOf returns the number of the flow that a connection belongs to. A connection that no host has announced, as
// when only a recording is left of the run, is of the loop between its hosts if there is one; otherwise 0.
func flowOf(t *transport.Trial, from, to, id uint32) int {
	if n, ok := t.FlowOf(fabric.HostID(from), id); ok {
		return n
	}
	number := 0
	for f := range t.Flows {
		src, dst := uint32(f.Src), uint32(f.Dst)
		if f.Kind != workload.Loop || f.Transport != t.Name || (src != from || dst != to) && (src != to || dst != from) {
			continue
		}
		if number != 0 {
			return 0
		}
		number = f.Number
	}
	return number
}

// copiesWithin returns how many copies of a packet a sender can have in flight if it hears of the first one only
// after a while: the RTO doubles six times.
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

// answerTime bounds how long after a data packet its answer passes: the answers to all copies of the first windows of
// all flows, and as many PULLs, may be in front of it at a NIC that is as slow as the slowest.
func answerTime(t *transport.Trial, window int, copies int64, roundTrip clock.Duration) clock.Duration {
	const least = 500 * clock.Microsecond
	packets := int64(0)
	for f := range t.Flows {
		most := int64(window)
		if f.Packets > 0 {
			most = min(most, f.Packets)
		}
		packets += most
	}
	each := t.Slowest(ndp.Codec().HeaderSize(true))
	if most := int64(t.LongestRun() / each); packets*copies > most/4 {
		return roundTrip + t.LongestRun() // longer than the test
	}
	return roundTrip + max(least, 4*clock.Duration(packets*copies)*each)
}

// pullGap returns the time between two PULLs of a host; alike is false if hosts differ, or if PULLs share their NIC
// with other transports, whose packets hold them up.
func pullGap(t *transport.Trial) (gap clock.Duration, alike bool) {
	for f := range t.Flows {
		if f.Transport != t.Name {
			return 0, false
		}
	}
	top := &t.Test.Topology
	if len(top.Links) > 0 {
		return 0, false
	}
	return pace(t.Values, top.Link.Framing).PullGap(top.Link.Rate), true
}

// pace returns what the pace of PULLs depends on.
func pace(v parameter.Values, framing int) fabric.NDPConfig {
	return fabric.NDPConfig{PacketSize: v.Int("packet-size") + framing, PullRate: v.Number("pull-rate")}
}
