// Package deflection repeats the evaluation of practical packet deflection (CoNEXT 2023): simple deflection (SD) and
// preemptive deflection (PD) beside ECMP, DIBS, AIFO and Vertigo. Sections (§) are those of its specification. Values
// to compare with are those of the authors' artifact (E4), statements of the text, and of hardware. Every measured
// value comes from a run of a test in configs/deflection.
package deflection

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"candela.dev/candela/clock"
	configs "candela.dev/candela/configs/deflection"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// Reproduction lists the results.
func Reproduction() experiments.Reproduction { return publication() }

func publication() *experiments.Publication[*lab] {
	return &experiments.Publication[*lab]{
		Title: "Practical Packet Deflection in Datacenters (CoNEXT 2023)",
		Files: configs.FS, Lab: newLab, Loads: []float64{55, 65, 75, 85, 95},
		List: []experiments.Experiment[*lab]{
			{ID: "E4", Do: e4, Slow: true},
			{ID: "PATHS", Do: paths, Slow: true},
			{ID: "F12A", Do: f12Alpha, Slow: true},
			{ID: "E1", Do: e1, Slow: true},
			{ID: "F5B", Do: f5b, Slow: true},
			{ID: "F5C", Do: f5c},
			{ID: "T2", Do: t2, Slow: true},
			{ID: "F12C", Do: f12Window, Slow: true},
			{ID: "F12D", Do: f12Sample, Slow: true},
			{ID: "F14", Do: f14, Slow: true},
			{ID: "F6", Do: f6, Slow: true},
			{ID: "F7", Do: f7, Slow: true},
			{ID: "F8", Do: f8, Slow: true},
			{ID: "F9", Do: f9, Slow: true},
			{ID: "F10", Do: f10, Slow: true},
			{ID: "F11", Do: f11, Slow: true},
			{ID: "F13", Do: f13, Slow: true},
			{ID: "F17", Do: f17, Slow: true},
			{ID: "TEXT", Do: text},
			{ID: "TABLE", Do: hardware},
		},
	}
}

// lab is a lab of this publication.
type lab struct {
	*experiments.Lab
	files  fs.ReadFileFS
	points map[string]*point     // by their keys: several results share some
	given  func(w *wanted) point // of tests, in place of runs
}

func newLab(l *experiments.Lab) *lab {
	return &lab{Lab: l, files: configs.FS, points: make(map[string]*point)}
}

// edit replaces a part of a file that is there once.
type edit struct{ old, with string }

// edited are tests with edits.
type edited struct {
	files fs.ReadFileFS
	edits []edit
}

// Open implements fs.FS.
func (e edited) Open(name string) (fs.File, error) { return e.files.Open(name) }

// ReadFile implements fs.ReadFileFS.
func (e edited) ReadFile(name string) ([]byte, error) {
	data, err := e.files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	text := string(data)
	for _, c := range e.edits {
		if n := strings.Count(text, c.old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times", name, c.old, n)
		}
		text = strings.Replace(text, c.old, c.with, 1)
	}
	return []byte(text), nil
}

// series are points of one scheme in one set-up.
type series struct {
	name  string // in rows and plots
	file  string
	edits []edit
	tag   string // tells edits apart, in names of runs
	loads []int  // of those of the file, the loads that are measured; none: all
	quick clock.Duration
	small []edit // of a quick reproduction
}

// loadOf returns the load of a point: files have all of them, or 55 and 95 % with the same values of a parameter each.
func loadOf(i, points int) int {
	switch {
	case points == len(loads()):
		return loads()[i]
	case i < points/2:
		return 55
	}
	return 95
}

// wanted is a point that is to be measured.
type wanted struct {
	s    *series
	i    int // of the sweep
	key  string
	test *config.SwitchTest
}

func (s *series) key(i int) string { return fmt.Sprintf("%s %s %d", s.file, s.tag, i) }

// of returns a measured point of a series; nil: it was not measured.
func (l *lab) of(s *series, i int) *point { return l.points[s.key(i)] }

// measure runs the points of series that were not measured yet.
func (l *lab) measure(ctx context.Context, list ...*series) error {
	var missing []wanted
	for _, s := range list {
		edits := s.edits
		if l.Config.Quick {
			edits = slices.Concat(edits, s.small)
		}
		tests, err := l.TestsOf(edited{l.files, edits}, s.file)
		if err != nil {
			return err
		}
		for i, t := range tests {
			load := loadOf(i, len(tests))
			if len(s.loads) > 0 && !slices.Contains(s.loads, load) || l.of(s, i) != nil ||
				len(l.Config.Loads) > 0 && !slices.Contains(l.Config.Loads, float64(load)) {
				continue
			}
			if s.tag != "" {
				t.Name += "-" + s.tag
			}
			if l.Config.Quick && s.quick > 0 {
				experiments.Shorten(t, s.quick)
			}
			t.SizeClasses = []int64{100_000, 1_000_000, 10_000_000}
			missing = append(missing, wanted{s, i, s.key(i), t})
			l.points[s.key(i)] = new(point)
		}
	}
	if l.given != nil {
		for i := range missing {
			*l.points[missing[i].key] = l.given(&missing[i])
		}
		return nil
	}
	return l.Batch(ctx, len(missing), func(n int) error { return l.run(ctx, &missing[n], l.points[missing[n].key]) })
}

// run measures a point, or reads what an earlier call kept of it.
func (l *lab) run(ctx context.Context, w *wanted, p *point) error {
	run := experiments.NewRun(w.test, 1)
	if known, err := l.Recall(w.s.file, &run, p); known || err != nil {
		return err
	}
	err := l.Do(ctx, &run, p.watch(w.test.Duration), func(*orchestrator.Outcome) error { return p.read(&run) })
	if err != nil {
		return err
	}
	return l.Keep(w.s.file, &run, p)
}

// Origins of rows. In a quick reproduction magnitudes are shown alone: it simulates a fraction of the 1.2 s of the
// source, and of E1 to E3 a smaller network. Orders and named ratios are judged.

// magnitude is the origin of a value that a quick reproduction does not judge.
func (l *lab) magnitude(of comparison.Source) comparison.Origin {
	if l.Config.Quick {
		return comparison.Unjudged(quickly).Of(of)
	}
	return comparison.FromMechanism("").Of(of)
}

// shape is the origin of an order, or of a ratio that the specification names.
func (l *lab) shape(of comparison.Source) comparison.Origin {
	if l.Config.Quick {
		return comparison.FromChoice(quickly).Of(of)
	}
	return comparison.FromMechanism("").Of(of)
}

const quickly = "a quick reproduction: a fraction of the 1.2 s of the source, and of E1 to E3 a smaller network"
