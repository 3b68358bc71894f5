package experiments

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/testbeds/live"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Lab runs the tests of experiments, several at a time, and collects rows and plots.
type Lab struct {
	Config  Config
	Results comparison.Results

	files   fs.ReadFileFS
	options config.Options
	dir     string // parent of run directories
}

func open(cfg Config, title string, files fs.ReadFileFS) (*Lab, error) {
	l := &Lab{Config: cfg, files: files, options: switchtest.Options(), Results: comparison.Results{
		Schema: comparison.ResultsSchema, Paper: title, Rows: []comparison.Row{}, Plots: []comparison.Plot{}}}
	l.Config.Workers = max(1, cfg.Workers)
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

// Close removes what the lab does not keep.
func (l *Lab) Close() {
	if !l.Config.Keep {
		// Failing to remove a temporary directory does not discard the results.
		_ = os.RemoveAll(l.dir)
	}
}

// Row adds a row.
func (l *Lab) Row(from comparison.Origin, r comparison.Row) { l.Results.Add(from, r) }

// Plot adds a plot.
func (l *Lab) Plot(p comparison.Plot) { l.Results.Plots = append(l.Results.Plots, p) }

// Tests returns every point of the sweep in a file, with the settings of the configuration.
func (l *Lab) Tests(file string) ([]*config.SwitchTest, error) { return l.TestsOf(l.files, file) }

// TestsOf is Tests of a file that is elsewhere.
func (l *Lab) TestsOf(files fs.ReadFileFS, file string) ([]*config.SwitchTest, error) {
	data, err := files.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read test: %w", err)
	}
	tests, err := config.ParseSwitchTests(file, data, l.options)
	if err != nil {
		return nil, err
	}
	for _, t := range tests {
		if err := switchtest.Change(t, l.Config.Set); err != nil {
			return nil, err
		}
	}
	return tests, nil
}

// Batch does n runs, several at a time, and counts them.
func (l *Lab) Batch(ctx context.Context, n int, do func(i int) error) error {
	err := orchestrator.Batch(ctx, l.Config.Workers, n, func(_, i int) error { return do(i) })
	l.Results.Runs += n
	return err
}

// Run is one run of a test and what its documents say.
type Run struct {
	Test   *config.SwitchTest
	Repeat int // number of the seed, from 1
	Flows  switchtest.FlowsDocument
	Counts map[string]int64
}

// NewRun returns a run with the seed of a repetition, from 1: those of `candela run --repeat`.
func NewRun(t *config.SwitchTest, repeat int) Run {
	if repeat > 1 {
		t = t.WithSeed(orchestrator.RepeatSeed(t.Seed, repeat))
	}
	return Run{Test: t, Repeat: repeat}
}

// Do executes a run, after watch (which may be nil) has seen its network, and reads flows and counters. read gets the
// outcome before the run directory is removed. A run that was invalid or failed for reasons of infrastructure is an
// error.
func (l *Lab) Do(ctx context.Context, r *Run, watch func(*fabric.Network),
	read func(out *orchestrator.Outcome) error) error {
	plan, err := switchtest.New(r.Test)
	if err != nil {
		return err
	}
	out, err := l.execute(ctx, r, plan, watch)
	if err != nil {
		return err
	}
	if exit := out.Verdict.Exit; exit == orchestrator.ExitInfrastructure || exit == orchestrator.ExitInvalid {
		return fmt.Errorf("%s: %s", r.Test.Title(), strings.Join(out.Verdict.Reasons, "; "))
	}
	return l.conclude(r, out, read)
}

// DoLive executes a run on real frames, as Do does. skipped says why this machine can't do it, or not now; read was not
// called then.
func (l *Lab) DoLive(ctx context.Context, r *Run, watch func(*fabric.Network),
	read func(out *orchestrator.Outcome) error) (skipped string, err error) {
	plan, err := switchtest.NewLive(r.Test)
	if err != nil {
		return "", err
	}
	if os.Geteuid() != 0 {
		return live.ErrUnsupported.Error(), nil
	}
	for range attempts {
		out, err := l.execute(ctx, r, plan, watch)
		switch {
		case err != nil:
			return "", err
		case out.Verdict.Exit < orchestrator.ExitInvalid:
			return "", l.conclude(r, out, read)
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		}
		skipped = strings.Join(out.Verdict.Reasons, "; ")
		if !strings.Contains(skipped, live.ErrBusy.Error()) && !strings.Contains(skipped, live.ErrUnsupported.Error()) {
			return "", fmt.Errorf("%s: %s", r.Test.Title(), skipped)
		}
	}
	return skipped, nil
}

// attempts is how often a live run is made for which the machine is too busy.
const attempts = 3

func (l *Lab) execute(ctx context.Context, r *Run, plan *switchtest.Plan, watch func(*fabric.Network)) (
	*orchestrator.Outcome, error) {
	plan.Watch = watch
	out, err := switchtest.Run(ctx, plan, orchestrator.Options{
		Out: l.dir, ID: r.id(), Version: l.Config.Version, Wall: l.Config.Wall, NoReports: !l.Config.Keep,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Test.Title(), err)
	}
	return out, nil
}

// conclude reads what a run left behind, and removes what is not kept.
func (l *Lab) conclude(r *Run, out *orchestrator.Outcome, read func(*orchestrator.Outcome) error) error {
	err := r.read(out.Dir)
	if err == nil {
		err = read(out)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Test.Title(), err)
	}
	if !l.Config.Keep {
		return os.RemoveAll(out.Dir)
	}
	return nil
}

// id names a run directory: the test, and the values that identify its point.
func (r *Run) id() string {
	t := r.Test
	id := t.Name
	if t.Point != nil {
		for _, v := range t.Point.Values {
			id += "-" + strings.NewReplacer(" ", "", ",", "-", ".", "-").Replace(v.Value)
		}
	}
	if r.Repeat > 1 {
		id += fmt.Sprintf("-r%d", r.Repeat)
	}
	return id
}

// read takes flows and counters from a run directory.
func (r *Run) read(dir string) error {
	var counters switchtest.CountersDocument
	for _, f := range []struct {
		name string
		into any
	}{{"flows.json", &r.Flows}, {"switch-counters.json", &counters}} {
		data, err := os.ReadFile(filepath.Join(dir, f.name))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, f.into); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	r.Counts = counters.Counters
	return nil
}
