package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"candela.dev/candela/agent"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/injector/delay"
	"candela.dev/candela/injector/qemu"
	"candela.dev/candela/injector/softswitch"
	agentpb "candela.dev/candela/proto/agent/v1"
	injectorpb "candela.dev/candela/proto/injector/v1"
	"candela.dev/candela/testbeds"
)

// StartDumpers opens every capture.
func (t *Testbed) StartDumpers(ctx context.Context, dir string) error {
	ctx, cancel := t.during(ctx)
	defer cancel()
	t.dir = dir
	err := each(len(t.dumpers), func(i int) error {
		d := &t.spec.Dumpers[i]
		return t.dumpers[i].Record(ctx, d.Name, t.m.Dumpers[i].Interface, d.Cores, t.spec.Switch.Snap)
	})
	if err == nil {
		t.before, err = t.losses(ctx)
	}
	return t.Blame(err)
}

// losses returns the number of frames lost at each port of the switch; nil if the switch doesn't report losses.
func (t *Testbed) losses(ctx context.Context) (map[uint32]uint64, error) {
	if t.status == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, agent.CallTimeout)
	defer cancel()
	answer, err := t.status.Losses(ctx, &injectorpb.LossesRequest{})
	if err != nil {
		return nil, t.ofSwitch("losses", err)
	}
	list := make(map[uint32]uint64)
	for _, p := range answer.GetPorts() {
		list[p.GetPort()] = p.GetMissed() + p.GetUnsent()
	}
	return list, nil
}

func (t *Testbed) ofSwitch(step string, err error) error {
	return agent.Named(t.m.Switch.Name, step, err)
}

// Counters returns the NICs' counters.
func (t *Testbed) Counters(ctx context.Context) ([]testbeds.HostCounters, error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	list := make([]testbeds.HostCounters, len(t.hosts))
	err := each(len(t.hosts), func(i int) (err error) {
		var c agent.Counters
		c, err = t.hosts[i].Counters(ctx)
		list[i] = c.NIC
		list[i].Host = t.spec.Hosts[i].Name
		return err
	})
	return list, t.Blame(err)
}

// Run starts the traffic and returns when both hosts' messages are complete and the wire was quiet, or at the deadline
// of the specification. The report includes messages that never completed.
func (t *Testbed) Run(ctx context.Context) (generator.Report, error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	deadline := time.Now().Add(t.spec.Deadline.Std())
	// The receiver must be ready before the sender.
	for _, side := range []int{testbeds.Responder, testbeds.Requester} {
		if err := t.hosts[side].Start(ctx); err != nil {
			return generator.Report{}, t.Blame(err)
		}
	}
	if err := t.settle(ctx, deadline); err != nil {
		return generator.Report{}, t.Blame(err)
	}
	if t.spec.External != nil {
		return generator.MergeReports(nil), nil // completions and data are the application's
	}
	var reports [2]generator.Report
	var data [2][]verbs.Data
	err := each(len(t.hosts), func(i int) (err error) {
		reports[i], data[i], err = t.hosts[i].Report(ctx)
		return err
	})
	if err == nil {
		err = t.complete(data)
	}
	if err != nil {
		return generator.Report{}, t.Blame(err)
	}
	report := generator.MergeReports(reports[:])
	if t.hasDevice() {
		report.Data = verbs.Verified(&report, data, func(connection int, side generator.Side) *generator.Traffic {
			return &t.spec.Connections[connection].Traffic[side]
		})
	}
	return report, nil
}

// hasDevice reports whether a host is an RDMA device.
func (t *Testbed) hasDevice() bool { return t.m.Hosts[0].RDMA != nil || t.m.Hosts[1].RDMA != nil }

// complete checks that the data of every connection was compared, where a host is an RDMA device.
func (t *Testbed) complete(data [2][]verbs.Data) error {
	for i, list := range data {
		if t.hasDevice() && len(list) != len(t.spec.Connections) {
			return fmt.Errorf("%s: report: the data of %d connections was compared, of %d", t.hosts[i].Name(), len(list),
				len(t.spec.Connections))
		}
	}
	return nil
}

func (t *Testbed) settle(ctx context.Context, deadline time.Time) error {
	for wait := true; ; {
		var done [2]bool
		var quiet [2]time.Duration
		left := time.Until(deadline)
		timeout := max(0, min(left, waitSlice))
		if !wait {
			timeout = 0
		}
		err := each(len(t.hosts), func(i int) (err error) {
			done[i], quiet[i], err = t.hosts[i].Wait(ctx, timeout)
			return err
		})
		switch {
		case err != nil:
			return err
		case left <= 0:
			return nil
		case !done[0] || !done[1]:
			continue
		}
		wait = false
		rest := t.spec.Quiesce.Std() - min(quiet[0], quiet[1])
		if rest <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(rest, left)):
		}
	}
}

const waitSlice = 2 * time.Second

