package fabric_test

import (
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// note is the test family's state of a packet.
type note struct {
	packet uint64
	visits int
}

// noter counts each packet's visits to switches in States, and compares with a map.
type noter struct {
	busybody
	states *fabric.States[note]
	oracle map[uint64]int
	wrong  *int
}

func (m noter) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	s := m.states.Of(p)
	if s.visits != m.oracle[p.ID] || s.visits > 0 && s.packet != p.ID {
		*m.wrong++
	}
	s.packet = p.ID
	s.visits++
	m.oracle[p.ID]++
	return m.busybody.Ingress(now, sw, p, in, v)
}

// A map from packets to notes is the oracle, while packets of many slots are copied, dropped and recycled.
func TestStateBesidePacketsIsTheirsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wrong, states, oracle := 0, fabric.NewStates[note](), map[uint64]int{}
		n, err := fabric.New(&fabric.Spec{Seed: 3, Topology: topologies(t), Switch: fabric.SwitchSpec{
			Queues:        []fabric.QueueSpec{{MaxPackets: 6}, {MaxPackets: 3}},
			Recirculation: fabric.RecirculationSpec{Rate: clock.Gbps},
		}}, func(*fabric.Switch) fabric.Mechanism { return noter{states: states, oracle: oracle, wrong: &wrong} })
		if err != nil {
			t.Fatal(err)
		}
		chatter(t, n)
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		if wrong > 0 {
			t.Errorf("%d of %d packets had the state of another", wrong, len(oracle))
		}
	})
}

// counting uses a packet's state at every switch.
type counting struct {
	fabric.TailDrop
	states *fabric.States[note]
}

func (m counting) Ingress(_ clock.Time, _ *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	m.states.Of(p).visits++
	return v
}

func TestStateBesidePacketsAllocatesNothingPerPacket(t *testing.T) {
	states := fabric.NewStates[note]()
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Kind: fabric.Dumbbell, Hosts: 4}},
		func(*fabric.Switch) fabric.Mechanism { return counting{states: states} })
	if err != nil {
		t.Fatal(err)
	}
	flood(n, permutation(n.Hosts()))
	until := clock.Time(0).Add(200 * clock.Microsecond)
	if err := n.Run(until); err != nil {
		t.Fatal(err)
	}
	allocs := runtimetest.FewestAllocs(0, func() {
		until = until.Add(20 * clock.Microsecond)
		if err := n.Run(until); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations in 20 us", allocs)
	}
}
