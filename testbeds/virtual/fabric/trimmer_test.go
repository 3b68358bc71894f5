package fabric_test

import (
	"testing"

	"candela.dev/candela/clock"
	endpoints "candela.dev/candela/generator/ndp"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// trimmer is the simplest NDP switch: packets that don't fit are trimmed to headers, which have priority; headers that
// don't fit return to the sender.
type trimmer struct{ fabric.TailDrop }

const data, header = 0, 1 // queues

func (trimmer) Ingress(_ clock.Time, _ *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	v.Queue = header
	if p.NDP.Kind == ndp.Data && p.Flags&fabric.Trimmed == 0 {
		v.Queue = data
	}
	return v
}

func (trimmer) Overflow(_ clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	switch {
	case v.Queue == data:
		p.Trim(64)
		p.NDP.Flags |= ndp.FlagTrimmed
		return v.To(sw.Port(int(v.Port)), header)
	case p.Flags&fabric.Trimmed != 0 && p.Flags&fabric.Returned == 0:
		p.Return()
		p.NDP.Flags |= ndp.FlagReturned
		if back, ok := sw.Route(p); ok {
			return v.To(sw.Port(back), header)
		}
	}
	return v.Drop(fabric.ReasonTail)
}

func trim(*fabric.Switch) fabric.Mechanism { return trimmer{} }

// ndpSwitch has NDP's queues: 8 full packets of data, as many bytes of headers, served 1:10.
func ndpSwitch() fabric.SwitchSpec {
	return fabric.SwitchSpec{
		Queues:    []fabric.QueueSpec{{MaxPackets: 8}, {MaxBytes: 8 * 1500}},
		Scheduler: fabric.SchedulerSpec{Kind: fabric.DWRR, Weights: []int{1, 10}, Quantum: 150},
	}
}

func ndpIncast(tb testing.TB, packets int64) *fabric.Network {
	tb.Helper()
	n, err := network(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 65}, Switch: ndpSwitch()}, trim)
	if err != nil {
		tb.Fatal(err)
	}
	for id := range fabric.HostID(65) {
		to := fabric.HostID(64)
		attachNDP(tb, n, id, to, 1000, packets)
	}
	return n
}

func ndpPermutation(tb testing.TB, k, window int, packets int64) *fabric.Network {
	tb.Helper()
	n, err := network(&fabric.Spec{
		Topology: fabric.TopologySpec{Kind: fabric.FatTree, K: k, Balance: fabric.SprayRandom}, Switch: ndpSwitch()}, trim)
	if err != nil {
		tb.Fatal(err)
	}
	to := permutation(n.Hosts())
	for id := range fabric.HostID(n.Hosts()) {
		attachNDP(tb, n, id, to(id), window, packets)
	}
	return n
}

// attachNDP gives a host NDP and, unless it is the destination, a flow.
func attachNDP(tb testing.TB, n *fabric.Network, id, to fabric.HostID, window int, packets int64) {
	tb.Helper()
	const payload = 1500 - 64
	s, err := n.AttachNDP(id, fabric.NDPConfig{InitialWindow: window, RTO: -1}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	if id == to {
		return
	}
	if _, err := s.Core().Send(endpoints.Flow{To: endpoints.Endpoint(to), Bytes: uint64(packets * payload)}); err != nil {
		tb.Fatal(err)
	}
}

func TestTrimmedIncastLosesNothingAndUsesTheLink(t *testing.T) {
	const packets = 100
	n := ndpIncast(t, packets)
	var last clock.Time
	whole := 0
	n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		switch {
		case at.Stage == fabric.Dropped:
			t.Fatalf("%v is dropped at %+v", p.Kind(), at)
		case at.Host && at.Node == 64 && at.Stage == fabric.Ingress && p.NDP.Kind == ndp.Data && p.Size == 1500:
			whole++
			last = now
		}
	})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if whole != 64*packets || n.InFlight() != 0 {
		t.Fatalf("%d of %d packets arrived whole, %d in flight", whole, 64*packets, n.InFlight())
	}
	// The bottleneck carries every packet once, plus headers.
	if least := clock.Time(64 * packets * 120 * clock.Nanosecond); last < least || last > least*12/10 {
		t.Errorf("the last arrives at %v; the link needs at least %v", last, least)
	}
}