// StopDumpers ends the captures and fetches the shards.
func (t *Testbed) StopDumpers(ctx context.Context) (testbeds.Dump, error) {
	ctx, cancel := t.during(ctx)
	defer cancel()
	t.stopped = true
	answers := make([]*agentpb.FinishResponse, len(t.dumpers))
	err := each(len(t.dumpers), func(i int) (err error) {
		answers[i], err = t.dumpers[i].Finish(ctx)
		// also the shards of a dumper that could not write everything
		return errors.Join(err, t.fetch(ctx, t.dumpers[i], answers[i]))
	})
	if err != nil {
		return testbeds.Dump{}, t.Blame(err)
	}
	lost, err := t.losses(ctx)
	if err != nil {
		return testbeds.Dump{}, t.Blame(err)
	}
	dump := testbeds.Dump{}
	for i, a := range answers {
		for _, s := range a.GetShards() {
			dump.Shards = append(dump.Shards, s.GetName())
		}
		port := uint32(t.m.Dumpers[i].Port)
		dump.Dumpers = append(dump.Dumpers, testbeds.DumperCounters{
			Name: t.spec.Dumpers[i].Name, Received: a.GetReceived(), Written: a.GetWritten(),
			Dropped: a.GetDropped() + a.GetExceeded() + a.GetOther(), SwitchDropped: lost[port] - t.before[port],
			Foreign: a.GetForeign(),
		})
	}
	dump.TimeDisorder = t.timeDisorder()
	if err := t.checkSwitchWaits(ctx); err != nil {
		return testbeds.Dump{}, t.Blame(err)
	}
	if dump.HostDelays, err = t.hostDelays(ctx); err != nil {
		return testbeds.Dump{}, t.Blame(err)
	}
	dump.Discards, err = t.discards(ctx, lost)
	dump.Discards = append(dump.Discards, t.unseen(answers)...)
	return dump, t.Blame(err)
}

// unseen lists frames that the dumpers' interfaces lost before the rings. A missing copy shows in the trace, but a loss
// while the carrier was down may not.
func (t *Testbed) unseen(answers []*agentpb.FinishResponse) (list []testbeds.PortDiscards) {
	for i, a := range answers {
		n := uint64(0)
		for _, loss := range a.GetLosses() {
			n += loss.GetValue()
		}
		if n > 0 {
			list = append(list, testbeds.PortDiscards{Port: t.m.Dumpers[i].Port, Packets: n})
		}
	}
	return list
}

// timeDisorder bounds how far the switch's stamps may be out of order. A switch with several receive queues takes
// number and stamp in two steps on each CPU, and an interrupt on one CPU may come between them.
func (t *Testbed) timeDisorder() clock.Duration {
	const bound = 100 * clock.Microsecond
	for _, p := range t.described.GetProperties() {
		if p.GetName() == injectorpb.MultiQueue {
			return bound
		}
	}
	return 0
}

// discards lists losses between a host and the switch, in both directions. The trace, taken in the middle, does not
// show them.
func (t *Testbed) discards(ctx context.Context, lost map[uint32]uint64) ([]testbeds.PortDiscards, error) {
	own := make([]uint64, len(t.hosts))
	err := each(len(t.hosts), func(i int) error {
		c, err := t.hosts[i].Counters(ctx)
		for _, loss := range c.Losses {
			own[i] += loss.Value
		}
		if limit := t.stallLimit(); err == nil && limit > 0 && c.Stall > limit {
			err = fmt.Errorf("%s: %w for %v; with retransmission timeouts as short as this test's more than %v is unfair to "+
				"the device: choose a longer min-retransmit-timeout or a quieter machine", t.hosts[i].Name(), ErrStalled, c.Stall,
				limit)
		}
		return err
	})
	var list []testbeds.PortDiscards
	for i, h := range t.m.Hosts {
		if n := own[i] + lost[uint32(h.Port)] - t.before[uint32(h.Port)]; n > 0 {
			list = append(list, testbeds.PortDiscards{Port: h.Port, Packets: n})
		}
	}
	return list, err
}

// checkSwitchWaits refuses a run in which the switch delayed a frame so long that the trace, stamped at the output,
// would blame the models. A kernel datapath never delays frames.
func (t *Testbed) checkSwitchWaits(ctx context.Context) error {
	limit := t.stallLimit()
	before, counted, err := waits(t.described)
	if err != nil || !counted || limit == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, agent.CallTimeout)
	defer cancel()
	answer, err := t.status.Describe(ctx, &injectorpb.DescribeRequest{})
	if err != nil {
		return t.ofSwitch("describe", err)
	}
	now, _, err := waits(answer)
	if err != nil {
		return err
	}
	if longest := now.Since(before).Longest(); longest >= limit {
		return fmt.Errorf("%s: %w: a frame waited in the switch for at least %v; more than %v is unfair to the device",
			t.m.Switch.Name, ErrStalled,
			longest.Round(time.Millisecond), limit)
	}
	return nil
}

