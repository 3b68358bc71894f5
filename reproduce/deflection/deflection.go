// Package deflection repeats the evaluation of practical packet deflection (CoNEXT 2023): simple deflection (SD) and
// preemptive deflection (PD) beside ECMP, DIBS, AIFO and Vertigo. Sections (§) are those of its specification. Values to
// compare with are those of the authors' artifact (E4), statements of the text, and of hardware. Every measured value
// comes from a run of a test in configs/deflection.
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
		Files: configs.FS, Lab: newLab,
		List: []experiments.Experiment[*lab]{
			{ID: "E4", Do: e4, Slow: true},
			{ID: "TEXT", Do: text},
			{ID: "TABLE", Do: hardware},
		},
	}
}

// lab is a lab of this publication.
type lab struct {
	*experiments.Lab
	points map[string]*point // by their keys: several results share some
}

func newLab(l *experiments.Lab) *lab { return &lab{Lab: l, points: make(map[string]*point)} }

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
	at    []int  // points of the sweep; none: all
	quick clock.Duration
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
	var todo []wanted
	for _, s := range list {
		tests, err := l.TestsOf(edited{configs.FS, s.edits}, s.file)
		if err != nil {
			return err
		}
		for i, t := range tests {
			if len(s.at) > 0 && !slices.Contains(s.at, i) || l.of(s, i) != nil {
				continue
			}
			if s.tag != "" {
				t.Name += "-" + s.tag
			}
			if l.Config.Quick && s.quick > 0 {
				experiments.Shorten(t, s.quick)
			}
			t.SizeClasses = []int64{100_000, 1_000_000, 10_000_000}
			todo = append(todo, wanted{s, i, s.key(i), t})
			l.points[s.key(i)] = new(point)
		}
	}
	return l.Batch(ctx, len(todo), func(n int) error { return l.run(ctx, &todo[n], l.points[todo[n].key]) })
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

// published is the origin of values of the artifact, or what is left of it in a quick reproduction.
func (l *lab) published(from comparison.Origin) comparison.Origin {
	return l.judged(from).Of(comparison.PublishedData)
}

// stated is the origin of statements of the text.
func (l *lab) stated(from comparison.Origin) comparison.Origin {
	return l.judged(from).Of(comparison.PaperStatement)
}

func (l *lab) judged(from comparison.Origin) comparison.Origin {
	if l.Config.Quick {
		return comparison.Unjudged("a quick reproduction simulates a fraction of the 1.2 s of the source: a start, not a " +
			"steady state")
	}
	return from
}
