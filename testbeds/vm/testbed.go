package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"candela.dev/candela/clock"
	"candela.dev/candela/dumper"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/qemu"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/testbeds"
)

// deviceID is the P4Runtime device id of the switch.
const deviceID = 1

// guestMTU carries the largest path MTU with every header.
const guestMTU = 4500

// vendor names the counters of soft-RoCE.
const vendor = "rxe"

// Testbed is one test's use of the guests. It is driven by one goroutine.
type Testbed struct {
	guests *Guests
	spec   testbeds.Spec

	sw       *qemu.Switch
	server   *switchd.Server
	conn     *grpc.ClientConn
	stop     context.CancelFunc
	serving  sync.WaitGroup
	lock     sync.Mutex // guards fault
	fault    error      // of switch or dumpers
	baseline []qemu.PortStats

	ends    [2]verbs.OpenResponse
	ratio   [2]float64
	reports [2]*verbs.ReportResponse // nil before the traffic
	dumpers []*dumper.Host           // guarded by the server's lock
}

// Testbed starts a switch between the guests for one test.
func (g *Guests) Testbed(spec testbeds.Spec) (_ *Testbed, err error) {
	if dead := g.Dead(); len(dead) > 0 {
		return nil, fmt.Errorf("vm testbed: guest %s has ended; the end of its console:\n%s", strings.Join(dead, " and "),
			tail(g.named(dead[0]).console(), consoleLines))
	}
	t := &Testbed{guests: g, spec: spec, dumpers: make([]*dumper.Host, len(spec.Dumpers))}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("vm testbed: %w", err), t.Close())
		}
	}()
	cfg := qemu.Config{Seed: testbeds.ComponentSeed(spec.Seed, "switch"), Report: t.fail}
	for _, one := range g.guests {
		cfg.Ports = append(cfg.Ports, qemu.Port{Local: one.port(), Remote: one.socket()})
	}
	for i := range spec.Dumpers {
		cfg.Ports = append(cfg.Ports, qemu.Port{Record: func(frame []byte) { t.record(i, frame) }})
	}
	if t.sw, err = qemu.Open(cfg); err != nil {
		return nil, err
	}
	if t.server, err = switchd.New(switchd.Config{DeviceID: deviceID, Datapath: t.sw.Pipeline(), Info: p4.Software()}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.stop = cancel
	const buffer = 64 << 10 // of each direction
	listener := bufconn.Listen(buffer)
	t.serving.Go(func() { t.fail(t.sw.Run(ctx, t.server.Do)) })
	t.serving.Go(func() { t.fail(t.server.Serve(ctx, listener)) })
	t.conn, err = grpc.NewClient("passthrough:///vm-switch",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	return t, err
}

func (g *Guests) named(name string) *guest {
	if g.guests[0].name == name {
		return g.guests[0]
	}
	return g.guests[1]
}

// fail keeps the first fault of what runs in the background.
func (t *Testbed) fail(err error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.fault == nil {
		t.fault = err
	}
}

func (t *Testbed) failed() error {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.fault
}

// record hands a mirror copy to a dumper; the switch's goroutine calls it inside the lock.
func (t *Testbed) record(i int, frame []byte) {
	if d := t.dumpers[i]; d != nil {
		t.fail(d.Capture(0, frame)) // without capacity limits, the instant means nothing
	}
}

// both does f for both guests at once.
func (t *Testbed) both(ctx context.Context, f func(ctx context.Context, side int, g *guest) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for side, g := range t.guests.guests {
		group.Go(func() error { return f(ctx, side, g) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("vm testbed: %w", err)
	}
	return nil
}

// Prepare makes fresh RDMA devices and queue pairs in the guests and joins them.
func (t *Testbed) Prepare(ctx context.Context) ([]injector.Connection, error) {
	for i := range t.spec.Hosts {
		if h := &t.spec.Hosts[i]; h.MAC == nil {
			mac := testbeds.HostMAC(i)
			h.MAC = &mac
		}
	}
	err := t.both(ctx, func(ctx context.Context, side int, g *guest) (err error) {
		if t.ratio[side], err = g.clockRatio(ctx); err != nil {
			return err
		}
		if r := t.ratio[side]; r < 0.5 || r > 2 {
			return fmt.Errorf("guest %s: its clock goes %.2f times as fast as this machine's: its timers would mislead", g.name, r)
		}
		var configured verbs.ConfigureResponse
		if err := g.call(ctx, verbs.OpConfigure, t.configuration(side), &configured); err != nil {
			return err
		}
		return g.call(ctx, verbs.OpOpen, t.opening(side, configured.Device), &t.ends[side])
	})
	if err != nil {
		return nil, err
	}
	err = t.both(ctx, func(ctx context.Context, side int, g *guest) error {
		return g.call(ctx, verbs.OpConnect, verbs.ConnectRequest{Peers: t.ends[1-side].Ends}, nil)
	})
	list := make([]injector.Connection, len(t.spec.Connections))
	for i := range list {
		end := func(side int) injector.Endpoint {
			e := t.ends[side].Ends[i]
			return injector.Endpoint{IP: e.IP, QPN: e.QPN, IPSN: e.IPSN}
		}
		if err == nil {
			list[i] = injector.Connection{Requester: end(testbeds.Requester), Responder: end(testbeds.Responder)}
		}
	}
	return list, err
}

// configuration is what a guest's interface needs for the test.
func (t *Testbed) configuration(side int) verbs.ConfigureRequest {
	own, peer := &t.spec.Hosts[side], &t.spec.Hosts[1-side]
	r := verbs.ConfigureRequest{MAC: *own.MAC, MTU: guestMTU}
	for _, ip := range own.IPs {
		bits := 24
		if ip.Is6() {
			bits = 64
		}
		r.Addresses = append(r.Addresses, netip.PrefixFrom(ip, bits))
	}
	for _, ip := range peer.IPs {
		r.Neighbours = append(r.Neighbours, verbs.Neighbour{IP: ip, MAC: *peer.MAC})
	}
	return r
}

// opening is what a guest's queue pairs shall be and do.
func (t *Testbed) opening(side int, device string) verbs.OpenRequest {
	h := &t.spec.Hosts[side]
	r := verbs.OpenRequest{
		Device: device, Side: generator.Side(side), BarrierSync: t.spec.BarrierSync, ReceiveDepth: t.spec.RxDepth,
		RepostNS: t.spec.RxRepostDelay.Nanoseconds(), Seed: testbeds.ComponentSeed(t.spec.Seed, h.Name),
	}
	for i := range t.spec.Connections {
		c := &t.spec.Connections[i]
		r.Connections = append(r.Connections, verbs.Connection{
			IP: c.IPs[side], IPSN: c.InitialPSN[side], MTU: c.MTU, AckTimeout: c.AckTimeout, RetryCount: c.RetryCount,
			RNRRetry: c.RNRRetry, MinRNRTimer: c.MinRNRTimer, HopLimit: h.HopLimit, TrafficClass: h.DSCP<<2 | uint8(h.ECN),
			Traffic: c.Traffic[side], PeerTraffic: c.Traffic[1-side],
		})
	}
	return r
}

// Injector says how to reach the switch.
func (t *Testbed) Injector(context.Context) (testbeds.Access, error) {
	a := testbeds.Access{Conn: t.conn, DeviceID: deviceID, Target: "switch between the guests", Info: p4.Software()}
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
	p := testbeds.NewProperty
	for side, g := range t.guests.guests {
		d := t.ends[side].Device
		env.Components = append(env.Components, testbeds.Component{Name: t.spec.Hosts[side].Name, Kind: "host", Properties: []testbeds.Property{
			p("model", "soft-RoCE (rdma_rxe)"), p("kernel", g.first.Kernel), p("image", t.guests.image.Name),
			p("package", t.guests.image.Package), p("rdma-core", t.guests.image.RDMACore), p("device", d.Name),
			p("firmware", d.Firmware), p("memory-mib", t.guests.cfg.Memory), p("clock-source", g.first.ClockSource),
			p("clock-ratio", fmt.Sprintf("%.3f", t.ratio[side])), p("boot", g.booted.Round(10*time.Millisecond)),
			p("interface-mtu", guestMTU),
		}})
	}
	env.Components = append(env.Components, testbeds.Component{Name: "switch", Kind: "switch", Properties: []testbeds.Property{
		p("datapath", "qemu"), p("snap-bytes", t.spec.Switch.Snap),
	}})
	for _, d := range t.spec.Dumpers {
		env.Components = append(env.Components, testbeds.Component{Name: d.Name, Kind: "dumper", Properties: []testbeds.Property{
			p("weight", d.Weight), p("cores", d.Cores)}})
	}
	return env, nil
}

// StartDumpers makes every dumper ready to write its shards into dir, which exists.
func (t *Testbed) StartDumpers(ctx context.Context, dir string) error {
	return t.RecordTo(ctx, func(name string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, name)) })
}

// RecordTo is StartDumpers with shards that create makes; the testbed closes them.
func (t *Testbed) RecordTo(_ context.Context, create func(name string) (io.WriteCloser, error)) (err error) {
	t.server.Do(func() {
		for i, d := range t.spec.Dumpers {
			if t.dumpers[i], err = dumper.NewHost(dumper.Config{Name: d.Name, Cores: d.Cores, Create: create}); err != nil {
				return
			}
		}
		t.baseline = t.sw.Stats()
	})
	return err
}

// StopDumpers closes the shards and reports what became of the mirror copies.
func (t *Testbed) StopDumpers(context.Context) (dump testbeds.Dump, err error) {
	t.server.Do(func() {
		for _, h := range t.dumpers {
			r := h.Report()
			for _, s := range r.Shards {
				dump.Shards = append(dump.Shards, s.File)
			}
			dump.Dumpers = append(dump.Dumpers, testbeds.DumperCounters{
				Name: r.Name, Received: uint64(r.Received), Written: uint64(r.Written), Dropped: uint64(r.Lost + r.Other)})
		}
		for i, p := range t.sw.Stats()[:len(t.spec.Hosts)] {
			if n := p.Unsent + p.Cut - t.baseline[i].Unsent - t.baseline[i].Cut; n > 0 {
				dump.Discards = append(dump.Discards, testbeds.PortDiscards{Port: uint16(i), Packets: n})
			}
		}
		err = t.closeDumpers()
	})
	return dump, errors.Join(err, t.failed())
}

// closeDumpers is called inside the lock.
func (t *Testbed) closeDumpers() error {
	var failed []error
	for i, d := range t.dumpers {
		if d != nil {
			failed = append(failed, d.Close())
		}
		t.dumpers[i] = nil
	}
	return errors.Join(failed...)
}

// Counters reads the devices' counters.
func (t *Testbed) Counters(ctx context.Context) ([]testbeds.HostCounters, error) {
	list := make([]testbeds.HostCounters, len(t.spec.Hosts))
	err := t.both(ctx, func(ctx context.Context, side int, g *guest) error {
		var r verbs.CountersResponse
		if err := g.call(ctx, verbs.OpCounters, nil, &r); err != nil {
			return err
		}
		list[side] = testbeds.HostCounters{Host: t.spec.Hosts[side].Name, Vendor: vendor}
		for _, c := range r.Counters {
			list[side].Values = append(list[side].Values, testbeds.Counter{Name: c.Name, Value: c.Value})
		}
		return nil
	})
	if err == nil && t.reports[0] != nil {
		list[0].Values = append(list[0].Values, t.ownCounters()...)
	}
	return list, err
}

// ownCounters are what the testbed has to say of a run beside the devices' counters.
func (t *Testbed) ownCounters() []testbeds.Counter {
	checked, wrong := t.verify()
	return []testbeds.Counter{
		{Name: "candela_connections_verified", Value: checked},
		{Name: "candela_connections_with_wrong_data", Value: wrong},
		{Name: "candela_switch_delay_median_ns_at_most", Value: uint64(t.Forwarding().Median.Nanoseconds())},
	}
}

// verify compares what arrived in memory with what was sent, of every connection whose memory tells: one verb, one direction,
// all messages successful.
func (t *Testbed) verify() (checked, wrong uint64) {
	for i := range t.spec.Connections {
		c := &t.spec.Connections[i]
		if c.Traffic[testbeds.Responder].Messages > 0 || len(c.Traffic[testbeds.Requester].Verbs) != 1 || !t.succeeded(i) {
			continue
		}
		from, to := t.reports[0].Digests[i], t.reports[1].Digests[i]
		var want, got string
		switch c.Traffic[testbeds.Requester].Verbs[0] {
		case generator.Write, generator.WriteImm:
			want, got = from.Source, to.Exposed
		case generator.Send, generator.SendImm:
			want, got = from.Source, to.Received
		case generator.Read:
			want, got = to.Exposed, from.Sink
		case generator.CompareSwap, generator.FetchAdd, generator.VerbNone:
			continue
		}
		checked++
		if want != got {
			wrong++
		}
	}
	return checked, wrong
}

// succeeded reports whether every message of a connection did.
func (t *Testbed) succeeded(connection int) bool {
	for _, s := range t.reports[0].Report.Streams {
		if s.Connection == connection+1 {
			return len(s.Statuses) == 1 && s.Statuses[0].Status == generator.Success &&
				s.Completed == t.spec.Connections[connection].Traffic[testbeds.Requester].Messages
		}
	}
	return false
}

// pollEvery is how often guests are asked whether they are done: each question costs an emulated processor some of its time.
const pollEvery = 30 * time.Millisecond

// minQuiet is how long the wire of emulated machines is watched at least: they may stand still for a while.
const minQuiet = 200 * time.Millisecond

// Run starts the traffic and returns when both sides are done and the wire was quiet, or at the deadline.
func (t *Testbed) Run(ctx context.Context) (generator.Report, error) {
	// The responder first: its receive requests must stand before the first SEND comes.
	for _, side := range []int{testbeds.Responder, testbeds.Requester} {
		if err := t.guests.guests[side].call(ctx, verbs.OpStart, nil, nil); err != nil {
			return generator.Report{}, fmt.Errorf("vm testbed: %w", err)
		}
	}
	if err := t.settle(ctx, time.Now().Add(t.spec.Deadline.Std())); err != nil {
		return generator.Report{}, err
	}
	err := t.both(ctx, func(ctx context.Context, side int, g *guest) error {
		t.reports[side] = new(verbs.ReportResponse)
		return g.call(ctx, verbs.OpReport, nil, t.reports[side])
	})
	if err != nil {
		return generator.Report{}, err
	}
	return merged(t.reports[0].Report, t.reports[1].Report), nil
}

func (t *Testbed) settle(ctx context.Context, deadline time.Time) error {
	quiet := max(minQuiet, t.spec.Quiesce.Std())
	for {
		var done [2]bool
		err := t.both(ctx, func(ctx context.Context, side int, g *guest) error {
			var s verbs.StatusResponse
			err := g.call(ctx, verbs.OpStatus, nil, &s)
			done[side] = s.Done
			return err
		})
		if err == nil {
			err = t.failed()
		}
		if err != nil {
			return err
		}
		var now, last clock.Time
		t.server.Do(func() { now, last = t.sw.Quiet() })
		if done[0] && done[1] && now.Sub(last).Std() >= quiet || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// merged is the report of both sides; each has its own streams. Totals are those of the requester's side unless only the
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

// Forwarding returns how long frames took through the switch.
func (t *Testbed) Forwarding() (f qemu.Forwarding) {
	t.server.Do(func() { f = t.sw.Forwarding() })
	return f
}

// Close ends the queue pairs and the switch; the guests stay for the next test.
func (t *Testbed) Close() error {
	var failed []error
	if t.sw != nil && t.stop != nil && len(t.guests.Dead()) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		failed = append(failed, t.both(ctx, func(ctx context.Context, _ int, g *guest) error { return g.call(ctx, verbs.OpClose, nil, nil) }))
	}
	if t.conn != nil {
		failed = append(failed, t.conn.Close())
	}
	if t.stop != nil {
		t.server.Do(func() { failed = append(failed, t.closeDumpers()) })
		t.stop()
		t.serving.Wait()
	}
	if t.sw != nil {
		failed = append(failed, t.sw.Close())
	}
	return errors.Join(failed...)
}

const closeTimeout = 10 * time.Second
