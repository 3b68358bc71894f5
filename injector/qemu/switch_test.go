//go:build linux

package qemu_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/qemu"
	"candela.dev/candela/link/echo"
)

// running is a switch that forwards, the lock for programming it, and sockets in place of guests and dumpers.
type running struct {
	*qemu.Switch
	mu    sync.Mutex
	peers [datapathtest.Ports]*net.UnixConn
	near  [datapathtest.Ports]*net.UnixAddr
}

func (r *running) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func open(t *testing.T, queue int) *running {
	t.Helper()
	return openWith(t, queue, false)
}

func openWith(t *testing.T, queue int, echoing bool) *running {
	t.Helper()
	dir, err := os.MkdirTemp("", "qemu") // TempDir's paths are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &running{}
	cfg := qemu.Config{Seed: datapathtest.Seed, Queue: queue, Report: func(err error) { t.Error(err) }}
	for i := range datapathtest.Ports {
		path := func(side string) string { return filepath.Join(dir, fmt.Sprintf("%s%d", side, i)) }
		cfg.Ports = append(cfg.Ports, qemu.Port{Local: path("s"), Remote: path("g"), Echo: echoing})
		r.near[i] = &net.UnixAddr{Name: path("s"), Net: "unixgram"}
		if r.peers[i], err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path("g"), Net: "unixgram"}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.peers[i].Close() })
	}
	if r.Switch, err = qemu.Open(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := r.Run(ctx, r.do); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *running) send(t *testing.T, f datapathtest.Frame) {
	t.Helper()
	if _, err := r.peers[f.Port].WriteToUnix(f.Data, r.near[f.Port]); err != nil {
		t.Fatal(err)
	}
}

// receive waits for n frames of a port, and a moment for more.
func (r *running) receive(t *testing.T, port, n int) (frames [][]byte) {
	t.Helper()
	buffer := make([]byte, 1<<16)
	for {
		patience := time.Minute
		if len(frames) >= n {
			patience = 2 * time.Millisecond
		}
		if err := r.peers[port].SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		length, err := r.peers[port].Read(buffer)
		if err != nil {
			return frames
		}
		frames = append(frames, bytes.Clone(buffer[:length]))
	}
}

func (r *running) program(c datapathtest.Case) (err error) {
	r.do(func() {
		r.Pipeline().Reset()
		err = datapathtest.Program(r.Pipeline(), c)
	})
	return err
}

func TestFramesLeaveAsThePipelineDecides(t *testing.T) {
	r := open(t, 0)
	for _, c := range datapathtest.Cases() {
		want, err := datapathtest.Expected(c)
		if err == nil {
			err = r.program(c)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		// Frames of different ports race to the switch as from two machines; here they must arrive in order.
		before := uint64(0)
		r.do(func() { before = received(r.Stats()) })
		for i, f := range c.In {
			r.send(t, f)
			r.await(t, before+uint64(i)+1)
		}
		var got [datapathtest.Ports][][]byte
		for port := range got {
			got[port] = r.receive(t, port, len(want[port]))
		}
		for _, mirror := range []int{datapathtest.DumperA, datapathtest.DumperB} {
			for _, f := range got[mirror] {
				datapathtest.ClearStamp(f)
			}
		}
		if err := datapathtest.Compare(want, got); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	r.do(func() {
		for i, p := range r.Stats() {
			if p.Unsent+p.Cut > 0 {
				t.Errorf("losses of port %d: %+v", i, p)
			}
		}
	})
}

func received(stats []qemu.PortStats) (n uint64) {
	for _, p := range stats {
		n += p.Received
	}
	return n
}

func (r *running) await(t *testing.T, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Microsecond) {
		got := uint64(0)
		r.do(func() { got = received(r.Stats()) })
		if got >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the switch has taken %d frames within a minute, want %d", got, n)
		}
	}
}

// pair programs forwarding and an open gate, no events.
func (r *running) pair(t *testing.T) {
	t.Helper()
	if err := r.program(datapathtest.Case{}); err != nil {
		t.Fatal(err)
	}
}

// toB is a frame from A to B, of no protocol.
func toB(i int) datapathtest.Frame {
	a, b := datapathtest.MAC(datapathtest.HostA), datapathtest.MAC(datapathtest.HostB)
	frame := append(append(b[:], a[:]...), 0x88, 0xb5, byte(i>>8), byte(i))
	return datapathtest.Frame{Port: datapathtest.HostA, Data: append(frame, make([]byte, 1000)...)}
}

