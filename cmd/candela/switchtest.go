package main

import (
	"context"
	"errors"
	"fmt"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// named returns the test's name and, of a sweep, its point.
func (p *planned) named() (string, *config.Point) {
	if p.ofSwitch != nil {
		return p.ofSwitch.Test.Name, p.ofSwitch.Test.Point
	}
	return p.Test.Name, p.Test.Point
}

// loadSwitchTests checks and plans the tests of a switch in a file.
func loadSwitchTests(file string, f runFlags) ([]planned, error) {
	bed, plan := f.testbed, switchtest.New
	network, err := networkLab(f.testbed)
	switch {
	case err != nil:
		return nil, err
	case bed == config.NetnsTestbed: // the test's own topology, on real frames
		bed, plan = "", switchtest.NewLive
	case network != nil:
		bed, plan = "", func(t *config.SwitchTest) (*switchtest.Plan, error) { return switchtest.NewLab(t, network) }
	}
	tests, err := config.LoadSwitchTests(file, configOptions(bed))
	if err != nil {
		return nil, err
	}
	if tests, err = choosePoints(file, tests, f.points, tests[0].Point != nil); err != nil {
		return nil, err
	}
	var plans []planned
	for _, t := range tests {
		if f.hasSeed {
			t = t.WithBaseSeed(f.seed)
		}
		p, err := plan(t)
		if err != nil {
			return nil, err
		}
		plans = append(plans, planned{ofSwitch: p, file: file})
	}
	return plans, nil
}

// switchDocument returns the function that writes the schema or the reference of tests of switches.
func switchDocument(reference bool) func() []byte {
	if reference {
		return switchtest.Reference
	}
	return func() []byte { return config.SwitchJSONSchema(configOptions("")) }
}

// aheadKey names a run of the suite.
type aheadKey struct {
	plan   *planned
	repeat int
}

// aheadRun is a run in the background.
type aheadRun struct {
	baseline orchestrator.Baseline
	done     chan struct{}
	outcome  *orchestrator.Outcome
	err      error
}

// oneSwitch runs a test of a switch. The first test of a file starts all tests of the file in the background, as many
// at a time as there are workers: simulations share nothing. Results are printed in the order of the points.
func (s *suite) oneSwitch(ctx context.Context, from *planned, repeat int) error {
	sweep, err := s.sweepOf(from)
	if err != nil {
		return infrastructure(err)
	}
	if s.flags.calibrate {
		return fmt.Errorf("--calibrate: %s is a test of a switch; only latencies of NIC tests are corrected", from.file)
	}
	if s.ahead[aheadKey{from, repeat}] == nil {
		s.startFile(ctx, from.file, sweep)
	}
	_, point := from.named()
	s.progress(from.ofSwitch.Test.Title())("simulate")
	run := s.ahead[aheadKey{from, repeat}]
	<-run.done
	s.meter.clear()
	return s.concluded(ctx, run.outcome, run.err, sweep, point)
}

// startFile starts every run of a file in the order of the points. The suite waits for all of them.
func (s *suite) startFile(ctx context.Context, file string, sweep *orchestrator.Sweep) {
	var queue []aheadKey
	for i := range s.plans {
		for repeat := 1; repeat <= s.flags.repeat && s.plans[i].file == file && s.plans[i].ofSwitch != nil; repeat++ {
			k := aheadKey{&s.plans[i], repeat}
			o := s.options(k.plan, repeat, sweep)
			s.records.baseline(ctx, s.cmd.ErrOrStderr(), k.plan, &o)
			s.ahead[k] = &aheadRun{done: make(chan struct{}), baseline: o.Baseline}
			queue = append(queue, k)
		}
	}
	runs := make([]*aheadRun, len(queue))
	for i, k := range queue {
		runs[i] = s.ahead[k]
	}
	workers := s.flags.workers
	if len(queue) > 0 && queue[0].plan.ofSwitch.Live() {
		workers = 1
	}
	s.running.Go(func() {
		// Each run watches ctx itself and leaves its error in the aheadRun.
		_ = orchestrator.Batch(context.WithoutCancel(ctx), workers, len(runs), func(_, i int) error {
			defer close(runs[i].done)
			runs[i].outcome, runs[i].err = s.simulate(ctx, queue[i], sweep, workers/min(workers, len(runs)))
			return nil
		})
	})
}

// simulate runs one test of a switch. It only reads the suite.
func (s *suite) simulate(ctx context.Context, k aheadKey, sweep *orchestrator.Sweep, workers int) (
	*orchestrator.Outcome, error) {
	p := k.plan.ofSwitch
	if seed, ok := s.repeatSeed(p.Test.Seed, k.repeat); ok {
		var err error
		if p, err = p.WithSeed(seed); err != nil {
			return nil, err
		}
	}
	o := s.options(k.plan, k.repeat, sweep)
	o.Workers = workers
	o.Baseline = s.ahead[k].baseline
	return runPlanned(ctx, nil, &planned{ofSwitch: p}, o) // the network is the test's own
}

// analyzeAny judges a run directory, of a test of NICs or of a switch, or a capture.
func analyzeAny(ctx context.Context, o orchestrator.AnalyzeOptions) (*orchestrator.Outcome, error) {
	opened, err := orchestrator.OpenRun(o.Trace)
	if err != nil {
		return orchestrator.Analyze(ctx, o) // a capture, or an error
	}
	if !switchtest.IsRun(opened) {
		if err := opened.Close(); err != nil {
			return nil, err
		}
		return orchestrator.Analyze(ctx, o)
	}
	if o.Second != "" || o.Connections != "" {
		return nil, errors.Join(fmt.Errorf("%s is the run of a switch test: leave out --after and --connections", o.Trace),
			opened.Close())
	}
	outcome, err := switchtest.Analyze(opened, o)
	return outcome, errors.Join(err, opened.Close())
}
