package switchtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// facts are what a run leaves behind: everything that the verdict is made of.
type facts struct {
	plan     *Plan
	flows    *FlowsDocument
	counted  *CountersDocument
	checked  *IntegrityDocument
	analysis *analyzers.Analysis
	waivers  *orchestrator.Waivers // nil: none
	baseline orchestrator.Baseline // nil: none
}

// run is a test of a switch in progress.
type run struct {
	facts
	*orchestrator.Cycle

	net       *fabric.Network
	ledger    *ledger // what taps saw; nil: the run is not tapped everywhere
	stream    *stream // what endpoints say; nil: taps see everything
	watched   *watched
	ports     *portRoles // nil: no finding has named a port yet
	judges    []*judge
	endpoints *endpoints
	capture   *captures
	decisions *decisions // nil: none are kept
	series    *series
	spread    *deflections // over time
	ideal     *ideal
	queues    *QueuesDocument          // nil: they are not measured
	sampling  clock.Duration           // between samples of queues; 0: none are taken
	sampled   clock.Time               // next
	table     *tableWriter[FlowResult] // of flows; nil: not asked for
	current   []parameter.Values       // of each switch
	live      *liveRun                 // nil: simulated
	kept      keptTaps                 // of a live run
	text      []byte                   // of the test, by canonical
	now       clock.Time               // up to where it has come
	end       clock.Time
	quiet     bool   // in the end nothing was left to happen
	closed    bool   // captures and decisions are
	alone     string // why one worker simulates the network; empty: nothing is known against several
}

// Run runs p once, writes the run directory and judges, as [orchestrator.Execute] does.
func Run(ctx context.Context, p *Plan, o orchestrator.Options) (*orchestrator.Outcome, error) {
	return orchestrator.Execute(ctx, &run{facts: facts{plan: p, waivers: o.Waivers, baseline: o.Baseline}}, o)
}

// canonical returns the test with all defaults explicit, of which documents have the text and the hash. It is computed
// once: for a small network this takes as long as the simulation.
func (r *run) canonical() []byte {
	if r.text == nil {
		r.text = r.plan.Test.YAML()
	}
	return r.text
}

func (r *run) Document() orchestrator.RunDocument {
	t := r.plan.Test
	return orchestrator.RunDocument{Name: t.Name, ConfigSHA256: config.HashOf(r.canonical()), Testbed: r.testbed(),
		Seed: t.Seed, Point: t.Point.Assigned(), Metadata: t.Metadata, NotJudged: r.plan.NotJudged(),
		Simulated: r.testbed() == config.KindVirtual}
}

// Steps of a run, in order.
const (
	stepBuild   = "build network"
	stepTraffic = "run traffic"
	stepCheck   = "check integrity"
	stepAnalyse = "analyse"
)

func (r *run) Prepare(c *orchestrator.Cycle) []orchestrator.Step {
	r.Cycle = c
	return []orchestrator.Step{{Name: stepBuild, Do: r.build}}
}

// Program is empty: the configuration of a switch is a part of its network.
func (r *run) Program() []orchestrator.Step { return nil }

func (r *run) Run() []orchestrator.Step {
	return []orchestrator.Step{{Name: stepTraffic, Do: r.traffic}}
}

// Collect is empty: taps record as the traffic runs.
func (r *run) Collect() []orchestrator.Step { return nil }

func (r *run) Judge() []orchestrator.Step {
	return []orchestrator.Step{{Name: stepCheck, Do: r.check}, {Name: stepAnalyse, Do: r.analyse}}
}

// CleanUp closes what a run that failed left open.
func (r *run) CleanUp(bool) error { return errors.Join(r.closeFiles(), r.closeTable(), r.closeLive()) }

// closeTable writes the flows whose results were kept, and completes the file.
func (r *run) closeTable() error {
	w := r.table
	if w == nil {
		return nil
	}
	r.table = nil
	if r.flows != nil {
		for i := range r.flows.Flows {
			w.write(&r.flows.Flows[i])
		}
	}
	return w.close()
}

// closeFiles closes the files that grow with the traffic.
func (r *run) closeFiles() (err error) {
	if r.capture != nil && !r.closed {
		err = r.capture.close()
	}
	if r.decisions != nil && !r.closed {
		err = errors.Join(err, r.decisions.close())
	}
	r.closed = true
	return err
}

