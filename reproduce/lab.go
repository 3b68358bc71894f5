package reproduce

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/configs/lumina"
	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/trace"
)

// lab runs the tests of experiments, several at a time, and collects rows and plots.
type lab struct {
	cfg     Config
	dir     string // parent of run directories
	results comparison.Results
}

func newLab(cfg Config, paper string) (*lab, error) {
	l := &lab{cfg: cfg, results: comparison.Results{Schema: comparison.ResultsSchema, Paper: paper,
		Rows: []comparison.Row{}, Plots: []comparison.Plot{}}}
	l.cfg.Options.ReadFile = readTestbed
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

// readTestbed reads a testbed description that is embedded with the tests.
func readTestbed(name string) ([]byte, error) {
	at := strings.Index(filepath.ToSlash(name), "testbeds/")
	if at < 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return lumina.FS.ReadFile(path.Clean(filepath.ToSlash(name)[at:]))
}

func (l *lab) row(from comparison.Origin, r comparison.Row) { l.results.Add(from, r) }

func (l *lab) plot(p comparison.Plot) { l.results.Plots = append(l.results.Plots, p) }

// quickEvery is the step between the seeds of a quick reproduction: 1, 21, 41 and so on.
const quickEvery = 20

// tests returns the points of the sweep in a file of configs/lumina.
func (l *lab) tests(file string) ([]*config.Test, error) {
	data, err := lumina.FS.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read test: %w", err)
	}
	all, err := config.ParseAll(file, data, l.cfg.Options)
	if l.cfg.Quick {
		all = slices.DeleteFunc(all, func(t *config.Test) bool { return seeded(t) && t.Seed%quickEvery != 1 })
	}
	return all, err
}

func seeded(t *config.Test) bool {
	return t.Point != nil && slices.ContainsFunc(t.Point.Values, func(v config.Assigned) bool { return v.Path == "seed" })
}

// result is the outcome of one run.
type result struct {
	test     *config.Test
	valid    bool // the trace passed the integrity check
	passed   bool
	analysis *analyzers.Analysis // nil if not valid
	report   generator.Report
	marks    []mark
}

// runAll runs every point of the named files and returns the results in order.
func (l *lab) runAll(ctx context.Context, files ...string) ([]*result, error) {
	var tests []*config.Test
	for _, file := range files {
		points, err := l.tests(file)
		if err != nil {
			return nil, err
		}
		tests = append(tests, points...)
	}
	return l.run(ctx, tests, l.cfg.Build)
}

// run runs tests on the testbeds that build creates, Workers at a time. A trace without integrity is a result; an
// infrastructure failure is an error.
func (l *lab) run(ctx context.Context, tests []*config.Test, build orchestrator.Builder) ([]*result, error) {
	results := make([]*result, len(tests))
	err := orchestrator.Batch(ctx, l.cfg.Workers, len(tests), func(_, i int) (err error) {
		results[i], err = l.runOne(ctx, tests[i], build)
		return err
	})
	l.results.Runs += len(tests)
	return results, err
}

func (l *lab) runOne(ctx context.Context, t *config.Test, build orchestrator.Builder) (*result, error) {
	p, err := plan.New(t)
	if err != nil {
		return nil, err
	}
	out, err := orchestrator.Run(ctx, p, build, orchestrator.Options{
		Out: l.dir, ID: t.Name, Version: l.cfg.Version, Wall: l.cfg.Wall,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Title(), err)
	}
	if out.Verdict.Exit == orchestrator.ExitInfrastructure {
		return nil, fmt.Errorf("%s: %s", t.Title(), strings.Join(out.Verdict.Reasons, "; "))
	}
	r := &result{test: t, valid: out.Analysis != nil, passed: out.Verdict.Exit == orchestrator.ExitPass,
		analysis: out.Analysis}
	if err := r.read(out.Dir); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Title(), err)
	}
	if r.valid && marks(t) {
		if r.marks, err = readMarks(ctx, out.Dir); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Title(), err)
		}
	}
	if !l.cfg.Keep {
		err = os.RemoveAll(out.Dir)
	}
	return r, err
}

func marks(t *config.Test) bool {
	return slices.ContainsFunc(t.Traffic.DataEvents, func(e config.DataEvent) bool { return e.Type == trace.EventECN })
}
