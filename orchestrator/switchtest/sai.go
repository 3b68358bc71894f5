package switchtest

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers"
	judgesai "candela.dev/candela/analyzers/sai"
	"candela.dev/candela/clock"
	"candela.dev/candela/sai"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/testbeds/virtual/fabric/parameter"
	model "candela.dev/candela/testbeds/virtual/switches/sai"
)

func saiAnalyzer() analyzer {
	return analyzer{
		name: judgesai.Name, rules: judgesai.Rules(),
		applies: func(r *run) bool { return r.plan.Test.Switch.Model == "sai" },
		build:   newSAIJudge,
	}
}

// saiJudge is the SAI analyzer, once for each switch.
type saiJudge struct{ switches []saiSwitch }

type saiSwitch struct {
	sw     *fabric.Switch
	mech   *model.Mechanism
	judge  *judgesai.Analyzer
	tap    fabric.Tap
	before sai.Snapshot
}

func newSAIJudge(r *run) (judge, error) {
	j := &saiJudge{switches: make([]saiSwitch, r.net.Switches())}
	for i := range j.switches {
		s := &j.switches[i]
		s.sw = r.net.Switch(i)
		mech, ok := s.sw.Mechanism().(*model.Mechanism)
		if !ok {
			return nil, fmt.Errorf("switch %s has no SAI mechanism", s.sw.Name())
		}
		s.mech, s.before = mech, mech.Snapshot()
		s.judge = judgesai.New(saiConfig(r, s.sw, mech))
		s.tap = mech.Tap(s.judge.Observe)
	}
	return j, nil
}

func saiConfig(r *run, sw *fabric.Switch, mech *model.Mechanism) judgesai.Config {
	ports := make(map[netip.Addr]int)
	c := judgesai.Config{
		Settings: []judgesai.Change{{Settings: mech.Settings()}}, Strict: r.plan.Test.Switch.Values.Word("scheduler") == "strict", Closed: true,
		// A run that is cut off leaves packets in queues.
		Undrained: r.plan.Test.Duration > 0, PoolBytes: r.plan.Test.Switch.Values.Int("buffer-bytes"),
		PortOf: func(a netip.Addr) (int, bool) { port, ok := ports[a]; return port, ok },
	}
	for i := range sw.Ports() {
		c.Ports = append(c.Ports, model.PortName(i))
		if h, ok := sw.Port(i).HostAt(); ok {
			ports[model.Address(h, false)], ports[model.Address(h, true)] = i, i
		}
	}
	return c
}

func (j *saiJudge) name() string { return judgesai.Name }

func (j *saiJudge) observe(at fabric.Point, now clock.Time, p *fabric.Packet) {
	if !at.Host {
		j.switches[at.Node].tap(at, now, p)
	}
}

func (j *saiJudge) changed(now clock.Time, sw int, v parameter.Values) {
	s := &j.switches[sw]
	settings, err := model.Settings(v, s.sw.Ports())
	if err != nil {
		return // the switch has refused it, and with it the run
	}
	s.judge.AddChange(judgesai.Change{FromPS: int64(now), Settings: settings})
}

func (j *saiJudge) finish(r *run) (analyzers.Result, error) {
	var all analyzers.Result
	for i := range j.switches {
		s := &j.switches[i]
		counters, err := s.mech.Snapshot().Since(s.before)
		if err != nil {
			return all, fmt.Errorf("switch %s: %w", s.sw.Name(), err)
		}
		if r.net.InFlight() > 0 {
			s.judge.Cut()
		}
		result := s.judge.Finish(counters)
		for k := range result.Findings {
			if len(j.switches) > 1 {
				result.Findings[k].Message = "switch " + s.sw.Name() + ": " + result.Findings[k].Message
			}
		}
		all.Findings = append(all.Findings, result.Findings...)
		if len(j.switches) == 1 {
			all.Metrics, all.Coverage = result.Metrics, result.Coverage
		}
	}
	return all, nil
}
