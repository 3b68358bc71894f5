package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
)

// liveRunner runs tests on live testbeds, one after the other, and removes their run directories.
type liveRunner struct {
	live livebeds
	dir  string
}

// liveTries is how often a run is tried that a busy machine aborts.
const liveTries = 4

// run runs a test until its trace can be judged.
func (r *liveRunner) run(ctx context.Context, t *config.Test) (*orchestrator.Outcome, error) {
	p, err := plan.New(t)
	if err != nil {
		return nil, err
	}
	if r.dir == "" {
		if r.dir, err = os.MkdirTemp("", "candela-live-"); err != nil {
			return nil, err
		}
	}
	var o *orchestrator.Outcome
	for range liveTries {
		o, err = orchestrator.Run(ctx, p, r.live.builder(ctx, t.Testbed), orchestrator.Options{
			Out: r.dir, Wall: time.Now, NoReports: true, Version: toolVersion(), Command: toolName(),
		})
		if err != nil || o.Analysis != nil || ctx.Err() != nil {
			break
		}
	}
	switch {
	case err != nil:
		return nil, err
	case o.Analysis == nil:
		return nil, fmt.Errorf("%d runs could not be judged: %s", liveTries, strings.Join(o.Verdict.Reasons, "; "))
	}
	return o, os.RemoveAll(o.Dir)
}

// close removes what the runs made.
func (r *liveRunner) close() error {
	err := r.live.close()
	if r.dir != "" {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}

// modelTestbed reads the description of a testbed with NIC models as hosts. Tests with events that it lacks run on
// fallback.
func modelTestbed(name string) (bed *config.Testbed, fallback string, err error) {
	if bed, err = config.LoadTestbed(name); err != nil {
		return nil, "", err
	}
	if name == config.NetnsTestbed {
		fallback = config.NetnsAFPacketTestbed
	}
	return bed, fallback, nil
}
