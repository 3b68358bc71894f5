//go:build linux

package afpacket_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"candela.dev/candela/injector/afpacket"
	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/link/linktest"
)

// running is a switch that forwards, and the lock under which it is programmed.
type running struct {
	*afpacket.Switch
	mu sync.Mutex
}

func (r *running) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// open makes a switch in the current namespace, and what hangs on it.
func open(t testing.TB, packetSockets bool) (*running, *datapathtest.Wire) {
	t.Helper()
	w := datapathtest.NewWire(t)
	s, err := afpacket.Open(afpacket.Config{Ports: datapathtest.NearPorts(), Seed: datapathtest.Seed,
		PacketSockets: packetSockets, Report: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Switch: s}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.Run(ctx, r.do); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w.Listen(t)
	return r, w
}

func TestFramesLeaveAsThePipelineDecides(t *testing.T) {
	for name, packetSockets := range map[string]bool{"through XDP sockets": false, "through packet sockets": true} {
		t.Run(name, func(t *testing.T) { leaveAsDecided(t, packetSockets) })
	}
}

func leaveAsDecided(t *testing.T, packetSockets bool) {
	linktest.Namespace(t, func() {
		s, w := open(t, packetSockets)
		do := func(f func(switchd.Datapath) error) (err error) {
			s.do(func() { err = f(s.Pipeline()) })
			return err
		}
		w.Check(t, do)
		w.CheckRandom(t, 1, 20, do)
		s.do(func() {
			stats, err := s.Stats()
			if err != nil {
				t.Error(err)
			}
			for _, p := range stats {
				if p.Missed+p.Cut+p.Unsent > 0 {
					t.Errorf("losses: %+v", p)
				}
			}
		})
	})
}

func TestFramesForAPortThatIsDownStayCountedWhenItComesBack(t *testing.T) {
	for name, packetSockets := range map[string]bool{"through XDP sockets": false, "through packet sockets": true} {
		t.Run(name, func(t *testing.T) { staysCounted(t, packetSockets) })
	}
}

func staysCounted(t *testing.T, packetSockets bool) {
	linktest.Namespace(t, func() {
		w := datapathtest.NewWire(t)
		s, err := afpacket.Open(afpacket.Config{Ports: datapathtest.NearPorts(), PacketSockets: packetSockets})
		if err != nil {
			t.Fatal(err)
		}
		r := &running{Switch: s}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if err := s.Run(ctx, r.do); err != nil {
				t.Error(err)
			}
		})
		defer func() {
			cancel()
			group.Wait()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		w.Listen(t)
		c := datapathtest.Cases()[0]
		r.do(func() { err = datapathtest.Program(s.Pipeline(), c) })
		if err != nil {
			t.Fatal(err)
		}
		linktest.SetDown(t, datapathtest.Near(datapathtest.HostB))
		w.Send(t, c.In)
		want := uint64(len(c.In))
		if got := r.settled(t, want); got.Unsent != want {
			t.Errorf("the port is down: %+v, want %d unsent", got, want)
		}
		linktest.SetUp(t, datapathtest.Near(datapathtest.HostB))
		w.Send(t, c.In)
		if got := r.settled(t, 2*want); got.Unsent < want || got.Sent < want {
			t.Errorf("the port is back: %+v, want at least %d sent and %d unsent", got, want, want)
		}
	})
}

// settled waits until as many frames as wanted for host B were sent or not, and returns the counts of its port.
func (r *running) settled(t *testing.T, want uint64) (p afpacket.PortStats) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		r.do(func() {
			stats, err := r.Stats()
			if err != nil {
				t.Fatal(err)
			}
			p = stats[datapathtest.HostB]
		})
		if p.Sent+p.Unsent >= want {
			return p
		}
	}
	return p
}