// hostDelays returns how long hosts of software held frames, by the switch's echoes.
func (t *Testbed) hostDelays(ctx context.Context) (list []testbeds.HostDelay, err error) {
	if t.status == nil || !t.software() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, agent.CallTimeout)
	defer cancel()
	answer, err := t.status.Describe(ctx, &injectorpb.DescribeRequest{})
	if err != nil {
		return nil, t.ofSwitch("describe", err)
	}
	for i, h := range t.m.Hosts {
		before, err := holds(t.described, h.Port)
		if err != nil {
			return nil, err
		}
		now, err := holds(answer, h.Port)
		if err != nil {
			return nil, err
		}
		held := now.Since(before)
		if bound, known := held.Longest(); known {
			list = append(list, testbeds.HostDelay{Host: t.spec.Hosts[i].Name, BoundNS: bound.Nanoseconds(),
				Echoes: held.Echoes()})
		}
	}
	return list, nil
}

// holds reads how long the host at a port held frames; a port without an answer has none.
func holds(d *injectorpb.DescribeResponse, port uint16) (h qemu.Holds, err error) {
	for _, p := range d.GetProperties() {
		if p.GetName() == softswitch.HoldsOfPort+strconv.Itoa(int(port)) {
			return qemu.ParseHolds(p.GetValue())
		}
	}
	return h, nil
}

// waits reads the frames' waiting times in the switch, if it reports them.
func waits(d *injectorpb.DescribeResponse) (counts delay.Counts, counted bool, err error) {
	for _, p := range d.GetProperties() {
		if p.GetName() == softswitch.WaitCounts {
			counts, err = delay.Parse(p.GetValue())
			return counts, true, err
		}
	}
	return counts, false, nil
}

// ErrStalled reports that the machine stalled a model so long that the trace would blame the model.
var ErrStalled = errors.New("the machine kept the model waiting")

// stallLimit bounds the stall of a model: a quarter of the shortest retransmission timeout, because a round trip can
// stall at four places. 0: unlimited.
func (t *Testbed) stallLimit() time.Duration {
	if t.software() {
		return 0 // times are not judged
	}
	const unit = 4096 * time.Nanosecond // IBTA volume 1, 9.7.6.1.3
	limit := time.Duration(0)
	for _, c := range t.spec.Connections {
		if c.AckTimeout > 0 && (limit == 0 || unit<<c.AckTimeout/4 < limit) {
			limit = unit << c.AckTimeout / 4
		}
	}
	return limit
}

// maxCapture bounds the bytes fetched from an agent at twice what it records for a run, to protect this machine's disk.
const maxCapture = 2 << 30

func (t *Testbed) fetch(ctx context.Context, c *agent.Client, a *agentpb.FinishResponse) error {
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	left := uint64(maxCapture)
	for _, s := range a.GetShards() {
		if s.GetName() != filepath.Base(s.GetName()) {
			return fmt.Errorf("%s: shard %q has no plain name", c.Name(), s.GetName())
		}
		if s.GetBytes() > left {
			return fmt.Errorf("%s: its shards have more than the %d MiB that a dumper may record", c.Name(), maxCapture>>20)
		}
		left -= s.GetBytes()
		file, err := root.OpenFile(s.GetName(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
		err = c.Fetch(ctx, s, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// rescueTime bounds saving the copies of a failed run.
const rescueTime = 5 * time.Second

// rescue saves what the dumpers of a failed run recorded, if they still answer.
func (t *Testbed) rescue() {
	if t.dir == "" || t.stopped {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rescueTime)
	defer cancel()
	// The run has already failed with its own error; a dumper's error adds nothing.
	_ = each(len(t.dumpers), func(i int) error {
		a, err := t.dumpers[i].Finish(ctx)
		return errors.Join(err, t.fetch(ctx, t.dumpers[i], a))
	})
}

// Close saves what a failed run recorded, releases the machines and closes the connections. A lost component is an
// error even after the last step, because the time of its failure is unknown.
func (t *Testbed) Close() error {
	t.lastWord()
	gone := t.gone()
	t.rescue()
	// The watch ends before the leases; otherwise it would report their end as a failure.
	t.fail(errOver)
	t.watch.Wait()
	_ = each(len(t.leases), func(i int) error { t.leases[i].Close(); return nil })
	return errors.Join(gone, t.m.Close())
}

// gone returns an error that names the lost component, unless a step has already reported it.
func (t *Testbed) gone() error {
	if t.blamed || t.alive.Err() == nil {
		return nil
	}
	return t.Blame(context.Cause(t.alive))
}

// lastWord checks once more that every component answers.
func (t *Testbed) lastWord() {
	if t.alive.Err() != nil || len(t.leases) < len(t.agents()) {
		return // the run has failed already
	}
	ctx, cancel := context.WithTimeout(t.alive, agent.CallTimeout)
	defer cancel()
	clients := t.agents()
	err := each(len(clients)+1, func(i int) error {
		if i < len(clients) {
			_, err := clients[i].Describe(ctx)
			return err
		}
		_, err := t.losses(ctx)
		return err
	})
	if err != nil {
		t.fail(fmt.Errorf("after the last step: %w", err))
	}
}

var errOver = errors.New("the run is over")
