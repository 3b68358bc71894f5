package switchtest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds/live"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Flow is one flow of a plan.
type Flow = transport.Flow

// What flows are for.
const (
	Transfer = workload.Transfer
	Pings    = workload.Pings
	Loop     = workload.Loop
)

// Plan is a test made ready to run: what depends on the machine is not in it.
type Plan struct {
	Test  *config.SwitchTest
	Flows []Flow // by number; none if they are streamed, see All
	Spec  fabric.Spec
	// Watch, if set, is shown the network before anything runs: for measurements that need taps of their own.
	Watch func(*fabric.Network)

	total int   // flows
	bases []int // of each item the number of its first flow, less 1

	family *family
	model  switches.Model
	// declared is what the test says of each switch. Seeded bugs may give Spec another.
	declared fabric.SwitchSpec
	nics     *nics           // as hosts.nic has them; nil: none
	live     bool            // on real frames
	remote   *live.Remote    // hosts are machines of a lab; nil: they are not
	bed      *config.Testbed // the lab; nil: none, or that of whoever has sent the test
}

// New plans a test. Errors are about the test: what only the models know.
func New(t *config.SwitchTest) (*Plan, error) {
	p := &Plan{Test: t}
	if err := p.complete(); err != nil {
		return nil, err
	}
	return p, nil
}

// complete plans flows and network.
func (p *Plan) complete() (err error) {
	t := p.Test
	if p.family, p.model, err = familyOf(families(), t.Switch.Model); err != nil {
		return fmt.Errorf("%s: %w", t.Where("switch-under-test.model"), err)
	}
	if err := p.expand(); err != nil {
		return err
	}
	if err := p.checkModel("switch-under-test", p.model, t.Switch.Values, p.largestSwitch()); err != nil {
		return err
	}
	if err := errors.Join(p.checkPair(), p.checkOutages()); err != nil {
		return err
	}
	if p.Spec, err = p.network(); err != nil {
		return p.located(err)
	}
	if t.Hosts.NIC != nil {
		if place, err := p.addNICs(); err != nil && place == "" { // it says where
			return err
		} else if err != nil {
			return fmt.Errorf("%s: %w", t.Where(place), err)
		}
	}
	return p.try()
}

// try builds the network and its hosts, so that what only the models see is an error before anything runs.
func (p *Plan) try() error {
	n, err := p.build(1)
	if err != nil {
		return p.located(err)
	}
	if a, b, cut := n.Unreachable(); cut {
		return fmt.Errorf("%s: hosts %d and %d have no path between them\n  leave one trunk of each way up",
			p.Test.Where("topology.trunks"), a, b)
	}
	if err := p.checkLocks(n); err != nil {
		return err
	}
	for i := range n.Switches() {
		if err := n.Switch(i).CheckHeadroom(); err != nil {
			return p.located(err)
		}
	}
	if format := p.Test.Taps.Decisions(); format != "" && len(p.family.Decisions) == 0 {
		return fmt.Errorf("%s: the model %s keeps no decision records; it is judged from the taps alone",
			p.Test.Where("taps.decisions"), p.Test.Switch.Model)
	}
	if p.Test.Results.Deflections() != "" && p.family.Deflected == nil {
		return fmt.Errorf("%s: the model %s deflects no packets", p.Test.Where("results.deflections"), p.Test.Switch.Model)
	}
	sets := slices.ContainsFunc(p.Test.Changes, func(c config.Change) bool { return c.State() == "" && c.Trunk == nil })
	if _, ok := n.Switch(0).Mechanism().(switches.Changer); !ok && sets {
		return fmt.Errorf("%s: the model %s can't be changed while it runs", p.Test.Where("changes"), p.Test.Switch.Model)
	}
	if path, what, why := p.Test.CheckStates(); path != "" {
		return fmt.Errorf("%s: %s: %s", p.Test.Where(path), what, why)
	}
	if err := p.queuesExpected(); err != nil {
		return err
	}
	var b books
	if p.Streamed() {
		b = newStream(p)
		if _, err := p.watch(n); err != nil {
			return err
		}
		if err := p.measurable(); err != nil {
			return err
		}
	} else {
		b = newLedger(n, p)
	}
	if _, err := p.attach(n, b); err != nil {
		if of := (*transport.SettingError)(nil); errors.As(err, &of) {
			return fmt.Errorf("%s: %s\n  %s", p.Test.Where("hosts."+of.Key), of.What, of.Why)
		}
		return fmt.Errorf("%s: %w", p.Test.Where("hosts"), err)
	}
	return nil
}

