// Package aifo repeats the evaluation of AIFO (the thesis's chapter 4) as results F1 to F8, T1, T2 and its table 4-I,
// and section 5 of its specification as S5. Values to compare with are the data that the authors published with their
// simulator, statements of the text, and figures of hardware. Every measured value comes from a run of a test in
// configs/rank, or configs/rank-live.
package aifo

import (
	configs "candela.dev/candela/configs/rank"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// Reproduction lists the results, those of a single switch first.
func Reproduction() experiments.Reproduction { return publication() }

func publication() *experiments.Publication[*lab] {
	return &experiments.Publication[*lab]{
		Title: "AIFO: programmable packet scheduling with a single queue (chapter 4, and its published data)",
		Files: configs.FS, Lab: func(l *experiments.Lab) *lab { return &lab{Lab: l} }, Loads: labels(),
		List: []experiments.Experiment[*lab]{
			{ID: "S5", Do: s5, Slow: true},
			{ID: "F6", Do: f6},
			{ID: "F7", Do: f7},
			{ID: "T1", Do: t1},
			{ID: "T2", Do: t2, Slow: true},
			{ID: "F1", Do: f1, Slow: true},
			{ID: "F2", Do: f2, Slow: true},
			{ID: "F3", Do: f3, Slow: true},
			{ID: "F4", Do: f4, Slow: true},
			{ID: "F5", Do: f5, Slow: true},
			{ID: "F8", Do: f8, Slow: true},
			{ID: "TEXT", Do: text},
			{ID: "TABLE", Do: hardware},
		},
	}
}

// lab is a lab of this publication.
type lab struct {
	*experiments.Lab
	logs  map[string]*arrivals // of F6 and F7, by scheme
	loads experiments.Sweeps
}

// published is the origin of rows that compare with the data behind the figures.
var published = comparison.FromMechanism("").Of(comparison.PublishedData)
