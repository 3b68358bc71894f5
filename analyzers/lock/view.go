package lock

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
)

// View is what a judge of lock switches knows beside what any SwitchView tells.
type View interface {
	// LockServers and Databases return the hosts that are one, and whether they are addressed by IPv6.
	LockServers() (hosts []uint32, v6 bool)
	Databases() []uint32
	// ServersBegin returns before when lock servers grant nothing; 0: they may always.
	ServersBegin() clock.Time
	// ServerLease returns after which lock servers end leases, 0: never, and how often they look.
	ServerLease() (lease, poll clock.Duration)
	// ServerTimes returns what of lock.Network has these names; false: it is not known.
	ServerTimes() (way, takes, gap clock.Duration, ok bool)
	// Lossless reports whether lock servers get all that is sent to them.
	Lossless() bool
	// Pair returns the port of a switch that leads to the other one of a pair, and whether it is the backup; −1: none.
	Pair(sw int) (port int, backup bool)
	// End returns when the observation ended, once it has.
	End() clock.Time
}

// OfSwitches shows a Judge what taps show of the switches of a run.
type OfSwitches struct {
	*Judge
	Taps
	end    func() clock.Time
	v6     bool
	backup bool // one of them is a backup
}

// NewJudge returns a judge of switches whose family has [lock.Switch] as settings.
func NewJudge(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	facts := lock.Network{Complete: true, Optimal: true}
	j := &OfSwitches{end: func() clock.Time { return 0 }}
	j.Taps = NewTaps(v, func(p *Packet) { j.Packet(p) })
	of, paired := v.(View)
	if paired {
		var hosts []uint32
		hosts, j.v6 = of.LockServers()
		facts.Servers, facts.Databases = j.addresses(hosts), j.addresses(of.Databases())
		j.end, facts.NotBefore, facts.ServersLease = of.End, of.ServersBegin(), true
		facts.ServerLease, facts.ServerPoll = of.ServerLease()
		facts.Lossless, facts.ServersDedup = of.Lossless(), true
		facts.ServerWay, facts.ServerTakes, facts.ServerGap, facts.ServersTimed = of.ServerTimes()
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
		s.Ports = Ports(v, i, peer)
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

// Started implements analyzers.SwitchJudge: the switch returns without its registers, and owns locks that may be held,
// unless a backup has them, which knows the holders.
func (j *OfSwitches) Started(now clock.Time, sw int) {
	if !j.backup {
		j.TakesOver(now, sw)
	}
	j.Judge.Started(now, sw)
}

// Relinked implements analyzers.LinkJudge.
func (j *OfSwitches) Relinked(now clock.Time, sw, port int, l *analyzers.Relink) {
	if d := j.switches[sw]; port >= 0 && port < len(d.ports) {
		d.ports[port].Relinks(now, l)
	}
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