func TestASlowPeerGetsEveryFrameInOrderAndDelaysNobody(t *testing.T) {
	r := open(t, 0)
	r.pair(t)
	const n = 2000 // beyond what any socket queue holds
	for i := range n {
		r.send(t, toB(i))
	}
	r.await(t, n) // no peer has read a frame, and all were taken
	got := r.receive(t, datapathtest.HostB, n)
	if len(got) != n {
		t.Fatalf("%d of %d frames arrived", len(got), n)
	}
	for i, f := range got {
		if !bytes.Equal(f, toB(i).Data) {
			t.Fatalf("frame %d is another", i)
		}
	}
	r.do(func() {
		if p := r.Stats()[datapathtest.HostB]; p.Waited == 0 || p.Unsent > 0 || p.Sent != n {
			t.Errorf("the slow port: %+v", p)
		}
	})
}

func TestFramesBeyondTheQueueAreCounted(t *testing.T) {
	r := open(t, 10_000)
	r.pair(t)
	const n = 2000
	for i := range n {
		r.send(t, toB(i))
	}
	r.await(t, n)
	r.do(func() {
		p := r.Stats()[datapathtest.HostB]
		if p.Unsent == 0 {
			t.Errorf("no frame was lost with a queue of 10 kB: %+v", p)
		}
	})
}

func TestAPeerThatIsNotThereCostsTheFrameAndIsFoundWhenItComes(t *testing.T) {
	r := open(t, 0)
	r.pair(t)
	path := r.peers[datapathtest.HostB].LocalAddr().String()
	if err := r.peers[datapathtest.HostB].Close(); err != nil { // removes the socket
		t.Fatal(err)
	}
	r.send(t, toB(0))
	r.await(t, 1)
	r.do(func() {
		if p := r.Stats()[datapathtest.HostB]; p.Unsent != 1 {
			t.Errorf("nobody there: %+v", p)
		}
	})
	var err error
	_ = os.Remove(path)
	if r.peers[datapathtest.HostB],
		err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	defer r.peers[datapathtest.HostB].Close()
	r.send(t, toB(1))
	if got := r.receive(t, datapathtest.HostB, 1); len(got) != 1 || !bytes.Equal(got[0], toB(1).Data) {
		t.Errorf("the new peer got %d frames", len(got))
	}
}

func TestAPeerThatTakesAnothersPlaceGetsEveryFrame(t *testing.T) {
	r := open(t, 0)
	r.pair(t)
	path := r.peers[datapathtest.HostB].LocalAddr().String()
	r.send(t, toB(0))
	if got := r.receive(t, datapathtest.HostB, 1); len(got) != 1 {
		t.Fatalf("the first peer got %d frames", len(got))
	}
	if err := r.peers[datapathtest.HostB].Close(); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path)
	var err error
	if r.peers[datapathtest.HostB],
		err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	defer r.peers[datapathtest.HostB].Close()
	r.send(t, toB(1))
	if got := r.receive(t, datapathtest.HostB, 1); len(got) != 1 || !bytes.Equal(got[0], toB(1).Data) {
		t.Errorf("the new peer got %d frames", len(got))
	}
}

// A host that returns echoes 150 ms late holds frames that long; for a dumper and a host that return none it is
// unknown.
func TestEchoesMeasureForHowLongAHostHoldsFrames(t *testing.T) {
	r := openWith(t, 0, true)
	r.pair(t)
	const hold = 150 * time.Millisecond
	r.send(t, toB(0)) // the first frame is not RoCE, so this is idle: one echo a second
	buffer := make([]byte, 2000)
	for answered := false; !answered; {
		if err := r.peers[datapathtest.HostB].SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := r.peers[datapathtest.HostB].Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		if answered = echo.Answer(buffer[:n], datapathtest.MAC(datapathtest.HostB)); answered {
			time.Sleep(hold)
			r.send(t, datapathtest.Frame{Port: datapathtest.HostB, Data: buffer[:n]})
		}
	}
	var holds []qemu.Holds
	var stats []qemu.PortStats
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		r.do(func() { holds, stats = r.Holds(), r.Stats() })
		if holds[datapathtest.HostB].Answers || time.Now().After(deadline) {
			break
		}
	}
	if bound, known := holds[datapathtest.HostB].Longest(); !known || bound < hold || bound > time.Minute {
		t.Errorf("held for at most %v, %t; it was at least %v", bound, known, hold)
	}
	if _, known := holds[datapathtest.HostA].Longest(); known {
		t.Error("a host that answers no echoes is known")
	}
	if p := stats[datapathtest.HostA]; p.Sent != 0 || p.Unsent != 0 {
		t.Errorf("echoes are counted as traffic: %+v", p)
	}
}

// A process that may write to a port's socket can send frames in a guest's name.
func TestPortsAreOfTheirUserAlone(t *testing.T) {
	r := open(t, 0)
	for _, near := range r.near {
		if info, err := os.Stat(near.Name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
		}
	}
}
