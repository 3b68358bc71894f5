package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
)

// result is what an analysis said of one compliant session.
type result struct {
	view    *view
	seed    uint64
	frames  int
	verdict analyzers.Verdict
	err     error
	rules   map[string]int // violations by rule
	warned  map[string]int // warnings by rule
	example string
}

func check(fl *flag.FlagSet, args []string, out io.Writer) error {
	count := fl.Int("count", 20000, "sessions")
	seed := fl.Uint64("seed", 1, "of the first session; each has the next one")
	only := fl.String("view", "", "views, separated by commas; all if empty: each session gets one in turn")
	packets := fl.Int("packets", 800, "packets of the largest session")
	keep := fl.String("keep", "", "with -count 1: directory that keeps the captures")
	from := fl.String("source", "endpoints", "what makes the traffic: endpoints (random ones, written for this check) "+
		"or scenarios (of candela detect, NIC models without bugs)")
	configs := fl.String("configs", "configs", "directory of the tests that come with Candela")
	reopen := fl.Bool("reopen", false,
		"in pairs of captures some queue pairs are used again with other initial PSNs")
	limit := fl.Int("limit", -1,
		"sessions without the verdict pass that are an error if there are more; negative: any number is fine")
	workers := fl.Int("workers", runtime.NumCPU(), "goroutines")
	if err := fl.Parse(args); err != nil {
		return err
	}
	chosen, err := chosenViews(*only)
	if err != nil {
		return err
	}
	open, ok := sources[*from]
	if !ok {
		return fmt.Errorf("-source %q: want one of %s", *from, strings.Join(slices.Sorted(maps.Keys(sources)), ", "))
	}
	start := time.Now()
	results := make([]result, *count)
	var group sync.WaitGroup
	failures := make([]error, *workers)
	for w := range *workers {
		group.Go(func() {
			traffic := open(endpoints{*packets, *reopen}, *configs)
			for i := w; i < *count && failures[w] == nil; i += *workers {
				s := *seed + uint64(i)
				results[i], failures[w] = checkOne(traffic, chosen[s%uint64(len(chosen))], s, *keep)
			}
			failures[w] = errors.Join(failures[w], traffic.close())
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	summary(out, results)
	fmt.Fprintf(out, "%d sessions from seed %d, %.1f s\n", *count, *seed, time.Since(start).Seconds())
	blamed := 0
	for i := range results {
		if results[i].alarm() {
			blamed++
		}
	}
	if *limit >= 0 && blamed > *limit {
		return fmt.Errorf("%d of %d compliant sessions do not pass, -limit allows %d", blamed, *count, *limit)
	}
	return nil
}

func chosenViews(only string) ([]view, error) {
	if only == "" {
		return views, nil
	}
	var list []view
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(views, func(v view) bool { return v.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-view %q: unknown view", name)
		}
		list = append(list, views[i])
	}
	return list, nil
}

// checkOne makes one session of compliant endpoints, captures it in a view and analyses the captures.
func checkOne(from source, v view, seed uint64, keep string) (_ result, err error) {
	rng := rand.New(rand.NewPCG(seed, 0x636865636b))
	s, verdict, err := from.draw(rng, seed, &v)
	if err != nil {
		return result{}, fmt.Errorf("seed %d: %w", seed, err)
	}
	r := result{view: &v, seed: seed, frames: s.Frames(), rules: map[string]int{}, warned: map[string]int{}}
	if verdict != nil && v.name == mirrorView {
		r.add(verdict)
		return r, nil
	}
	dir := keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "oracle-"); err != nil {
			return result{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	o, err := v.write(rng, s, dir)
	if err != nil {
		return r, err
	}
	outcome, err := orchestrator.Analyze(context.Background(), o)
	if err != nil {
		r.err = err
		return r, nil
	}
	r.add(outcome)
	return r, nil
}

// alarm reports whether the analysis of a compliant session is wrong.
func (r *result) alarm() bool {
	switch {
	case r.view.partial:
		return r.verdict == analyzers.Fail
	}
	return r.verdict != analyzers.Pass
}

// add takes in what an analysis says.
func (r *result) add(outcome *orchestrator.Outcome) {
	r.verdict = outcome.Analysis.Verdict
	for _, f := range outcome.Analysis.Findings {
		switch f.Severity {
		case analyzers.Violation:
			if r.rules[f.Rule]++; r.example == "" {
				r.example = fmt.Sprintf("%s connection %d %v: expected %s; actual %s", f.Rule, f.Connection, f.Packets, f.Expected,
					f.Actual)
			}
		case analyzers.Warning:
			r.warned[f.Rule]++
		case analyzers.Note:
		}
	}
}

func summary(out io.Writer, results []result) {
	byView := map[string][]result{}
	for _, r := range results {
		byView[r.view.name] = append(byView[r.view.name], r)
	}
	fmt.Fprintf(out, "%-12s %8s %9s %6s %6s %8s %7s %6s\n", "view", "sessions", "packets", "pass", "fail", "invalid",
		"errors", "warned")
	for _, name := range slices.Sorted(maps.Keys(byView)) {
		list := byView[name]
		var frames, errs, warned int
		verdicts := map[analyzers.Verdict]int{}
		for _, r := range list {
			frames += r.frames
			if r.err != nil {
				errs++
				continue
			}
			verdicts[r.verdict]++
			if len(r.warned) > 0 {
				warned++
			}
		}
		fmt.Fprintf(out, "%-12s %8d %9d %6d %6d %8d %7d %6d\n", name, len(list), frames, verdicts[analyzers.Pass],
			verdicts[analyzers.Fail],
			verdicts[analyzers.Invalid], errs, warned)
	}
	for _, name := range slices.Sorted(maps.Keys(byView)) {
		complaints(out, name, byView[name])
	}
}

// complaints lists what was wrong in one view, with the seed that shows it in the fewest packets.
func complaints(out io.Writer, view string, list []result) {
	type complaint struct {
		count int
		seed  uint64
		least int
		text  string
	}
	all := map[string]*complaint{}
	note := func(what string, r *result, text string) {
		c := all[what]
		if c == nil {
			c = &complaint{least: 1 << 30}
			all[what] = c
		}
		if c.count++; r.frames < c.least {
			c.seed, c.least, c.text = r.seed, r.frames, text
		}
	}
	for i := range list {
		r := &list[i]
		switch {
		case r.err != nil:
			note("error", r, r.err.Error())
		case r.verdict == analyzers.Invalid:
			note("invalid", r, "")
		}
		for rule := range r.rules {
			note("violation "+rule, r, r.example)
		}
		for rule := range r.warned {
			note("warning "+rule, r, "")
		}
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b].count, all[a].count), cmp.Compare(a, b))
	})
	for _, what := range names {
		c := all[what]
		fmt.Fprintf(out, "%s: %s in %d sessions; smallest: -view %s -seed %d -count 1 (%d packets) %s\n",
			view, what, c.count, view, c.seed, c.least, c.text)
	}
}
