package bolt

import (
	"cmp"
	"slices"

	"candela.dev/candela/analyzers"
	judge "candela.dev/candela/analyzers/bolt"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/bolt"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// judgement declares the Bolt analyzer.
func judgement() *transport.Judge {
	return &transport.Judge{
		Rules: judge.Rules(), New: newObserver,
		Recorded: func(*transport.Trial) (transport.Recorder, string) {
			return nil, "captures have times in ns, and windows and timers of hosts are judged by exact times"
		},
	}
}

// observer is the Bolt analyzer, which observes at the NICs of the hosts.
type observer struct {
	judge *judge.Analyzer
	links []config.LinkSpec // of hosts
	trial *transport.Trial
	seen  judge.Observation
}

func newObserver(t *transport.Trial) transport.Observer {
	o := &observer{trial: t}
	for id := range t.Net.Hosts() {
		o.links = append(o.links, t.Test.Topology.HostLinkOf(id))
	}
	o.judge = judge.New(o.configure(t))
	return o
}

// configure says what the analyzer has to know of the hosts.
func (o *observer) configure(t *transport.Trial) judge.Config {
	const answer = 500 * clock.Microsecond // acknowledgements go before data
	v := t.Values
	c := judge.Config{Frame: v.Int("packet-size"), Window: v.Int("initial-window"), MaxWindow: v.Int("max-window"),
		MinWindow: v.Number("min-window"), Increase: v.Number("increase"), RTO: v.Duration("rto-us"),
		Reorder:  v.Int("reorder"),
		RateOf:   func(host uint32) clock.BitRate { return o.links[host].Rate },
		AckLimit: answer + t.RoundTrip(), Idle: !t.Pauses() && !t.Net.NICs(),
		Number: func(src, connection uint32) int {
			n, _ := t.FlowOf(fabric.HostID(src), connection)
			return n
		}}
	if !c.Idle || mixed(t) {
		c.AckLimit = max(c.AckLimit, t.LongestRun())
	}
	return c
}

// mixed reports whether hosts have other transports, too: their packets leave by turns with acknowledgements, of which
// more may come in than go out.
func mixed(t *transport.Trial) bool {
	return slices.ContainsFunc(t.Test.Workload, func(w config.Workload) bool {
		k := workload.Find(w.Kind)
		return k != nil && cmp.Or(k.Transport, t.Test.TransportOf(&w.Offer)) != t.Name
	})
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
	if p.Protocol != fabric.Bolt || at.Stage > fabric.Egress || p.Flags&(fabric.Returned|fabric.Trimmed) != 0 {
		return
	}
	of := bolt.FromHeader(&p.Header, 0)
	if o.trial.Follows != nil && !o.follows(&of) {
		return
	}
	o.seen = judge.Observation{Time: now, ID: p.ID, Sent: at.Stage == fabric.Egress, Kind: judge.Kind(of.Kind),
		Flags: judge.Flags(of.Flags), Src: uint32(of.From), Dst: uint32(of.To), Connection: of.Connection,
		Number: of.Number, Total: of.Total, SentNS: of.SentNS, Queue: of.Queue, RateMbps: of.RateMbps}
	o.judge.Observe(&o.seen)
}

// follows reports whether the flow of a packet is judged.
func (o *observer) follows(p *bolt.Packet) bool {
	sender := p.From
	if p.Kind != bolt.Data {
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
