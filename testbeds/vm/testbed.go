package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"candela.dev/candela/generator"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/qemu"
	"candela.dev/candela/testbeds"
)

// deviceID is the P4Runtime device id of the switch.
const deviceID = 1

// Testbed is the use of the guests for one test. One goroutine drives it.
type Testbed struct {
	guests *Guests
	spec   testbeds.Spec
	fabric fabric
	sides  [2]party

	ends    [2][]verbs.End
	reports [2]*verbs.ReportResponse // nil before the traffic
	blamed  bool                     // a fault of the fabric has been reported
}

// party is one side of the traffic: a guest, or a model in this process.
type party interface {
	// open creates queue pairs with their resources and returns this side's ends of the connections.
	open(ctx context.Context) ([]verbs.End, error)
	connect(ctx context.Context, peers []verbs.End) error
	start(ctx context.Context) error
	// done reports whether nothing is outstanding and nothing more will be posted.
	done(ctx context.Context) (bool, error)
	report(ctx context.Context) (*verbs.ReportResponse, error)
	counters(ctx context.Context) (testbeds.HostCounters, error)
	component() testbeds.Component
	release(ctx context.Context) error
}

// fabric is the switch with its dumpers, in this process or another.
type fabric interface {
	access() testbeds.Access // without ports
	// record makes the dumpers ready; stop closes their files and reports the counts of mirror copies.
	record(ctx context.Context, create func(name string) (io.WriteCloser, error)) error
	stop(ctx context.Context) (testbeds.Dump, error)
	// idle returns the time since the last RoCE packet.
	idle() time.Duration
	// delays returns the forwarding delays of frames since record.
	delays(ctx context.Context) (qemu.Delays, error)
	// holds returns the times for which each host held frames since record.
	holds(ctx context.Context) ([2]qemu.Holds, error)
	component() testbeds.Component
	// failed returns the switch's failure, if any.
	failed() error
	close() error
}

// Testbed puts a switch between the guests for one test, or uses the switch of a detached testbed.
func (g *Guests) Testbed(spec testbeds.Spec) (_ *Testbed, err error) {
	if dead := g.Dead(); len(dead) > 0 {
		return nil, fmt.Errorf("vm testbed: %s has ended%s", strings.Join(dead, " and "), g.lastWords())
	}
	t := &Testbed{guests: g, spec: spec}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("vm testbed: %w", err), t.Close())
		}
	}()
	if g.sw != nil {
		t.fabric, err = openOutside(g, &t.spec)
	} else {
		t.fabric, err = openInside(g, &t.spec)
	}
	if err != nil {
		return nil, err
	}
	for i := range t.spec.Hosts {
		if h := &t.spec.Hosts[i]; h.MAC == nil {
			mac := testbeds.HostMAC(i)
			h.MAC = &mac
		}
	}
	for side, one := range g.guests {
		if one == nil {
			t.sides[side] = &model{guests: g, spec: &t.spec, side: side}
		} else {
			t.sides[side] = &machine{guest: one, guests: g, spec: &t.spec, side: side}
		}
	}
	return t, nil
}

