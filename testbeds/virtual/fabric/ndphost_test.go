package fabric_test

import (
	"testing"

	"candela.dev/candela/clock"
	generator "candela.dev/candela/generator/ndp"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// arrivals records when flows ended.
type arrivals struct{ finished []clock.Duration }

func (a *arrivals) NDPEvent(now clock.Time, e generator.Event) {
	if e.Kind == generator.Finished {
		a.finished = append(a.finished, now.Sub(e.Started))
	}
}

func TestNDPFlowsCrossAFatTreeAtLineRate(t *testing.T) {
	const packets, size = 400, 1500
	spec := &fabric.Spec{Seed: 1, Topology: fabric.TopologySpec{Kind: fabric.FatTree, K: 4, Balance: fabric.SourcePath}}
	spec.Switch.Queues = []fabric.QueueSpec{{MaxPackets: 200}}
	net, err := fabric.New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[fabric.Point]int)
	net.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
		if !at.Host && at.Stage == fabric.Ingress && at.Node >= 16 && p.NDP.Kind == ndp.Data {
			used[fabric.Point{Node: at.Node}]++
		}
	})
	all := make([]generator.Endpoint, net.Hosts())
	for i := range all {
		all[i] = generator.Endpoint(i)
	}
	sink := &arrivals{}
	flows := generator.Permutation(all, packets*(size-64), 0, 3)
	for i := range all {
		h, err := net.AttachNDP(fabric.HostID(i), fabric.NDPConfig{InitialWindow: 100, PacketSize: size, Paths: 4}, sink)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Core().Send(flows[i].Flow); err != nil {
			t.Fatal(err)
		}
	}
	if err := net.Run(clock.Time(clock.Second)); err != nil {
		t.Fatal(err)
	}
	alone := packets * (100 * clock.Gbps).Serialise(size)
	if len(sink.finished) != len(all) {
		t.Fatalf("%d of %d flows finished", len(sink.finished), len(all))
	}
	for _, took := range sink.finished {
		// Control packets take 5 ns each, and the first window takes an RTT.
		if took < alone || took > alone+alone/5+20*clock.Microsecond {
			t.Errorf("a flow took %v, alone it takes %v", took, alone)
		}
	}
	least, most := 1<<30, 0
	for _, n := range used {
		least, most = min(least, n), max(most, n)
	}
	if len(used) != 4 || most-least > most/50 {
		t.Errorf("cores carry %v", used)
	}
}

func TestWrongNDPConfigurationsAreRefused(t *testing.T) {
	net, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]fabric.NDPConfig{
		"packets smaller than headers": {PacketSize: 64},
		"PULLs far above line rate":    {PullRate: 3},
		"PULLs backwards":              {PullRate: -1},
		"too many paths":               {Paths: 1 << 17},
		"packets too long to tell":     {PacketSize: 1 << 17},
	} {
		if _, err := net.AttachNDP(0, cfg, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
