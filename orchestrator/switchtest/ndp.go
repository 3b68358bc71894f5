package switchtest

import (
	"errors"
	"fmt"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/ndp"
	wire "candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/testbeds/virtual/fabric/parameter"
)

const ndpHeader = wire.Size

func ndpTransport() transport {
	return transport{
		Model: parameter.Model{
			Name: "ndp", Doc: "NDP: a first window at line rate, then a packet for each PULL of the receiver, which paces them.",
			Parameters: parameter.Table{
				packetSize(),
				{Name: "initial-window", Kind: parameter.Integer, Unit: "packets", Default: "30", Min: 1, Max: 1 << 20, Doc: "Packets that a flow sends before it has heard anything."},
				{Name: "pull-rate", Kind: parameter.Number, Default: "1", Max: 2, Doc: "Share of the receiver's link rate that PULLs ask for; above 0."},
				{Name: "rto-us", Kind: parameter.Duration, Unit: "us", Default: "1000", Max: 10_000_000, Doc: "When an unanswered packet is taken for lost; 0: never."},
				{Name: "paths", Kind: parameter.Integer, Default: "1", Min: 1, Max: 1 << 16, Doc: "Path tags that a sender deals out to its packets; ECMP sees them."},
				{Name: "control-dscp", Kind: parameter.Integer, Default: "0", Max: 63, Doc: "DSCP of ACK, NACK and PULL."},
				{Name: "control-tc", Kind: parameter.Integer, Default: "0", Max: 7, Doc: "Traffic class of ACK, NACK and PULL."},
				ecnParameter(),
			},
			Bugs: ndpBugs(),
		},
		reliable: true, onePacketSize: true, attach: attachNDP,
	}
}

// ndpBugs are the seeded bugs that NDP hosts can have.
func ndpBugs() []parameter.Bug {
	var list []parameter.Bug
	for _, b := range ndp.Catalogue() {
		list = append(list, parameter.Bug{Name: b.Name, Doc: strings.ToUpper(b.What[:1]) + b.What[1:] + "."})
	}
	return list
}

// ndpRun is the NDP hosts of a run. It is the sink of all of them.
type ndpRun struct {
	e     *endpoints
	hosts map[fabric.HostID]*fabric.NDPHost
	// flows by sender and connection; requests and responses of one loop lead to the same flow.
	flows map[connection]*Flow
	loops map[int]*loop // by flow number
}

type connection struct {
	sender ndp.Endpoint
	number uint32
}

// loop is a closed loop in progress.
type loop struct {
	asked    clock.Time
	answered int
}

func attachNDP(e *endpoints, v parameter.Values, flows []*Flow) error {
	r := &ndpRun{e: e, hosts: make(map[fabric.HostID]*fabric.NDPHost), flows: make(map[connection]*Flow), loops: make(map[int]*loop)}
	senders := make(map[fabric.HostID]*Flow)
	if err := oneVersion("NDP", flows); err != nil {
		return err
	}
	if err := e.keepsHeaders(flows); err != nil {
		return err
	}
	if v.Number("pull-rate") == 0 {
		return errors.New("pull-rate: 0 would ask for nothing, and no flow would end: must be above 0, at most 2; 1 is the link's rate")
	}
	for _, f := range flows {
		for _, h := range []fabric.HostID{f.Src, f.Dst} {
			if h != f.Src && f.Kind == Transfer {
				continue
			}
			if first := senders[h]; first != nil && first.Mark != f.Mark {
				return fmt.Errorf("flows %d and %d of host %d differ in dscp, tc or ip: all flows of an NDP host are alike", first.Number, f.Number, h)
			}
			senders[h] = f
		}
	}
	for _, f := range flows {
		for _, h := range []fabric.HostID{f.Src, f.Dst} {
			if err := r.host(h, v, f, senders[h]); err != nil {
				return err
			}
		}
	}
	for _, f := range flows {
		if err := r.start(f); err != nil {
			return err
		}
	}
	return nil
}

// oneVersion refuses flows over IPv4 beside others over IPv6: hosts and judges tell headers from payload by one size.
func oneVersion(transport string, flows []*Flow) error {
	for _, f := range flows {
		if f.Mark.IPv6 != flows[0].Mark.IPv6 {
			return fmt.Errorf("flows %d and %d differ in ip: all %s flows of a test are of one version of IP; make it two tests", flows[0].Number,
				f.Number, transport)
		}
	}
	return nil
}

