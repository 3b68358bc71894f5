//go:build linux

package live_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/raw"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/testbeds/live"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// bed is a live switch with plain queues, and the counts of its taps.
type bed struct {
	net  *fabric.Network
	cfg  live.Config
	seen map[fabric.Stage]int // data packets at the switch
}

func newBed(t *testing.T, hosts int, link fabric.LinkSpec) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: network namespaces need root")
	}
	b := &bed{seen: make(map[fabric.Stage]int)}
	var err error
	b.net, err = fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: hosts, Link: link},
		Switch: fabric.SwitchSpec{Queues: []fabric.QueueSpec{{MaxBytes: 30_000}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.net.SetCodecs(&wire.Codecs{fabric.Raw: raw.Codec(), fabric.TCP: tcp.Codec()})
	b.cfg = live.Config{Net: b.net, Stacks: make([]fabric.Stack, hosts), Slowdown: 1, MaxFrame: 1500}
	for range hosts {
		b.cfg.Links = append(b.cfg.Links, link)
	}
	b.net.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
		if !at.Host && p.Flags&fabric.Notification == 0 {
			b.seen[at.Stage]++
		}
	})
	return b
}

// run runs for at most a given time, and returns the end time and the report.
func (b *bed) run(t *testing.T, most clock.Duration) (clock.Time, *live.Report) {
	t.Helper()
	s, err := live.Open(b.cfg)
	if errors.Is(err, live.ErrUnsupported) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	end, quiet, err := s.Advance(ctx, clock.Time(0).Add(most))
	if err != nil {
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
	if !quiet {
		t.Errorf("at %v something was left to happen", end)
	}
	if r.Losses() != "" {
		t.Errorf("lost: %s", r.Losses())
	}
	return end, r
}

func TestALiveSwitchForwardsAndDropsAsASimulatedOneDoes(t *testing.T) {
	const packets, size = 300, 1500
	link := fabric.LinkSpec{Rate: clock.Gbps / 20, Delay: clock.Microsecond}
	b := newBed(t, 3, link)
	for h := 1; h < 3; h++ {
		raw := stack.NewRaw()
		raw.Send(stack.Flow{ID: uint32(h), To: 0, Packets: packets, Size: size})
		b.cfg.Stacks[h] = raw
	}
	b.cfg.Stacks[0] = stack.NewRaw()
	end, _ := b.run(t, 5*clock.Second)
	in, out, dropped := b.seen[fabric.Ingress], b.seen[fabric.Egress], b.seen[fabric.Dropped]
	if in != 2*packets || out+dropped != in {
		t.Errorf("%d packets came, %d left, %d were dropped", in, out, dropped)
	}
	// Two senders at line rate to one port, whose queue holds 20 packets: every second packet passes, plus those that wait
	// at the end.
	if out < packets-10 || out > packets+40 {
		t.Errorf("%d packets left, want about %d", out, packets)
	}
	if least := clock.Time(0).Add(packets * link.Rate.Serialise(size)); end < least {
		t.Errorf("over at %v: the rate allows %v", end, least)
	}
}

func TestTheKernelsTCPGoesThroughALiveSwitch(t *testing.T) {
	for _, congestion := range []string{"reno", "cubic", "bbr"} {
		t.Run(congestion, func(t *testing.T) {
			b := newBed(t, 3, fabric.LinkSpec{Rate: clock.Gbps / 20, Delay: 100 * clock.Microsecond})
			finished := map[int]clock.Time{}
			for h := 1; h < 3; h++ {
				b.cfg.Connections = append(b.cfg.Connections, live.Connection{Number: h, Src: fabric.HostID(h), Dst: 0,
					Bytes: 300_000, Congestion: congestion})
			}
			b.cfg.Finished = func(now clock.Time, n int) { finished[n] = now }
			b.run(t, 15*clock.Second)
			if len(finished) != 2 {
				t.Errorf("finished: %v", finished)
			}
			if b.seen[fabric.Ingress] < 400 {
				t.Errorf("%d packets with data", b.seen[fabric.Ingress])
			}
		})
	}
}

func TestFramesThatALinkLosesAreReportedAndTheRunEnds(t *testing.T) {
	// Within a round of 2 ms a host offers thousands of packets at 100 Gb/s, but the ring has 512 slots.
	link := fabric.LinkSpec{Rate: 100 * clock.Gbps, Delay: clock.Microsecond}
	b := newBed(t, 2, link)
	raw := stack.NewRaw()
	const packets = 5000
	raw.Send(stack.Flow{ID: 1, To: 1, Packets: packets, Size: 1500})
	b.cfg.Stacks[0], b.cfg.Stacks[1] = raw, stack.NewRaw()
	s, err := live.Open(b.cfg)
	if errors.Is(err, live.ErrUnsupported) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, quiet, err := s.Advance(ctx, clock.Time(0).Add(10*clock.Second))
	if err != nil || !quiet {
		t.Fatalf("quiet: %v, %v", quiet, err)
	}
	r, err := s.Finish()
	if err != nil {
		t.Fatal(err)
	}
	lost := packets - int(r.Frames)
	if lost == 0 {
		t.Skip("SKIP: the ring lost nothing")
	}
	if text := r.Losses(); !strings.Contains(text, fmt.Sprintf("port 0 of the switch: %d of %d frames found no room",
		lost, packets)) {
		t.Errorf("%d of %d frames came; the report says %q", r.Frames, packets, text)
	}
}
