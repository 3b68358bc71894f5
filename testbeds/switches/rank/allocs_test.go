package rank

import (
	"slices"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// sender sends packets of 16 ranks and eight flows to host 0, at line rate.
type sender struct {
	idle bool
	sent uint32
}

func (s *sender) Receive(clock.Time, *fabric.Packet) {}
func (s *sender) HandleTimer(clock.Time)             {}
func (s *sender) NextTimer() clock.Time              { return clock.Never }

func (s *sender) Poll(_ clock.Time, p *fabric.Packet) bool {
	if s.idle {
		return false
	}
	s.sent++
	p.Dst, p.Size, p.Protocol, p.Flow = 0, 300+int32(s.sent*37%1200), fabric.Raw, s.sent%8
	p.SetRank(uint64(s.sent*2654435761) >> 28)
	return true
}

// overloaded is a port to which four hosts send at line rate, with a switch of a model.
func overloaded(tb testing.TB, m *switches.Model, settings []string) *fabric.Network {
	tb.Helper()
	v, err := m.Parameters.Values(settings...)
	if err != nil {
		tb.Fatal(err)
	}
	spec := fabric.Spec{Topology: fabric.TopologySpec{Hosts: 5}}
	if err := m.Configure(v, &spec.Switch); err != nil {
		tb.Fatal(err)
	}
	n, err := fabric.New(&spec, func(sw *fabric.Switch) fabric.Mechanism {
		mechanism, err := m.New(sw, v, nil)
		if err != nil {
			tb.Fatal(err)
		}
		return mechanism
	})
	if err != nil {
		tb.Fatal(err)
	}
	for id := range fabric.HostID(n.Hosts()) {
		n.Host(id).Attach(&sender{idle: id == 0})
	}
	return n
}

// Every model, and the pipeline of AIFO, allocates nothing for each packet once queues and tables have grown.
func TestModelsAllocateNothingPerPacket(t *testing.T) {
	f := Family()
	for _, settings := range [][]string{{"pifo"}, {"aifo"}, {"aifo", "mode=dataplane", "target-cells=900", "multiplier=30",
		"sample=1"}, {"pieo"}, {"pieo", "pace-mbps=4000"}, {"sp-pifo"}, {"afq", "round-bytes=1500", "rounds=20"},
		{"stfq-pifo"}, {"stfq-aifo"}, {"stfq-pieo"}, {"stfq-sp-pifo"}, {"hpifo"}} {
		i := slices.IndexFunc(f.Models, func(m switches.Model) bool { return m.Name == settings[0] })
		n := overloaded(t, &f.Models[i], settings[1:])
		until := clock.Time(0).Add(2 * clock.Millisecond)
		if err := n.Run(until); err != nil {
			t.Fatal(err)
		}
		allocs := runtimetest.FewestAllocs(0, func() {
			until = until.Add(50 * clock.Microsecond)
			if err := n.Run(until); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 0 {
			t.Errorf("%v: %d allocations in 50 us", settings, allocs)
		}
		left, port := uint64(0), n.Switch(0).Port(0)
		for q := range port.Queues() {
			left += port.Queue(q).Counters().Dequeued
		}
		if left < 10_000 {
			t.Errorf("%v: only %d packets left", settings, left)
		}
	}
}
