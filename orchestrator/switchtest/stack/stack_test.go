package stack_test

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/testbeds/virtual/fabric"
)

func network(t *testing.T, hosts int) *fabric.Network {
	t.Helper()
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: hosts}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOpenLoopFlowsKeepTheirRateAndShareTheNICBeyondIt(t *testing.T) {
	n := network(t, 3)
	raw := stack.NewRaw()
	raw.Send(stack.Flow{ID: 1, To: 1, Size: 1500, Rate: 10 * clock.Gbps})
	raw.Send(stack.Flow{ID: 2, To: 2, Size: 1500, Start: clock.Time(0).Add(10 * clock.Microsecond)})
	n.Host(0).Attach(raw)
	got := map[uint32]int{}
	n.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
		if at.Host && at.Stage == fabric.Ingress {
			got[p.Flow]++
		}
	})
	if err := n.Run(clock.Time(0).Add(130 * clock.Microsecond)); err != nil {
		t.Fatal(err)
	}
	// At 10 Gb/s a packet takes 1.2 us. The other flow has the rest of 100 Gb/s for 119 us: 0.12 us a packet.
	if got[1] < 106 || got[1] > 108 || got[2] < 880 || got[2] > 895 {
		t.Errorf("packets by flow: %v", got)
	}
}

func TestARoundTripIsWhatTheWiresTake(t *testing.T) {
	n := network(t, 2)
	var trips []clock.Duration
	done := func(_ clock.Time, _ uint32, rtt clock.Duration) { trips = append(trips, rtt) }
	for h := range 2 {
		e := stack.NewEcho(fabric.HostID(h), done)
		if h == 0 {
			e.Ping(stack.Ping{ID: 1, To: 1, Count: 3, Interval: 10 * clock.Microsecond, Size: 100})
		}
		var m stack.Mux
		m.Add(fabric.Echo, e)
		m.Add(fabric.Raw, stack.NewRaw())
		n.Host(fabric.HostID(h)).Attach(m.Stack())
	}
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	want := 4 * (500*clock.Nanosecond + 8*clock.Nanosecond) // four links of 500 ns, 100 bytes at 100 Gb/s each
	if len(trips) != 3 || trips[0] != want || trips[2] != want {
		t.Errorf("round trips %v, want three of %v", trips, want)
	}
}
