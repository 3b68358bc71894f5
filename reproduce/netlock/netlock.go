// Package netlock repeats the evaluation of NetLock, a lock manager inside the switch (the thesis's chapter 2): results
// R1 to R18 of its reference model, section 12, by experiments E1 to E10 of section 11. A row says SIM if the
// simulation can reproduce it, and HW if it depends on the speed of a Tofino, DPDK or RDMA. Every measured value comes
// from a run of a test in configs/lock.
package netlock

import (
	"context"
	"fmt"
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
			{ID: "E1", Do: e1, Slow: true},
			{ID: "E2", Do: e2, Slow: true},
			{ID: "E3", Do: e3, Slow: true},
			{ID: "E4", Do: e4, Slow: true},
			{ID: "E5", Do: e5, Slow: true},
			{ID: "E6", Do: e6, Slow: true},
			{ID: "E7", Do: e7, Slow: true},
			{ID: "E8", Do: e8, Slow: true},
			{ID: "E9", Do: e9, Slow: true},
			{ID: "E10", Do: e10, Slow: true},
		},
	}
}

// lab is a lab of this publication.
type lab struct {
	*experiments.Lab
	files fs.ReadFileFS
	given func(p *point) // of tests, in place of runs
}

func newLab(l *experiments.Lab) *lab { return &lab{Lab: l, files: configs.FS} }

// Origins of rows.
var (
	// law is that of values that follow from a law of section 12.
	law = comparison.FromMechanism("expected is a law of the reference model, section 12").Of(comparison.SpecCalibration)
	// stated is that of values of the source that a mechanism yields.
	stated = comparison.FromMechanism("").Of(comparison.PaperStatement)
	// retried is that of values beside NetChain, of which the source says no more than "client-side retry".
	retried = comparison.FromChoice("*chosen*: a transaction of NetChain starts anew 10 us after one of its requests " +
		"was rejected").
		Of(comparison.PaperStatement)
	// shown is that of values without a tolerance.
	shown = comparison.Unjudged("there is no value to compare with").Of(comparison.PaperStatement)
)

// hardware is the origin of values that depend on devices.
func hardware(why string) comparison.Origin {
	return comparison.Unjudged("depends on hardware: " + why).Of(comparison.Hardware)
}

// judged adds a row for what the judge found.
func (l *lab) judged(id, what string, points ...*point) {
	violations, requests := int64(0), int64(0)
	for _, p := range points {
		violations, requests = violations+p.violations, requests+p.judged
	}
	l.Row(comparison.FromMechanism("rules N1 to N15, packet by packet").Of(comparison.SpecCalibration),
		comparison.NewRow(id, what+"violations that the judge found", "", 0, 0, 0, float64(violations)).Noted(fmt.Sprintf(
			"in %d requests of %d runs", requests, len(points))))
}

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
	if l.given != nil {
		for _, p := range points {
			l.given(p)
		}
		return points, nil
	}
	return points, l.Batch(ctx, len(points), func(i int) error {
		p := points[i]
		return l.Do(ctx, &p.Run, p.watch, func(out *orchestrator.Outcome) error { return p.read(out) })
	})
}
