package switchtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/netlock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/orchestrator/switchtest/transport/kernel"
	"candela.dev/candela/testbeds/live"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// NewLive plans a test for the testbed netns: the same switch on real frames, see package live. A test that can't be
// run there is refused.
func NewLive(t *config.SwitchTest) (*Plan, error) {
	p := &Plan{Test: t, live: true}
	if err := p.complete(); err != nil {
		return nil, err
	}
	if place, why := p.notLive(); why != nil {
		return nil, fmt.Errorf("%s: not on testbed netns: %w", t.Where(place), why)
	}
	return p, nil
}

// WithSeed plans the same test with another seed, for the same testbed.
func (p *Plan) WithSeed(seed uint64) (*Plan, error) {
	switch {
	case p.bed != nil:
		return NewLab(p.Test.WithSeed(seed), p.bed)
	case p.live:
		return NewLive(p.Test.WithSeed(seed))
	}
	return New(p.Test.WithSeed(seed))
}

// Live reports whether the plan is of a run on real frames, which shares the machine with no other.
func (p *Plan) Live() bool { return p.live }

// notLive says what of a test can't be run on real frames, and why; nil: it can.
func (p *Plan) notLive() (place string, why error) {
	t := p.Test
	if p.Streamed() {
		return "judge", errors.New("on real frames everything is seen and judged: leave judge out, or set it to full")
	}
	if n := t.Topology.SwitchCount(); n > 1 {
		return "topology", fmt.Errorf("the topology %s has %d switches; a live run has one", t.Topology.Model, n)
	}
	if t.Hosts.NIC != nil {
		return "hosts.nic", errors.New("the NICs of hosts are real there; models stand on those of the virtual testbed")
	}
	if len(t.Switch.Values.Integers("pfc-classes")) > 0 {
		return "switch-under-test.pfc-classes", errors.New("namespaces have no flow control")
	}
	if len(p.Flows) > live.MaxFlow {
		return "workload", fmt.Errorf("%d flows; the ports of frames tell %d apart", len(p.Flows), live.MaxFlow)
	}
	for i := range p.Flows {
		f := &p.Flows[i]
		place = fmt.Sprintf("workload[%d]", f.Item)
		tr, err := findTransport(f.Transport)
		if err != nil {
			return place, err
		}
		body := f.PacketSize - tr.HeaderSize(f.Mark.IPv6)
		last, tag := f.Payload-(f.Packets-1)*int64(body), 0
		if tr.Tag != nil {
			tag = len(tr.Tag(new(fabric.Header)))
		}
		carried := f.Rank.Kind != wire.Unranked && !tr.RankTable
		if carried {
			tag += wire.RankLen
		}
		switch {
		case f.Transport == kernel.Name && t.Hosts.Model != kernel.Name, f.Transport != kernel.Name &&
			t.Hosts.Model == kernel.Name:
			return place, fmt.Errorf("flow %d: %s shares no test with other transports: hosts are the kernel's or ours",
				f.Number, kernel.Name)
		case carried && tr.Tag == nil:
			return place, fmt.Errorf("flow %d: frames without payload, which %s sends, carry no rank; raw has none", f.Number,
				f.Transport)
		case f.Kind == Pings:
			return place, fmt.Errorf("flow %d: pings are not supported: ICMP does not tell what this test numbers them by",
				f.Number)
		case f.Src == f.Dst:
			return place, fmt.Errorf("flow %d: host %d sends to itself: its kernel or its NIC would keep the frames", f.Number,
				f.Src)
		case body < tag || f.Packets > 0 && last < int64(tag):
			return place, fmt.Errorf("flow %d: %s packets need %d bytes of payload, for flow, number and rank", f.Number,
				f.Transport, tag)
		}
	}
	return "", nil
}

// Rates of a live run. A packet that a host sends is two frames through rings and two through the kernel; see
// docs/guide/live.md for what was measured.
const (
	// livePackets is how many packets in a second hosts may offer to the switch together.
	livePackets = 20_000
	// liveStep is how much real time passes, at least, between two looks at the context and at what has finished.
	liveStep = 5 * clock.Millisecond
)

