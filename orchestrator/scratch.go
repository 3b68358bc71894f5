package orchestrator

import (
	"context"
	"fmt"
	"time"

	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
)

// Scratch runs tests of which only verdict and analysis are wanted. The steps are those of every run; but captures live
// in memory, documents are not made, and where a testbed keeps its injector from one run to the next, so does its
// P4Runtime session. What a run comes to does not depend on those before it. A Scratch is used by one goroutine; the
// caller closes it.
type Scratch struct {
	Strict bool // warnings fail

	build   Builder
	memory  memory
	session session
}

// NewScratch returns a Scratch for testbeds that build makes. They must be [MemoryTestbed]s.
func NewScratch(build Builder) *Scratch { return &Scratch{build: build} }

// Close ends the session.
func (s *Scratch) Close() { s.session.close() }

// Run runs t once. An infrastructure failure is an error here; outcomes have neither report nor directory.
func (s *Scratch) Run(ctx context.Context, t *config.Test) (*Outcome, error) {
	p, err := plan.New(t)
	if err != nil {
		return nil, err
	}
	o, err := Run(ctx, p, s.build, Options{Strict: s.Strict, memory: &s.memory, session: &s.session, Wall: noWall})
	if err != nil {
		return nil, err
	}
	if o.Verdict.Exit == ExitInfrastructure {
		return nil, fmt.Errorf("%s: %v", t.Name, o.Verdict.Reasons)
	}
	return o, nil
}

// Expecting judges the same run anew by t, which differs from its test in what it expects alone: what happened would be
// the same. It is for failed runs of a [Scratch]; ok is false for others, which have forgotten what happened.
func (o *Outcome) Expecting(ctx context.Context, t *config.Test) (rejudged *Outcome, ok bool, err error) {
	if o.facts == nil {
		return nil, false, nil
	}
	f, p := *o.facts, *o.facts.plan
	p.Test, f.plan = t, &p
	if err := f.examine(ctx, cuts(f.plan, f.known, f.hits)); err != nil {
		return nil, true, err
	}
	rejudged = f.outcome(judge(f.evidence(nil)))
	rejudged.facts = o.facts
	return rejudged, true, nil
}

// noWall is the time of runs that write no times.
func noWall() time.Time { return time.Unix(0, 0) }

// session is an injector's client that outlives runs.
type session struct {
	access testbeds.Access
	client *injector.Client
}

func (s *session) close() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

// connect returns a client of the injector: that of the run before, if the testbed still has the same injector.
func (r *run) connect(ctx context.Context, a testbeds.Access) (*injector.Client, error) {
	s := r.session
	if s != nil && s.client != nil {
		if s.access.Conn == a.Conn && s.access.DeviceID == a.DeviceID && s.access.Info == a.Info &&
			s.client.Primary() == nil {
			return s.client, nil
		}
		s.close()
	}
	c, err := injector.Connect(ctx, a.Conn, injector.Config{
		Target: a.Target, DeviceID: a.DeviceID, ElectionLow: 1,
		Pipeline: injector.Pipeline{Info: a.Info, DeviceConfig: a.DeviceConfig},
	})
	if s != nil && err == nil {
		s.access, s.client = a, c
	}
	return c, err
}

// endSession closes the client unless it serves the next run, too. A run that failed may have left it in any state.
func (r *run) endSession(failed bool) {
	switch s := r.session; {
	case s != nil && failed:
		s.close()
	case s == nil && r.client != nil:
		r.client.Close()
	}
}
