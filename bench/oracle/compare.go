package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
)

// tally counts the disagreements of one class and keeps the smallest examples.
type tally struct {
	count    int
	examples []comparison.Disagreement
}

// tallies are the disagreements by class, and their numbers by family of traces.
type tallies struct {
	mu       sync.Mutex
	examples int // kept of each class
	classes  map[string]*tally
	traces   [comparison.Families]int
	counts   [comparison.Families]comparison.Counts
	failure  error // the first
}

func (a *tallies) add(family comparison.Family, list []comparison.Disagreement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.traces[family]++
	for _, d := range list {
		a.counts[family].Disagreements++
		if d.Unjust() {
			a.counts[family].Unjust++
		}
		c := a.classes[d.Class()]
		if c == nil {
			c = &tally{}
			a.classes[d.Class()] = c
		}
		if c.count++; len(c.examples) < 4*a.examples {
			c.examples = append(c.examples, d)
		}
	}
}

func (a *tallies) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure == nil {
		a.failure = err
	}
}

func (a *tallies) sum() (c comparison.Counts) {
	for _, n := range a.counts {
		c.Disagreements += n.Disagreements
		c.Unjust += n.Unjust
	}
	return c
}

func compare(fl *flag.FlagSet, args []string, out io.Writer) error {
	return compareWith(comparison.Analyzers, fl, args, out)
}

// compareWith compares the oracle with what newJudge returns for each goroutine.
func compareWith(newJudge func() comparison.Judge, fl *flag.FlagSet, args []string, out io.Writer) error {
	count := fl.Int("count", 10000, "traces")
	first := fl.Int("first", 0, "number of the first trace of the seed")
	seed := fl.Uint64("seed", 1, "of the random traces")
	examples := fl.Int("examples", 2, "printed of each class")
	limit := fl.Int("limit", -1, "disagreements that are an error if there are more; negative: any number is fine")
	alarms := fl.Int("false-alarms", -1,
		"false alarms and too severe findings that are an error if there are more; negative: any number is fine")
	perFamily := fl.String("limits", "",
		"the same for each family of traces: FAMILY=DISAGREEMENTS/UNJUST with commas between "+
			"them; families that are not named may have none")
	views := fl.String("view", "", "kinds of tap, with commas between them: "+strings.Join(comparison.Taps(), ", ")+
		"; default all but the last two")
	workers := fl.Int("workers", runtime.NumCPU(), "goroutines")
	if err := fl.Parse(args); err != nil {
		return err
	}
	taps, err := comparison.ParseTaps(*views)
	if err != nil {
		return fmt.Errorf("-view: %w", err)
	}
	limits, err := comparison.ParseLimits(*perFamily)
	if err != nil {
		return fmt.Errorf("-limits: %w", err)
	}
	start := time.Now()
	all := &tallies{examples: *examples, classes: map[string]*tally{}}
	var group sync.WaitGroup
	for w := range *workers {
		group.Go(func() {
			judge := newJudge()
			for i := *first + w; i < *first+*count; i += *workers {
				t, family := comparison.DrawSeenBy(rand.New(rand.NewPCG(*seed, uint64(i))), taps)
				list, err := comparison.Compare(t, judge)
				if err != nil {
					all.fail(fmt.Errorf("trace %d: %w", i, err))
					return
				}
				all.add(family, list)
			}
		})
	}
	group.Wait()
	if all.failure != nil {
		return all.failure
	}
	report(out, all.classes, *examples, newJudge())
	fmt.Fprintf(out, "oracle: %v a trace in the median, both endpoints\n", median(*seed))
	fmt.Fprintf(out, "%d traces, seed %d, %.1f s\n", *count, *seed, time.Since(start).Seconds())
	for f := range comparison.Families {
		fmt.Fprintf(out, "%-10v %7d traces, %d disagreements, of which %d are false alarms or too severe\n",
			f, all.traces[f], all.counts[f].Disagreements, all.counts[f].Unjust)
	}
	sum := all.sum()
	fmt.Fprintf(out, "%d disagreements, of which %d are false alarms or too severe\n", sum.Disagreements, sum.Unjust)
	if *limit >= 0 && sum.Disagreements > *limit {
		return fmt.Errorf("%d disagreements, of which -limit allows %d", sum.Disagreements, *limit)
	}
	if *alarms >= 0 && sum.Unjust > *alarms {
		return fmt.Errorf("%d false alarms or too severe findings, of which -false-alarms allows %d", sum.Unjust, *alarms)
	}
	if *perFamily == "" {
		return nil
	}
	return all.within(limits)
}

// within reports the families that disagree more often than their limits allow.
func (a *tallies) within(limits map[comparison.Family]comparison.Counts) error {
	var errs []error
	for f := range comparison.Families {
		got, most := a.counts[f], limits[f]
		if got.Disagreements > most.Disagreements || got.Unjust > most.Unjust {
			errs = append(errs, fmt.Errorf("%v: %d disagreements, %d of them false alarms or too severe; -limits allows %d/%d",
				f, got.Disagreements, got.Unjust, most.Disagreements, most.Unjust))
		}
	}
	return errors.Join(errs...)
}

// median returns how long the oracle takes for a trace.
func median(seed uint64) time.Duration {
	times := make([]time.Duration, 2001)
	for i := range times {
		t := comparison.Draw(rand.New(rand.NewPCG(seed, uint64(i))))
		start := time.Now()
		oracle.Decide(t, oracle.Requester)
		oracle.Decide(t, oracle.Responder)
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times[len(times)/2]
}

func report(out io.Writer, classes map[string]*tally, examples int, judge comparison.Judge) {
	names := make([]string, 0, len(classes))
	for name := range classes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(classes[b].count, classes[a].count), cmp.Compare(a, b))
	})
	total := 0
	for _, name := range names {
		fmt.Fprintf(out, "%7d  %s\n", classes[name].count, name)
		total += classes[name].count
	}
	fmt.Fprintf(out, "%7d  disagreements in all\n", total)
	for _, name := range names {
		list := classes[name].examples
		for i := range list {
			list[i] = comparison.Minimise(list[i], judge)
		}
		slices.SortStableFunc(list, func(a, b comparison.Disagreement) int {
			return cmp.Compare(len(a.Trace.Packets), len(b.Trace.Packets))
		})
		fmt.Fprintf(out, "\n## %s (%d)\n", name, classes[name].count)
		seen := map[string]bool{}
		for _, d := range list {
			text := d.Trace.String()
			if seen[text] || len(seen) >= examples {
				continue
			}
			seen[text] = true
			fmt.Fprintf(out, "\n%soracle: %v %v, at packet %d\n", text, d.Endpoint, d.Oracle.Verdict, d.Oracle.At+1)
			for _, f := range d.Findings {
				fmt.Fprintf(out, "  %s %s %v: expected %s; actual %s\n", f.Severity, f.Rule, f.Packets, f.Expected, f.Actual)
			}
		}
	}
}