// Progress says in numbers what a step has come to.
func (r *run) Progress(step string) []any {
	switch step {
	case stepBuild:
		return []any{"hosts", r.net.Hosts(), "switches", r.net.Switches(), "flows", r.plan.Count()}
	case stepTraffic:
		return append([]any{"end_ns", r.end.Nanoseconds(), "hops", r.net.Hops()}, r.simulated()...)
	case stepCheck:
		return []any{"valid", r.checked.Valid}
	}
	return nil
}

// build makes the network, its taps and the hosts.
func (r *run) build(context.Context) (err error) {
	if err := r.WriteText("config.yml", r.canonical); err != nil {
		return err
	}
	workers, why := r.parallel()
	if r.net, err = r.plan.build(workers); err != nil {
		return err
	}
	r.alone = why
	for range r.net.Switches() {
		r.current = append(r.current, r.plan.Test.Switch.Values)
	}
	r.ideal = newIdeal(r.net)
	r.measureQueues()
	if format := r.plan.Test.Results.Flows(); format != "" {
		if r.table, err = newTable(r.Dir, "flows", format, flowColumns()); err != nil {
			return err
		}
	}
	if err = r.observe(); err != nil {
		return err
	}
	if err = r.seatJudges(); err != nil {
		return err
	}
	if r.plan.Test.Taps.Capture {
		if r.capture, err = newCaptures(r.Dir, r.net); err != nil {
			return err
		}
	}
	if r.plan.Test.Taps.Decisions() != "" {
		if r.decisions, err = newDecisions(r); err != nil {
			return err
		}
	}
	if r.plan.live {
		r.net.SetTap(r.kept.observe)
		err = r.goLive()
	} else {
		r.endpoints, err = r.plan.attach(r.net, r.books())
	}
	if err != nil {
		return err
	}
	if r.plan.Watch != nil {
		r.plan.Watch(r.net)
	}
	return r.Dir.WriteJSON("environment.json", r.environment())
}

// environment describes what the test ran on.
func (r *run) environment() testbeds.Environment {
	t := r.plan.Test
	property := func(name string, value any) testbeds.Property {
		return testbeds.Property{Name: name, Value: fmt.Sprint(value)}
	}
	network := testbeds.Component{Name: "network", Kind: "topology", Properties: []testbeds.Property{
		property("kind", t.Topology.Model), property("hosts", r.net.Hosts()), property("switches", r.net.Switches()),
		property("link", linkText(t.Topology.Link)), property("trunk", linkText(t.Topology.Trunk)),
	}}
	sw := testbeds.Component{Name: "switch", Kind: "switch",
		Properties: []testbeds.Property{property("model", t.Switch.Model)}}
	for _, b := range t.Switch.Bugs {
		sw.Properties = append(sw.Properties, property("bug", b))
	}
	hosts := testbeds.Component{Name: "hosts", Kind: "host",
		Properties: []testbeds.Property{property("transport", t.Hosts.Model)}}
	for _, b := range t.Hosts.Bugs {
		hosts.Properties = append(hosts.Properties, property("bug", b))
	}
	for _, of := range []struct {
		c *testbeds.Component
		v parameter.Values
	}{{&network, t.Topology.Values}, {&sw, t.Switch.Values}, {&hosts, t.Hosts.Values}} {
		for _, s := range of.v.Settings() {
			of.c.Properties = append(of.c.Properties, testbeds.Property{Name: "parameter." + s.Name, Value: s.Value})
		}
	}
	components := []testbeds.Component{network, sw, hosts}
	if n := r.plan.nics; n != nil {
		components = append(components, n.component())
	}
	return testbeds.Environment{Testbed: r.testbed(), Components: components}
}

// chunk is how much simulated time passes between looks at the context.
const chunk = 100 * clock.Microsecond

