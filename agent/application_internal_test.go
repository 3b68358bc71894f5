package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/packet"
)

// listed is what a fake kernel lists.
type listed struct {
	mu   sync.Mutex
	list []verbs.QueuePair
}

func (l *listed) set(list ...verbs.QueuePair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = list
}

func (l *listed) read(string) ([]verbs.QueuePair, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list), nil
}

// connected is a queue pair of a process.
func connected(qpn, peer packet.QPN, pid int) verbs.QueuePair {
	return verbs.QueuePair{Port: 1, QPN: qpn, Peer: peer, Receive: packet.PSN(qpn) * 100, Type: verbs.ReliableConnection,
		State: verbs.ReadyToSend, PID: pid}
}

// watched is a host of an application whose address 10.0.0.2 the device has.
func watched(t *testing.T, l *listed) *application {
	t.Helper()
	h := deviceHost()
	h.RDMA.Watch = &Watch{Pause: true}
	a, err := watchApplication(h, fakeDevice(), []string{"b"}, nil, l.read)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// stopped reports whether a process stands still.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(after, "T")
}

// becomes waits until a process stands still, or does not.
func becomes(t *testing.T, pid int, still bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); stopped(t, pid) != still; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d stands still: %v, want %v", pid, !still, still)
		}
	}
}

// sleeper is a process that does nothing.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func TestAnApplicationStandsStillFromItsLastConnectionUntilStart(t *testing.T) {
	withDevice(t, "ok", func(string, func(string) json.RawMessage) {
		pid, l := sleeper(t), &listed{}
		old := connected(17, 3, pid)
		l.set(old)
		a := watched(t, l)
		half := connected(19, 0, pid)
		half.State = 1 // INIT: it has no peer yet
		datagram := connected(1, 0, 0)
		datagram.Type = 4
		l.set(old, datagram, half, connected(18, 4, pid))
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		list, err := a.await(short, 2)
		if err != nil || len(list) != 1 || stopped(t, pid) {
			t.Fatalf("with one of two connections: %+v, %v, stands still: %v", list, err, stopped(t, pid))
		}
		l.set(old, datagram, connected(19, 5, pid), connected(18, 4, pid))
		list, err = a.await(t.Context(), 2)
		if err != nil || len(list) != 2 || list[0].QPN != 18 || list[1].QPN != 19 {
			t.Fatalf("by QPN, without those that were there: %+v, %v", list, err)
		}
		becomes(t, pid, true)
		if err := a.Start(); err != nil {
			t.Fatal(err)
		}
		becomes(t, pid, false)

		ended := make(chan error, 1)
		go func() { ended <- a.Wait(t.Context()) }()
		select {
		case err := <-ended:
			t.Fatalf("it ends while there are connections: %v", err)
		case <-time.After(3 * pollEvery):
		}
		l.set(old)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnApplicationGoesOnWhateverHappens(t *testing.T) {
	for name, end := range map[string]func(*application) error{
		"the run is released": (*application).Close,
		"nobody says so":      func(*application) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			withDevice(t, "ok", func(string, func(string) json.RawMessage) {
				pid, l := sleeper(t), &listed{}
				a := watched(t, l)
				a.longest = time.Minute
				if name == "nobody says so" {
					a.longest = 50 * time.Millisecond
				}
				l.set(connected(18, 4, pid))
				if _, err := a.await(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				if a.longest == time.Minute {
					becomes(t, pid, true)
				}
				if err := end(a); err != nil {
					t.Fatal(err)
				}
				becomes(t, pid, false)
			})
		})
	}
}

func TestEveryPauseOfAnApplicationEnds(t *testing.T) {
	withDevice(t, "ok", func(string, func(string) json.RawMessage) {
		pid, l := sleeper(t), &listed{}
		a := watched(t, l)
		a.longest = 100 * time.Millisecond
		l.set(connected(18, 4, pid))
		for range 2 { // the peer's connections may come later than the pause lasts
			if _, err := a.await(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			becomes(t, pid, true)
			becomes(t, pid, false)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.await(t.Context(), 1); !errors.Is(err, errGone) || stopped(t, pid) {
			t.Errorf("after the release: %v, stands still: %v", err, stopped(t, pid))
		}
	})
}

func TestAnApplicationThatCannotBePausedIsNamed(t *testing.T) {
	withDevice(t, "ok", func(string, func(string) json.RawMessage) {
		l := &listed{}
		a := watched(t, l)
		l.set(connected(18, 4, 0))
		if _, err := a.await(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "belongs to the kernel") {
			t.Errorf("of the kernel: %v", err)
		}
		l.set(connected(18, 4, os.Getpid()))
		a.signal = func(int, bool) error { return os.ErrPermission }
		if _, err := a.await(t.Context(), 1); !errors.Is(err, os.ErrPermission) ||
			!strings.Contains(err.Error(), "CAP_KILL") {
			t.Errorf("of another user: %v", err)
		}
	})
}

func TestADeviceThatCannotServeAnApplicationIsRefused(t *testing.T) {
	withDevice(t, "ok", func(string, func(string) json.RawMessage) {
		for want, change := range map[string]func(*Host, fstest.MapFS){
			"the application's address 10.0.0.9": func(h *Host, _ fstest.MapFS) {
				h.Spec.Connections[0].IPs[0] = netip.MustParseAddr("10.0.0.9")
			},
			"is software, and its times": func(h *Host, _ fstest.MapFS) { h.RDMA.Software = false },
			"is hardware": func(_ *Host, sysfs fstest.MapFS) {
				sysfs[verbs.DeviceRoot+"/rxe0/device"] = &fstest.MapFile{}
			},
		} {
			h, sysfs := deviceHost(), fakeDevice()
			h.RDMA.Watch = &Watch{}
			change(h, sysfs)
			if _, err := watchApplication(h, sysfs, []string{"b"}, nil, (&listed{}).read); err == nil ||
				!strings.Contains(err.Error(), want) || !errors.Is(err, errRDMA) {
				t.Errorf("got %v, want %q", err, want)
			}
			if ips, _ := addresses(t); len(ips) != 0 {
				t.Errorf("the interface got %v", ips)
			}
		}
	})
}
