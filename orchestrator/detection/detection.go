// Package detection measures how well the analyzers distinguish broken NICs from compliant ones. It answers three
// questions with numbers: does every seeded fault of the catalogue fire its rule; are all rules silent when a compliant
// NIC, of whatever profile, runs every example; and are they silent when it runs random traffic with random losses,
// marks and corruption.
package detection

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
)

// Bench runs tests and keeps nothing but what was found.
type Bench struct {
	// NewRunner returns a function that runs tests one after the other, and one that closes it; each worker has one.
	NewRunner func() (run reduction.Runner, closed func() error)
	Options   config.Options // the models and rules that exist
	Configs   string         // directory of the examples; detect/ in it has a test for each fault
	Workers   int            // runs at a time; 0: one for each CPU
	Only      []string       // faults instead of all
	// Fallback are options with another testbed, for tests that the one of Options refuses; nil: none.
	Fallback *config.Options
	Wall     func() time.Time // nil: durations are not measured
	// Done is called after each step: a bug, an example, a scenario, by workers; may be nil.
	Done func()
	// SoftwareHosts says that the hosts' times are those of a machine: some faults do not show there.
	SoftwareHosts bool
}

// Fired is a rule that was violated, or that warned.
type Fired struct {
	Rule     string             `json:"rule"`
	Severity analyzers.Severity `json:"severity"`
	Count    int                `json:"count"`
}

// outcome is what is kept of a run.
type outcome struct {
	fired    []Fired // sorted by rule
	reasons  []string
	analysed bool
	details  []string // of the findings, for people
	events   int      // that fired
}

func (o *outcome) has(rule string) bool {
	return slices.ContainsFunc(o.fired, func(f Fired) bool { return f.Rule == rule })
}

// violations lists the rules that speak against the device; with warnings those, too.
func (o *outcome) violations() []string {
	var rules []string
	for _, f := range o.fired {
		if f.Severity == analyzers.Violation {
			rules = append(rules, f.Rule)
		}
	}
	return rules
}

// measured runs one test.
func measured(ctx context.Context, run reduction.Runner, t *config.Test) (outcome, error) {
	o, err := run(ctx, t)
	if err != nil {
		return outcome{}, err
	}
	return digest(o), nil
}

func digest(o *orchestrator.Outcome) outcome {
	d := outcome{reasons: o.Verdict.Reasons, analysed: o.Analysis != nil, events: o.EventsFired}
	if o.Analysis == nil {
		return d
	}
	for _, f := range o.Analysis.Findings {
		if f.Severity == analyzers.Note {
			continue
		}
		d.details = append(d.details, fmt.Sprintf("%s %s qpn %d #%v psn %d: want %s, got %s",
			f.Severity, f.Rule, f.Connection, f.Packets, f.PSN, f.Expected, f.Actual))
		i := slices.IndexFunc(d.fired, func(g Fired) bool { return g.Rule == f.Rule })
		if i < 0 {
			d.fired = append(d.fired, Fired{f.Rule, f.Severity, 0})
			i = len(d.fired) - 1
		}
		d.fired[i].Count++
	}
	slices.SortFunc(d.fired, func(a, b Fired) int { return cmpString(a.Rule, b.Rule) })
	return d
}

// each calls do for 0 to n−1, on all workers, each with its runner, and returns the errors in that order.
func (b *Bench) each(ctx context.Context, n int,
	do func(ctx context.Context, run reduction.Runner, i int) error) error {
	workers := b.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, n)
	runners, closers := make([]reduction.Runner, workers), make([]func() error, workers)
	errs := []error{orchestrator.Batch(ctx, workers, n, func(w, i int) error {
		if runners[w] == nil {
			runners[w], closers[w] = b.NewRunner()
		}
		if b.Done != nil {
			defer b.Done()
		}
		return do(ctx, runners[w], i)
	})}
	for _, closed := range closers {
		if closed != nil {
			errs = append(errs, closed())
		}
	}
	return errors.Join(errs...)
}

// options returns options that give a test with profile spec the defaults of another one.
func (b *Bench) options(profile string) config.Options { return as(b.Options, profile) }

func as(o config.Options, profile string) config.Options {
	o.Profiles = slices.Clone(o.Profiles)
	var model config.Profile
	for _, p := range o.Profiles {
		if p.Name == profile {
			model = p
		}
	}
	for i := range o.Profiles {
		if o.Profiles[i].Name == defaultProfile {
			o.Profiles[i].Defaults, o.Profiles[i].Adaptive = model.Defaults, model.Adaptive
		}
	}
	return o
}

// defaultProfile is the profile of tests that name none.
const defaultProfile = "spec"

// on returns t with both hosts of a profile, unless t names another one than the default; with sound without faults.
func on(t *config.Test, profile string, sound bool) *config.Test {
	c := *t
	for _, h := range c.Hosts() {
		if h.NIC.Profile == defaultProfile {
			h.NIC.Profile = profile
		}
		if sound {
			h.NIC.Bugs = nil
		}
	}
	return &c
}

func (b *Bench) wall() time.Time {
	if b.Wall == nil {
		return time.Time{}
	}
	return b.Wall()
}

// Steps returns how many steps Bugs takes of a profile and, with examples, Silence.
func (b *Bench) Steps(profile string, examples bool) (int, error) {
	n := len(b.Only)
	if b.Only == nil {
		n = len(rdma.Catalogue())
	}
	if !examples {
		return n, nil
	}
	tests, err := b.examples(profile)
	return n + len(tests), err
}
