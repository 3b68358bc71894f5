package trimming

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"candela.dev/candela/clock"
	configs "candela.dev/candela/configs/trimming"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/testbeds/switches/trimming"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// follows is the origin of values that follow from a mechanism.
var follows = comparison.FromMechanism("")

const paper = "Popa et al., Implementing packet trimming support in hardware, arXiv:2207.04967"

// lab runs the tests of experiments, several at a time, and collects rows and plots.
type lab struct {
	cfg     Config
	options config.Options
	dir     string // parent of run directories
	results comparison.Results
	single  map[int]*point      // runs of the ideal switch by number of senders, if a sweep does not cover them
	done    map[string][]*point // by file, measured without extra taps; several results may use them
	sweeps  map[string]sweep    // over the response, by file; several results may use them
}

func newLab(cfg Config) (*lab, error) {
	l := &lab{
		cfg: cfg, options: switchtest.Options(), done: make(map[string][]*point), sweeps: make(map[string]sweep),
		single: make(map[int]*point),
		results: comparison.Results{Schema: comparison.ResultsSchema, Paper: paper, Rows: []comparison.Row{},
			Plots: []comparison.Plot{}},
	}
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

// quickEvery is the step between the sweep points of a quick reproduction.
const quickEvery = 4

// tests returns the points of the sweep in a file of configs/trimming: of a quick reproduction, some of them.
func (l *lab) tests(file string) ([]*config.SwitchTest, error) {
	all, err := l.allTests(file)
	if err != nil {
		return nil, err
	}
	if l.cfg.Quick && len(all) > 2*quickEvery {
		var some []*config.SwitchTest
		for i := len(all) - 1; i >= 0; i -= quickEvery {
			some = append([]*config.SwitchTest{all[i]}, some...)
		}
		all = some
	}
	return all, nil
}

// allTests returns every point of the sweep in a file of configs/trimming.
func (l *lab) allTests(file string) ([]*config.SwitchTest, error) {
	data, err := configs.FS.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read test: %w", err)
	}
	all, err := config.ParseSwitchTests(file, data, l.options)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if err := switchtest.Change(t, l.cfg.Set); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// point is the outcome of one run.
type point struct {
	test   *config.SwitchTest
	repeat int // number of the seed, from 1; 0: there is only one seed
	flows  switchtest.FlowsDocument
	counts map[string]int64
	probe  *probe
	// Pessimistic periods of each front port in the first pipeline; identical in all pipelines if all are notified.
	spans     [][]trimming.Span
	pipelines int
}

// measure runs every point of a file, once, and returns them in order.
func (l *lab) measure(ctx context.Context, file string) ([]*point, error) {
	if points, ok := l.done[file]; ok {
		return points, nil
	}
	points, err := l.measureAll(ctx, []string{file}, nil)
	l.done[file] = points
	return points, err
}

// measureAll runs every point of some files and returns them in order. attach, if not nil, adds taps to each network.
func (l *lab) measureAll(ctx context.Context, files []string, attach func(*probe)) ([]*point, error) {
	var tests []*config.SwitchTest
	for _, file := range files {
		list, err := l.tests(file)
		if err != nil {
			return nil, err
		}
		tests = append(tests, list...)
	}
	return l.measureTests(ctx, tests, attach)
}

func (l *lab) measureTests(ctx context.Context, tests []*config.SwitchTest, attach func(*probe)) ([]*point, error) {
	points := make([]*point, len(tests))
	for i, t := range tests {
		points[i] = &point{test: t}
	}
	return points, l.measurePoints(ctx, points, attach)
}

func (l *lab) measurePoints(ctx context.Context, points []*point, attach func(*probe)) error {
	err := orchestrator.Batch(ctx, l.cfg.Workers, len(points),
		func(_, i int) error { return l.run(ctx, points[i], attach) })
	l.results.Runs += len(points)
	return err
}

// seeds is the number of seeds per point of the sensitivity analysis. Near the threshold, the seed decides whether a
// queue stays small.
const seeds = 3

// measureSeeds runs every point of a file with several seeds, those of `candela run --repeat`, and returns the runs of
// each point.
func (l *lab) measureSeeds(ctx context.Context, file string) ([][]*point, error) {
	tests, err := l.tests(file)
	if err != nil {
		return nil, err
	}
	repeats := seeds
	if l.cfg.Quick {
		repeats = 1
	}
	var all []*point
	for repeat := 1; repeat <= repeats; repeat++ {
		for _, t := range tests {
			if repeat > 1 {
				t = t.WithSeed(orchestrator.RepeatSeed(t.Seed, repeat))
			}
			all = append(all, &point{test: t, repeat: repeat})
		}
	}
	if err := l.measurePoints(ctx, all, nil); err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(all, len(tests))), nil
}

func (l *lab) run(ctx context.Context, p *point, attach func(*probe)) error {
	plan, err := switchtest.New(p.test)
	if err != nil {
		return err
	}
	var sw *fabric.Switch
	plan.Watch = func(net *fabric.Network) {
		sw, p.probe = net.Switch(0), newProbe(net)
		if attach != nil {
			attach(p.probe)
		}
	}
	out, err := switchtest.Run(ctx, plan, orchestrator.Options{
		Out: l.dir, ID: p.runID(), Version: l.cfg.Version, Wall: l.cfg.Wall, NoReports: !l.cfg.Keep,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", p.test.Title(), err)
	}
	if exit := out.Verdict.Exit; exit == orchestrator.ExitInfrastructure || exit == orchestrator.ExitInvalid {
		return fmt.Errorf("%s: %s", p.test.Title(), strings.Join(out.Verdict.Reasons, "; "))
	}
	if err := p.read(out.Dir); err != nil {
		return fmt.Errorf("%s: %w", p.test.Title(), err)
	}
	p.inspect(sw)
	if !l.cfg.Keep {
		return os.RemoveAll(out.Dir)
	}
	return nil
}

// inspect reads the state of the switch that no counter has, and releases the network.
func (p *point) inspect(sw *fabric.Switch) {
	p.probe.net, p.pipelines = nil, sw.Pipelines()
	m, ok := sw.Mechanism().(interface {
		Pessimistic(now clock.Time, pipeline, port int) []trimming.Span
	})
	for port := 0; ok && port < sw.Ports(); port++ {
		p.spans = append(p.spans, m.Pessimistic(p.end(), 0, port))
	}
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

// read takes flows and counters from a run directory.
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
	return nil
}
