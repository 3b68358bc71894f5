package virtual

import (
	"context"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/testbeds"
)

// cancelEvery is the number of events between two checks of the context: about a millisecond.
const cancelEvery = 1 << 13

// Run starts the traffic and returns when it is over: when every message is complete and the wire was quiet for the
// specified time, when no event is left, or at the deadline. The report includes messages that never completed; they
// are not an error but input to the analysis.
func (t *Testbed) Run(ctx context.Context) (generator.Report, error) {
	w, err := t.newWorkload()
	if err != nil {
		return generator.Report{}, err
	}
	t.workload = w
	t.application.task.actor, t.application.testbed = &t.application, t
	t.chassis.server.Do(func() { err = t.simulate(ctx) })
	if err != nil {
		return generator.Report{}, fmt.Errorf("virtual testbed: %w", err)
	}
	return w.Report(), nil
}

func (t *Testbed) newWorkload() (*generator.Workload, error) {
	ends := make([]generator.Ends, len(t.qps))
	for i, pair := range t.qps {
		for side, qp := range pair {
			ends[i][side] = generator.End{QP: qp, Region: qp.Region()}
		}
	}
	return generator.NewWorkload(generator.WorkloadConfig{
		BarrierSync: t.spec.BarrierSync, ReceiveDepth: t.spec.RxDepth, RepostDelay: t.spec.RxRepostDelay,
		TrafficOf: func(connection int, side generator.Side) generator.Traffic {
			return t.spec.Connections[connection].Traffic[side]
		},
	}, ends)
}

func (t *Testbed) simulate(ctx context.Context) error {
	start := t.engine.now
	if err := t.workload.Start(start); err != nil {
		return err
	}
	t.sw.lastRoCE = start
	t.kickHosts(start)
	deadline := start.Add(t.spec.Deadline)
	for n := 0; ; n++ {
		if n%cancelEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		next := t.engine.next()
		if next == clock.Never || next > deadline {
			return nil
		}
		if next > t.sw.lastRoCE.Add(t.spec.Quiesce) && t.workload.Done() {
			t.engine.now = t.sw.lastRoCE.Add(t.spec.Quiesce)
			return nil
		}
		t.engine.step()
		if err := t.fault(); err != nil {
			return err
		}
	}
}

func (t *Testbed) fault() error {
	if t.sw.fault != nil {
		return t.sw.fault
	}
	for _, h := range t.hosts {
		if h.fault != nil {
			return h.fault
		}
	}
	return t.application.fault
}

// settle passes completions of host i to the application, which may post more work on either host.
func (t *Testbed) settle(now clock.Time, i int) {
	var c generator.Completion
	any := false
	for t.hosts[i].nic.PollCompletion(&c) {
		any = true
		if err := t.workload.Completion(now, c.Context, generator.Side(i), c); err != nil && t.hosts[i].fault == nil {
			t.hosts[i].fault = err
		}
	}
	if any {
		t.application.arm(&t.engine, t.workload)
		t.kickHosts(now)
	}
}

func (t *Testbed) kickHosts(now clock.Time) {
	for _, h := range t.hosts {
		h.kick(now)
	}
}

// Now returns the current simulated time.
func (t *Testbed) Now() clock.Time { return t.engine.now }

// Hops returns the number of link traversals of packets so far, without mirror copies.
func (t *Testbed) Hops() uint64 {
	n := uint64(0)
	for _, h := range t.hosts {
		n += h.up.hops
	}
	for _, l := range t.sw.out {
		if l != nil {
			n += l.hops
		}
	}
	return n
}

// Environment describes every component with all parameters of its model.
func (t *Testbed) Environment(context.Context) (testbeds.Environment, error) {
	return describe(&t.spec, t.hosts), nil
}
