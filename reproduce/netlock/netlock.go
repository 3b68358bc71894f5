// Package netlock repeats the evaluation of NetLock, a lock manager inside the switch (the thesis's chapter 2): results
// R1 to R18 of its reference model, section 12, by experiments E1 to E10 of section 11. A row says SIM if the
// simulation can reproduce it, and HW if it depends on the speed of a Tofino, DPDK or RDMA. Every measured value comes
// from a run of a test in configs/lock.
package netlock

import (
	"context"
	"io/fs"

	configs "candela.dev/candela/configs/lock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// Reproduction lists the experiments.
func Reproduction() experiments.Reproduction { return publication() }

func publication() *experiments.Publication[*lab] {
	return &experiments.Publication[*lab]{
		Title: "NetLock: fast, centralized lock management using programmable switches (chapter 2; SIGCOMM 2020)",
		Files: configs.FS, Lab: newLab,
		List: []experiments.Experiment[*lab]{
			{ID: "LAW", Do: laws},
			{ID: "E3", Do: e3, Slow: true},
		},
	}
}

// lab is a lab of this publication.
type lab struct {
	*experiments.Lab
	files fs.ReadFileFS
}

func newLab(l *experiments.Lab) *lab { return &lab{Lab: l, files: configs.FS} }

// Origins of rows.
var (
	// law is that of values that follow from a law of section 12.
	law = comparison.FromMechanism("expected is a law of the reference model, section 12").Of(comparison.SpecCalibration)
	// shown is that of values without a tolerance.
	shown = comparison.Unjudged("there is no value to compare with").Of(comparison.PaperStatement)
)

// measure runs the points of a file that keep takes, all if it is nil, after change (which may be nil) has edited them,
// and returns them in their order.
func (l *lab) measure(ctx context.Context, file string, keep func(i int) bool,
	change func(*config.SwitchTest)) ([]*point, error) {
	tests, err := l.TestsOf(l.files, file)
	if err != nil {
		return nil, err
	}
	var points []*point
	for i, t := range tests {
		if keep != nil && !keep(i) {
			continue
		}
		if change != nil {
			change(t)
		}
		points = append(points, &point{Run: experiments.NewRun(t, 1)})
	}
	return points, l.Batch(ctx, len(points), func(i int) error {
		p := points[i]
		return l.Do(ctx, &p.Run, p.watch, func(out *orchestrator.Outcome) error { return p.read(out) })
	})
}
