//go:build linux

package live

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/raw"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/testbeds/virtual/fabric"
)

func TestLatenessIsCountedInPowersOfTwoMicroseconds(t *testing.T) {
	var l Lateness
	for range 98 {
		l.add(900 * time.Nanosecond)
	}
	l.add(5 * time.Microsecond)
	l.add(3 * time.Millisecond)
	if got := l.Within(0.98); got != time.Microsecond {
		t.Errorf("98 %% within %v", got)
	}
	if got := l.Within(0.99); got != 8*time.Microsecond {
		t.Errorf("99 %% within %v", got)
	}
	if got := l.Within(1); got != 3*time.Millisecond || l.Most != got {
		t.Errorf("all within %v", got)
	}
	if got := new(Lateness).Within(0.99); got != 0 {
		t.Errorf("none within %v", got)
	}
}

// delayed opens a switch between kernels, whose hosts have links of given delays. Host 0 receives.
func delayed(t *testing.T, rate clock.BitRate, delays ...clock.Duration) *Switch {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: network namespaces need root")
	}
	cfg := Config{Stacks: make([]fabric.Stack, len(delays)), Slowdown: 1, MaxFrame: 1500,
		Finished: func(clock.Time, int) {}}
	for h, d := range delays {
		cfg.Links = append(cfg.Links, fabric.LinkSpec{Rate: rate, Delay: d})
		if h > 0 {
			cfg.Connections = append(cfg.Connections, Connection{Number: h, Src: fabric.HostID(h), Congestion: "reno",
				Bytes: 60_000})
		}
	}
	var err error
	cfg.Net, err = fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: len(delays), Link: cfg.Links[0],
		LinkOf: func(h fabric.HostID) fabric.LinkSpec { return cfg.Links[h] }},
		Switch: fabric.SwitchSpec{Queues: []fabric.QueueSpec{{MaxPackets: 1000}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Net.SetCodecs(&wire.Codecs{fabric.Raw: raw.Codec(), fabric.TCP: tcp.Codec()})
	s, err := Open(cfg)
	if errors.Is(err, ErrUnsupported) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The delays of links add up to the RTT that the kernel measures: each way those of both hosts. A busy machine adds to
// it and takes nothing from it.
func TestKernelsMeasureTheDelaysOfLinks(t *testing.T) {
	delays := []clock.Duration{clock.Millisecond, 4 * clock.Millisecond, 24 * clock.Millisecond}
	s := delayed(t, clock.Gbps/10, delays...)
	if _, _, err := s.Advance(t.Context(), clock.Time(0).Add(10*clock.Second)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Finish()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Text())
	if err := r.Busy(); err != nil {
		t.Skipf("SKIP-busy: %v", err)
	}
	if r.Written.Count == 0 || r.Read.Count != r.Frames {
		t.Errorf("%d frames written, %d of %d read", r.Written.Count, r.Read.Count, r.Frames)
	}
	for n, d := range delays {
		want := (2 * (delays[0] + d)).Std()
		// What a frame waits, four times in a round trip, and a half of the time for which the clock stood.
		slack := 4*(r.Read.Within(0.5)+r.Written.Within(0.5)) + 2*time.Millisecond + r.Stopped
		if got := r.Trips[n]; n > 0 && (got < want || got > want+slack) {
			t.Errorf("connection %d: the kernel measured an RTT of %v, want %v to %v", n, got, want, want+slack)
		}
	}
}

// A kernel whose window does not fit in front of its link makes the run invalid.
func TestFramesThatWaitForALinkAreBounded(t *testing.T) {
	s := delayed(t, clock.Gbps/1000, clock.Millisecond, clock.Millisecond)
	s.most = 12
	if _, _, err := s.Advance(t.Context(), clock.Time(0).Add(clock.Second)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if r.Waiting != s.most || !strings.Contains(r.Losses(), "frames found 12 waiting for its link to the switch") {
		t.Errorf("%d waited; the report says %q", r.Waiting, r.Losses())
	}
}
