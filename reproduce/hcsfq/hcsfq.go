// Package hcsfq repeats the evaluation of hierarchical core-stateless fair queueing (the thesis's chapter 3) as results
// Q1 to Q16 of its specification, section 9, and experiments without one. Values to compare with are statements of the
// source, max-min shares, and calibrations of the specification. Every measured value comes from a run of a test in
// configs/fair.
package hcsfq

import (
	"context"

	configs "candela.dev/candela/configs/fair"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// Reproduction lists the results, those of UDP on a single switch first.
func Reproduction() experiments.Reproduction { return publication() }

func publication() *experiments.Publication[*lab] {
	return &experiments.Publication[*lab]{
		Title: "Hierarchical core-stateless fair queueing (HCSFQ; chapter 3)",
		Files: configs.FS, Lab: func(l *experiments.Lab) *lab { return &lab{Lab: l} },
		List: []experiments.Experiment[*lab]{
			{ID: "Q1", Do: q1, Slow: true},
			{ID: "Q2", Do: q2, Slow: true},
			{ID: "Q3", Do: q3},
			{ID: "Q4", Do: q4, Slow: true},
			{ID: "Q5", Do: q5, Slow: true},
			{ID: "Q6", Do: q6, Slow: true},
			{ID: "Q7", Do: q7},
			{ID: "Q8", Do: q8},
			{ID: "TEXT", Do: text},
		},
	}
}

// lab is a lab of this publication.
type lab struct{ *experiments.Lab }

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

// measure runs every point of a file with so many seeds, those of `candela run --repeat`, and returns what its flows
// got, by point and seed. A quick reproduction has one seed.
func (l *lab) measure(ctx context.Context, file string, seeds int) ([][]*point, error) {
	tests, err := l.Tests(file)
	if err != nil {
		return nil, err
	}
	if l.Config.Quick {
		seeds = 1
	}
	points := make([][]*point, len(tests))
	var all []*point
	for i, t := range tests {
		for seed := range seeds {
			p := &point{Run: experiments.NewRun(t, seed+1)}
			points[i], all = append(points[i], p), append(all, p)
		}
	}
	return points, l.Batch(ctx, len(all), func(i int) error {
		return l.Do(ctx, &all[i].Run, all[i].course.watch, all[i].read)
	})
}
