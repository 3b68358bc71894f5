package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"

	"candela.dev/candela/dumper"
	"candela.dev/candela/injector/qemu"
	"candela.dev/candela/injector/softswitch"
	"candela.dev/candela/injector/transport"
	injectorpb "candela.dev/candela/proto/injector/v1"
	"candela.dev/candela/testbeds"
)

// outside is the fabric of a detached testbed: the switch is a separate process; the dumpers are here, at the other
// ends of its mirror ports.
type outside struct {
	fault
	guests   *Guests
	spec     *testbeds.Spec
	conn     *grpc.ClientConn
	sockets  []*net.UnixConn
	readers  sync.WaitGroup
	watching chan struct{} // closed when the watch of the switch ends
	baseline map[uint32]uint64
	before   answers

	lock    sync.Mutex // guards the fields below
	dumpers []*dumper.Host
	last    time.Time // time of the latest mirror copy
	fences  []chan struct{}
}

// fence is a datagram that is not a frame: a dumper that reads it has read everything before it.
const fence = "fence"

// callTimeout bounds calls to the switch other than P4Runtime.
const callTimeout = 10 * time.Second

func openOutside(g *Guests, spec *testbeds.Spec) (_ fabric, err error) {
	t := &outside{guests: g, spec: spec, dumpers: make([]*dumper.Host, len(spec.Dumpers)), watching: make(chan struct{}),
		last: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.conn, err = transport.Dial("unix:"+g.switchSocket(), nil); err != nil {
		return nil, err
	}
	for i, d := range spec.Dumpers {
		path := g.dumperPath(d.Name) + softswitch.PeerSocket
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			return nil, err
		}
		t.sockets = append(t.sockets, socket)
		t.fences = append(t.fences, make(chan struct{}, 1))
		t.readers.Go(func() { t.read(i, socket) })
	}
	t.readers.Go(func() {
		select {
		case <-g.sw.ended:
			t.note(g.blameSwitch(fmt.Errorf("it has ended: %w%s", g.sw.failure, g.lastWords())))
		case <-t.watching:
		}
	})
	return t, nil
}

// read takes the copies of one mirror port until the socket is closed.
func (t *outside) read(i int, socket *net.UnixConn) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := socket.Read(buffer)
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				t.note(err)
			}
			return
		}
		if string(buffer[:n]) == fence {
			t.fences[i] <- struct{}{}
			continue
		}
		t.lock.Lock()
		t.last = time.Now()
		if d := t.dumpers[i]; d != nil {
			t.note(d.Capture(0, buffer[:n])) // without capacity limits, the time does not matter
		}
		t.lock.Unlock()
	}
}

func (t *outside) access() testbeds.Access { return testbeds.Access{Conn: t.conn} }

// answers are the switch's report about itself.
type answers struct {
	queued int // frames
	delays qemu.Delays
	holds  [2]qemu.Holds
}

func (t *outside) describe(ctx context.Context) (a answers, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := injectorpb.NewStatusClient(t.conn).Describe(ctx, &injectorpb.DescribeRequest{})
	if err != nil {
		return a, t.blame(err)
	}
	for _, p := range answer.Properties {
		switch p.Name {
		case softswitch.QueuedFrames:
			a.queued, err = strconv.Atoi(p.Value)
		case softswitch.DelayCounts:
			a.delays, err = qemu.ParseDelays(p.Value)
		case softswitch.HoldsOfPort + "0":
			a.holds[0], err = qemu.ParseHolds(p.Value)
		case softswitch.HoldsOfPort + "1":
			a.holds[1], err = qemu.ParseHolds(p.Value)
		}
		if err != nil {
			return a, t.blame(err)
		}
	}
	return a, nil
}

// blame replaces err by the end of the switch, if it has ended.
func (t *outside) blame(err error) error {
	select {
	case <-t.guests.sw.ended:
		return t.guests.blameSwitch(fmt.Errorf("it has ended: %w%s", err, t.guests.lastWords()))
	case <-time.After(2 * watchEvery):
		return fmt.Errorf("switch: %w", err)
	}
}

