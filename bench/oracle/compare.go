package main

import (
	"cmp"
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

func compare(fl *flag.FlagSet, args []string, out io.Writer) error {
	count := fl.Int("count", 10000, "traces")
	seed := fl.Uint64("seed", 1, "of the random traces")
	examples := fl.Int("examples", 2, "printed of each class")
	limit := fl.Int("limit", -1, "disagreements that are an error if there are more; negative: any number is fine")
	alarms := fl.Int("false-alarms", -1, "false alarms and too severe findings that are an error if there are more; negative: any number is fine")
	views := fl.String("view", "", "kinds of tap, with commas between them: "+strings.Join(comparison.Taps(), ", ")+"; default all")
	workers := fl.Int("workers", runtime.NumCPU(), "goroutines")
	if err := fl.Parse(args); err != nil {
		return err
	}
	taps, err := comparison.ParseTaps(*views)
	if err != nil {
		return fmt.Errorf("-view: %w", err)
	}
	start := time.Now()
	var (
		group   sync.WaitGroup
		mu      sync.Mutex
		classes = map[string]*tally{}
		firstly error
	)
	for w := range *workers {
		group.Go(func() {
			judge := comparison.Analyzers()
			for i := w; i < *count; i += *workers {
				t := comparison.DrawSeenBy(rand.New(rand.NewPCG(*seed, uint64(i))), taps)
				list, err := comparison.Compare(t, judge)
				mu.Lock()
				if err != nil && firstly == nil {
					firstly = fmt.Errorf("trace %d: %w", i, err)
				}
				for _, d := range list {
					c := classes[d.Class()]
					if c == nil {
						c = &tally{}
						classes[d.Class()] = c
					}
					if c.count++; len(c.examples) < 4*(*examples) {
						c.examples = append(c.examples, d)
					}
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if firstly != nil {
		return firstly
	}
	report(out, classes, *examples)
	fmt.Fprintf(out, "oracle: %v a trace in the median, both endpoints\n", median(*seed))
	fmt.Fprintf(out, "%d traces, seed %d, %.1f s\n", *count, *seed, time.Since(start).Seconds())
	total, unjust := 0, 0
	for _, c := range classes {
		total += c.count
		if c.examples[0].Unjust() {
			unjust += c.count
		}
	}
	fmt.Fprintf(out, "%d disagreements, of which %d are false alarms or too severe\n", total, unjust)
	if *limit >= 0 && total > *limit {
		return fmt.Errorf("%d disagreements, of which -limit allows %d", total, *limit)
	}
	if *alarms >= 0 && unjust > *alarms {
		return fmt.Errorf("%d false alarms or too severe findings, of which -false-alarms allows %d", unjust, *alarms)
	}
	return nil
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

func report(out io.Writer, classes map[string]*tally, examples int) {
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
	judge := comparison.Analyzers()
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