// traffic simulates until everything has finished or the test's time is over.
func (r *run) traffic(ctx context.Context) error {
	t := r.plan.Test
	end := clock.Time(0).Add(t.Deadline)
	if t.Duration > 0 {
		end = clock.Time(0).Add(t.Duration)
	}
	if t.Series > 0 {
		r.series = newSeries(r)
	}
	if t.Results.Deflections() != "" {
		r.spread = newDeflections(r)
	}
	if err := errors.Join(r.simulate(ctx, end), r.endLive(), r.closeFiles()); err != nil {
		return err
	}
	if r.spread != nil {
		if err := r.spread.write(); err != nil {
			return err
		}
	}
	if r.series != nil {
		return r.Dir.WriteFile("series.csv", r.series.write)
	}
	return nil
}

// simulate advances from one stop to the next: a change, a sample, a look at the context.
func (r *run) simulate(ctx context.Context, end clock.Time) error {
	changes := r.plan.events()
	for now, sample := clock.Time(0), clock.Time(0); ; {
		for len(changes) > 0 && changes[0].at <= now.Sub(0) {
			if err := changes[0].do(r, now); err != nil {
				return err
			}
			changes = changes[1:]
		}
		if r.series != nil && sample <= now {
			r.series.sample(now)
			sample = now.Add(r.plan.Test.Series)
		}
		if r.spread != nil && r.spread.next <= now && now < end {
			r.spread.sample()
		}
		if now >= end {
			r.end = end
			r.queuesMeasured()
			return nil
		}
		next := min(end, now.Add(r.chunk()))
		if len(changes) > 0 {
			next = min(next, clock.Time(0).Add(changes[0].at))
		}
		if r.series != nil {
			next = min(next, sample)
		}
		if r.spread != nil {
			next = min(next, r.spread.next)
		}
		if r.stream != nil {
			if err := r.feed(now, next.Add(1)); err != nil {
				return err
			}
		}
		quiet, err := r.advance(ctx, next)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		quiet = quiet && (r.stream == nil || r.stream.source.empty())
		if r.plan.Test.Duration == 0 && (r.over() || quiet) {
			r.end, r.quiet = r.now, quiet
			r.queuesMeasured()
			return r.drain(ctx, changes)
		}
		now = next
	}
}

// drain has what is still under way arrive, once all flows are through: what nobody has sent by then will never be
// sent. Trunks go on to change.
func (r *run) drain(ctx context.Context, changes []event) error {
	for f := range r.plan.All() {
		if f.Endless() {
			return nil
		}
	}
	changes = slices.DeleteFunc(slices.Clone(changes), func(e event) bool { return !e.trunk })
	for now := r.end; !r.quiet && now < r.end.Add(transport.Grace); {
		for ; len(changes) > 0 && changes[0].at <= now.Sub(0); changes = changes[1:] {
			if err := changes[0].do(r, now); err != nil {
				return err
			}
		}
		now = now.Add(r.chunk())
		if len(changes) > 0 {
			now = min(now, clock.Time(0).Add(changes[0].at))
		}
		quiet, err := r.advance(ctx, now)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.quiet = quiet
	}
	return nil
}

// over reports whether every flow that has an end has finished. Flows of transports that finish nothing are over when
// nothing is left to happen.
func (r *run) over() bool {
	if r.stream != nil {
		return r.stream.over()
	}
	for i := range r.ledger.flows {
		if !r.ledger.flows[i].Finished && !r.plan.Flows[i].Endless() {
			return false
		}
	}
	return true
}

// change sets parameters of switches while traffic runs, stops them or starts them.
func (r *run) change(now clock.Time, c *config.Change) error {
	for i := range r.net.Switches() {
		if c.Switch != nil && *c.Switch != i {
			continue
		}
		sw := r.net.Switch(i)
		if c.State() != "" {
			if err := r.switchState(now, sw, c.State()); err != nil {
				return fmt.Errorf("change at %s: %w", c.At, err)
			}
			continue
		}
		r.current[i] = r.current[i].Merge(c.Set)
		m, ok := sw.Mechanism().(switches.Changer)
		if !ok {
			return fmt.Errorf("switch %s can't be changed while it runs", sw.Name())
		}
		if err := m.Change(c.Set, r.current[i]); err != nil {
			return fmt.Errorf("change at %s of switch %s: %w", c.At, sw.Name(), err)
		}
		for _, j := range r.judges {
			if j.changed != nil {
				j.changed(now, i)
			}
		}
	}
	return nil
}

