// Package trimming measures the evaluation of packet trimming in programmable switches (Popa et al.) again: T1 to T13 of the
// specification. Every value is taken from a run of a test of configs/trimming on the virtual testbed: from flows and counters
// of its run directory, from taps, or from the switch's own record of when its control loop was on. None is a table.
package trimming

import (
	"context"
	"fmt"
	"time"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
)

// Config says how to run.
type Config struct {
	Out     string // parent of the run directories
	Keep    bool   // keep the run directories
	Quick   bool   // fewer points of sweeps: for tests
	Workers int    // runs at a time
	Version string // of the tool, for run.json
	Wall    func() time.Time
	// Set changes parameters of switch models for this reproduction, each MODEL.PARAMETER=VALUE.
	Set []string
	// Progress is told before each experiment; nil: nobody listens.
	Progress func(name string)
}

// experiment measures one result.
type experiment struct {
	id string
	do func(ctx context.Context, l *lab) error
}

// experiments lists the results in the order of the report. T14 to T16 need TCP.
func experiments() []experiment {
	return []experiment{
		{"T1", t1}, {"T2", t2}, {"T3", t3}, {"T4", t4}, {"T5", t5}, {"T6", t6}, {"T7", t7},
		{"T8", t8}, {"T9", t9}, {"T10", t10}, {"T11", t11}, {"T12", t12}, {"T13", t13},
	}
}

// Run measures all results, or those that ids name.
func Run(ctx context.Context, cfg Config, ids ...string) (*comparison.Results, error) {
	l, err := newLab(cfg)
	if err != nil {
		return nil, err
	}
	defer l.close()
	wanted := make(map[string]bool)
	for _, id := range ids {
		wanted[id] = true
	}
	for _, e := range experiments() {
		if len(ids) > 0 && !wanted[e.id] {
			continue
		}
		if cfg.Progress != nil {
			cfg.Progress(e.id)
		}
		if err := e.do(ctx, l); err != nil {
			return nil, fmt.Errorf("%s: %w", e.id, err)
		}
	}
	return &l.results, nil
}

// with returns the points that fulfil a condition, in order.
func with(points []*point, want func(*config.SwitchTest) bool) []*point {
	var list []*point
	for _, p := range points {
		if want(p.test) {
			list = append(list, p)
		}
	}
	return list
}