// check refuses what the transport of an item's flows can't do.
func (p *Plan) check(item int, k *workload.Kind, t *transport.Transport) error {
	o := &p.Test.Workload[item].Offer
	size, header := p.Test.PacketSizeOf(o), t.HeaderSize(o.IP == 6)
	switch {
	case k.For == Pings && (!o.Ranked() || t.Ranks):
	case o.Stop != nil && !t.Stops:
		return fmt.Errorf("stop-us: flows of the transport %s do not leave before their end", t.Name)
	case size <= header:
		return fmt.Errorf("packets of %d bytes have no room for a header of %d and payload", size, header)
	case k.For == Loop && !t.Reliable:
		return fmt.Errorf("%s over %s wait for ever once a packet is lost: take a reliable transport", k.Name, t.Name)
	case o.Ranked() && !t.Ranks:
		return fmt.Errorf("rank: the transport %s gives its packets no ranks", t.Name)
	case t.RankTable && o.Ranking().Kind == wire.RankByBytes:
		return fmt.Errorf("rank: remaining: packets of %s carry no rank, and the switch, which ranks them by flow, does not "+
			"know how much of a flow remains: give the flows a number or a deadline", t.Name)
	case t.OnePacketSize && o.PacketSize != nil:
		return fmt.Errorf("packet-size: all flows of the transport %s have the packet size of hosts", t.Name)
	}
	return nil
}

func ecnOf(t *config.SwitchTest) packet.ECN {
	v := t.Hosts.Values
	if v.Table().Find("ecn") < 0 {
		return packet.NotECT
	}
	switch v.Word("ecn") {
	case "ect0":
		return packet.ECT0
	case "ect1":
		return packet.ECT1
	}
	return packet.NotECT
}

// network describes the network.
func (p *Plan) network() (fabric.Spec, error) {
	t := p.Test
	top := &t.Topology
	s := fabric.Spec{Seed: t.Seed, Topology: top.Spec()}
	s.Topology.Link, s.Topology.Uplink = linkOf(top.Link), linkOf(top.Trunk)
	if len(top.Links) > 0 {
		s.Topology.LinkOf = func(host fabric.HostID) fabric.LinkSpec { return linkOf(top.HostLinkOf(int(host))) }
	}
	if len(top.Trunks) > 0 {
		s.Topology.TrunkOf = func(a, b string) fabric.LinkSpec {
			link, failed := top.TrunkBetween(a, b)
			l := linkOf(link)
			l.Failed = failed
			return l
		}
	}
	if t.ChangesTrunks() {
		s.Topology.LaterTrunk = p.laterTrunk
	}
	if err := p.model.Configure(t.Switch.Values, &s.Switch); err != nil {
		return s, err
	}
	if err := applyCommon(t.Switch.Values, &s.Switch); err != nil {
		return s, err
	}
	p.declared = s.Switch
	if p.model.Distort != nil {
		s.Switch.Queues = slices.Clone(s.Switch.Queues)
		s.Switch.Scheduler.Weights = slices.Clone(s.Switch.Scheduler.Weights)
		p.model.Distort(t.Switch.Bugs, &s.Switch)
	}
	if p.model.NIC != nil {
		if err := p.model.NIC(t.Switch.Values, t.Switch.Bugs, &s.NIC); err != nil {
			return s, err
		}
	}
	return s, ranksFor(&p.model, slices.Concat(s.Switch.Queues, s.NIC.Queues), t)
}

// ranksFor refuses a model that goes by ranks that nothing gives.
func ranksFor(m *switches.Model, queues []fabric.QueueSpec, t *config.SwitchTest) error {
	byRank := func(q fabric.QueueSpec) bool { return q.Order == fabric.ByRank }
	if m.Ranks || t.Ranked() || !m.NeedsRanks && !slices.ContainsFunc(queues, byRank) {
		return nil
	}
	return fmt.Errorf("the model %s goes by the ranks of packets, and nothing gives them ranks: give each item of the "+
		"workload a rank, such as rank: remaining", m.Name)
}

