package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/exploration"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/report/site"
)

// fuzzFlags are the options of candela fuzz.
type fuzzFlags struct {
	time    time.Duration
	runs    int
	seed    uint64
	corpus  string
	verbose bool
	report  string
	line    string // the command line
}

func newFuzz() *cobra.Command {
	var f fuzzFlags
	cmd := &cobra.Command{
		Use:   "fuzz CONFIG",
		Short: "Look for events that reach new protocol states or break a rule",
		Long: `Change a test at random (events, iters, verbs, sizes, timeouts). A test that
takes a transition of an analyzer's state machine for the first time is kept in
the corpus, and changed further. Every run is judged. The first run that
violates a rule is minimized and saved in the corpus as a bug report: the
smallest test, a bundle for candela replay, and a description.

A later call continues with the corpus. With --runs, the same test, seed and
corpus give the same results.

The exit status is 1 if a rule was violated.`,
		Example: `  candela fuzz configs/quickstart.yml
  candela fuzz configs/quickstart.yml --runs 2000 --seed 7 --corpus /tmp/corpus`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.line = commandLine(cmd, args)
			if f.runs < 0 || f.time <= 0 {
				return fmt.Errorf("--runs %d, --time %v: want --runs of at least 0 and --time above 0", f.runs, f.time)
			}
			if f.runs > 0 && !cmd.Flags().Changed("time") {
				f.time = 0 // with --runs alone results do not depend on the machine
			}
			return fuzz(cmd, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.DurationVar(&f.time, "time", time.Minute, "longest time; no limit if --runs is given")
	fl.IntVar(&f.runs, "runs", 0, "most runs; 0: as many as the time allows")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of all random choices")
	reportFlag(cmd, &f.report)
	fl.StringVar(&f.corpus, "corpus", "corpus", "directory for tests that reached new transitions and for bug reports")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "print each transition when it is reached first")
	return cmd
}

// loadBase reads the test that fuzzing varies.
func loadBase(file string) (*config.Test, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if config.IsSwitchTest(data) {
		return nil, fmt.Errorf("%s is a test of a switch; candela fuzz takes tests of NICs, as configs/quickstart.yml", file)
	}
	base, err := config.Load(file, configOptions(""))
	if err != nil {
		return nil, err
	}
	return base, plan.Unambiguous([]*config.Test{base}, data)
}

func fuzz(cmd *cobra.Command, file string, f fuzzFlags) (err error) {
	base, err := loadBase(file)
	if err != nil {
		return err
	}
	store := &exploration.Store{
		Dir: f.corpus, Config: configOptions(""), Build: buildTestbed, Version: toolVersion(), Command: toolName(),
	}
	tests, err := store.Load()
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	var all []*scratch
	var runners []reduction.Runner
	for range runtime.GOMAXPROCS(0) {
		s := newScratch()
		all, runners = append(all, s), append(runners, s.Run)
	}
	defer func() { err = errors.Join(err, closeAll(all)) }()
	ctx := cmd.Context()
	if f.time > 0 {
		// Not a deadline: requests to the injector would fail with it before ctx has a cause.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(f.time, cancel).Stop()
	}
	m := newMeter(cmd.ErrOrStderr(), "fuzz "+base.Name, f.runs).atMost(f.time)
	defer m.end()
	e := exploration.New(base, fuzzOptions(cmd, f, store, len(tests), runners, m))
	start := time.Now()
	if err := e.Resume(cmd.Context(), tests); err != nil {
		return infrastructure(err)
	}
	if err := e.Explore(ctx); err != nil {
		return infrastructure(err)
	}
	m.end()
	return fuzzed(cmd, e.Report(), time.Since(start), f)
}

func fuzzOptions(cmd *cobra.Command, f fuzzFlags, store *exploration.Store, kept int,
	runners []reduction.Runner, m *meter) exploration.Options {
	return exploration.Options{
		Seed: f.seed, Runs: f.runs, Runners: runners, Ran: func(runs int) { m.at(runs, "") },
		Kept: func(t *config.Test, reached []string) error {
			kept++
			m.clear()
			if f.verbose {
				for _, name := range reached {
					fmt.Fprintln(cmd.OutOrStdout(), "reached", name)
				}
			}
			return store.Keep(kept, t, reached)
		},
		Failed: func(t *config.Test, found analyzers.Finding) error {
			m.clear()
			m.doing("minimize a test that violates " + found.Rule)
			dir, err := store.Report(cmd.Context(), t, found, runners[0])
			m.doing("")
			m.clear()
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "violated %s: %s\n", found.Rule, dir)
			}
			return err
		},
	}
}

// printCoverage prints how many transitions were taken, and why others were not.
func printCoverage(w io.Writer, r exploration.Report, verbose bool) {
	fmt.Fprintf(w, "transitions: %d covered of %d reachable (%d declared)\n", r.Covered, r.Reachable, r.Declared)
	for _, name := range r.Missing {
		fmt.Fprintln(w, "  not yet taken:", name)
	}
	if len(r.Missing) > 0 {
		fmt.Fprintln(w, "    need more runs or another test; the next call continues with the corpus")
	}
	for _, b := range r.Blocked {
		fmt.Fprintf(w, "  %d out of reach: %s\n", len(b.Names), b.Reason)
		if b.Needs != "" {
			fmt.Fprintf(w, "    needs %s\n", b.Needs)
		}
		if verbose {
			for _, name := range b.Names {
				fmt.Fprintln(w, "   ", name)
			}
		}
	}
}

// fuzzed prints the result of the exploration.
func fuzzed(cmd *cobra.Command, r exploration.Report, took time.Duration, f fuzzFlags) error {
	w := report.NewWrapper(cmd.OutOrStdout(), textOptions(cmd.OutOrStdout(), false))
	fmt.Fprintf(w, "%s, %s in %s\n", count(r.Runs, "run"), count(r.Corpus, "test"), f.corpus)
	fmt.Fprintf(cmd.ErrOrStderr(), "%.0f runs/s\n", float64(r.Runs)/took.Seconds())
	printCoverage(w, r, f.verbose)
	bundles, err := filepath.Glob(filepath.Join(f.corpus, "failures", "*", "bundle.tar"))
	s := &site.Site{Title: "Exploration", Command: f.line, Tables: r.Tables()}
	if err = errors.Join(err, tablesSite(cmd, f.report, s, bundles...)); err != nil {
		return infrastructure(err)
	}
	if len(r.Rules) == 0 {
		_, err := fmt.Fprintln(w, "no rule was violated")
		return err
	}
	fmt.Fprintf(w, "%s violated; bug reports in %s/failures\n", count(len(r.Rules), "rule"), f.corpus)
	return statusError{status: orchestrator.ExitFail}
}
