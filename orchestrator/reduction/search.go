package reduction

import (
	"context"
	"fmt"

	"candela.dev/candela/orchestrator"
)

// hashed is a test whose hash identifies all that a run depends on.
type hashed interface {
	comparable
	Hash() string
}

// search is one reduction in progress: Smallest.Test is the smallest test so far that fails.
type search[T hashed] struct {
	Smallest[T]
	ctx      context.Context
	run      func(context.Context, T) (*orchestrator.Outcome, error)
	check    func(T) (T, error) // validates candidates, which are changed in memory
	limit    int                // of runs; 0: none
	progress func(runs int, t T)
	tried    map[string]bool // hashes of candidates, and whether they fail
	err      error           // a run could not be made; everything ends
}

func newSearch[T hashed](ctx context.Context, target Target,
	run func(context.Context, T) (*orchestrator.Outcome, error), check func(T) (T, error),
	limit int, progress func(int, T),
) *search[T] {
	return &search[T]{
		Smallest: Smallest[T]{Target: target}, ctx: ctx, run: run, check: check, limit: limit, progress: progress,
		tried: make(map[string]bool),
	}
}

func (s *search[T]) exhausted() bool {
	return s.err != nil || s.ctx.Err() != nil || s.limit > 0 && s.Runs >= s.limit
}

// exhaust takes the steps over and over until none makes the test smaller.
func (s *search[T]) exhaust(start T, steps ...func()) error {
	if !s.fails(start) {
		if s.err == nil {
			s.err = fmt.Errorf("%w: run again, the test does not show %s", ErrNoFailure, s.Target)
		}
		return s.err
	}
	for {
		before := s.Test.Hash()
		for _, step := range steps {
			step()
		}
		if s.err != nil {
			return s.err
		}
		if s.exhausted() || s.Test.Hash() == before {
			break
		}
	}
	s.Complete = !s.exhausted()
	return nil
}

// try makes t the smallest test if it is valid and still fails.
func (s *search[T]) try(t T) bool {
	if s.exhausted() {
		return false
	}
	checked, err := s.check(t)
	return err == nil && s.fails(checked)
}

// fails runs t, which becomes the smallest test if it shows the target.
func (s *search[T]) fails(t T) bool {
	hash := t.Hash()
	if failed, ok := s.tried[hash]; ok {
		return failed && hash == s.Test.Hash() // others that fail are larger: they came before
	}
	outcome, err := s.run(s.ctx, t)
	if err != nil {
		if s.ctx.Err() == nil {
			s.err = err
		}
		return false
	}
	s.Runs++
	f, reason, ok := s.Target.Shown(outcome.Verdict, outcome.Analysis)
	s.tried[hash] = ok
	if !ok {
		return false
	}
	s.Test, s.Finding, s.Reason = t, f, reason
	if s.progress != nil {
		s.progress(s.Runs, t)
	}
	return true
}
