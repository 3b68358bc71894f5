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

// Scratch runs tests of which only the verdict and the analysis are needed. The steps are those of every run, with
// three differences: captures are kept in memory, documents are not written, and the P4Runtime session is reused if the
// testbed keeps its injector. Runs do not influence each other. A Scratch is used by one goroutine; the caller closes
// it.
type Scratch struct {
	Strict bool // warnings fail

	build   Builder
	memory  memory
	session session
}

// NewScratch returns a Scratch for testbeds from build, which must be [MemoryTestbed]s.
func NewScratch(build Builder) *Scratch { return &Scratch{build: build} }

// Close ends the session.
func (s *Scratch) Close() { s.session.close() }

// Run runs t once. An infrastructure failure is returned as an error. Outcomes have neither report nor directory.
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

// Expecting judges the same run against t, which may differ from the run's test only in its expectations. It works for
// failed runs of a [Scratch]; for other runs ok is false, because their facts are not kept.
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

// noWall is the wall clock of runs that record no times.
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

// connect returns a client of the injector. It reuses the client of the previous run if the testbed still has the same
// injector.
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

// endSession closes the client unless the next run reuses it. A failed run may have left it in any state.
func (r *run) endSession(failed bool) {
	switch s := r.session; {
	case s != nil && failed:
		s.close()
	case s == nil && r.client != nil:
		r.client.Close()
	}
}
