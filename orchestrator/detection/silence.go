package detection

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/reduction"
)

// SilenceResult is the result of a compliant profile on one example.
type SilenceResult struct {
	Profile  string   `json:"profile"`
	Test     string   `json:"test"`
	Violated []string `json:"violated,omitempty"` // rules; there must be none
	Warned   []string `json:"warned,omitempty"`
	Details  []string `json:"details,omitempty"`

	Took time.Duration `json:"-"` // of the run
}

// Silence runs every example, and the test of every fault without it, on a compliant NIC of a profile. What a test
// expects of times and counters is not judged: other profiles have other times.
func (b *Bench) Silence(ctx context.Context, profile string) ([]SilenceResult, error) {
	tests, err := b.examples(profile)
	if err != nil {
		return nil, err
	}
	results := make([]SilenceResult, len(tests))
	err = b.each(ctx, len(tests), func(ctx context.Context, run reduction.Runner, i int) error {
		start := b.wall()
		o, err := measured(ctx, run, on(tests[i], profile, true))
		if err != nil {
			return fmt.Errorf("%s on profile %s: %w", tests[i].Title(), profile, err)
		}
		r := SilenceResult{Profile: profile, Test: tests[i].Title(), Violated: o.violations(),
			Took: b.wall().Sub(start)}
		for _, f := range o.fired {
			if !slices.Contains(r.Violated, f.Rule) {
				r.Warned = append(r.Warned, f.Rule)
			}
		}
		if len(r.Violated) > 0 {
			r.Details = o.details
		}
		results[i] = r
		return nil
	})
	return results, err
}

// examples loads every example, each point of a sweep.
func (b *Bench) examples(profile string) ([]*config.Test, error) {
	var tests []*config.Test
	for _, pattern := range []string{"*.yml", "detect/*.yml"} {
		files, err := filepath.Glob(filepath.Join(b.Configs, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if config.IsSwitchTest(data) {
				continue // without a NIC
			}
			points, err := config.LoadAll(file, b.options(profile))
			if err != nil {
				return nil, err
			}
			if err := plan.Unambiguous(points, data); err != nil {
				return nil, err
			}
			tests = append(tests, points...)
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("%s: no examples in this directory", b.Configs)
	}
	return tests, nil
}
