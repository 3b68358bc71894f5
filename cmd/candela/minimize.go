package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/orchestrator/switchtest"
)

// minimizeFlags are the options of candela minimize.
type minimizeFlags struct {
	output string
	rule   string
	runs   int
	time   time.Duration
}

func newMinimize() *cobra.Command {
	var f minimizeFlags
	cmd := &cobra.Command{
		Use:   "minimize RUN",
		Short: "Find the smallest test that fails like a run",
		Long: `Find the smallest test that still violates the same rule, by delta debugging:
first the fewest events, then the least traffic; of a test of a switch, the
fewest flows and changes. Print that test and write it to a file.

The result is the same every time unless --time or --runs ended the search; the
file then says so.`,
		Example: `  candela minimize runs/nightly-17
  candela minimize runs/nightly-17 --rule gbn.nak-psn -o bug.yml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return minimize(cmd, args[0], f) },
	}
	fl := cmd.Flags()
	renamed(fl, "output", "out")
	fl.StringVarP(&f.output, "out", "o", "", "file to write (default NAME-minimal.yml)")
	fl.StringVar(&f.rule, "rule", "", "rule that the test must still violate (default: that of the first violation)")
	fl.IntVar(&f.runs, "runs", 1000, "most runs")
	fl.DurationVar(&f.time, "time", time.Minute, "longest time")
	return cmd
}

func minimize(cmd *cobra.Command, dir string, f minimizeFlags) error {
	if f.runs < 1 || f.time <= 0 {
		return fmt.Errorf("--runs %d, --time %v: want at least one run and some time", f.runs, f.time)
	}
	found, err := openFailure(dir, f.rule)
	if err != nil {
		return err
	}
	if f.output == "" {
		f.output = found.test + "-minimal.yml"
	}
	if err := writable(f.output); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.time)
	defer cancel()
	m := newMeter(cmd.ErrOrStderr(), "minimize "+found.test, f.runs).atMost(f.time)
	small, err := found.reduce(ctx, f.runs, func(run int) { m.at(run-1, "") })
	m.end()
	switch {
	case errors.Is(err, reduction.ErrNoFailure):
		return err
	case err != nil:
		return infrastructure(err)
	}
	text, err := small.write(dir, f.output)
	if err != nil {
		return infrastructure(err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s, after %s\n", f.output, small.left, count(small.runs, "run"))
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// failure is the failed test of a run, of NICs or of a switch.
type failure struct {
	test   string // its name
	reduce func(ctx context.Context, runs int, begin func(run int)) (smallest, error)
}

// smallest is the smallest test that fails alike.
type smallest struct {
	left      string // for people: "1 of 3 events"
	runs      int
	documents func(from, file, testbed string) reduction.Document
}

// write writes the test and, if it needs one of its own, the testbed description beside it.
func (s smallest) write(from, file string) (test []byte, err error) {
	testbed := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) + "-testbed.yml"
	doc := s.documents(from, file, testbed)
	if doc.Testbed != nil {
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), testbed), doc.Testbed, 0o666); err != nil {
			return nil, err
		}
	}
	return doc.Test, os.WriteFile(file, doc.Test, 0o666)
}

// openFailure reads the failure of a run; rule names one of its findings, empty: the first violation.
func openFailure(dir, rule string) (f failure, err error) {
	run, err := orchestrator.OpenRun(dir)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	target := func(analysis *analyzers.Analysis) (reduction.Target, error) {
		t, err := reduction.TargetOf(run.Document.Verdict, analysis, rule)
		if err != nil {
			return t, fmt.Errorf("%s: %w", dir, err)
		}
		return t, nil
	}
	if switchtest.IsRun(run) {
		test, analysis, err := switchtest.Recorded(run, configOptions(""))
		if err != nil {
			return f, err
		}
		t, err := target(analysis)
		return failureOfSwitch(test, t), err
	}
	test, err := run.Test(configOptions(""))
	if err != nil {
		return f, err
	}
	analysis, err := orchestrator.MergeAnalysis(run.ReadFile)
	if err != nil {
		return f, err
	}
	t, err := target(analysis)
	return failureOfNICs(test, t), err
}

func failureOfNICs(test *config.Test, target reduction.Target) failure {
	return failure{test.Name, func(ctx context.Context, runs int, begin func(int)) (s smallest, err error) {
		scratch := newScratch()
		defer func() { err = errors.Join(err, scratch.Close()) }()
		n := 0
		run := func(ctx context.Context, t *config.Test) (*orchestrator.Outcome, error) {
			n++
			begin(n)
			return scratch.Run(ctx, t)
		}
		r, err := reduction.Reduce(ctx, test, target, run, reduction.Options{Config: configOptions(""), Runs: runs})
		if err != nil {
			return s, err
		}
		return smallest{leftOf("event", events(r.Test), events(test)), r.Runs,
			func(from, file, testbed string) reduction.Document {
				return r.Written(configOptions(""), from, file, testbed, toolName())
			}}, nil
	}}
}

func events(t *config.Test) int { return len(t.Traffic.DataEvents) + len(t.Traffic.ControlEvents) }

// leftOf says how many events or flows of a test are left.
func leftOf(what string, now, before int) string {
	return fmt.Sprintf("%d of %s", now, count(before, what))
}

// count is a number of things: "1 run", "2 runs".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
