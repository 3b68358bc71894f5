// Package trimming repeats the evaluation of packet trimming in programmable switches (Popa et al., arXiv:2207.04967)
// as results T1 to T16. Every value comes from a run of a test in configs/trimming on the virtual testbed: from flows
// and counters of its run directory, from taps, or from the switch's record of its control loop. No value is read from
// a table.
package trimming

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
	Quick   bool   // fewer points of sweeps: for tests
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
	id string
	do func(ctx context.Context, l *lab) error
}

// experiments lists the results in the order of the report.
func experiments() []experiment {
	return []experiment{
		{"T1", t1}, {"T2", t2}, {"T3", t3}, {"T4", t4}, {"T5", t5}, {"T6", t6}, {"T7", t7},
		{"T8", t8}, {"T9", t9}, {"T10", t10}, {"T11", t11}, {"T12", t12}, {"T13", t13},
		{"T14", t14}, {"T15", t15}, {"T16", t16},
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
		if err := l.results.Timed(cfg.Wall, func() error { return e.do(ctx, l) }); err != nil {
			return nil, fmt.Errorf("%s: %w", e.id, err)
		}
	}
	return &l.results, nil
}
