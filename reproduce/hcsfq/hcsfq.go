// Package hcsfq repeats the evaluation of hierarchical core-stateless fair queueing (the thesis's chapter 3) as results
// Q1 to Q16 of its specification, section 9, and experiments without one. Values to compare with are statements of the
// source, max-min shares, and calibrations of the specification. Every measured value comes from a run of a test in
// configs/fair.
package hcsfq

import (
	"context"
	"io/fs"

	configs "candela.dev/candela/configs/fair"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// Reproduction lists the results, those of UDP on a single switch first.
func Reproduction() experiments.Reproduction { return publication() }

func publication() *experiments.Publication[*lab] {
	return &experiments.Publication[*lab]{
		Title: "Hierarchical core-stateless fair queueing (HCSFQ; chapter 3)",
		Files: artefacts{configs.FS}, Lab: newLab, Loads: experiments.LoadLabels(),
		List: []experiments.Experiment[*lab]{
			{ID: "Q1", Do: q1, Slow: true},
			{ID: "Q2", Do: q2, Slow: true},
			{ID: "Q3", Do: q3},
			{ID: "Q4", Do: q4, Slow: true},
			{ID: "Q5", Do: q5, Slow: true},
			{ID: "Q6", Do: q6, Slow: true},
			{ID: "Q7", Do: q7},
			{ID: "Q8", Do: q8},
			{ID: "E7", Do: e7, Slow: true},
			{ID: "E8", Do: e8, Slow: true},
			{ID: "Q9", Do: q9, Slow: true},
			{ID: "Q10", Do: q10, Slow: true},
			{ID: "Q11", Do: q11, Slow: true},
			{ID: "E10", Do: e10, Slow: true},
			{ID: "E12", Do: e12, Slow: true},
			{ID: "K", Do: sensitivity, Slow: true},
			{ID: "E1", Do: e1, Slow: true},
			{ID: "E5", Do: e5, Slow: true},
			{ID: "E6", Do: e6, Slow: true},
			{ID: "E9", Do: e9, Slow: true},
			{ID: "E11", Do: e11, Slow: true},
			{ID: idLive, Do: runLive, Slow: true},
			{ID: "S1", Do: specified().s1, Slow: true},
			{ID: "S2", Do: specified().s2, Slow: true},
			{ID: "S3", Do: specified().s3, Slow: true},
			{ID: "S4", Do: specified().s4, Slow: true},
			{ID: "S5", Do: specified().s5, Slow: true},
			{ID: "S1A", Do: published().s1, Slow: true},
			{ID: "S2A", Do: published().s2, Slow: true},
			{ID: "S3A", Do: published().s3, Slow: true},
			{ID: "S4A", Do: published().s4, Slow: true},
			{ID: "S5A", Do: published().s5, Slow: true},
			{ID: "TEXT", Do: text},
		},
	}
}

// lab is a lab of this publication.
type lab struct {
	*experiments.Lab
	files fs.ReadFileFS
	loads experiments.Sweeps // of S1, S2 and S4
}

func newLab(l *experiments.Lab) *lab {
	return &lab{Lab: l, files: artefacts{configs.FS}, loads: experiments.Sweeps{Groups: 2, Group: tenantOf}}
}

// phi is the share of the link that the switch gives away, and bottleneck the rate of the link in Gb/s.
const phi, bottleneck = 0.985, 40

// Origins of rows.
var (
	stated = comparison.FromMechanism("the source says equal, or by weight; the number is the max-min share of what the " +
		"switch gives away, 0.985 of the link").Of(comparison.PaperStatement)
	computed = comparison.FromMechanism("the specification's max-min share of what the switch gives away, 0.985 of the " +
		"link").Of(comparison.SpecCalibration)
)

// seedsUDP is the number of seeds of Q1 to Q8.
const seedsUDP = 3

// measure runs a test with so many seeds, those of `candela run --repeat`, and returns what its flows got. A quick
// reproduction has one seed.
func (l *lab) measure(ctx context.Context, file string, seeds int) ([]*point, error) {
	return l.measureFiles(ctx, l.files, file, seeds)
}

// measureFiles is measure of a test that is elsewhere, or changed.
func (l *lab) measureFiles(ctx context.Context, files fs.ReadFileFS, file string, seeds int) ([]*point, error) {
	tests, err := l.TestsOf(files, file)
	if err != nil {
		return nil, err
	}
	if l.Config.Quick {
		seeds = 1
	}
	var points []*point
	for seed := range seeds {
		points = append(points, &point{Run: experiments.NewRun(tests[0], seed+1)})
	}
	return points, l.Batch(ctx, len(points), func(i int) error {
		return l.Do(ctx, &points[i].Run, points[i].course.watch, points[i].read)
	})
}
