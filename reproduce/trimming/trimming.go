// Package trimming repeats the evaluation of packet trimming in programmable switches (Popa et al., arXiv:2207.04967)
// as results T1 to T16. Every value comes from a run of a test in configs/trimming on the virtual testbed: from flows
// and counters of its run directory, from taps, or from the switch's record of its control loop. No value is read from
// a table.
package trimming

import (
	configs "candela.dev/candela/configs/trimming"
	"candela.dev/candela/reproduce/experiments"
)

// Reproduction lists the results in the order of the report.
func Reproduction() experiments.Reproduction { return publication() }

func publication() *experiments.Publication[*lab] {
	return &experiments.Publication[*lab]{
		Title: paper, Files: configs.FS, Lab: newLab,
		List: []experiments.Experiment[*lab]{
			{ID: "T1", Do: t1},
			{ID: "T2", Do: t2},
			{ID: "T3", Do: t3},
			{ID: "T4", Do: t4},
			{ID: "T5", Do: t5},
			{ID: "T6", Do: t6},
			{ID: "T7", Do: t7},
			{ID: "T8", Do: t8},
			{ID: "T9", Do: t9},
			{ID: "T10", Do: t10},
			{ID: "T11", Do: t11},
			{ID: "T12", Do: t12},
			{ID: "T13", Do: t13},
			{ID: "T14", Do: t14},
			{ID: "T15", Do: t15},
			{ID: "T16", Do: t16},
		},
	}
}
