package fabric_test

import (
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// copier is a mechanism of NICs that copies every third packet and drops half of those.
type copier struct{ fabric.TailDrop }

func (copier) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if p.ID%3 > 0 {
		return v
	}
	sw.Place(now, sw.Copy(p, 0), v)
	if p.ID%2 == 0 {
		return v.Drop(fabric.ReasonEarly)
	}
	return v
}

// shaper is a mechanism of NICs that sends a packet every gap.
type shaper struct {
	fabric.TailDrop
	gap  clock.Duration
	line *[]*fabric.Packet
}

func (m shaper) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if *m.line = append(*m.line, p); len(*m.line) == 1 {
		sw.Wake(now.Add(m.gap), 0)
	}
	return v.Consumed()
}

func (m shaper) HandleTimer(now clock.Time, sw *fabric.Switch, _ uint64) {
	p := (*m.line)[0]
	if *m.line = (*m.line)[1:]; len(*m.line) > 0 {
		sw.Wake(now.Add(m.gap), 0)
	}
	sw.Place(now, p, fabric.Verdict{Action: fabric.Forward})
}

func TestAMechanismAtTheNICPacesItsHost(t *testing.T) {
	const gap, packets = 3 * clock.Microsecond, 40 // line rate is 25 times as fast
	most := 0
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2}, NIC: fabric.NICSpec{
		Queues: []fabric.QueueSpec{{}}, Backlog: 8, Mechanism: func(*fabric.Switch) fabric.Mechanism {
			return shaper{gap: gap, line: new([]*fabric.Packet)}
		},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Host(0).Attach(&source{to: 1, size: 1500, left: packets})
	var left []clock.Time
	n.SetTap(func(at fabric.Point, now clock.Time, _ *fabric.Packet) {
		if at.Host && at.Stage == fabric.Departed {
			left = append(left, now)
		}
		most = max(most, n.InFlight())
	})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if len(left) != packets || most > 8+2 {
		t.Fatalf("%d packets left the NIC, at most %d existed", len(left), most)
	}
	for i := 1; i < len(left); i++ {
		if left[i].Sub(left[i-1]) != gap {
			t.Errorf("packet %d left %v after the one before", i, left[i].Sub(left[i-1]))
		}
	}
}

// A NIC queue by rank serves packets in the order of a sorted list.
func TestANICServesByRank(t *testing.T) {
	const backlog = 20
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2, Link: fabric.LinkSpec{Rate: clock.Gbps}},
		NIC: fabric.NICSpec{
			Queues: []fabric.QueueSpec{{Order: fabric.ByRank}}, Backlog: backlog,
		}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &talker{}
	for i := range 300 {
		s.out = append(s.out, fabric.Header{Dst: 1, Size: 200, Protocol: fabric.Raw, Flags: fabric.Ranked,
			Rank: uint64(i * 7919 % 31), Number: uint32(i)})
	}
	n.Host(0).Attach(s)
	var list []fabric.Header // the oracle
	wrong, longest := 0, 0
	n.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
		switch {
		case at.Host && at.Stage == fabric.Offered:
			i := len(list)
			for i > 0 && list[i-1].Rank > p.Rank {
				i--
			}
			list = slices.Insert(list, i, p.Header)
			longest = max(longest, len(list))
		case at.Host && at.Stage == fabric.Departed:
			if list[0].Number != p.Number {
				wrong++
			}
			list = list[1:]
		}
	})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if wrong > 0 || len(list) > 0 || longest < backlog || longest > backlog+1 {
		t.Errorf("%d packets out of order, %d left, at most %d at the NIC", wrong, len(list), longest)
	}
}

func TestANICWithoutRoomDropsAndCounts(t *testing.T) {
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2}, NIC: fabric.NICSpec{
		Queues: []fabric.QueueSpec{{MaxPackets: 4}}, Backlog: 30,
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Host(0).Attach(&source{to: 1, size: 1500, left: 1 << 60})
	if err := n.Run(clock.Time(0).Add(2 * clock.Microsecond)); err != nil {
		t.Fatal(err)
	}
	nic := n.Host(0).NIC()
	if id, ok := nic.Host(); !ok || id != 0 || nic.Name() != "nic-0" || nic.Ports() != 1 {
		t.Errorf("the NIC is %q of %d ports, of host %d, %v", nic.Name(), nic.Ports(), id, ok)
	}
	// The wire takes a packet in 120 ns and is never idle. The first packet is on it when the others arrive, four of which
	// find room. A dropped packet takes as long as on the wire, so the endless stack is polled no faster.
	sent, dropped := nic.Port(0).Counters().Sent, nic.Dropped(fabric.ReasonTail)
	if c := n.Total(); sent != 17 || dropped < 1 || dropped > 17 || c.Sent != sent+dropped+4 {
		t.Errorf("%+v, the NIC sent %d and dropped %d", c, sent, dropped)
	}
}

