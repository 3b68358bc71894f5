package switchtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// event is something that is done to the network while traffic runs.
type event struct {
	at    clock.Duration
	trunk bool // of a trunk, or what routes learn of it
	do    func(r *run, now clock.Time) error
}

// events are the changes of the test, and what routes learn of trunks, in order of time.
func (p *Plan) events() []event {
	var list []event
	avoided := make(map[fabric.Trunk]bool) // by routes
	for _, c := range sortedChanges(p.Test.Changes) {
		if c.Trunk == nil {
			list = append(list, event{c.At, false, func(r *run, now clock.Time) error { return r.change(now, &c) }})
			if p.Test.Topology.Pair() && c.State() != "" {
				list = append(list, event{c.At + p.Test.Topology.Reroute(), true, func(r *run, now clock.Time) error {
					return r.prefer(now, c.State() == config.Stopped)
				}})
			}
			continue
		}
		list = append(list, event{c.At, true, func(r *run, now clock.Time) error { return r.changeTrunk(now, &c) }})
		if c.Trunk.Failed == nil {
			continue
		}
		list = append(list, event{c.At + p.Test.Topology.Reroute(), true, func(r *run, _ clock.Time) error {
			p.avoid(r.net, avoided, c.Trunk)
			return nil
		}})
	}
	slices.SortStableFunc(list, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return list
}

// avoid lets the routes of a network follow a trunk that has failed or come back. avoided has what they know of others.
func (p *Plan) avoid(n *fabric.Network, avoided map[fabric.Trunk]bool, c *config.TrunkChange) {
	avoided[fabric.Trunk{A: c.From, B: c.To}], avoided[fabric.Trunk{A: c.To, B: c.From}] = *c.Failed, *c.Failed
	n.Reroute(func(a, b string) bool {
		if state, known := avoided[fabric.Trunk{A: a, B: b}]; known {
			return state
		}
		_, failed := p.Test.Topology.TrunkBetween(a, b)
		return failed
	})
}

// trunkAt returns what a trunk is after the changes up to an instant.
func (p *Plan) trunkAt(a, b string, at clock.Duration) (now config.TrunkState) {
	for _, s := range p.Test.TrunkStates(a, b) {
		if s.Since <= at {
			now = s
		}
	}
	return now
}

// outages lists when a trunk, of switches with these numbers, is out of service.
func (p *Plan) outages(a, b string, trunk [2]int) (list []analyzers.Outage) {
	failed := false
	for i, s := range p.Test.TrunkStates(a, b) {
		at := clock.Time(0).Add(s.Since)
		if i == 0 {
			at = analyzers.Always
		}
		switch {
		case s.Failed && !failed:
			list = append(list, analyzers.Outage{Trunk: trunk, From: at, To: analyzers.Forever})
		case !s.Failed && failed:
			list[len(list)-1].To = at
		}
		failed = s.Failed
	}
	return list
}

func trunkLink(s *config.TrunkState) fabric.LinkSpec {
	l := linkOf(s.LinkSpec)
	l.Failed = s.Failed
	return l
}

// laterTrunk lists what becomes of a trunk.
func (p *Plan) laterTrunk(a, b string) []fabric.LinkSpec {
	var later []fabric.LinkSpec
	for _, s := range p.Test.TrunkStates(a, b)[1:] {
		later = append(later, trunkLink(&s))
	}
	return later
}

// changeTrunk lets a trunk fail, degrade or come back.
func (r *run) changeTrunk(now clock.Time, c *config.Change) error {
	a, b := c.Trunk.From, c.Trunk.To
	before, after := r.plan.trunkAt(a, b, c.At-1), r.plan.trunkAt(a, b, c.At)
	link := trunkLink(&after)
	if err := r.net.SetTrunk(now, a, b, &link); err != nil {
		return fmt.Errorf("change at %s: %w", c.At, err)
	}
	from, to := r.net.Trunk(a, b)
	for _, j := range r.judges {
		if j.relinked != nil {
			j.relinked(now, from, &link, before.Delay-link.Delay)
			j.relinked(now, to, &link, before.Delay-link.Delay)
		}
	}
	return nil
}

// trunkOutages says when trunks changed, and what was lost for it.
func (r *run) trunkOutages() (list []string) {
	if !r.plan.Test.ChangesTrunks() {
		return nil
	}
	for _, c := range sortedChanges(r.plan.Test.Changes) {
		switch {
		case c.Trunk == nil:
		case clock.Time(0).Add(c.At) > r.now:
			list = append(list, fmt.Sprintf("the run ended before %s, when %s", c.At, c.Trunk))
		default:
			list = append(list, fmt.Sprintf("%s at %s", c.Trunk, c.At))
		}
	}
	var lost []string
	var on, before, down, without uint64
	for i := range r.net.Switches() {
		sw := r.net.Switch(i)
		before += sw.Dropped(fabric.ReasonTrunkFailed)
		down += sw.Dropped(fabric.ReasonTrunkDown)
		without += sw.Dropped(fabric.ReasonUnreachable)
		for port := range sw.Ports() {
			on += sw.Port(port).Lost()
		}
	}
	for _, n := range []struct {
		packets uint64
		where   string
	}{
		{on, "on trunks that failed"}, {before, "that waited for them"}, {down, "towards trunks that were down"},
		{without, "for want of a path"}} {
		if n.packets > 0 {
			lost = append(lost, fmt.Sprintf("%s %s", report.Grouped(int64(n.packets)), n.where))
		}
	}
	if len(lost) > 0 {
		list = append(list, "packets lost: "+strings.Join(lost, ", "))
	}
	return list
}

// explainTrunks says when trunks change, and which hosts have no path then.
func (p *Plan) explainTrunks(e *explanation) {
	if !p.Test.ChangesTrunks() {
		return
	}
	n, err := p.build(1)
	if err != nil {
		return
	}
	avoided := make(map[fabric.Trunk]bool)
	cut := false
	for _, c := range sortedChanges(p.Test.Changes) {
		if c.Trunk == nil {
			continue
		}
		e.line("  at %s  %s", c.At, c.Trunk)
		if c.Trunk.Failed == nil {
			continue
		}
		p.avoid(n, avoided, c.Trunk)
		var a, b fabric.HostID
		if a, b, cut = n.Unreachable(); cut {
			e.line("              hosts %d and %d have no path from then on; packets between them are lost", a, b)
		}
	}
	if cut {
		e.line("              and none comes back: flows between such hosts do not finish")
	}
	if p.Test.Topology.Reroute() > 0 {
		e.line("              routes follow %s later", p.Test.Topology.Reroute())
	}
}
