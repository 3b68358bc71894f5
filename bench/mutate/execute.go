package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mutantenv "candela.dev/candela/bench/mutate/mutant"
	"candela.dev/candela/orchestrator"
)

// A test is one top-level test function.
type test struct {
	suite   *suite
	name    string
	seconds float64 // of processor time, with no mutant
	reached []byte  // by number of mutant
}

// A runner runs tests of the compiled suites.
type runner struct {
	short    bool
	slowest  float64 // seconds of processor time of the slowest test that runs
	patience int     // seconds of processor time beyond what tests need without a mutant
	progress io.Writer
	tmp      string
	before   map[string]string // the tests that killed mutants in an earlier run, by package and key
}

// together is the test time in seconds of one process: starting a process costs more than a few short tests.
const together = 0.3

// wall bounds a process that neither ends nor uses the processor.
const wall = 2 * time.Minute

// process runs tests of one suite and returns the processor time that it used, its output, and an error if any failed.
func (r *runner) process(ctx context.Context, s *suite, names []string, env ...string) (float64, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, wall)
	defer cancel()
	args := []string{"-test.run", "^(" + strings.Join(names, "|") + ")$", "-test.failfast", "-test.parallel", "1",
		"-test.timeout", "0"}
	if r.short {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "10", s.binary}, args...)...)
	cmd.Dir = s.Dir
	// Properties draw the same inputs each time. They do not shrink failing inputs or save them to a file, which every
	// later run would read.
	env = append(env, "GOMAXPROCS=1", "GOTRACEBACK=none", "RAPID_SEED=1", "RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=1ms")
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	used := 0.0
	if cmd.ProcessState != nil {
		used = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	return used, out.Bytes(), err
}

// reach runs each test once without a mutant, and records which mutants it reaches and how long it takes. Failing tests
// are left out.
func (r *runner) reach(ctx context.Context, s *suite, mutants int) error {
	_, out, err := r.process(ctx, s, nil, mutantenv.Active+"=")
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", s.Path, err, out)
	}
	names, err := output(ctx, s.Dir, s.binary, "-test.list", "^(Test|Fuzz|Example)")
	if err != nil {
		return err
	}
	hits := filepath.Join(r.tmp, "hits")
	for name := range strings.FieldsSeq(names) {
		if err := os.WriteFile(hits, make([]byte, max(1, mutants)), 0o644); err != nil {
			return err
		}
		used, out, err := r.process(ctx, s, []string{name}, mutantenv.Active+"=", mutantenv.Hits+"="+hits)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(r.progress, "%s: %s fails without a mutant and is left out: %v\n%s", s.Path, name, err, out)
			continue
		}
		reached, err := os.ReadFile(hits)
		if err != nil {
			return err
		}
		if used > r.slowest {
			fmt.Fprintf(r.progress, "%s: %s takes %.1f s and is left out\n", s.Path, name, used)
			continue
		}
		s.tests = append(s.tests, &test{suite: s, name: name, seconds: used, reached: reached})
	}
	return nil
}

// The outcomes of a mutant.
const (
	killed    = "killed"
	survived  = "survived"
	unreached = "not reached"
)

// A result is what the tests said of one mutant.
type result struct {
	*mutant
	Outcome string `json:"outcome"`
	By      string `json:"by,omitempty"`     // the test that failed
	Tests   int    `json:"tests,omitempty"`  // how many reach it
	Reason  string `json:"reason,omitempty"` // why no test can kill it, from the committed list
}

// judge runs the tests that reach the mutant, the quickest first, until one fails.
func (r *runner) judge(ctx context.Context, m *mutant, suites []*suite) (result, error) {
	res := result{mutant: m, Outcome: unreached}
	var tests []*test
	for _, s := range suites {
		for _, t := range s.tests {
			if t.reached[m.ID] != 0 {
				tests = append(tests, t)
			}
		}
	}
	slices.SortStableFunc(tests, func(a, b *test) int { return cmp.Compare(a.seconds, b.seconds) })
	res.Tests = len(tests)
	if by, ok := r.before[m.Package+"\t"+m.key()]; ok {
		res.Outcome, res.By = killed, by
		return res, nil
	}
	for len(tests) > 0 {
		res.Outcome = survived
		batch, names, seconds := tests[0].suite, []string(nil), 0.0
		tests = slices.DeleteFunc(tests, func(t *test) bool {
			if t.suite != batch || len(names) > 0 && seconds+t.seconds > together {
				return false
			}
			names, seconds = append(names, t.name), seconds+t.seconds
			return true
		})
		limit := int(5*seconds) + r.patience
		_, out, err := r.process(ctx, batch, names, fmt.Sprintf("%s=%d", mutantenv.Active, m.ID),
			fmt.Sprintf("%s=%d", mutantenv.CPU, limit))
		if ctx.Err() != nil {
			return res, ctx.Err()
		}
		if err != nil {
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				return res, err
			}
			res.Outcome, res.By = killed, failed(out, names)
			return res, nil
		}
	}
	return res, nil
}

// failed names the test of which the output says that it failed.
func failed(out []byte, names []string) string {
	for line := range bytes.Lines(out) {
		if after, ok := bytes.CutPrefix(line, []byte("--- FAIL: ")); ok {
			name, _, _ := bytes.Cut(after, []byte(" "))
			return string(name)
		}
	}
	if len(names) == 1 {
		return names[0]
	}
	return "a crash or the time limit"
}

// all judges every mutant with so many processes at a time. Results are in the order of the mutants.
func (r *runner) all(ctx context.Context, mutants []*mutant, suites func(*mutant) []*suite, processes int) ([]result,
	error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]result, len(mutants))
	var done atomic.Int64
	var mu sync.Mutex
	// The first error ends ctx and is its cause.
	_ = orchestrator.Batch(ctx, processes, len(mutants), func(_, i int) error {
		res, err := r.judge(ctx, mutants[i], suites(mutants[i]))
		if err != nil {
			cancel(err)
			return err
		}
		results[i] = res
		if n := done.Add(1); n%25 == 0 || int(n) == len(mutants) {
			mu.Lock()
			fmt.Fprintf(r.progress, "%d of %d mutants judged\n", n, len(mutants))
			mu.Unlock()
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return results, nil
}
