// Package afd repeats the evaluation of AFD, ETRAP and DPP (Cisco, Intelligent Buffer Management on Cisco Nexus 9000
// Series Switches) as results and B-1. The paper has few numbers: rows say whether a value is a statement
// of the paper, a calibration of the specification (by a simulator of its own, of the same algorithms), or one of
// hardware. Every measured value comes from a run of a test in configs/aqm on the virtual testbed.
package afd

import (
	configs "candela.dev/candela/configs/aqm"
	"candela.dev/candela/reproduce/experiments"
)

// Reproduction lists the results in the order in which they build on each other (specification, 16).
func Reproduction() experiments.Reproduction { return publication() }

func publication() *experiments.Publication[*lab] {
	return &experiments.Publication[*lab]{
		Title: paper, Files: configs.FS, Lab: func(l *experiments.Lab) *lab { return &lab{l} },
		List: []experiments.Experiment[*lab]{
			{ID: "A-8", Do: a8},
			{ID: "A-9", Do: a9},
			{ID: "A-1", Do: a1},
			{ID: "A-2", Do: a2},
			{ID: "A-5", Do: a5, Slow: true},
			{ID: "A-3", Do: a3, Slow: true},
			{ID: "A-4", Do: a4, Slow: true},
			{ID: "A-7", Do: a7, Slow: true},
			{ID: "A-6", Do: a6},
			{ID: "A-10", Do: a10},
			{ID: "B-1", Do: b1, Slow: true},
			{ID: "FIGURES", Do: figures, Slow: true},
		},
	}
}
