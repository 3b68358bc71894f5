//go:build linux

package live_test

import (
	"testing"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/raw"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/testbeds/live"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// BenchmarkForwarded lets hosts offer more packets of 1500 bytes than the run can carry, so that its clock stops. It
// reports packets per second of real time and of CPU time: the limit for configured rates.
func BenchmarkForwarded(b *testing.B) {
	const packets = 40_000
	link := fabric.LinkSpec{Rate: 2 * clock.Gbps, Delay: clock.Microsecond}
	for b.Loop() {
		net, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2, Link: link}}, nil)
		if err != nil {
			b.Fatal(err)
		}
		net.SetCodecs(&wire.Codecs{fabric.Raw: raw.Codec()})
		from := stack.NewRaw()
		from.Send(stack.Flow{ID: 1, To: 1, Packets: packets, Size: 1500})
		s, err := live.Open(live.Config{Net: net, Stacks: []fabric.Stack{from, stack.NewRaw()},
			Links: []fabric.LinkSpec{link, link}, Slowdown: 1, MaxFrame: 1500})
		if err != nil {
			b.Skip(err)
		}
		began, spent := time.Now(), linktest.ProcessCPU(b)
		if _, _, err := s.Advance(b.Context(), clock.Time(0).Add(clock.Second)); err != nil {
			b.Error(err)
		}
		real, cpu := time.Since(began), time.Duration(linktest.ProcessCPU(b)-spent)
		r, err := s.Finish()
		if err != nil || r.Losses() != "" || r.Frames != packets {
			b.Errorf("%d frames of %d, %v, lost: %s", r.Frames, packets, err, r.Losses())
		}
		b.ReportMetric(packets/real.Seconds(), "packets/s")
		b.ReportMetric(packets/cpu.Seconds(), "packets/cpu-s")
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}
}
