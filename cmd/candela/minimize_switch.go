package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/orchestrator/switchtest"
)

// isSwitchRun reports whether a run directory is that of a test of a switch.
func isSwitchRun(dir string) (bool, error) {
	run, err := orchestrator.OpenRun(dir)
	if err != nil {
		return false, err
	}
	return switchtest.IsRun(run), run.Close()
}

// minimizeSwitch is minimize for a run of a test of a switch.
func minimizeSwitch(ctx context.Context, cmd *cobra.Command, dir string, f minimizeFlags) (err error) {
	test, target, err := switchFailureOf(dir, f.rule)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "candela-minimize-")
	if err != nil {
		return infrastructure(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	result, err := reduction.ReduceSwitch(ctx, test, target, switchRunner(scratch), reduction.SwitchOptions{Config: configOptions(""), Runs: f.runs})
	if err != nil {
		if errors.Is(err, reduction.ErrNoFailure) {
			return err
		}
		return infrastructure(err)
	}
	if f.output == "" {
		f.output = test.Name + "-minimal.yml"
	}
	doc := result.Written(configOptions(""), dir, f.output, toolName())
	if err := os.WriteFile(f.output, doc, 0o666); err != nil {
		return infrastructure(err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d flows of %d, %d changes of %d, %d runs\n", f.output, flowCount(result.Test), flowCount(test),
		len(result.Test.Changes), len(test.Changes), result.Runs)
	_, err = cmd.OutOrStdout().Write(doc)
	return err
}

// switchFailureOf is failureOf for tests of switches.
func switchFailureOf(dir, rule string) (t *config.SwitchTest, target reduction.Target, err error) {
	run, err := orchestrator.OpenRun(dir)
	if err != nil {
		return nil, target, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	recorded, analysis, err := switchtest.Recorded(run, configOptions(""))
	if err != nil {
		return nil, target, err
	}
	target, err = reduction.TargetOf(run.Document.Verdict, analysis, rule)
	if err != nil {
		return nil, target, fmt.Errorf("%s: %w", dir, err)
	}
	return recorded, target, nil
}

// switchRunner runs candidates one after another, below a directory of which nothing is kept.
func switchRunner(scratch string) reduction.SwitchRunner {
	n := 0
	return func(ctx context.Context, t *config.SwitchTest) (*orchestrator.Outcome, error) {
		p, err := switchtest.New(t)
		if err != nil {
			return nil, err
		}
		n++
		out := filepath.Join(scratch, strconv.Itoa(n))
		outcome, err := switchtest.Run(ctx, p, orchestrator.Options{Out: out, Version: toolVersion(), Command: toolName(), Wall: time.Now, NoReports: true})
		return outcome, errors.Join(err, os.RemoveAll(out))
	}
}

func flowCount(t *config.SwitchTest) int {
	p, err := switchtest.New(t)
	if err != nil {
		return 0
	}
	return len(p.Flows)
}
