package main

import (
	"context"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/orchestrator/switchtest"
)

func failureOfSwitch(test *config.SwitchTest, target reduction.Target) failure {
	return failure{test.Name, func(ctx context.Context, runs int, begin func(int)) (s smallest, err error) {
		options := reduction.SwitchOptions{Config: configOptions(""), Runs: runs}
		r, err := reduction.ReduceSwitch(ctx, test, target, switchRunner(begin), options)
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

// switchRunner runs candidates one after another, without files.
func switchRunner(begin func(run int)) reduction.SwitchRunner {
	n := 0
	return func(ctx context.Context, t *config.SwitchTest) (*orchestrator.Outcome, error) {
		p, err := switchtest.New(t)
		if err != nil {
			return nil, err
		}
		n++
		begin(n)
		return switchtest.Run(ctx, p, orchestrator.Options{Wall: time.Now, Discard: true})
	}
}

func flowCount(t *config.SwitchTest) int {
	p, err := switchtest.New(t)
	if err != nil {
		return 0
	}
	return len(p.Flows)
}