func (t *outside) losses(ctx context.Context) (map[uint32]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := injectorpb.NewStatusClient(t.conn).Losses(ctx, &injectorpb.LossesRequest{})
	if err != nil {
		return nil, t.blame(err)
	}
	lost := make(map[uint32]uint64)
	for _, p := range answer.Ports {
		lost[p.Port] = p.Missed + p.Unsent
	}
	return lost, nil
}

func (t *outside) record(ctx context.Context, create func(name string) (io.WriteCloser, error)) (err error) {
	if t.baseline, err = t.losses(ctx); err != nil {
		return err
	}
	if t.before, err = t.describe(ctx); err != nil {
		return err
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	t.last = time.Now()
	for i, d := range t.spec.Dumpers {
		if t.dumpers[i], err = dumper.NewHost(dumper.Config{Name: d.Name, Cores: d.Cores, Create: create}); err != nil {
			return err
		}
	}
	return nil
}

func (t *outside) stop(ctx context.Context) (dump testbeds.Dump, err error) {
	if err := t.drain(ctx); err != nil {
		return dump, errors.Join(err, t.closeDumpers())
	}
	lost, err := t.losses(ctx)
	if err != nil {
		return dump, errors.Join(err, t.closeDumpers())
	}
	for port := range lost {
		lost[port] -= t.baseline[port]
	}
	for i := range t.spec.Hosts {
		if n := lost[uint32(i)]; n > 0 {
			dump.Discards = append(dump.Discards, testbeds.PortDiscards{Port: uint16(i), Packets: n})
		}
	}
	t.lock.Lock()
	for _, d := range t.dumpers {
		addReport(&dump, d)
	}
	t.lock.Unlock()
	for i := range dump.Dumpers {
		dump.Dumpers[i].SwitchDropped = lost[uint32(len(t.spec.Hosts)+i)]
	}
	return dump, t.closeDumpers()
}

// drain returns when the dumpers have everything that left the switch: first the switch's queues are empty, then each
// dumper has read up to a fence.
func (t *outside) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for {
		now, err := t.describe(ctx)
		if err != nil {
			return err
		}
		if now.queued == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d mirror copies wait in the switch: %w", now.queued, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
	for i, d := range t.spec.Dumpers {
		to := &net.UnixAddr{Name: t.guests.dumperPath(d.Name) + softswitch.PeerSocket, Net: "unixgram"}
		conn, err := net.DialUnix("unixgram", nil, to)
		if err != nil {
			return err
		}
		_, err = conn.Write([]byte(fence))
		if err := errors.Join(err, conn.Close()); err != nil {
			return err
		}
		select {
		case <-t.fences[i]:
		case <-ctx.Done():
			return fmt.Errorf("%s does not read: %w", d.Name, context.Cause(ctx))
		}
	}
	return nil
}

func (t *outside) closeDumpers() error {
	t.lock.Lock()
	defer t.lock.Unlock()
	return closeDumpers(t.dumpers)
}

func (t *outside) idle() time.Duration {
	t.lock.Lock()
	defer t.lock.Unlock()
	return time.Since(t.last)
}

func (t *outside) delays(ctx context.Context) (qemu.Delays, error) {
	now, err := t.describe(ctx)
	return now.delays.Since(t.before.delays), err
}

func (t *outside) holds(ctx context.Context) (list [2]qemu.Holds, _ error) {
	now, err := t.describe(ctx)
	for i := range list {
		list[i] = now.holds[i].Since(t.before.holds[i])
	}
	return list, err
}

func (t *outside) component() testbeds.Component {
	return testbeds.Component{Name: "switch", Kind: "switch", Properties: []testbeds.Property{
		testbeds.NewProperty("datapath", softswitch.QEMU), testbeds.NewProperty("process", t.guests.sw.ID),
		testbeds.NewProperty("snap-bytes", t.spec.Switch.Snap),
	}}
}

func (t *outside) close() error {
	var failed []error
	close(t.watching)
	for _, s := range t.sockets {
		failed = append(failed, s.Close())
	}
	t.readers.Wait()
	failed = append(failed, t.closeDumpers())
	if t.conn != nil {
		failed = append(failed, t.conn.Close())
	}
	return errors.Join(failed...)
}
