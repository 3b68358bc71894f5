package switchtest

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/athost"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/netlock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/transport"
	netlockpacket "candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// A switch test is judged in one walk, whether it runs or was recorded:
//
//	seat     each analyzer that has something to judge becomes a judge of the run
//	observe  the taps of the network (run.go) or the frames of its captures (rejudge.go) are shown to the judges
//	collect  their results become one analysis
//	verdict  integrity, findings and expectations (facts.verdict)

// analyzer is what the registry knows of an analyzer.
type analyzer struct {
	name  string
	rules []analyzers.Rule
	// applies says whether a run has anything for it to judge.
	applies func(r *run) bool
	// seat returns the judge of a run, recorded that of its captures; why says why they are not enough. nil: captures
	// never are.
	seat      func(r *run) (*judge, error)
	recorded  func(r *run) (j *judge, why string)
	transport *transport.Transport // whose hosts it judges; nil: it judges switches
	family    *family              // whose switches alone it judges; nil: all
	decides   bool                 // from decision records
}

// judge is an analyzer of a run. It is shown what its functions take; nil: it does not look at that.
type judge struct {
	name    string
	observe fabric.Tap
	frame   func(*transport.Frame) error
	decide  func(*trace.Decision)
	changed func(now clock.Time, sw int) // a switch has other settings from now on
	// stopping is told before a switch goes out of service, started after it is in service again.
	stopping, started func(now clock.Time, sw int)
	// takesOver is told after a backup has taken over.
	takesOver func(now clock.Time, sw int)
	// relinked is told after a port's link has become another, with a delay less by shorter.
	relinked func(now clock.Time, at *fabric.Port, l *fabric.LinkSpec, shorter clock.Duration)
	finish   func(r *run) (analyzers.Result, error)
	hosts    bool   // observe takes packets at hosts, too
	note     string // of a judgement from captures
	failed   error  // by a frame
}

// seatJudges makes the judges of a run and has the network show them what passes.
func (r *run) seatJudges() error {
	for _, a := range judgeTable() {
		if !a.applies(r) {
			continue
		}
		j, err := a.seat(r)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if j != nil {
			r.judges = append(r.judges, j)
			r.tap(&a, j)
		}
	}
	return nil
}

// tap shows a judge what it has to see, and no more: each packet shown costs time. Judges of hosts ask what stopped
// switches lose.
func (r *run) tap(a *analyzer, j *judge) {
	everywhere := r.watched == nil || r.plan.Test.Judge.Ports.All
	switch {
	case a.transport != nil && (r.watched == nil && r.queuesAtHosts() || everywhere && r.plan.Test.Outages()),
		a.transport == nil && everywhere && r.net.NICs():
		r.net.SetTap(j.observe)
	case a.transport != nil:
		r.net.TapHosts(j.observe)
	default:
		for i := range r.net.Switches() {
			if everywhere || r.watched.whole[i] {
				r.net.Switch(i).Watch(j.observe)
			}
		}
		if j.hosts && everywhere {
			r.net.TapHosts(j.observe)
		}
	}
}

// queuesAtHosts reports whether packets wait at hosts, in NICs or for a pause to end: judges of hosts may look at them.
func (r *run) queuesAtHosts() bool {
	return r.net.NICs() || len(r.plan.Test.Switch.Values.Integers("pfc-classes")) > 0
}

// collect adds the results of the judges to an analysis.
func (r *run) collect(analysis *analyzers.Analysis) error {
	for _, j := range r.judges {
		result, err := j.finish(r)
		if err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		r.addPortRoles(result.Findings)
		analysis.Add(j.name, result)
	}
	r.analysis = analysis
	return nil
}

func (r *facts) verdict(failure error, strict bool) orchestrator.Verdict {
	e := orchestrator.Evidence{Infrastructure: failure, Strict: strict,
		Waived: func(rule string) bool { return r.excuse(rule) != nil }}
	if r.checked != nil {
		e.Integrity = r.checked.Violations()
	}
	if r.analysis != nil {
		e.Unmet = r.unmet()
	}
	return orchestrator.Judge(e, r.analysis, r.plan.Test.Expect.Of, AnalyzerNames())
}

