package pfabric

import (
	"slices"

	"candela.dev/candela/analyzers"
	judge "candela.dev/candela/analyzers/pfabric"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/pfabric"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// judgement declares the pFabric analyzer.
func judgement() *transport.Judge {
	return &transport.Judge{
		Rules: judge.Rules(), New: newObserver,
		Recorded: func(*transport.Trial) (transport.Recorder, string) {
			return nil, "captures have times in ns, and timers of hosts are judged by exact times"
		},
	}
}

// observer is the pFabric analyzer, which observes at the NICs of the hosts.
type observer struct {
	judge  *judge.Analyzer
	links  []config.LinkSpec // of hosts
	header int32
	trial  *transport.Trial
	seen   judge.Observation
}

func newObserver(t *transport.Trial) transport.Observer {
	o := &observer{judge: judge.New(configure(t)), header: int32(pfabric.Codec().HeaderSize(t.IPv6())), trial: t}
	for id := range t.Net.Hosts() {
		o.links = append(o.links, t.Test.Topology.HostLinkOf(id))
	}
	return o
}

// configure says what the analyzer has to know of the hosts.
func configure(t *transport.Trial) judge.Config {
	const answer = 500 * clock.Microsecond // acknowledgements go before data
	v := t.Values
	c := judge.Config{Payload: v.Int("packet-size") - pfabric.Codec().HeaderSize(t.IPv6()),
		Window: v.Int("initial-window"), RTO: v.Duration("rto-us"), ProbeAfter: v.Int("probe-after"), Fixed: fixed(t),
		Stopped: stopped(t), AckLimit: answer + t.RoundTrip(), Idle: !t.Pauses() && !t.Net.NICs(),
		Number: func(src, connection uint32) int {
			n, _ := t.FlowOf(fabric.HostID(src), connection)
			return n
		}}
	if !c.Idle {
		c.AckLimit = max(c.AckLimit, t.LongestRun())
	}
	return c
}

// stopped returns what reports whether a flow is stopped; nil: none is.
func stopped(t *transport.Trial) func(flow int) bool {
	if !slices.ContainsFunc(t.Test.Workload, func(w config.Workload) bool { return w.Offer.Stop != nil }) {
		return nil
	}
	flows := make(map[int]bool)
	for f := range t.Flows {
		flows[f.Number] = f.Stop > 0
	}
	return func(flow int) bool { return flows[flow] }
}

// fixed returns what reports whether all packets of a flow have one rank; nil: of no flow.
func fixed(t *transport.Trial) func(flow int) bool {
	byBytes := func(w config.Workload) bool { return w.Offer.Ranking().Kind == wire.RankByBytes }
	if !slices.ContainsFunc(t.Test.Workload, func(w config.Workload) bool { return !byBytes(w) }) {
		return nil
	}
	flows := make(map[int]bool)
	for f := range t.Flows {
		flows[f.Number] = f.Rank.Kind != wire.RankByBytes
	}
	return func(flow int) bool { return flows[flow] }
}

// Observe implements transport.Observer.
func (o *observer) Observe(at fabric.Point, now clock.Time, p *fabric.Packet) {
	if !at.Host {
		return
	}
	if at.Stage == fabric.Egress {
		link := &o.links[at.Node]
		o.judge.Leaves(uint32(at.Node), now, link.Rate.Serialise(int(p.Size)+link.Framing))
	}
	if p.Protocol != fabric.PFabric || at.Stage > fabric.Egress || p.Flags&(fabric.Returned|fabric.Trimmed) != 0 {
		return
	}
	of := pfabric.FromHeader(&p.Header, int(max(0, p.Size-o.header)))
	if o.trial.Follows != nil && !o.follows(&of) {
		return
	}
	o.seen = judge.Observation{Time: now, ID: p.ID, Sent: at.Stage == fabric.Egress, Kind: judge.Kind(of.Kind),
		Src: uint32(of.From), Dst: uint32(of.To), Connection: of.Connection, Number: of.Number, Total: of.Total,
		Payload: of.Payload, Rank: of.Rank}
	o.judge.Observe(&o.seen)
}

// follows reports whether the flow of a packet is judged.
func (o *observer) follows(p *pfabric.Packet) bool {
	sender := p.From
	if p.Kind == pfabric.Ack {
		sender = p.To
	}
	n, ok := o.trial.FlowOf(fabric.HostID(sender), p.Connection)
	return ok && o.trial.Follows(n)
}

// Finish implements transport.Observer.
func (o *observer) Finish(end clock.Time, drained bool) analyzers.Result {
	if drained {
		o.judge.Drain()
	}
	return o.judge.Finish(end)
}
