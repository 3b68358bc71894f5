package vm

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"candela.dev/candela/clock"
	"candela.dev/candela/dumper"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/qemu"
	"candela.dev/candela/injector/softswitch"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/testbeds"
)

// fault keeps the first error of the background goroutines.
type fault struct {
	lock  sync.Mutex
	first error
}

func (f *fault) note(err error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.first == nil {
		f.first = err
	}
}

func (f *fault) failed() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.first
}

type inside struct {
	fault
	spec     *testbeds.Spec
	sw       *qemu.Switch
	server   *switchd.Server
	conn     *grpc.ClientConn
	cancel   context.CancelFunc
	serving  sync.WaitGroup
	baseline []qemu.PortStats
	before   qemu.Delays
	held     []qemu.Holds   // before record
	dumpers  []*dumper.Host // guarded by the server's lock
}

func openInside(g *Guests, spec *testbeds.Spec) (_ fabric, err error) {
	t := &inside{spec: spec, dumpers: make([]*dumper.Host, len(spec.Dumpers))}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	cfg := qemu.Config{Seed: testbeds.ComponentSeed(spec.Seed, "switch"), Report: t.note}
	for _, path := range g.portPaths() {
		cfg.Ports = append(cfg.Ports, qemu.Port{Local: path + softswitch.SwitchSocket, Remote: path + softswitch.PeerSocket,
			Echo: true})
	}
	for i := range spec.Dumpers {
		cfg.Ports = append(cfg.Ports, qemu.Port{Record: func(frame []byte) { t.capture(i, frame) }})
	}
	if t.sw, err = qemu.Open(cfg); err != nil {
		return nil, err
	}
	if t.server, err = switchd.New(switchd.Config{DeviceID: deviceID, Datapath: t.sw.Pipeline(),
		Info: p4.Software()}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	const buffer = 64 << 10 // of each direction
	listener := bufconn.Listen(buffer)
	t.serving.Go(func() { t.note(t.sw.Run(ctx, t.server.Do)) })
	t.serving.Go(func() { t.note(t.server.Serve(ctx, listener)) })
	t.conn, err = grpc.NewClient("passthrough:///vm-switch",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	return t, err
}

// capture passes a mirror copy to a dumper; the switch's goroutine calls it with the lock held.
func (t *inside) capture(i int, frame []byte) {
	if d := t.dumpers[i]; d != nil {
		t.note(d.Capture(0, frame)) // without capacity limits, the time does not matter
	}
}

func (t *inside) access() testbeds.Access { return testbeds.Access{Conn: t.conn} }

func (t *inside) record(_ context.Context, create func(name string) (io.WriteCloser, error)) (err error) {
	t.server.Do(func() {
		for i, d := range t.spec.Dumpers {
			if t.dumpers[i], err = dumper.NewHost(dumper.Config{Name: d.Name, Cores: d.Cores, Create: create}); err != nil {
				return
			}
		}
		t.baseline, t.before, t.held = t.sw.Stats(), t.sw.Delays(), t.sw.Holds()
	})
	return err
}

func (t *inside) stop(context.Context) (dump testbeds.Dump, err error) {
	t.server.Do(func() {
		for _, h := range t.dumpers {
			addReport(&dump, h)
		}
		for i, p := range t.sw.Stats()[:len(t.spec.Hosts)] {
			if n := p.Unsent + p.Cut - t.baseline[i].Unsent - t.baseline[i].Cut; n > 0 {
				dump.Discards = append(dump.Discards, testbeds.PortDiscards{Port: uint16(i), Packets: n})
			}
		}
		err = closeDumpers(t.dumpers)
	})
	return dump, err
}

func addReport(dump *testbeds.Dump, h *dumper.Host) {
	r := h.Report()
	for _, s := range r.Shards {
		dump.Shards = append(dump.Shards, s.File)
	}
	dump.Dumpers = append(dump.Dumpers, testbeds.DumperCounters{
		Name: r.Name, Received: uint64(r.Received), Written: uint64(r.Written), Dropped: uint64(r.Lost + r.Other)})
}

// closeDumpers must be called while captures are excluded.
func closeDumpers(dumpers []*dumper.Host) error {
	var failed []error
	for i, d := range dumpers {
		if d != nil {
			failed = append(failed, d.Close())
		}
		dumpers[i] = nil
	}
	return errors.Join(failed...)
}

func (t *inside) idle() time.Duration {
	var now, last clock.Time
	t.server.Do(func() { now, last = t.sw.Quiet() })
	return now.Sub(last).Std()
}

func (t *inside) delays(context.Context) (d qemu.Delays, _ error) {
	t.server.Do(func() { d = t.sw.Delays().Since(t.before) })
	return d, nil
}

func (t *inside) holds(context.Context) (list [2]qemu.Holds, _ error) {
	t.server.Do(func() {
		now := t.sw.Holds()
		for i := range list {
			list[i] = now[i].Since(t.held[i])
		}
	})
	return list, nil
}

func (t *inside) component() testbeds.Component {
	return testbeds.Component{Name: "switch", Kind: "switch", Properties: []testbeds.Property{
		testbeds.NewProperty("datapath", softswitch.QEMU), testbeds.NewProperty("process", "this one"),
		testbeds.NewProperty("snap-bytes", t.spec.Switch.Snap),
	}}
}

func (t *inside) close() error {
	var failed []error
	if t.conn != nil {
		failed = append(failed, t.conn.Close())
	}
	if t.cancel != nil {
		t.server.Do(func() { failed = append(failed, closeDumpers(t.dumpers)) })
		t.cancel()
		t.serving.Wait()
	}
	if t.sw != nil {
		failed = append(failed, t.sw.Close())
	}
	return errors.Join(failed...)
}
