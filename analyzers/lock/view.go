package lock

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// View is what a judge of lock switches knows beside what any SwitchView tells.
type View interface {
	// LockServers and Databases return the hosts that are one, and whether they are addressed by IPv6.
	LockServers() (hosts []uint32, v6 bool)
	Databases() []uint32
	// ServersBegin returns before when lock servers grant nothing; 0: they may always.
	ServersBegin() clock.Time
	// Pair returns the port of a switch that leads to the other one of a pair, and whether it is the backup; −1: none.
	Pair(sw int) (port int, backup bool)
	// End returns when the observation ended, once it has.
	End() clock.Time
}

// Reasons of drops with which a switch consumes packets: nothing is lost.
const (
	ReasonTaken   = "taken"
	ReasonIgnored = "ignored"
)

// OfSwitches shows a Judge what taps show of the switches of a run.
type OfSwitches struct {
	*Judge
	view   analyzers.SwitchView
	end    func() clock.Time
	v6     bool
	many   bool // switches in the network
	backup bool // one of them is a backup
	packet Packet
}

// NewJudge returns a judge of switches whose family has [lock.Switch] as settings.
func NewJudge(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	facts := lock.Network{Complete: true, Optimal: true}
	j := &OfSwitches{view: v, many: analyzers.OneOfMany(v), end: func() clock.Time { return 0 }}
	of, paired := v.(View)
	if paired {
		var hosts []uint32
		hosts, j.v6 = of.LockServers()
		facts.Servers, facts.Databases = j.addresses(hosts), j.addresses(of.Databases())
		j.end, facts.NotBefore = of.End, of.ServersBegin()
	}
	for i := range v.Switches() {
		settings, err := v.Settings(i)
		if err != nil {
			return nil, err
		}
		s, ok := settings.(lock.Switch)
		if !ok {
			return nil, fmt.Errorf("settings of switch %s are %T: want lock.Switch", v.SwitchName(i), settings)
		}
		s.Name, s.Pauses = v.SwitchName(i), analyzers.Pauses(v)
		peer := -1
		if paired {
			if peer, s.Standby = of.Pair(i); peer >= 0 {
				j.backup = true
			}
		}
		for port := range v.Ports(i) {
			of := lock.Port{}
			of.Rate, of.Framing = v.Link(i, port)
			_, host := v.HostAt(i, port)
			of.Trunk, of.Peer = !host && peer < 0 || port == peer, port == peer
			s.Ports = append(s.Ports, of)
		}
		facts.Switches = append(facts.Switches, s)
	}
	var err error
	j.Judge, err = New(facts)
	return j, err
}

func (j *OfSwitches) addresses(hosts []uint32) (list []netip.Addr) {
	for _, h := range hosts {
		list = append(list, j.view.Address(h, j.v6))
	}
	return list
}

// ObserveLock observes a packet of the lock manager.
func (j *OfSwitches) ObserveLock(t *trace.SwitchTap, h *netlock.Header) {
	if !j.take(t) {
		return
	}
	p := &j.packet
	p.Lock, p.Header = true, *h
	p.Src, p.Dst = j.view.Address(t.Src, t.IPv6), j.view.Address(t.Dst, t.IPv6)
	if p.DstPort = netlock.Port; t.Flags&trace.Returned != 0 {
		p.DstPort = netlock.ReplyPort
	}
	j.Packet(p)
}

// Observe implements analyzers.SwitchJudge, for packets of others.
func (j *OfSwitches) Observe(t *trace.SwitchTap) {
	if !j.take(t) {
		return
	}
	if j.many { // packets of a flow may take several ways
		j.Packet(&j.packet)
		return
	}
	p := &j.packet
	p.Flow = uint64(t.Class)<<48 ^ uint64(t.Src)<<40 ^ uint64(t.Dst)<<20 ^ uint64(t.Flow)<<8 ^ uint64(t.Protocol) | 1<<63
	p.Digest = t.Number*0x9e3779b97f4a7c15 ^ uint64(t.Original)<<32 ^ uint64(t.Size) | 1<<63
	j.Packet(p)
}

// take begins the packet of a tap; false: the tap shows none that enters or leaves the switch, or is lost in it.
func (j *OfSwitches) take(t *trace.SwitchTap) bool {
	if t.Internal && t.Stage != trace.Dropped || t.Flags&trace.Notification != 0 {
		return false
	}
	j.packet = Packet{Time: t.Time, ID: t.ID, Switch: t.Switch, Port: t.Port, Stage: t.Stage, Size: t.Size}
	if t.Stage == trace.Dropped {
		why := j.view.Reason(t.Switch, t.Reason)
		j.packet.Outage = why.Outage
		return why.Name != ReasonTaken && why.Name != ReasonIgnored
	}
	return true
}

// Decide implements analyzers.SwitchJudge: lock switches record no decisions.
func (j *OfSwitches) Decide(*trace.Decision) {}

// Changed implements analyzers.SwitchJudge: nothing changes while the switch runs.
func (j *OfSwitches) Changed(clock.Time, int) {}

// Started implements analyzers.SwitchJudge: the switch returns without its registers, and owns locks that may be held,
// unless a backup has them, which knows the holders.
func (j *OfSwitches) Started(now clock.Time, sw int) {
	if !j.backup {
		j.TakesOver(now, sw)
	}
	j.Judge.Started(now, sw)
}

// Finish implements analyzers.SwitchJudge.
func (j *OfSwitches) Finish() (analyzers.Result, error) {
	for i := range j.view.Switches() {
		counters, err := j.view.Counters(i)
		if err != nil {
			return analyzers.Result{}, err
		}
		list, ok := counters.([]lock.Allocation)
		if !ok {
			return analyzers.Result{}, fmt.Errorf("counters of switch %s are %T: want its allocations", j.view.SwitchName(i),
				counters)
		}
		for k := range list {
			j.Allocated(i, &list[k])
		}
	}
	return j.Judge.Finish(j.end()), nil
}
