// Package afd repeats the evaluation of AFD, ETRAP and DPP (Cisco, Intelligent Buffer Management on Cisco Nexus 9000
// Series Switches) as results and B-1. The paper has few numbers: rows say whether a value is a statement
// of the paper, a calibration of the specification (by a simulator of its own, of the same algorithms), or one of
// hardware. Every measured value comes from a run of a test in configs/aqm on the virtual testbed.
package afd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/reproduce/comparison"
)

// Config says how to run.
type Config struct {
	Out     string // parent of the run directories
	Keep    bool   // keep the run directories
	Quick   bool   // one seed, and fewer points of sweeps: for tests
	Workers int    // runs at a time
	Version string // of the tool, for run.json
	Wall    func() time.Time
	// Set changes parameters of switch models, each MODEL.PARAMETER=VALUE.
	Set []string
	// Progress is called before each experiment; it may be nil.
	Progress func(name string)
}

// experiment measures one result.
type experiment struct {
	id   string
	do   func(ctx context.Context, l *lab) error
	slow bool // minutes
}

// experiments lists the results in the order in which they build on each other (specification, 16).
func experiments() []experiment {
	return []experiment{
		{"A-8", a8, false},
		{"A-9", a9, false},
		{"A-1", a1, false},
		{"A-2", a2, false},
		{"A-5", a5, true},
		{"A-3", a3, true},
		{"A-4", a4, true},
		{"A-7", a7, true},
		{"A-6", a6, false},
		{"A-10", a10, false},
		{"B-1", b1, true},
		{"FIGURES", figures, true},
	}
}

// IDs lists the results in the order of the report.
func IDs() []string {
	var ids []string
	for _, e := range experiments() {
		ids = append(ids, e.id)
	}
	return ids
}

// Check refuses unknown results, and settings of unknown models or parameters.
func (c *Config) Check(ids []string) error {
	known := IDs()
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return fmt.Errorf("result %q: there are %s", id, strings.Join(known, ", "))
		}
	}
	for _, s := range c.Set {
		if err := switchtest.CheckSetting(s); err != nil {
			return fmt.Errorf("--set %s: %w", s, err)
		}
	}
	return nil
}

// Run measures all results, or those that ids name.
func Run(ctx context.Context, cfg Config, ids ...string) (*comparison.Results, error) {
	if err := cfg.Check(ids); err != nil {
		return nil, err
	}
	l, err := newLab(cfg)
	if err != nil {
		return nil, err
	}
	defer l.close()
	for _, e := range experiments() {
		if len(ids) > 0 && !slices.Contains(ids, e.id) {
			continue
		}
		if cfg.Progress != nil {
			cfg.Progress(e.id)
		}
		if err := l.results.Timed(cfg.Wall, func() error { return e.do(ctx, l) }); err != nil {
			return nil, fmt.Errorf("%s: %w", e.id, err)
		}
	}
	return &l.results, nil
}