func linkOf(l config.LinkSpec) fabric.LinkSpec {
	return fabric.LinkSpec{Rate: l.Rate, Delay: l.Delay, Framing: l.Framing}
}

// build makes the network with the mechanism under test.
func (p *Plan) build(workers int) (*fabric.Network, error) {
	var failure error
	spec := p.Spec
	spec.Workers = workers
	if p.nics != nil {
		spec.NIC.Mechanism = p.nics.mechanism(&failure)
	}
	n, err := fabric.New(&spec, func(sw *fabric.Switch) fabric.Mechanism {
		if p.plain(sw) {
			return nil
		}
		m, err := p.model.New(sw, p.Test.Switch.Values, p.Test.Switch.Bugs)
		if err != nil && failure == nil {
			failure = fmt.Errorf("switch %s: %w", sw.Name(), err)
		}
		if err != nil {
			return nil
		}
		return m
	})
	if err == nil {
		n.SetCodecs(codecs())
		err = failure
	}
	if err == nil && p.model.Shim != nil {
		err = p.shims(n)
	}
	return n, err
}

// shims puts the family's shims into the hosts.
func (p *Plan) shims(n *fabric.Network) error {
	for id := range n.Hosts() {
		h := n.Host(fabric.HostID(id))
		s, err := p.model.Shim(h, p.Test.Switch.Values, p.Test.Switch.Bugs)
		if err != nil {
			return fmt.Errorf("host %d: %w", id, err)
		}
		if s != nil {
			h.SetShim(s)
		}
	}
	return nil
}

// Explain writes the network, the model and every flow.
func (p *Plan) Explain(w io.Writer) error {
	t := p.Test
	e := explanation{w: w}
	e.line("%s", t.Title())
	e.line("  topology  %s, hosts: %d, switches: %d; links %s", t.Topology.Model, t.Topology.HostCount(),
		t.Topology.SwitchCount(), linkText(t.Topology.Link))
	e.line("  switch    model %s", t.Switch.Model)
	for _, s := range t.Switch.Values.Settings() {
		e.line("              %-24s %s %s", s.Name, s.Value, s.Unit)
	}
	for _, b := range t.Switch.Bugs {
		e.line("              seeded bug %s", b)
	}
	e.line("  hosts     transport %s", t.Hosts.Model)
	for _, s := range t.Hosts.Values.Settings() {
		e.line("              %-24s %s %s", s.Name, s.Value, s.Unit)
	}
	for _, b := range t.Hosts.Bugs {
		e.line("              seeded bug %s", b)
	}
	p.explainNICs(&e)
	p.explainFlows(&e)
	for _, c := range t.Changes {
		for _, s := range c.Set.Settings() {
			e.line("  at %s  %s = %s %s", c.At, s.Name, s.Value, s.Unit)
		}
		if state := c.State(); state != "" {
			e.line("  at %s  %s: %s", c.At, p.switchesOf(&c), state)
		}
	}
	p.explainTrunks(&e)
	e.line("  end       %s", endText(t))
	return e.err
}

// switchesOf names the switches that a change is about.
func (p *Plan) switchesOf(c *config.Change) string {
	if c.Switch == nil {
		return "all switches"
	}
	return fmt.Sprintf("switch %d", *c.Switch)
}

func endText(t *config.SwitchTest) string {
	if t.Duration > 0 {
		return "after " + t.Duration.String()
	}
	return "when every flow has finished, or after " + t.Deadline.String()
}

func linkText(l config.LinkSpec) string {
	return fmt.Sprintf("%g Gb/s, %d ns, %d bytes of framing", float64(l.Rate)/float64(clock.Gbps), l.Delay.Nanoseconds(),
		l.Framing)
}

// explanation writes lines until one fails.
type explanation struct {
	w   io.Writer
	err error
}

func (e *explanation) line(format string, args ...any) {
	if e.err == nil {
		// not every setting has a value and a unit
		_, e.err = fmt.Fprintln(e.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
}