// slowdown returns how much longer than in the test everything takes, so that hosts at line rate offer no more than
// livePackets.
func (p *Plan) slowdown() int64 {
	type offer struct {
		packets, bytes float64
		most           float64 // packets in a second; 0: what the link carries
	}
	offers := make(map[fabric.HostID]*offer)
	for i := range p.Flows {
		f := &p.Flows[i]
		hosts, both := []fabric.HostID{f.Src, f.Dst}, f.Kind == Loop
		if f.Locks != nil {
			hosts, both = []fabric.HostID{f.Src}, true
			for _, h := range slices.Concat(f.Locks.Servers, f.Locks.Databases) {
				hosts = append(hosts, fabric.HostID(h))
			}
		}
		for _, h := range hosts {
			if offers[h] == nil {
				offers[h] = new(offer)
			}
			n := float64(max(f.Packets, 1))
			if f.Kind == Loop {
				n = float64(f.Count)
			}
			if h == f.Src || both {
				offers[h].packets, offers[h].bytes = offers[h].packets+n, offers[h].bytes+n*float64(f.PacketSize)
			}
			if gap := p.gap(f); gap > 0 {
				offers[h].most = float64(clock.Second) / float64(gap)
			}
		}
	}
	var perSecond float64
	for h, o := range offers {
		if o.packets > 0 {
			rate := float64(p.Test.Topology.HostLinkOf(int(h)).Rate) / 8 / (o.bytes / o.packets)
			if o.most > 0 {
				rate = min(rate, o.most)
			}
			perSecond += rate
		}
	}
	return max(1, int64(math.Ceil(perSecond/livePackets)))
}

// gap returns the least time between packets of hosts that take locks; 0: their links decide.
func (p *Plan) gap(f *Flow) clock.Duration {
	if f.Locks == nil {
		return 0
	}
	t, err := findTransport(f.Transport)
	if err != nil {
		return 0 // notLive says it
	}
	return p.valuesOf(t).Duration(netlock.LeastGap)
}

// datagrams returns the codec of the transport whose hosts have UDP sockets of their kernels; nil: they have rings.
func (p *Plan) datagrams() *wire.Codecs {
	var list wire.Codecs
	for _, t := range transports() {
		switch {
		case !p.speaks(&t):
		case !t.Datagrams:
			return nil
		default:
			list[t.Protocol] = t.Codec
		}
	}
	return &list
}

// liveRun is what a run on real frames has beside a simulated one.
type liveRun struct {
	*live.Switch
	report *live.Report // nil until the traffic is over
	step   clock.Duration
}

// goLive makes namespaces, links and hosts, whose transports are those of a network that does not run.
func (r *run) goLive() error {
	holder, err := r.plan.build(1)
	if err != nil {
		return err
	}
	if r.endpoints, err = r.plan.attach(holder, r.ledger); err != nil {
		return err
	}
	r.endpoints.weigh(r.net)
	t := r.plan.Test
	cfg := live.Config{Net: r.net, Slowdown: r.plan.slowdown(), Finished: r.kernelFinished, MaxFrame: r.plan.maxFrame(),
		Remote: r.plan.remote, Datagrams: r.plan.datagrams()}
	cfg.Connections = kernel.Connections(r.plan.Flows, t.Hosts.Values)
	cfg.ECN = t.Hosts.Model == kernel.Name && t.Hosts.Values.Word("ecn") == "ect0"
	if cfg.Remote != nil {
		cfg.Connections = r.plan.connections()
	}
	kernels := make(map[fabric.HostID]bool)
	for _, c := range cfg.Connections {
		kernels[c.Src], kernels[c.Dst] = true, true
		cfg.IPv6 = cfg.IPv6 || c.IPv6
	}
	if cfg.Datagrams != nil {
		cfg.Steady = cfg.Remote != nil // their clocks do not stand still
		cfg.IPv6 = slices.ContainsFunc(r.plan.Flows, func(f Flow) bool { return f.Mark.IPv6 })
	}
	for h := range holder.Hosts() {
		s := holder.Host(fabric.HostID(h)).Stack()
		if s == nil && !kernels[fabric.HostID(h)] && cfg.Remote == nil {
			s = new(mute)
		}
		if cfg.Remote != nil {
			s = nil
		}
		l := t.Topology.HostLinkOf(h)
		cfg.Stacks, cfg.Links = append(cfg.Stacks, s), append(cfg.Links, linkOf(l))
	}
	if t.Hosts.Model == "tcp" {
		cfg.FirstSequence = uint32(t.Hosts.Values.Int("first-sequence"))
	}
	r.live = &liveRun{step: max(chunk, liveStep/clock.Duration(cfg.Slowdown))}
	if r.live.Switch, err = live.Open(cfg); err != nil {
		return err
	}
	return nil
}