// switchState stops a switch, or starts it with the parameters that it was set to.
func (r *run) switchState(now clock.Time, sw *fabric.Switch, state string) error {
	if state == config.Stopped {
		for _, j := range r.judges {
			if j.stopping != nil {
				j.stopping(now, sw.ID())
			}
		}
		sw.Stop(now)
		return nil
	}
	m, err := r.plan.model.New(sw, r.current[sw.ID()], r.plan.Test.Switch.Bugs)
	if err != nil {
		return fmt.Errorf("switch %s does not start: %w", sw.Name(), err)
	}
	sw.Start(now, m)
	if pair, ok := m.(switches.Standby); ok && r.plan.Test.Topology.Pair() {
		pair.Return(now)
	}
	for _, j := range r.judges {
		if j.started != nil {
			j.started(now, sw.ID())
		}
	}
	return nil
}

// check writes what was recorded and says whether it is complete.
func (r *run) check(context.Context) (err error) {
	r.flows = r.flowsDocument()
	if r.counted, err = r.counters(); err != nil {
		return err
	}
	r.checked = r.integrity()
	if r.queues != nil {
		err = r.Dir.WriteFile("queues.json", r.queues.Write)
	}
	return errors.Join(err, r.closeTable(), r.writeQueues(),
		r.Dir.WriteFile("flows.json", r.flows.Write),
		r.Dir.WriteFile("switch-counters.json", r.counted.Write), r.writeQueuing(),
		r.Dir.WriteJSON("integrity.json", r.checked),
	)
}

// analyse gathers findings and metrics.
func (r *run) analyse(context.Context) error {
	if !r.checked.Valid {
		return nil
	}
	analysis := &analyzers.Analysis{
		Schema: analyzers.Schema, PacketIDs: "packet", Findings: []analyzers.Finding{}, Metrics: []analyzers.Metric{},
		Coverage: map[string]map[string]int64{},
	}
	analysis.Add("flows", analyzers.Result{Metrics: r.metrics()})
	if err := r.collect(analysis); err != nil {
		return err
	}
	names := []string{"flows"}
	for _, j := range r.judges {
		names = append(names, j.name)
	}
	if err := writeTable(r.Dir, "metrics", r.plan.Test.Results.Metrics(), metricColumns(), analysis.Metrics); err != nil {
		return err
	}
	if err := r.writeCurves(); err != nil {
		return err
	}
	if err := r.writeJudgeTables(); err != nil {
		return err
	}
	return r.WriteAnalysis(analysis, names)
}

// Verdict judges by what the run left behind.
func (r *run) Verdict(failure error) orchestrator.Verdict { return r.verdict(failure, r.Strict) }

func (r *run) Outcome(v orchestrator.Verdict) *orchestrator.Outcome {
	return &orchestrator.Outcome{Verdict: v, Analysis: r.analysis}
}

// Report gathers what people read of the run.
func (r *run) Report(v orchestrator.Verdict, dir string) *report.Report {
	rep := r.report(v)
	rep.Dir, rep.Next = dir, r.next(dir)
	return rep
}

// Write writes the report in every format.
func (r *run) Write(ctx context.Context, rep *report.Report, _ bool) error {
	if err := r.illustrate(ctx, rep); err != nil {
		rep.Notes = append(rep.Notes, "the packets of findings are not drawn: "+err.Error())
	}
	return r.WriteReports(rep)
}

// excuse returns the waiver of a violation, nil if there is none. A rule is about switches or about hosts, and only a
// waiver of that device counts.
func (r *facts) excuse(rule string) *config.Waiver {
	return r.waivers.Excuse(rule, deviceOf(rule, r.plan.Test.Switch.Model))
}

// next lists the commands that repeat the run or look closer.
func (r *run) next(dir string) []string {
	command := r.Command + " run"
	if r.Testbed != "" {
		command += " --testbed " + report.ShellWord(r.Testbed)
	}
	if r.plan.Test.Point != nil || r.File == "" {
		return []string{fmt.Sprintf("%s %s", command, report.ShellWord(filepath.Join(dir, "config.yml")))}
	}
	return []string{fmt.Sprintf("%s %s --seed %d", command, report.ShellWord(r.File), r.plan.Test.Seed)}
}
