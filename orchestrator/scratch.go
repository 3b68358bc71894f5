package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
)

// Scratch runs tests of which only the outcome is wanted. Their run directories live in memory, where the system has a place
// for that, and are gone when Run returns. A Scratch is used by one goroutine; the caller closes it.
type Scratch struct {
	Strict bool // warnings fail

	build Builder
	dir   string
}

// NewScratch returns a Scratch for testbeds that build makes.
func NewScratch(build Builder) (*Scratch, error) {
	const memory, pattern = "/dev/shm", "candela-scratch-"
	dir, err := os.MkdirTemp(memory, pattern)
	if err != nil { // another system, or one without room there
		dir, err = os.MkdirTemp("", pattern)
	}
	if err != nil {
		return nil, fmt.Errorf("scratch directory: %w", err)
	}
	return &Scratch{build: build, dir: dir}, nil
}

// Close removes what Run may have left behind.
func (s *Scratch) Close() error { return os.RemoveAll(s.dir) }

// Run runs t once. An infrastructure failure is an error here; the outcome's directory no longer exists.
func (s *Scratch) Run(ctx context.Context, t *config.Test) (*Outcome, error) {
	p, err := plan.New(t)
	if err != nil {
		return nil, err
	}
	o, err := Run(ctx, p, s.build, Options{
		Out: s.dir, ID: "run", NoReports: true, Strict: s.Strict, Wall: func() time.Time { return time.Unix(0, 0) },
	})
	if o != nil {
		err = errors.Join(err, os.RemoveAll(filepath.Clean(o.Dir)))
	}
	if err != nil {
		return nil, err
	}
	if o.Verdict.Exit == ExitInfrastructure {
		return nil, fmt.Errorf("%s: %v", t.Name, o.Verdict.Reasons)
	}
	return o, nil
}
