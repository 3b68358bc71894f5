package afd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"candela.dev/candela/analyzers"
	configs "candela.dev/candela/configs/aqm"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/testbeds/virtual/fabric"
)

const paper = "Cisco, Intelligent Buffer Management on Cisco Nexus 9000 Series Switches (NX-OS 7.0(3)I5(1))"

// Origins of rows.
var (
	stated     = comparison.FromMechanism("").Of(comparison.PaperStatement)
	calibrated = comparison.FromMechanism("").Of(comparison.SpecCalibration)
)

// constant is the origin of a value of the paper that is a parameter.
func constant(why string) comparison.Origin {
	return comparison.FromConstant(why).Of(comparison.PaperStatement)
}

// lab runs the tests of experiments, several at a time, and collects rows and plots.
type lab struct {
	cfg     Config
	options config.Options
	dir     string // parent of run directories
	results comparison.Results
}

func newLab(cfg Config) (*lab, error) {
	l := &lab{cfg: cfg, options: switchtest.Options(), results: comparison.Results{Schema: comparison.ResultsSchema,
		Paper: paper, Rows: []comparison.Row{}, Plots: []comparison.Plot{}}}
	l.cfg.Workers = max(1, cfg.Workers)
	if cfg.Keep {
		l.dir = filepath.Join(cfg.Out, "runs")
		return l, os.MkdirAll(l.dir, 0o777)
	}
	var err error
	if l.dir, err = os.MkdirTemp("", "candela-reproduce-"); err != nil {
		return nil, fmt.Errorf("directory for runs: %w", err)
	}
	return l, nil
}

func (l *lab) close() {
	if !l.cfg.Keep {
		// Failing to remove a temporary directory does not discard the results.
		_ = os.RemoveAll(l.dir)
	}
}

func (l *lab) row(from comparison.Origin, r comparison.Row) { l.results.Add(from, r) }

func (l *lab) plot(p comparison.Plot) { l.results.Plots = append(l.results.Plots, p) }

// tests returns every point of the sweep in a file of configs/aqm.
func (l *lab) tests(file string) ([]*config.SwitchTest, error) {
	data, err := configs.FS.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read test: %w", err)
	}
	tests, err := config.ParseSwitchTests(file, data, l.options)
	if err != nil {
		return nil, err
	}
	for _, t := range tests {
		if err := switchtest.Change(t, l.cfg.Set); err != nil {
			return nil, err
		}
	}
	return tests, nil
}

// point is the outcome of one run.
type point struct {
	test       *config.SwitchTest
	repeat     int // number of the seed, from 1
	flows      switchtest.FlowsDocument
	counts     map[string]int64
	violations int // that analyzer aqm found
	decisions  []decision
	series     series
	// completions are the flows that have ended, if the test writes them as a table.
	completions []completion
	watch       func(*fabric.Network) // adds taps; nil: none
	buffer      *buffer               // what they saw
	sent        float64               // bytes
}

// measure runs every point of a file with so many seeds, those of `candela run --repeat`, and returns the runs by seed.
// attach, if not nil, is called for each point before it runs. A quick reproduction has one seed.
func (l *lab) measure(ctx context.Context, file string, seeds int, attach func(*point)) ([][]*point, error) {
	tests, err := l.tests(file)
	if err != nil {
		return nil, err
	}
	if l.cfg.Quick {
		seeds = 1
	}
	return l.measureTests(ctx, tests, seeds, attach)
}

func (l *lab) measureTests(ctx context.Context, tests []*config.SwitchTest, seeds int,
	attach func(*point)) ([][]*point, error) {
	bySeed := make([][]*point, seeds)
	var all []*point
	for i := range bySeed {
		for _, t := range tests {
			if i > 0 {
				t = t.WithSeed(orchestrator.RepeatSeed(t.Seed, i+1))
			}
			p := &point{test: t, repeat: i + 1}
			if attach != nil {
				attach(p)
			}
			bySeed[i], all = append(bySeed[i], p), append(all, p)
		}
	}
	err := orchestrator.Batch(ctx, l.cfg.Workers, len(all), func(_, i int) error { return l.run(ctx, all[i]) })
	l.results.Runs += len(all)
	return bySeed, err
}

func (l *lab) run(ctx context.Context, p *point) error {
	plan, err := switchtest.New(p.test)
	if err != nil {
		return err
	}
	plan.Watch = p.watch
	out, err := switchtest.Run(ctx, plan, orchestrator.Options{
		Out: l.dir, ID: p.runID(), Version: l.cfg.Version, Wall: l.cfg.Wall, NoReports: !l.cfg.Keep,
	})
	p.watch = nil // it may hold the network
	if err != nil {
		return fmt.Errorf("%s: %w", p.test.Title(), err)
	}
	if exit := out.Verdict.Exit; exit == orchestrator.ExitInfrastructure || exit == orchestrator.ExitInvalid {
		return fmt.Errorf("%s: %s", p.test.Title(), strings.Join(out.Verdict.Reasons, "; "))
	}
	if out.Analysis != nil {
		for i := range out.Analysis.Findings {
			if f := &out.Analysis.Findings[i]; f.Analyzer == "aqm" && f.Severity == analyzers.Violation {
				p.violations++
			}
		}
	}
	if err := p.read(out.Dir); err != nil {
		return fmt.Errorf("%s: %w", p.test.Title(), err)
	}
	if !l.cfg.Keep {
		return os.RemoveAll(out.Dir)
	}
	return nil
}

// runID names a run directory: the test, and the values that identify its point.
func (p *point) runID() string {
	t := p.test
	id := t.Name
	if t.Point != nil {
		for _, v := range t.Point.Values {
			id += "-" + strings.NewReplacer(" ", "", ",", "-", ".", "-").Replace(v.Value)
		}
	}
	if p.repeat > 1 {
		id += fmt.Sprintf("-r%d", p.repeat)
	}
	return id
}

// read takes flows, counters, decisions and time series from a run directory.
func (p *point) read(dir string) error {
	var counters switchtest.CountersDocument
	for _, f := range []struct {
		name string
		into any
	}{{"flows.json", &p.flows}, {"switch-counters.json", &counters}} {
		data, err := os.ReadFile(filepath.Join(dir, f.name))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, f.into); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	p.counts = counters.Counters
	var err error
	if p.test.Taps.Decisions() != "" {
		if p.decisions, err = readDecisions(filepath.Join(dir, "decisions.csv")); err != nil {
			return err
		}
	}
	if p.test.Results.Flows() == "csv" {
		if p.completions, err = readCompletions(dir); err != nil {
			return err
		}
	}
	if p.test.Series > 0 {
		p.series, err = readSeries(filepath.Join(dir, "series.csv"))
	}
	return err
}