// maxFrame returns the bytes of the longest frame without FCS.
func (p *Plan) maxFrame() int {
	const least, ethernet = 1280, 14 // of IPv6's MTU, where headers and answers fit, too
	frame := least + ethernet
	for i := range p.Flows {
		frame = max(frame, p.Flows[i].PacketSize)
	}
	return frame
}

// mute is the transport of a host that only receives what needs no answer.
type mute struct{}

func (*mute) Receive(clock.Time, *fabric.Packet)   {}
func (*mute) Poll(clock.Time, *fabric.Packet) bool { return false }
func (*mute) NextTimer() clock.Time                { return clock.Never }
func (*mute) HandleTimer(clock.Time)               {}

// advance lets the run go on to an instant, or until nothing is left to happen.
func (r *run) advance(ctx context.Context, until clock.Time) (quiet bool, err error) {
	if r.live == nil {
		err = errors.Join(r.simulateTo(until), r.endpoints.failed)
		r.now = r.net.Now()
		return r.now < until, err
	}
	r.now, quiet, err = r.live.Advance(ctx, until)
	return quiet, errors.Join(err, r.endpoints.failed)
}

// chunk returns how much time passes between looks at the context.
func (r *run) chunk() clock.Duration {
	if r.live == nil {
		return chunk
	}
	return r.live.step
}

// endLive ends the traffic of a live run; a machine that was too busy is no verdict about the switch.
func (r *run) endLive() (err error) {
	if r.live == nil {
		return nil
	}
	if r.live.report, err = r.live.Finish(); err != nil {
		return err
	}
	return r.live.report.Busy()
}

// closeLive removes the namespaces.
func (r *run) closeLive() error {
	if r.live == nil || r.live.Switch == nil {
		return nil
	}
	return r.live.Close()
}

// slack is how much later or earlier than at the hosts packets were seen, as measured. 0 in a simulation.
func (r *run) slack() clock.Duration {
	if r.live == nil || r.live.report == nil {
		return 0
	}
	return r.live.report.ToSwitch + r.live.report.ToHost
}

// outside says what was lost between hosts and switch.
func (r *run) outside() string { return r.live.report.Losses() }

// testbed names what the test ran on.
func (r *run) testbed() string { return r.plan.Testbed() }

// Testbed returns the kind of testbed that the test is planned for.
func (p *Plan) Testbed() string {
	switch {
	case p.remote != nil:
		return config.KindLab
	case p.live:
		return config.KindNetns
	}
	return config.KindVirtual
}

// observed is a packet at a tap.
type observed struct {
	at  fabric.Point
	now clock.Time
	fabric.Header
}

// deferred returns the judge of the hosts of a live run. It keeps what it observes until the run is over: its bounds
// are widened by what that has measured.
func deferred(t *transport.Transport) *judge {
	var seen []observed
	return &judge{
		name: t.Name,
		observe: func(at fabric.Point, now clock.Time, p *fabric.Packet) {
			if at.Host {
				seen = append(seen, observed{at, now, p.Header})
			}
		},
		finish: func(r *run) (analyzers.Result, error) {
			o := t.Judge.New(r.trial(t))
			var p fabric.Packet
			for i := range seen {
				p.Header = seen[i].Header
				o.Observe(seen[i].at, seen[i].now, &p)
			}
			return o.Finish(r.end, r.quiet), nil
		},
	}
}

// kernelFinished books that the receiver of a kernel's connection has all bytes.
func (r *run) kernelFinished(now clock.Time, number int) {
	a := &r.ledger.flows[number-1]
	a.Finish(now)
	a.payload = r.plan.Flows[number-1].Payload
}
