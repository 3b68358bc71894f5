// Package exploration looks for tests that drive protocol machines to new transitions: it changes tests at random,
// keeps those that take a transition of an analyzer's machine for the first time, and continues from them. Every run is
// judged; a violation is a failure to report. An exploration is a function of base test, corpus, seed and number of
// runs.
package exploration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
)

// batchSize is how many tests are drawn before their outcomes count. It is constant, so that the result does not depend
// on how many run concurrently.
const batchSize = 32

// Options say how to explore.
type Options struct {
	Seed    uint64
	Runs    int                // at most; 0: until the context ends
	Runners []reduction.Runner // each used by one goroutine at a time; at least one
	// Kept is called with each test that reached something new, Failed with the first run that violates each rule, both by
	// the caller's goroutine. An error ends the exploration.
	Kept   func(t *config.Test, reached []string) error
	Failed func(t *config.Test, f analyzers.Finding) error
	// Ran is called with the number of finished runs, by the same goroutine; may be nil.
	Ran func(runs int)
}

// Explorer holds what has been reached so far.
type Explorer struct {
	o       Options
	rand    *rand.Rand
	corpus  []*config.Test
	covered map[string]bool // every transition that the analyzers declare, and whether it was reached
	rules   map[string]bool // violated by some run
	runs    int
}

// New returns an Explorer that starts from base, without base's expectations, which apply to its events only.
func New(base *config.Test, o Options) *Explorer {
	t := *base
	t.Expect = config.Expect{}
	t.Point = nil
	t.Testbed = withFewShards(t.Testbed)
	repair(&t)
	return &Explorer{
		o: o, rand: rand.New(rand.NewPCG(o.Seed, 0xf022)), corpus: []*config.Test{&t},
		covered: make(map[string]bool), rules: make(map[string]bool),
	}
}

// withFewShards lets every dumper record with one core. A few packets need no more, and empty shards would take a good
// part of the time of a run. The recording is the same.
func withFewShards(bed *config.Testbed) *config.Testbed {
	c := *bed
	c.Dumpers = slices.Clone(c.Dumpers)
	for i := range c.Dumpers {
		c.Dumpers[i].Cores = 1
	}
	return &c
}

// Resume runs the tests of an earlier exploration, whose coverage then counts as reached. New tests continue the random
// sequence at a place that depends on their number, so that the beginning is not repeated.
func (e *Explorer) Resume(ctx context.Context, tests []*config.Test) error {
	if len(tests) == 0 {
		return nil
	}
	e.rand = rand.New(rand.NewPCG(e.o.Seed, 0xf022+uint64(len(tests))))
	for part := range slices.Chunk(tests, batchSize) {
		outcomes, err := e.runAll(ctx, part)
		if err != nil {
			return err
		}
		for i, o := range outcomes {
			e.reach(o)
			e.corpus = append(e.corpus, part[i])
		}
	}
	return nil
}