func (t *Testbed) both(ctx context.Context, f func(ctx context.Context, side int, p party) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for side, p := range t.sides {
		group.Go(func() error { return f(ctx, side, p) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("vm testbed: %w", err)
	}
	return nil
}

// Prepare creates fresh RDMA devices and queue pairs and connects them.
func (t *Testbed) Prepare(ctx context.Context) ([]injector.Connection, error) {
	err := t.both(ctx, func(ctx context.Context, side int, p party) (err error) {
		t.ends[side], err = p.open(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := t.both(ctx, func(ctx context.Context, side int,
		p party) error {
		return p.connect(ctx, t.ends[1-side])
	}); err != nil {
		return nil, err
	}
	list := make([]injector.Connection, len(t.spec.Connections))
	for i := range list {
		end := func(side int) injector.Endpoint {
			e := t.ends[side][i]
			return injector.Endpoint{IP: e.IP, QPN: e.QPN, IPSN: e.IPSN}
		}
		list[i] = injector.Connection{Requester: end(testbeds.Requester), Responder: end(testbeds.Responder)}
	}
	return list, nil
}

// Injector returns the access to the switch.
func (t *Testbed) Injector(context.Context) (testbeds.Access, error) {
	a := t.fabric.access()
	a.DeviceID, a.Target, a.Info = deviceID, "switch between the guests", p4.Software()
	for i, h := range t.spec.Hosts {
		a.Forwarding = append(a.Forwarding, testbeds.Port{Number: uint16(i), MAC: *h.MAC})
	}
	for i, d := range t.spec.Dumpers {
		a.Mirrors = append(a.Mirrors, testbeds.Mirror{Number: uint16(len(t.spec.Hosts) + i), Weight: d.Weight, Name: d.Name})
	}
	return a, nil
}

// Environment describes guests and switch.
func (t *Testbed) Environment(context.Context) (testbeds.Environment, error) {
	env := testbeds.Environment{Testbed: "vm"}
	for _, p := range t.sides {
		env.Components = append(env.Components, p.component())
	}
	env.Components = append(env.Components, t.fabric.component())
	for _, d := range t.spec.Dumpers {
		env.Components = append(env.Components,
			testbeds.Component{Name: d.Name, Kind: "dumper", Properties: []testbeds.Property{
				testbeds.NewProperty("weight", d.Weight), testbeds.NewProperty("cores", d.Cores)}})
	}
	return env, nil
}

// StartDumpers makes every dumper ready to write its shards into dir, which exists.
func (t *Testbed) StartDumpers(ctx context.Context, dir string) error {
	return t.RecordTo(ctx, func(name string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, name)) })
}

// RecordTo is StartDumpers with shards from create; the testbed closes them.
func (t *Testbed) RecordTo(ctx context.Context, create func(name string) (io.WriteCloser, error)) error {
	return t.fabric.record(ctx, create)
}

// StopDumpers closes the shards and reports the counts of mirror copies.
func (t *Testbed) StopDumpers(ctx context.Context) (testbeds.Dump, error) {
	holds, err := t.fabric.holds(ctx) // before the dumpers close their files, which takes the switch's time
	dump, e := t.fabric.stop(ctx)
	for side, h := range holds {
		if bound, known := h.Longest(); known {
			dump.HostDelays = append(dump.HostDelays, testbeds.HostDelay{
				Host: t.spec.Hosts[side].Name, BoundNS: bound.Nanoseconds(), Echoes: h.Echoes()})
		}
	}
	return dump, errors.Join(err, e, t.fabric.failed())
}

// Counters reads the devices' counters.
func (t *Testbed) Counters(ctx context.Context) ([]testbeds.HostCounters, error) {
	list := make([]testbeds.HostCounters, len(t.spec.Hosts))
	err := t.both(ctx, func(ctx context.Context, side int, p party) (err error) {
		list[side], err = p.counters(ctx)
		return err
	})
	if err == nil && t.reports[0] != nil {
		delays, err := t.Forwarding(ctx)
		if err != nil {
			return nil, err
		}
		list[0].Values = append(list[0].Values,
			testbeds.Counter{Name: "candela_switch_delay_median_ns_at_most", Value: uint64(delays.Median().Nanoseconds())})
	}
	return list, err
}

// pollEvery is the interval at which guests are polled for completion: each poll costs an emulated processor time.
const pollEvery = 30 * time.Millisecond

// minQuiet is the least quiet time for emulated machines, because they may stall.
const minQuiet = 200 * time.Millisecond

// Run starts the traffic and returns when both sides are done and the wire was quiet, or at the deadline.
func (t *Testbed) Run(ctx context.Context) (generator.Report, error) {
	// The responder first: its receives must be posted before the first SEND arrives.
	for _, side := range []int{testbeds.Responder, testbeds.Requester} {
		if err := t.sides[side].start(ctx); err != nil {
			return generator.Report{}, fmt.Errorf("vm testbed: %w", err)
		}
	}
	if err := t.settle(ctx, time.Now().Add(t.spec.Deadline.Std())); err != nil {
		return generator.Report{}, err
	}
	err := t.both(ctx, func(ctx context.Context, side int, p party) (err error) {
		t.reports[side], err = p.report(ctx)
		return err
	})
	if err != nil {
		return generator.Report{}, err
	}
	report := merged(t.reports[0].Report, t.reports[1].Report)
	report.Data = t.verified(&report)
	return report, nil
}

func (t *Testbed) settle(ctx context.Context, deadline time.Time) error {
	quiet := max(minQuiet, t.spec.Quiesce.Std())
	for {
		var done [2]bool
		err := t.both(ctx, func(ctx context.Context, side int, p party) (err error) {
			done[side], err = p.done(ctx)
			return err
		})
		if err == nil {
			err = t.fabric.failed()
			t.blamed = err != nil
		}
		if err != nil {
			return err
		}
		if done[0] && done[1] && t.fabric.idle() >= quiet || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// merged returns the report of both sides, each with its own streams. Totals are the requester's unless only the
// responder sent.
func merged(a, b generator.Report) generator.Report {
	a.Streams = append(a.Streams, b.Streams...)
	slices.SortStableFunc(a.Streams, func(x, y generator.StreamReport) int {
		if x.Connection != y.Connection {
			return x.Connection - y.Connection
		}
		return strings.Compare(x.Side, y.Side)
	})
	a.Bytes += b.Bytes
	a.GoodputBPS += b.GoodputBPS
	if a.Times.Count == 0 {
		a.Times = b.Times
	}
	return a
}

// Forwarding returns the forwarding delays of the switch since the dumpers started.
func (t *Testbed) Forwarding(ctx context.Context) (qemu.Delays, error) { return t.fabric.delays(ctx) }

// Close ends the queue pairs and the switch; the guests remain for the next test.
func (t *Testbed) Close() error {
	var failed []error
	if t.fabric != nil && t.sides[0] != nil && len(t.guests.Dead()) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		failed = append(failed, t.both(ctx, func(ctx context.Context, _ int, p party) error { return p.release(ctx) }))
	}
	if t.fabric != nil {
		if t.guests.sw != nil && t.guests.sw.dead() && !t.blamed {
			failed = append(failed, t.fabric.failed()) // others saw only the broken connection
		}
		failed = append(failed, t.fabric.close())
	}
	return errors.Join(failed...)
}

const closeTimeout = 10 * time.Second
