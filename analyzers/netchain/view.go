package netchain

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	locks "candela.dev/candela/analyzers/lock"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
)

// View is what a judge of these switches knows beside what any SwitchView tells.
type View interface {
	// End returns when the observation ended, once it has.
	End() clock.Time
}

// OfSwitches shows a Judge what taps show of the switches of a run.
type OfSwitches struct {
	*Judge
	locks.Taps
	end func() clock.Time
}

// NewJudge returns a judge of switches whose family has [lock.NetChain] as settings.
func NewJudge(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	var switches []lock.NetChain
	for i := range v.Switches() {
		settings, err := v.Settings(i)
		if err != nil {
			return nil, err
		}
		s, ok := settings.(lock.NetChain)
		if !ok {
			return nil, fmt.Errorf("settings of switch %s are %T: want lock.NetChain", v.SwitchName(i), settings)
		}
		const unpaired = -1
		s.Name, s.Pauses, s.Ports = v.SwitchName(i), analyzers.Pauses(v), locks.Ports(v, i, unpaired)
		switches = append(switches, s)
	}
	judge := New(switches)
	j := &OfSwitches{judge, locks.NewTaps(v, judge.Packet), func() clock.Time { return 0 }}
	if of, ok := v.(View); ok {
		j.end = of.End
	}
	return j, nil
}

// Relinked implements analyzers.LinkJudge.
func (j *OfSwitches) Relinked(now clock.Time, sw, port int, l *analyzers.Relink) {
	if d := j.switches[sw]; port >= 0 && port < len(d.wires) {
		d.wires[port].Relinks(now, l)
	}
}

// Finish implements analyzers.SwitchJudge.
func (j *OfSwitches) Finish() (analyzers.Result, error) { return j.Judge.Finish(j.end()), nil }

// measures are what the judge counts.
type measures struct {
	packets, requests, granted, rejected, released, lapsed, withdrawn, others int64

	latency *analyzers.Distribution // from a request to its answer, at the switch
	held    *analyzers.Distribution // from the request that was granted a lock to the release that freed it
}

func newMeasures() measures {
	return measures{latency: analyzers.NewDistribution("netchain.latency", analyzers.UnitNS, 0),
		held: analyzers.NewDistribution("netchain.held", analyzers.UnitNS, 0)}
}

// Finish judges what is left at the end of the observation.
func (j *Judge) Finish(end clock.Time) analyzers.Result {
	j.now = max(j.now, end)
	for _, d := range j.switches {
		if !d.out {
			j.ends(d)
		}
		j.frees(d)
	}
	findings := j.report.Findings()
	slices.SortStableFunc(findings, func(a, b analyzers.Finding) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	m := &j.measures
	return analyzers.Result{Findings: findings, Tables: m.tables(j.now),
		Metrics: []analyzers.Metric{m.latency.Metric(), m.held.Metric()}, Coverage: map[string]int64{
			"packets": m.packets, "requests": m.requests, "grants": m.granted, "rejects": m.rejected, "releases": m.released,
			"lapsed": m.lapsed, "withdrawn": m.withdrawn, "others": m.others}}
}

func (m *measures) tables(end clock.Time) []analyzers.Table {
	seconds := float64(end) / float64(clock.Second)
	row := func(what string, n int64) []string {
		rate := "-"
		if seconds > 0 {
			rate = fmt.Sprintf("%.0f", float64(n)/seconds)
		}
		return []string{what, fmt.Sprint(n), rate}
	}
	return []analyzers.Table{{File: "netchain-answers", Title: "Answers",
		Columns: []string{"answer", "packets", "per second"},
		Rows:    [][]string{row("grant", m.granted), row("rejection", m.rejected)}}}
}
