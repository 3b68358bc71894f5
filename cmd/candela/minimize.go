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

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
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
		Long: `Take the test of a failing run apart, by delta debugging, until nothing can be left out: the fewest events, then the least
traffic, with which the same rule is still violated. Of a test of a switch the fewest flows and changes stay. Print the test that
is left and write it to a file.

The result is the same every time, unless time or runs gave out, which the file then says.`,
		Example: `  candela minimize runs/nightly-17
  candela minimize runs/nightly-17 --rule gbn.nak-psn -o bug.yml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return minimize(cmd, args[0], f) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.output, "output", "o", "", "file for the test (default NAME-minimal.yml)")
	fl.StringVar(&f.rule, "rule", "", "rule to preserve (default: that of the first violation)")
	fl.IntVar(&f.runs, "runs", 1000, "runs at most")
	fl.DurationVar(&f.time, "time", time.Minute, "time at most")
	return cmd
}

func minimize(cmd *cobra.Command, dir string, f minimizeFlags) (err error) {
	if f.runs < 1 || f.time <= 0 {
		return fmt.Errorf("--runs %d, --time %v: want at least one run and some time", f.runs, f.time)
	}
	ofSwitch, err := isSwitchRun(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.time)
	defer cancel()
	if ofSwitch {
		return minimizeSwitch(ctx, cmd, dir, f)
	}
	test, target, err := failureOf(dir, f.rule)
	if err != nil {
		return err
	}
	scratch := newScratch()
	defer func() { err = errors.Join(err, scratch.Close()) }()
	result, err := reduction.Reduce(ctx, test, target, scratch.Run, reduction.Options{Config: configOptions(""), Runs: f.runs})
	if err != nil {
		if errors.Is(err, reduction.ErrNoFailure) {
			return err
		}
		return infrastructure(err)
	}
	if f.output == "" {
		f.output = test.Name + "-minimal.yml"
	}
	doc, err := writeMinimal(result, dir, f.output)
	if err != nil {
		return infrastructure(err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d events of %d, %d runs\n", f.output, eventCount(result.Test), eventCount(test), result.Runs)
	_, err = cmd.OutOrStdout().Write(doc.Test)
	return err
}

// failureOf returns the test of a run and what it failed with.
func failureOf(dir, rule string) (t *config.Test, target reduction.Target, err error) {
	run, err := orchestrator.OpenRun(dir)
	if err != nil {
		return nil, target, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if t, err = run.Test(configOptions("")); err != nil {
		return nil, target, err
	}
	analysis, err := orchestrator.MergeAnalysis(run.ReadFile)
	if err != nil {
		return nil, target, err
	}
	target, err = reduction.TargetOf(run.Document.Verdict, analysis, rule)
	if err != nil {
		return nil, target, fmt.Errorf("%s: %w", dir, err)
	}
	return t, target, nil
}

// writeMinimal writes the test and, if it needs one of its own, the testbed description beside it.
func writeMinimal(r *reduction.Result, from, file string) (reduction.Document, error) {
	testbed := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) + "-testbed.yml"
	doc := r.Written(configOptions(""), from, file, testbed, toolName())
	if doc.Testbed != nil {
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), testbed), doc.Testbed, 0o666); err != nil {
			return doc, err
		}
	}
	return doc, os.WriteFile(file, doc.Test, 0o666)
}

func eventCount(t *config.Test) int { return len(t.Traffic.DataEvents) + len(t.Traffic.ControlEvents) }