// All that a window allows comes at once, whatever of it is dropped: then a queue of four packets takes no more than
// four besides the one on the wire. An endless stack is asked for so many of each instant, and after each drop then.
func TestANICMayDropABurstAtOneInstant(t *testing.T) {
	for _, test := range []struct {
		burst, left, atOnce int
		dropped             uint64
	}{
		{100, 30, 30, 25},
		{10, 1 << 60, 1 + 4 + 10, 0},
	} {
		n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2}, NIC: fabric.NICSpec{
			Queues: []fabric.QueueSpec{{MaxPackets: 4}}, Backlog: 40, DropBurst: test.burst,
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n.Host(0).Attach(&source{to: 1, size: 1500, left: test.left})
		atOnce := 0
		n.SetTap(func(at fabric.Point, now clock.Time, _ *fabric.Packet) {
			if at.Host && at.Stage == fabric.Offered && now == 0 {
				atOnce++
			}
		})
		if err := n.Run(clock.Time(0).Add(20 * clock.Microsecond)); err != nil {
			t.Fatal(err)
		}
		nic := n.Host(0).NIC()
		sent, dropped := nic.Port(0).Counters().Sent, nic.Dropped(fabric.ReasonTail)
		if atOnce != test.atOnce {
			t.Errorf("burst %d: %d packets came at once, want %d", test.burst, atOnce, test.atOnce)
		}
		if test.dropped > 0 && (dropped != test.dropped || sent != uint64(test.left)-dropped) {
			t.Errorf("burst %d: %d packets sent, %d dropped, want %d", test.burst, sent, dropped, test.dropped)
		}
	}
}

// A paused class waits at the NIC while another class continues.
func TestAPauseStopsOneQueueOfANIC(t *testing.T) {
	n, err := fabric.New(&fabric.Spec{
		Topology: fabric.TopologySpec{Hosts: 3, LinkOf: func(id fabric.HostID) fabric.LinkSpec {
			return fabric.LinkSpec{Rate: clock.BitRate(100-int64(id%2)*99) * clock.Gbps}
		}},
		Switch: fabric.SwitchSpec{Queues: []fabric.QueueSpec{{}, {}}, PFC: fabric.PFCSpec{Classes: 1, XOff: 10_000}},
		NIC:    fabric.NICSpec{Queues: []fabric.QueueSpec{{}, {}}, Backlog: 1000},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &talker{}
	for i := range 200 { // class 0 to a host at a slow port, class 1 to a host at a fast port
		s.out = append(s.out, fabric.Header{Dst: fabric.HostID(1 + i%2), Size: 1500, Protocol: fabric.Raw,
			Class: uint8(i % 2)})
	}
	n.Host(0).Attach(s)
	var last [3]clock.Time
	n.SetTap(func(at fabric.Point, now clock.Time, _ *fabric.Packet) {
		if at.Host && at.Stage == fabric.Ingress {
			last[at.Node] = now
		}
	})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if c := n.Total(); c.Dropped > 0 || n.InFlight() > 0 {
		t.Errorf("%+v, %d in flight", c, n.InFlight())
	}
	if n.Host(0).Port().Counters().PausesReceived == 0 || last[2]*10 > last[1] {
		t.Errorf("the fast host had all at %v, the slow one at %v", last[2], last[1])
	}
}

func TestWrongNICsAreRefused(t *testing.T) {
	for want, spec := range map[string]fabric.NICSpec{
		"nic.backlog: -1":             {Queues: make([]fabric.QueueSpec, 8), Backlog: -1},
		"nic.queues: 0: must be at":   {Mechanism: busyless},
		"nic.queues: 2: must be more": {Queues: make([]fabric.QueueSpec, 2)},
		"nic.scheduler.kind: backwards:": {Queues: make([]fabric.QueueSpec, 8),
			Scheduler: fabric.SchedulerSpec{Kind: "backwards"}},
	} {
		_, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2},
			Switch: fabric.SwitchSpec{PFC: fabric.PFCSpec{Classes: 4}}, NIC: spec}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
