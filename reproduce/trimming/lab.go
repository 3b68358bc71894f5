package trimming

import (
	"context"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/testbeds/switches/trimming"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// follows is the origin of values that follow from a mechanism.
var follows = comparison.FromMechanism("")

const paper = "Popa et al., Implementing packet trimming support in hardware, arXiv:2207.04967"

// lab runs the tests of experiments, several at a time, and collects rows and plots.
type lab struct {
	*experiments.Lab
	single map[int]*point      // runs of the ideal switch by number of senders, if a sweep does not cover them
	done   map[string][]*point // by file, measured without extra taps; several results may use them
	sweeps map[string]sweep    // over the response, by file; several results may use them
}

func newLab(l *experiments.Lab) *lab {
	return &lab{Lab: l, done: make(map[string][]*point), sweeps: make(map[string]sweep), single: make(map[int]*point)}
}

func (l *lab) row(from comparison.Origin, r comparison.Row) { l.Row(from, r) }

func (l *lab) plot(p comparison.Plot) { l.Plot(p) }

// quickEvery is the step between the sweep points of a quick reproduction.
const quickEvery = 4

// tests returns the points of the sweep in a file of configs/trimming: of a quick reproduction, some of them.
func (l *lab) tests(file string) ([]*config.SwitchTest, error) {
	all, err := l.Tests(file)
	if err != nil {
		return nil, err
	}
	if l.Config.Quick && len(all) > 2*quickEvery {
		var some []*config.SwitchTest
		for i := len(all) - 1; i >= 0; i -= quickEvery {
			some = append([]*config.SwitchTest{all[i]}, some...)
		}
		all = some
	}
	return all, nil
}

// point is the outcome of one run.
type point struct {
	experiments.Run
	probe *probe
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
		points[i] = &point{Run: experiments.NewRun(t, 1)}
	}
	return points, l.measurePoints(ctx, points, attach)
}

func (l *lab) measurePoints(ctx context.Context, points []*point, attach func(*probe)) error {
	return l.Batch(ctx, len(points), func(i int) error { return l.run(ctx, points[i], attach) })
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
	if l.Config.Quick {
		repeats = 1
	}
	var all []*point
	for repeat := 1; repeat <= repeats; repeat++ {
		for _, t := range tests {
			all = append(all, &point{Run: experiments.NewRun(t, repeat)})
		}
	}
	if err := l.measurePoints(ctx, all, nil); err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(all, len(tests))), nil
}

func (l *lab) run(ctx context.Context, p *point, attach func(*probe)) error {
	var sw *fabric.Switch
	watch := func(net *fabric.Network) {
		sw, p.probe = net.Switch(0), newProbe(net)
		if attach != nil {
			attach(p.probe)
		}
	}
	return l.Do(ctx, &p.Run, watch, func(*orchestrator.Outcome) error {
		p.inspect(sw)
		return nil
	})
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
