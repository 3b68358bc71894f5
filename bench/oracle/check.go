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
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/trace"
)

// view is one way to watch a session.
type view struct {
	name      string
	equalIPSN bool
	write     writer
}

// writer makes the captures of a session in dir and returns how to analyse them.
type writer func(rng *rand.Rand, s *traffic.Session, dir string) (orchestrator.AnalyzeOptions, error)

var views = []view{
	{name: "mirror", write: func(_ *rand.Rand, s *traffic.Session, dir string) (o orchestrator.AnalyzeOptions, err error) {
		o.Trace, o.Connections, o.Format = filepath.Join(dir, "trace.pcap"), filepath.Join(dir, "connections.json"), trace.FormatMirror
		return o, errors.Join(save(o.Trace, s.WriteMirror), save(o.Connections, s.WriteConnections))
	}},
	{name: "plain", write: plain(traffic.Tap{})},
	{name: "pair", write: pair(trace.PlacementUnknown, traffic.AtSwitch, traffic.BehindIt, "before.pcap", "after.pcap")},
	{name: "hosts", write: pair(trace.PlacementUnknown, traffic.AtRequester, traffic.AtResponder, "requester.pcap", "responder.pcap")},
	{name: "hosts-named", write: pair(trace.PlacementHosts, traffic.AtRequester, traffic.AtResponder, "requester.pcap", "responder.pcap")},
	{name: "missing", write: plain(traffic.Tap{Missing: 0.03})},
	{name: "doubled", write: plain(traffic.Tap{Doubled: true})},
	{name: "routed", write: plain(traffic.Tap{Doubled: true, Routed: true})},
	{name: "ipsn0", equalIPSN: true, write: plain(traffic.Tap{})},
}

// plain is one capture, in every other session with the connections document.
func plain(tap traffic.Tap) writer {
	return func(rng *rand.Rand, s *traffic.Session, dir string) (o orchestrator.AnalyzeOptions, err error) {
		o.Trace = filepath.Join(dir, "capture.pcap")
		seed := rng.Uint64()
		if rng.IntN(2) == 0 {
			o.Connections = filepath.Join(dir, "connections.json")
			err = save(o.Connections, s.WriteConnections)
		}
		return o, errors.Join(err, save(o.Trace, func(w io.Writer) error { return s.Write(w, seed, tap) }))
	}
}

// pair is two captures with clocks of their own: up to 1 s and 100 ppm apart.
func pair(placement trace.Placement, first, second traffic.Place, names ...string) writer {
	return func(rng *rand.Rand, s *traffic.Session, dir string) (o orchestrator.AnalyzeOptions, err error) {
		o.Trace, o.Second, o.Placement = filepath.Join(dir, names[0]), filepath.Join(dir, names[1]), placement
		clock := traffic.Tap{Place: second, OffsetNS: rng.Int64N(2_000_000_001) - 1_000_000_000, DriftPPM: 200*rng.Float64() - 100}
		return o, errors.Join(
			save(o.Trace, func(w io.Writer) error { return s.Write(w, 1, traffic.Tap{Place: first}) }),
			save(o.Second, func(w io.Writer) error { return s.Write(w, 2, clock) }))
	}
}

func save(path string, write func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// result is what an analysis said of one compliant session.
type result struct {
	view    string
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
	limit := fl.Int("limit", -1, "sessions without the verdict pass that are an error if there are more; negative: any number is fine")
	workers := fl.Int("workers", runtime.NumCPU(), "goroutines")
	if err := fl.Parse(args); err != nil {
		return err
	}
	chosen, err := chosenViews(*only)
	if err != nil {
		return err
	}
	start := time.Now()
	results := make([]result, *count)
	var group sync.WaitGroup
	failures := make([]error, *workers)
	for w := range *workers {
		group.Go(func() {
			for i := w; i < *count && failures[w] == nil; i += *workers {
				s := *seed + uint64(i)
				results[i], failures[w] = checkOne(chosen[s%uint64(len(chosen))], s, *packets, *keep)
			}
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	summary(out, results)
	fmt.Fprintf(out, "%d sessions from seed %d, %.1f s\n", *count, *seed, time.Since(start).Seconds())
	blamed := 0
	for _, r := range results {
		if r.verdict != analyzers.Pass {
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

// checkOne simulates one session of compliant endpoints, lets taps watch it and analyses what they saw.
func checkOne(v view, seed uint64, packets int, keep string) (_ result, err error) {
	rng := rand.New(rand.NewPCG(seed, 0x636865636b))
	s := session(rng, packets, v.equalIPSN)
	dir := keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "oracle-"); err != nil {
			return result{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	r := result{view: v.name, seed: seed, frames: s.Frames(), rules: map[string]int{}, warned: map[string]int{}}
	o, err := v.write(rng, s, dir)
	if err != nil {
		return r, err
	}
	outcome, err := orchestrator.Analyze(context.Background(), o)
	if err != nil {
		r.err = err
		return r, nil
	}
	r.verdict = outcome.Analysis.Verdict
	for _, f := range outcome.Analysis.Findings {
		switch f.Severity {
		case analyzers.Violation:
			if r.rules[f.Rule]++; r.example == "" {
				r.example = fmt.Sprintf("%s connection %d %v: expected %s; actual %s", f.Rule, f.Connection, f.Packets, f.Expected, f.Actual)
			}
		case analyzers.Warning:
			r.warned[f.Rule]++
		case analyzers.Note:
		}
	}
	return r, nil
}

// session draws the traffic of compliant endpoints until every message completes.
func session(rng *rand.Rand, packets int, equalIPSN bool) *traffic.Session {
	for {
		sc := traffic.Scenario{
			Packets: 1 + rng.IntN(12), Window: 1 + rng.IntN(32), Reads: 1 + rng.IntN(4), Verbs: traffic.Verbs(1 + rng.IntN(int(traffic.All))),
			DelayMin: 300, DelayMax: 300 + rng.Int64N(5000), Transit: 300 + rng.Int64N(2000), ProcessMax: 100 + rng.Int64N(4000),
			TimeoutNS: 4096 << (8 + rng.IntN(7)), Retry: 7, RNRRetry: 7,
		}
		if rng.IntN(4) > 0 {
			sc.Loss = 0.03 * rng.Float64()
		}
		if rng.IntN(4) == 0 {
			sc.NotReady = 0.02 * rng.Float64()
		}
		s := traffic.NewSession(rng.Uint64(), traffic.Options{
			Connections: 1 + rng.IntN(8), Packets: 40 + rng.IntN(max(1, packets-40)), EqualIPSN: equalIPSN, Scenario: sc,
		})
		if s.Settled {
			return s
		}
	}
}

func summary(out io.Writer, results []result) {
	byView := map[string][]result{}
	for _, r := range results {
		byView[r.view] = append(byView[r.view], r)
	}
	fmt.Fprintf(out, "%-12s %8s %9s %6s %6s %8s %7s %6s\n", "view", "sessions", "packets", "pass", "fail", "invalid", "errors", "warned")
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
		fmt.Fprintf(out, "%-12s %8d %9d %6d %6d %8d %7d %6d\n", name, len(list), frames, verdicts[analyzers.Pass], verdicts[analyzers.Fail],
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
