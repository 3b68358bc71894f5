package switchtest

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/forwarding"
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/testbeds/virtual/fabric/parameter"
	"candela.dev/candela/trace"
)

// device is the switches of a run as their judges see them.
type device struct{ r *run }

func (d device) Switches() int                   { return d.r.net.Switches() }
func (d device) SwitchName(sw int) string        { return d.r.net.Switch(sw).Name() }
func (d device) Ports(sw int) int                { return d.r.net.Switch(sw).Ports() }
func (d device) Bounded() bool                   { return d.r.plan.Test.Duration > 0 }
func (d device) InFlight() bool                  { return d.r.net.InFlight() > 0 }
func (d device) Decisions() []trace.DecisionKind { return d.r.plan.family.Decisions }
func (d device) Reason(code uint8) analyzers.DropReason {
	return d.r.plan.family.Reason(fabric.Reason(code))
}

func (d device) HostAt(sw, port int) (uint32, bool) {
	h, ok := d.r.net.Switch(sw).Port(port).HostAt()
	return uint32(h), ok
}

func (d device) Address(host uint32, v6 bool) netip.Addr {
	if v6 {
		return fabric.HostID(host).IPv6()
	}
	return fabric.HostID(host).IPv4()
}

func (d device) Settings(sw int) (any, error) {
	return d.r.plan.family.Settings(d.r.current[sw], d.r.net.Switch(sw).Ports())
}

func (d device) Counters(sw int) (any, error) { return d.r.plan.family.Snapshot(d.r.net.Switch(sw)) }

func (d device) FlowOf(t *trace.SwitchTap) int {
	sender, connection := t.Src, t.Flow
	if t.Flags&trace.Returned != 0 {
		sender = t.Dst
	}
	if t.Protocol == trace.ProtocolNDP {
		connection = t.Connection
	}
	return d.r.ledger.flowOfConnection(t.Protocol, fabric.HostID(sender), connection)
}

// deviceJudge is a judge of switches as a judge of a run.
type deviceJudge struct {
	analyzers.SwitchJudge
	called string
	net    *fabric.Network
	t      trace.SwitchTap
}

func (j *deviceJudge) name() string { return j.called }

func (j *deviceJudge) observe(at fabric.Point, now clock.Time, p *fabric.Packet) {
	if j.net.AtSwitch(at, now, p, &j.t) {
		j.Observe(&j.t)
	}
}

func (j *deviceJudge) changed(now clock.Time, sw int, _ parameter.Values) { j.Changed(now, sw) }

func (j *deviceJudge) finish(*run) (analyzers.Result, error) { return j.Finish() }

// judgeOfDevice makes the entry of a judge of switches.
func judgeOfDevice(name string, rules []analyzers.Rule, applies func(*run) bool,
	build func(analyzers.SwitchView) (analyzers.SwitchJudge, error)) analyzer {
	return analyzer{name: name, rules: rules, applies: applies, ofSwitch: true, build: func(r *run) (judge, error) {
		j, err := build(device{r})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return &deviceJudge{SwitchJudge: j, called: name, net: r.net}, nil
	}}
}

// deviceAnalyzers lists what any switch owes, and the judges of the families.
func deviceAnalyzers() []analyzer {
	list := []analyzer{judgeOfDevice(forwarding.Name, forwarding.Rules(), func(*run) bool { return true }, forwarding.New)}
	for _, f := range families() {
		if f.judge != nil {
			list = append(list, judgeOfDevice(f.Name, f.rules, func(r *run) bool { return r.plan.family.Name == f.Name }, f.judge))
		}
	}
	return list
}
