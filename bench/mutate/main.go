// Command mutate measures how many small changes of a package its tests notice. It writes all mutants into one build,
// switched by the environment, and runs for each mutant only the tests that reach it. See docs/internals/mutation.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type options struct {
	packages string
	count    int
	seed     uint64
	reasons  string
	json     string
	only     string
	resume   string
	procs    int
	minimum  float64
	short    bool
	patience int
	slowest  float64
	limit    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	fl := flag.NewFlagSet("mutate", flag.ContinueOnError)
	fl.SetOutput(stderr)
	fl.StringVar(&o.packages, "packages", "",
		"packages to change, with commas between them: PACKAGE[+TESTS...], where TESTS are packages whose tests run, too")
	fl.IntVar(&o.count, "count", 300, "mutants to draw of each package; 0 takes all")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of the draw")
	fl.StringVar(&o.reasons, "reasons", "", "file of survivors with reasons")
	fl.StringVar(&o.json, "json", "", "file to write every result to")
	fl.StringVar(&o.only, "only", "",
		"run only mutants whose key or file:line contains this text; the score is then of these")
	fl.StringVar(&o.resume, "resume", "", "results of an earlier run, by -json: what was killed then is not run again")
	fl.IntVar(&o.procs, "processes", 1, "test processes at a time")
	fl.Float64Var(&o.minimum, "minimum", 0,
		"lowest share of killed mutants that passes, such as 0.85, for each package, without those that have a reason")
	fl.BoolVar(&o.short, "short", false, "run the tests with -short")
	fl.IntVar(&o.patience, "patience", 2,
		"seconds of processor time that a mutant may use beyond five times what its tests need; more kills it")
	fl.Float64Var(&o.slowest, "slowest", 10,
		"seconds of processor time of the slowest test that judges; others are left out")
	fl.DurationVar(&o.limit, "limit", 2*time.Hour, "longest run")
	if err := fl.Parse(args); err != nil {
		return 2
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("not done after %v", o.limit))
	defer cancel()
	passed, err := mutate(ctx, o, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "mutate: %v\n", err)
		return 2
	}
	if !passed {
		return 1
	}
	return 0
}

// A target is a package and the packages whose tests judge its mutants.
type target struct {
	pattern string
	suites  []string
	source  *source
	all     []*mutant
	chosen  []*mutant
}

func targets(ctx context.Context, root, packages string) ([]*target, error) {
	if packages == "" {
		return nil, errors.New("want -packages, such as ./analyzers/gbn,./trace")
	}
	var list []*target
	for item := range strings.SplitSeq(packages, ",") {
		parts := strings.Split(item, "+")
		t := &target{pattern: parts[0]}
		for _, p := range parts {
			path, err := output(ctx, root, "go", "list", p)
			if err != nil {
				return nil, err
			}
			t.suites = append(t.suites, path)
		}
		sources, err := load(ctx, root, parts[:1])
		if err != nil {
			return nil, err
		}
		if len(sources) != 1 {
			return nil, fmt.Errorf("%s names %d packages, want one", parts[0], len(sources))
		}
		t.source = sources[0]
		list = append(list, t)
	}
	return list, nil
}

func mutate(ctx context.Context, o options, stdout, stderr io.Writer) (enough bool, err error) {
	root, err := output(ctx, ".", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return false, err
	}
	reasons := map[string]map[string]string{}
	if o.reasons != "" {
		if reasons, err = readReasons(o.reasons); err != nil {
			return false, err
		}
	}
	list, err := targets(ctx, ".", o.packages)
	if err != nil {
		return false, err
	}
	texts, mutants, err := write(list, o)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(stderr, "%d mutants\n", len(mutants))
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	results, err := measure(ctx, o, list, texts, mutants, tmp, stderr)
	if err != nil {
		return false, err
	}
	rep, passed := report{Seed: o.seed}, true
	for _, t := range list {
		mine := slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.Package != t.source.Path })
		p := summarise(t.source.Path, t.all, mine, reasons[t.source.Path])
		p.Results = mine
		p.print(stdout, root)
		passed = passed && p.Net >= o.minimum && len(p.Stale) == 0
		rep.Packages = append(rep.Packages, p)
	}
	if o.json != "" {
		return passed, rep.write(o.json)
	}
	return passed, nil
}

// write draws the mutants, numbers them and writes them into the files of their packages.
func write(list []*target, o options) (map[string][]byte, []*mutant, error) {
	texts := map[string][]byte{}
	var mutants []*mutant
	for _, t := range list {
		// A mutant that does not compile must not be drawn.
		all, _, err := t.source.compile(find(t.source))
		if err != nil {
			return nil, nil, err
		}
		t.all, t.chosen = all, sample(all, o.count, o.seed)
		if o.only != "" {
			t.chosen = slices.DeleteFunc(slices.Clone(t.chosen), func(m *mutant) bool {
				return !strings.Contains(m.key(), o.only) && !strings.Contains(fmt.Sprintf("%s:%d", m.File, m.Line), o.only)
			})
		}
		for _, m := range t.chosen {
			m.ID = len(mutants)
			mutants = append(mutants, m)
		}
		compiled, written, err := t.source.compile(t.chosen)
		if err != nil {
			return nil, nil, err
		}
		if len(compiled) != len(t.chosen) {
			return nil, nil, fmt.Errorf("package %s: %d mutants compile only beside others", t.source.Path,
				len(t.chosen)-len(compiled))
		}
		maps.Copy(texts, written)
	}
	if len(mutants) == 0 {
		return nil, nil, errors.New("no mutants")
	}
	return texts, mutants, nil
}

func measure(ctx context.Context, o options, list []*target, texts map[string][]byte, mutants []*mutant, tmp string,
	stderr io.Writer) ([]result, error) {
	var paths []string
	for _, t := range list {
		for _, p := range t.suites {
			if !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	suites, err := build(ctx, ".", tmp, texts, paths)
	if err != nil {
		return nil, err
	}
	r := &runner{short: o.short, slowest: o.slowest, patience: max(1, o.patience), progress: stderr, tmp: tmp}
	if o.resume != "" {
		if r.before, err = readKilled(o.resume); err != nil {
			return nil, err
		}
	}
	byPath := map[string]*suite{}
	for _, s := range suites {
		fmt.Fprintf(stderr, "running %s without a mutant\n", filepath.Base(s.Path))
		if err := r.reach(ctx, s, len(mutants)); err != nil {
			return nil, err
		}
		byPath[s.Path] = s
	}
	bySource := map[string][]*suite{}
	for _, t := range list {
		for _, p := range t.suites {
			if s := byPath[p]; s != nil {
				bySource[t.source.Path] = append(bySource[t.source.Path], s)
			}
		}
	}
	return r.all(ctx, mutants, func(m *mutant) []*suite { return bySource[m.Package] }, max(1, o.procs))
}