// Explore runs tests until the number of runs is reached or ctx ends, which is not an error.
func (e *Explorer) Explore(ctx context.Context) error {
	batch, err := starts(e.corpus[0])
	if err != nil {
		return err
	}
	for ; len(batch) > 0 && ctx.Err() == nil; batch = e.draw() {
		outcomes, err := e.runAll(ctx, batch)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for i, o := range outcomes {
			if err := e.judge(ctx, batch[i], o); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// draw returns the next tests.
func (e *Explorer) draw() []*config.Test {
	n := batchSize
	if e.o.Runs > 0 {
		n = min(n, e.o.Runs-e.runs)
	}
	var batch []*config.Test
	for range n {
		// The latest finds are the most promising: half of the parents come from the last eighth.
		from := 0
		if e.rand.IntN(2) == 0 {
			from = len(e.corpus) - 1 - len(e.corpus)/8
		}
		batch = append(batch, mutate(e.rand, e.corpus[from+e.rand.IntN(len(e.corpus)-from)]))
	}
	return batch
}

// runAll runs tests on all runners and returns their outcomes in the order of the tests.
func (e *Explorer) runAll(ctx context.Context, tests []*config.Test) ([]*orchestrator.Outcome, error) {
	outcomes, errs := make([]*orchestrator.Outcome, len(tests)), make([]error, len(tests))
	ended := orchestrator.Batch(ctx, len(e.o.Runners), len(tests), func(worker, i int) error {
		outcomes[i], errs[i] = e.o.Runners[worker](ctx, tests[i])
		return nil
	})
	e.runs += len(tests)
	if e.o.Ran != nil {
		e.o.Ran(e.runs)
	}
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("run %d: %w\n%s", e.runs-len(tests)+i+1, err, tests[i].YAML())
		}
	}
	return outcomes, ended
}

// judge notes what a run reached and broke.
func (e *Explorer) judge(ctx context.Context, t *config.Test, o *orchestrator.Outcome) error {
	if o.Analysis == nil {
		return nil // without integrity nothing counts
	}
	if reached := e.reach(o); len(reached) > 0 {
		e.corpus = append(e.corpus, t)
		if e.o.Kept != nil {
			if err := e.o.Kept(t, reached); err != nil {
				return err
			}
		}
	}
	t, o, err := forgive(ctx, t, o, e.o.Runners[0])
	if err != nil || o.Analysis == nil {
		return err
	}
	for _, f := range o.Analysis.Findings {
		if f.Severity != analyzers.Violation || e.rules[f.Rule] {
			continue
		}
		e.rules[f.Rule] = true
		if e.o.Failed != nil {
			if err := e.o.Failed(t, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// reach marks the transitions that a run took and returns those that are new, sorted.
func (e *Explorer) reach(o *orchestrator.Outcome) []string {
	if o.Analysis == nil {
		return nil
	}
	var reached []string
	for analyzer, transitions := range o.Analysis.Coverage {
		for name, n := range transitions {
			key := analyzer + "/" + name
			if n > 0 && !e.covered[key] {
				reached = append(reached, key)
			}
			e.covered[key] = e.covered[key] || n > 0
		}
	}
	slices.Sort(reached)
	return reached
}

// Report is what an exploration came to.
type Report struct {
	Runs      int
	Corpus    int      // tests, the base included
	Covered   int      // transitions taken
	Reachable int      // transitions that can be taken here, the covered ones included
	Declared  int      // transitions that analyzers know
	Missing   []string // reachable transitions that no run took, sorted
	Blocked   []Blocked
	// Contradicted are covered transitions that the table of obstacles takes for out of reach.
	Contradicted []string
	Rules        []string // violated, sorted
}

// Blocked are transitions that can't be taken here, sorted, and why.
type Blocked struct {
	Obstacle
	Names []string
}

// Report returns what has been reached so far.
func (e *Explorer) Report() Report {
	r := Report{Runs: e.runs, Corpus: len(e.corpus), Declared: len(e.covered), Rules: slices.Sorted(maps.Keys(e.rules))}
	obstacles := Obstacles()
	blocked := make(map[string]*Blocked)
	for _, name := range slices.Sorted(maps.Keys(e.covered)) {
		o := obstacle(obstacles, name)
		switch {
		case e.covered[name]:
			r.Covered++
			if o != nil {
				r.Contradicted = append(r.Contradicted, name)
			}
		case o == nil:
			r.Missing = append(r.Missing, name)
		default:
			b := blocked[o.Transitions]
			if b == nil {
				b = &Blocked{Obstacle: *o}
				blocked[o.Transitions] = b
			}
			b.Names = append(b.Names, name)
		}
	}
	for i := range obstacles {
		if b := blocked[obstacles[i].Transitions]; b != nil {
			r.Blocked = append(r.Blocked, *b)
		}
	}
	r.Reachable = r.Covered + len(r.Missing)
	return r
}