// ofTransport makes the analyzer of the hosts of a transport. It observes at their NICs: what lies between is the
// network.
func ofTransport(t *transport.Transport) analyzer {
	from := func(name string, f func(clock.Time, bool) analyzers.Result) judge {
		return judge{name: name, finish: func(r *run) (analyzers.Result, error) {
			result := f(r.end, r.quiet)
			result.Findings = r.plan.seen(t, result.Findings)
			return result, nil
		}}
	}
	return analyzer{
		name: t.Name, rules: t.Judge.Rules, transport: t,
		applies: func(r *run) bool { return r.plan.speaks(t) && (r.stream == nil || r.plan.Test.Judge.Flows > 0) },
		seat: func(r *run) (*judge, error) {
			if r.plan.live {
				return deferred(t), nil
			}
			o := t.Judge.New(r.trial(t))
			j := from(t.Name, o.Finish)
			j.observe = o.Observe
			return &j, nil
		},
		recorded: func(r *run) (*judge, string) {
			c, why := t.Judge.Recorded(r.trial(t))
			if why != "" {
				return nil, why
			}
			j := from(t.Name, c.Finish)
			j.frame = c.Frame
			if j.note = fromCaptures; t.Judge.Note != "" {
				j.note += "; " + t.Judge.Note
			}
			return &j, ""
		},
	}
}

// trial is what the judge of a transport's hosts may know of the run.
func (r *run) trial(t *transport.Transport) *transport.Trial {
	trial := &transport.Trial{
		Net: r.net, Test: r.plan.Test, Name: t.Name, Flows: r.plan.All(), Values: r.plan.valuesOf(t),
		Latency: r.plan.Spec.Switch.Latency, Queues: r.plan.Spec.Switch.Queues, End: r.end,
		Slack: r.slack(), Paced: r.plan.pacesNICs(), Deflects: r.plan.family.Deflects,
		FlowOf: func(sender fabric.HostID, connection uint32) (int, bool) {
			n, ok := r.connections().named[ownerKey(t.Protocol, sender, connection)]
			return n, ok
		},
	}
	if r.stream != nil && r.plan.Test.Judge.Flows < config.WholeFlows {
		trial.Follows = r.plan.follows
	}
	return trial
}

// ofSwitch makes the analyzer of switches.
func ofSwitch(name string, rules []analyzers.Rule, applies func(*run) bool,
	build func(analyzers.SwitchView) (analyzers.SwitchJudge, error)) analyzer {
	return analyzer{name: name, rules: rules, applies: applies, seat: func(r *run) (*judge, error) {
		first, end := r.plan.judged(r.net, name)
		list := r.wholeSwitches(first, end)
		if name == r.plan.family.Name {
			list = slices.DeleteFunc(list, func(i int) bool { return r.plan.plain(deviceAt(r.net, i)) })
		}
		if len(list) == 0 {
			return nil, nil
		}
		s, err := build(device{r, list, end-first > 1})
		if err != nil {
			return nil, err
		}
		return judgeOf(r, name, list, s), nil
	}}
}

// lockJudge is a judge of switches that reads the packets of a lock manager.
type lockJudge interface {
	ObserveLock(t *trace.SwitchTap, h *netlockpacket.Header)
}

