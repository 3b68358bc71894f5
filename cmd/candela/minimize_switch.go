package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/orchestrator/switchtest"
)

func failureOfSwitch(test *config.SwitchTest, target reduction.Target) failure {
	return failure{test.Name, func(ctx context.Context, runs int, begin func(int)) (s smallest, err error) {
		scratch, err := os.MkdirTemp("", "candela-minimize-")
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
		options := reduction.SwitchOptions{Config: configOptions(""), Runs: runs}
		r, err := reduction.ReduceSwitch(ctx, test, target, switchRunner(scratch, begin), options)
		if err != nil {
			return s, err
		}
		left := leftOf("flow", flowCount(r.Test), flowCount(test)) + ", " + leftOf("change", len(r.Test.Changes),
			len(test.Changes))
		return smallest{left, r.Runs, func(from, file, _ string) reduction.Document {
			return reduction.Document{Test: r.Written(configOptions(""), from, file, toolName())}
		}}, nil
	}}
}

// switchRunner runs candidates one after another and removes their files below scratch.
func switchRunner(scratch string, begin func(run int)) reduction.SwitchRunner {
	n := 0
	return func(ctx context.Context, t *config.SwitchTest) (*orchestrator.Outcome, error) {
		p, err := switchtest.New(t)
		if err != nil {
			return nil, err
		}
		n++
		begin(n)
		out := filepath.Join(scratch, strconv.Itoa(n))
		outcome, err := switchtest.Run(ctx, p,
			orchestrator.Options{Out: out, Version: toolVersion(), Command: toolName(), Wall: time.Now, NoReports: true})
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