// keepsHeaders refuses a switch that cuts frames within the headers of NDP, which nobody could read behind it.
func (e *endpoints) keepsHeaders(flows []*Flow) error {
	v := &e.plan.Test.Switch.Values
	need := headerBytes("ndp", len(flows) > 0 && flows[0].Mark.IPv6)
	for _, name := range []string{"trim-bytes", "trim-size"} {
		if v.Table().Find(name) >= 0 && v.Int(name) < need {
			return fmt.Errorf("switch-under-test.%s: %d bytes cut into the headers of NDP; flow %d has %d bytes of them: set %d or more", name, v.Int(name),
				flows[0].Number, need, need)
		}
	}
	return nil
}

// host makes the endpoint of a host once; f is one of its flows, as is what it sends, if anything.
func (r *ndpRun) host(h fabric.HostID, v parameter.Values, f, sent *Flow) error {
	if r.hosts[h] != nil {
		return nil
	}
	cfg := fabric.NDPConfig{
		InitialWindow: v.Int("initial-window"), PacketSize: v.Int("packet-size"), PullRate: v.Number("pull-rate"), RTO: v.Duration("rto-us"),
		Paths: v.Int("paths"), IPv6: f.Mark.IPv6, ControlDSCP: uint8(v.Int("control-dscp")), ControlClass: uint8(v.Int("control-tc")),
	}
	if cfg.RTO == 0 {
		cfg.RTO = -1
	}
	if hosts := &r.e.plan.Test.Hosts; hosts.Model == "ndp" {
		bugs, err := ndp.ParseBugs(hosts.Bugs)
		if err != nil {
			return err
		}
		cfg.Bugs = bugs
	}
	if sent != nil {
		cfg.DataClass, cfg.DataDSCP = sent.Mark.Class, sent.Mark.DSCP
	}
	host, err := r.e.net.AttachNDP(h, cfg, r)
	if err != nil {
		return err
	}
	r.hosts[h] = host
	r.e.mux(h).Add(fabric.NDP, host)
	return nil
}

// start hands a flow to its sender; of a loop the first request.
func (r *ndpRun) start(f *Flow) error {
	if f.Kind == Loop {
		r.loops[f.Number] = &loop{asked: f.Start}
		return r.send(f, f.Src, f.Dst, uint64(f.Request), f.Start)
	}
	return r.send(f, f.Src, f.Dst, uint64(f.Payload), f.Start)
}

func (r *ndpRun) send(f *Flow, from, to fabric.HostID, bytes uint64, at clock.Time) error {
	number, err := r.hosts[from].Core().Send(ndp.Flow{To: ndp.Endpoint(to), Bytes: bytes, Start: at})
	if err != nil {
		return err
	}
	r.flows[connection{ndp.Endpoint(from), number}] = f
	r.e.ledger.name(fabric.NDP, from, number, f.Number)
	if f.Kind == Transfer {
		r.e.ledger.own(fabric.NDP, from, number, f.Number)
	}
	return nil
}

// NDPEvent implements ndp.Sink.
func (r *ndpRun) NDPEvent(now clock.Time, e ndp.Event) {
	f := r.flows[connection{e.Sender, e.Connection}]
	if f == nil {
		return
	}
	a := &r.e.ledger.flows[f.Number-1]
	switch e.Kind {
	case ndp.Retransmitted:
		a.retransmissions++
	case ndp.TimedOut:
		a.timeouts++
	case ndp.Received:
		if f.Kind == Loop {
			r.turn(now, f, fabric.HostID(e.Receiver), a)
			return
		}
		a.finished, a.done = true, now
	case ndp.Finished:
		if f.Kind == Transfer {
			a.told, a.known = true, now
		}
	case ndp.Started:
	}
}

// turn goes on with a closed loop: a request that has arrived is answered, and a response is followed by the next request.
func (r *ndpRun) turn(now clock.Time, f *Flow, at fabric.HostID, a *account) {
	l := r.loops[f.Number]
	if at == f.Dst {
		if err := r.send(f, f.Dst, f.Src, uint64(f.Response), now.Add(f.Service)); err != nil {
			r.e.fail(err)
		}
		return
	}
	a.trips.Record(now.Sub(l.asked).Nanoseconds())
	if l.answered++; l.answered == f.Count {
		a.finished, a.done = true, now
		return
	}
	l.asked = now
	if err := r.send(f, f.Src, f.Dst, uint64(f.Request), now); err != nil {
		r.e.fail(err)
	}
}