// judgeOf shows a judge of switches those of a list, which it knows by their places in it.
func judgeOf(r *run, name string, list []int, s analyzers.SwitchJudge) *judge {
	place := make([]int, devices(r.net)) // of a switch in the list, from 1
	for i, sw := range list {
		place[sw] = i + 1
	}
	var t trace.SwitchTap
	var own trace.Decision
	locks, _ := s.(lockJudge)
	var locked netlockpacket.Header
	j := &judge{
		name: name,
		observe: func(at fabric.Point, now clock.Time, p *fabric.Packet) {
			if r.net.AtSwitch(at, now, p, &t) && place[t.Switch] > 0 {
				t.Switch = place[t.Switch] - 1
				if locks != nil && p.Protocol == fabric.NetLock {
					locked = netlock.FromHeader(&p.Header)
					locks.ObserveLock(&t, &locked)
					return
				}
				s.Observe(&t)
			}
		},
		decide: func(d *trace.Decision) {
			if place[d.Switch] > 0 {
				own = *d
				own.Switch = place[d.Switch] - 1
				s.Decide(&own)
			}
		},
		finish: func(*run) (analyzers.Result, error) { return s.Finish() },
	}
	if h, ok := s.(athost.Judge); ok && h.SeesHosts() {
		showHosts(r, j, h)
	}
	of := func(f func(clock.Time, int)) func(clock.Time, int) {
		return func(now clock.Time, sw int) {
			if place[sw] > 0 {
				f(now, place[sw]-1)
			}
		}
	}
	if list[0] < r.net.Switches() { // NICs are not changed while traffic runs
		j.changed, j.stopping, j.started = of(s.Changed), of(s.Stopping), of(s.Started)
		if b, ok := s.(analyzers.BackupJudge); ok {
			j.takesOver = of(b.TakesOver)
		}
		if l, ok := s.(analyzers.LinkJudge); ok {
			j.relinked = func(now clock.Time, at *fabric.Port, to *fabric.LinkSpec, shorter clock.Duration) {
				of(func(now clock.Time, sw int) {
					l.Relinked(now, sw, at.Index(), &analyzers.Relink{Rate: to.Rate, Framing: to.Framing, Shorter: shorter})
				})(now, at.Switch().ID())
			}
		}
	}
	return j
}

// showHosts shows a judge of switches what the layers of hosts do, too.
func showHosts(r *run, j *judge, h athost.Judge) {
	j.hosts = true
	atSwitch := j.observe
	var t athost.Tap
	j.observe = func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		if at.Host && r.net.Host(fabric.HostID(at.Node)).Shim() != nil {
			if t.Stage = stageAtHost(at); t.Stage != 0 {
				t.Time, t.Host, t.ID, t.Protocol, t.Flags = now, uint32(at.Node), p.ID, p.Protocol, p.Flags
				t.IPv6, t.Src, t.Dst, t.Flow = p.IPv6, uint32(p.Src), uint32(p.Dst), p.Flow
				t.Number, t.Rank, t.Size = uint64(p.Number), p.Rank, p.Size
				h.ObserveHost(&t)
			}
		}
		atSwitch(at, now, p)
	}
}

// stageAtHost returns where a packet is between NIC and stack; 0: at neither.
func stageAtHost(at fabric.Point) athost.Stage {
	switch {
	case at.Stage == fabric.Egress:
		return athost.Sent
	case at.Stage == fabric.Arrived:
		return athost.Arrived
	case at.Stage == fabric.Ingress:
		return athost.Delivered
	case at.Stage == fabric.Dropped && at.Port == fabric.ShimPort:
		return athost.Discarded
	}
	return 0
}

// deviceOf returns the model of those whom a rule is about: that of the switch, or a transport.
func deviceOf(rule, model string) string {
	name, _, _ := strings.Cut(rule, ".")
	for _, t := range transports() {
		if t.Name == name && t.Judge != nil && (t.Judge.OfNetwork == nil || !t.Judge.OfNetwork(rule)) {
			return name
		}
	}
	return model
}

// AnalyzerNames lists the analyzers of switch tests in the order of reports.
func AnalyzerNames() []string {
	var names []string
	for _, a := range judgeTable() {
		names = append(names, a.name)
	}
	return names
}

// Rules lists every rule that an analyzer of switch tests checks, by analyzer, each with a sorted list.
func Rules() []analyzers.Rule {
	var all []analyzers.Rule
	for _, a := range judgeTable() {
		rules := slices.Clone(a.rules)
		slices.SortStableFunc(rules, func(a, b analyzers.Rule) int { return strings.Compare(a.ID, b.ID) })
		all = append(all, rules...)
	}
	return all
}
