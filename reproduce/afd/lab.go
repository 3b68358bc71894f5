package afd

import (
	"context"
	"path/filepath"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
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

// lab is a lab of this publication.
type lab struct{ *experiments.Lab }

func (l *lab) row(from comparison.Origin, r comparison.Row) { l.Row(from, r) }

func (l *lab) plot(p comparison.Plot) { l.Plot(p) }

// point is the outcome of one run.
type point struct {
	experiments.Run
	violations int // that analyzer aqm found
	decisions  []decision
	series     series
	// completions are the flows that have ended, if the test writes them as a table.
	completions []completion
	watch       func(*fabric.Network) // adds taps; nil: none
	buffer      *buffer               // what they saw
	sent        float64               // bytes
	before      float64               // of a flow's completion time, ms: see established
}

// measure runs every point of a file with so many seeds, those of `candela run --repeat`, and returns the runs by seed.
// attach, if not nil, is called for each point before it runs. A quick reproduction has one seed.
func (l *lab) measure(ctx context.Context, file string, seeds int, attach func(*point)) ([][]*point, error) {
	tests, err := l.Tests(file)
	if err != nil {
		return nil, err
	}
	if l.Config.Quick {
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
			p := &point{Run: experiments.NewRun(t, i+1)}
			if attach != nil {
				attach(p)
			}
			bySeed[i], all = append(bySeed[i], p), append(all, p)
		}
	}
	return bySeed, l.Batch(ctx, len(all), func(i int) error {
		err := l.Do(ctx, &all[i].Run, all[i].watch, all[i].read)
		all[i].watch = nil // it may hold the network
		return err
	})
}

// read takes what analyzer aqm found, decisions and time series from a run.
func (p *point) read(out *orchestrator.Outcome) error {
	if out.Analysis != nil {
		for i := range out.Analysis.Findings {
			if f := &out.Analysis.Findings[i]; f.Analyzer == "aqm" && f.Severity == analyzers.Violation {
				p.violations++
			}
		}
	}
	dir := out.Dir
	var err error
	if p.Test.Taps.Decisions() != "" {
		if p.decisions, err = readDecisions(filepath.Join(dir, "decisions.csv")); err != nil {
			return err
		}
	}
	if p.Test.Results.Flows() == "csv" {
		if p.completions, err = readCompletions(dir); err != nil {
			return err
		}
		for i := range p.completions {
			p.completions[i].ms += p.before
		}
	}
	if p.Test.Series > 0 {
		p.series, err = readSeries(filepath.Join(dir, "series.csv"))
	}
	return err
}
