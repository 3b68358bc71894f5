package switchtest

import (
	"bytes"
	"fmt"
	"path/filepath"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds/live"
)

// IsRun reports whether a directory holds a run of a switch test.
func IsRun(o *orchestrator.OpenedRun) bool {
	data, err := o.ReadFile("config.yml")
	return err == nil && config.IsSwitchTest(data)
}

// Recorded returns the test of a recorded run and its analysis, nil if nothing was analysed.
func Recorded(opened *orchestrator.OpenedRun, o config.Options) (*config.SwitchTest, *analyzers.Analysis, error) {
	f, err := load(opened, o)
	if err != nil {
		return nil, nil, err
	}
	return f.plan.Test, f.analysis, nil
}

// Analyze judges a recorded run again. NDP is judged from the captures, if possible; everything else from the recorded
// documents: flows, counters, integrity and analyses. Notes in the report give the source of each judgement.
func Analyze(opened *orchestrator.OpenedRun, o orchestrator.AnalyzeOptions) (*orchestrator.Outcome, error) {
	f, err := load(opened, o.Config)
	if err != nil {
		return nil, err
	}
	f.waivers = o.Waivers
	r := &run{facts: *f, quiet: f.flows.Drained, end: clock.Time(clock.Duration(f.flows.EndNS) * clock.Nanosecond)}
	notes, err := r.rejudge(opened)
	if err != nil {
		return nil, err
	}
	f = &r.facts
	verdict := f.verdict(nil, o.Strict)
	t := f.plan.Test
	rep := &report.Report{
		Name: t.Title(), Testbed: fmt.Sprintf("%s of %d hosts", t.Topology.Model, t.Topology.HostCount()), Seed: t.Seed,
		Repeat:  opened.Document.Repeat,
		Verdict: verdict.Verdict, Reasons: verdict.Reasons, SpanNS: f.flows.EndNS, PacketIDs: "packet",
		Tables: []report.Table{f.flowTable()},
		Dir:    opened.Dir(),
		Next:   []string{o.Command + " run " + report.ShellWord(filepath.Join(opened.Dir(), "config.yml"))},
	}
	if rep.Notes, rep.Packets = notes, int64(f.flows.Sent); rep.Packets == 0 { // older versions did not record it
		for i := range f.flows.Flows {
			rep.Packets += f.flows.Flows[i].Sent
		}
	}
	if f.analysis != nil {
		f.reportAnalysis(rep)
	}
	if data, err := opened.ReadFile(report.DocumentFile); err == nil {
		if old, err := report.ReadDocument(bytes.NewReader(data)); err == nil {
			rep.TakeJourneys(old)
		}
	}
	out := &orchestrator.Outcome{Verdict: verdict, Report: rep, Analysis: f.analysis, Dir: opened.Dir()}
	if out.Analysis == nil {
		out.Analysis = &analyzers.Analysis{Schema: analyzers.Schema, Verdict: analyzers.Invalid, PacketIDs: "packet",
			Findings: []analyzers.Finding{},
			Metrics:  []analyzers.Metric{}, Coverage: map[string]map[string]int64{}}
	}
	return out, nil
}

// load reads the files of a run.
func load(o *orchestrator.OpenedRun, options config.Options) (*facts, error) {
	data, err := o.ReadFile("config.yml")
	if err != nil {
		return nil, err
	}
	tests, err := config.ParseSwitchTests(filepath.Join(o.Dir(), "config.yml"), data, options)
	if err != nil {
		return nil, err
	}
	f := &facts{}
	plan := New
	switch o.Document.Testbed {
	case config.NetnsTestbed:
		plan = NewLive
	case config.KindLab:
		plan = func(t *config.SwitchTest) (*Plan, error) { return newRemote(t, &live.Remote{}) }
	}
	if f.plan, err = plan(tests[0]); err != nil {
		return nil, err
	}
	if err := f.read(o.ReadFile); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Dir(), err)
	}
	if f.baseline, err = orchestrator.ReadBaseline(o.ReadFile); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Dir(), err)
	}
	return f, nil
}
