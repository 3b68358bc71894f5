package fabric_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// talker sends a list of packets as fast as its NIC allows, without checks.
type talker struct{ out []fabric.Header }

func (s *talker) Receive(clock.Time, *fabric.Packet) {}

func (s *talker) Poll(_ clock.Time, p *fabric.Packet) bool {
	if len(s.out) == 0 {
		return false
	}
	id, src := p.ID, p.Src
	p.Header = s.out[0]
	p.ID, p.Src = id, src
	s.out = s.out[1:]
	return true
}

func (s *talker) NextTimer() clock.Time  { return clock.Never }
func (s *talker) HandleTimer(clock.Time) {}

func queueSpecs(t *rapid.T, order bool) []fabric.QueueSpec {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fabric.QueueSpec {
		q := fabric.QueueSpec{
			MaxPackets: rapid.IntRange(0, 30).Draw(t, "packets"),
			MaxBytes:   rapid.SampledFrom([]int{0, 9000, 40_000}).Draw(t, "bytes"),
			Alpha:      rapid.SampledFrom([]float64{0, 0.5, 1, 8}).Draw(t, "alpha"),
			Private:    rapid.IntRange(0, 9).Draw(t, "private") == 0,
		}
		q.Mark.MaxBytes = rapid.SampledFrom([]int{0, 3000, 20_000}).Draw(t, "mark")
		q.Mark.Probability = 0.5
		if order && rapid.Bool().Draw(t, "by rank") {
			q.Order = fabric.ByRank
		}
		return q
	}), 1, 8).Draw(t, "queues")
}

func topologies(t *rapid.T) fabric.TopologySpec {
	balance := rapid.SampledFrom([]fabric.Balance{fabric.ECMP, fabric.SprayRandom, fabric.SprayRoundRobin}).Draw(t,
		"balance")
	link := fabric.LinkSpec{
		Rate:    clock.BitRate(rapid.SampledFrom([]int64{1, 3, 25, 100, 800}).Draw(t, "gbps")) * clock.Gbps,
		Delay:   clock.Duration(rapid.Int64Range(0, int64(5*clock.Microsecond)).Draw(t, "delay")),
		Framing: rapid.SampledFrom([]int{0, 24}).Draw(t, "framing"),
	}
	return rapid.SampledFrom([]fabric.TopologySpec{
		{Hosts: 5, Link: link},
		{Kind: fabric.Dumbbell, Hosts: 6, Link: link},
		{Kind: fabric.LeafSpine, Hosts: 8, Leaves: 4, Spines: 3, Link: link, Balance: balance},
		{Kind: fabric.FatTree, K: 4, Link: link, Balance: balance},
	}).Draw(t, "topology")
}

// chatter attaches talkers with random packets.
func chatter(t *rapid.T, n *fabric.Network) {
	for id := range n.Hosts() {
		count := rapid.IntRange(0, 60).Draw(t, "count")
		s := &talker{}
		for i := range count {
			s.out = append(s.out, fabric.Header{
				Dst:  fabric.HostID(rapid.IntRange(0, n.Hosts()-1).Draw(t, "to")),
				Size: int32(rapid.IntRange(60, 9000).Draw(t, "size")), Protocol: fabric.Protocol(1 + i%5),
				Class: uint8(rapid.IntRange(0, 7).Draw(t, "class")), Rank: uint64(rapid.IntRange(0, 20).Draw(t, "rank")),
				Flags: fabric.Ranked,
				Flow:  uint32(rapid.IntRange(0, 3).Draw(t, "flow")), ECN: packet.ECN(i % 4), TTL: uint8(i % 5),
			})
		}
		n.Host(fabric.HostID(id)).Attach(s)
	}
}

// busybody is a mechanism that uses many actions: it copies, trims, recirculates, deflects, drops and consumes.
type busybody struct{ fabric.TailDrop }

func (busybody) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	switch {
	case in.Kind() == fabric.RecirculationPort && p.Flags&fabric.Mirrored != 0:
		return v.Drop(fabric.ReasonConsumed)
	case in.Kind() != fabric.RecirculationPort && p.ID%7 == 0:
		return v.To(sw.Recirculation(in.Pipeline()), 0)
	case p.ID%11 == 0:
		sw.Place(now, sw.Copy(p, 64), v.To(sw.Recirculation(in.Pipeline()), 0))
	}
	return v
}

func (busybody) Overflow(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	switch sw.Rand().IntN(4) {
	case 0:
		p.Trim(64)
		return v.To(sw.Port(int(v.Port)), sw.Port(int(v.Port)).Queues()-1)
	case 1:
		if tail := sw.Port(int(v.Port)).Queue(int(v.Queue)).Tail(); tail != nil {
			sw.Extract(now, sw.Port(int(v.Port)), int(v.Queue), tail)
			sw.Discard(now, tail, v.Drop(fabric.ReasonOwn))
		}
		return v
	case 2:
		return v.To(sw.Port(sw.Rand().IntN(sw.Ports())), 0)
	}
	return v.Drop(fabric.ReasonTail)
}

func (busybody) Dequeued(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	switch {
	case p.ID%13 == 0:
		return v.Drop(fabric.ReasonOwn)
	case p.ID%17 == 0 && p.Flags&fabric.Mirrored == 0:
		c := sw.Copy(p, 0)
		sw.Place(now, c, v)
		sw.Discard(now, p, v.Drop(fabric.ReasonConsumed))
		return v.Consumed()
	}
	return v
}

func busy(*fabric.Switch) fabric.Mechanism { return busybody{} }

func TestEveryPacketEndsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := fabric.Spec{
			Seed: rapid.Uint64().Draw(t, "seed"), Topology: topologies(t),
			Switch: fabric.SwitchSpec{
				Queues: queueSpecs(t, true), PortsPerPipeline: rapid.IntRange(0, 2).Draw(t, "pipeline"),
				Buffer:        fabric.BufferSpec{Bytes: rapid.SampledFrom([]int{0, 20_000, 200_000}).Draw(t, "buffer")},
				Recirculation: fabric.RecirculationSpec{Rate: 100 * clock.Gbps, Latency: clock.Microsecond},
			},
		}
		n, err := fabric.New(&spec, busy)
		if err != nil {
			t.Fatal(err)
		}
		chatter(t, n)
		for step := range 20 { // while packets are in flight
			if err := n.Run(clock.Time(step) * clock.Time(5*clock.Microsecond)); err != nil {
				t.Fatal(err)
			}
			c := n.Total()
			if flight := c.Sent + c.Copied - c.Delivered - c.Dropped; flight != uint64(n.InFlight()) {
				t.Fatalf("%+v leave %d in flight, %d are", c, flight, n.InFlight())
			}
			for i := range n.Switches() {
				if used, limit := n.Switch(i).BufferUsed(); used > limit && limit > 0 || used < 0 {
					t.Fatalf("%d of %d bytes of shared buffer are used", used, limit)
				}
			}
		}
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		if n.InFlight() != 0 {
			t.Fatalf("%d packets are left when nothing happens any more", n.InFlight())
		}
		for i := range n.Switches() {
			if used, _ := n.Switch(i).BufferUsed(); used != 0 {
				t.Fatalf("%d bytes are booked in an empty buffer", used)
			}
		}
	})
}

func TestQueuesKeepTheirOrderAndPortsDoNotIdle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := fabric.Spec{Topology: topologies(t), Switch: fabric.SwitchSpec{Queues: queueSpecs(t, false)}}
		spec.Switch.Scheduler.Kind = rapid.SampledFrom([]fabric.SchedulerKind{
			fabric.Strict, fabric.FIFO, fabric.WRR, fabric.DWRR}).Draw(t, "scheduler")
		spec.Switch.Scheduler.Quantum = rapid.SampledFrom([]int{1, 100, 1500, 20_000}).Draw(t, "quantum")
		n, err := fabric.New(&spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		type where struct{ sw, port, queue int }
		last := map[where]clock.Time{}
		n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
			if at.Host || at.Stage != fabric.Egress {
				return
			}
			w := where{at.Node, at.Port, at.Queue}
			if p.Arrived < last[w] {
				t.Fatalf("packet %d of %v leaves after one that arrived at %v", p.ID, p.Arrived, last[w])
			}
			last[w] = p.Arrived
		})
		chatter(t, n)
		for step := range 40 {
			if err := n.Run(clock.Time(step) * clock.Time(3*clock.Microsecond)); err != nil {
				t.Fatal(err)
			}
			for i := range n.Switches() {
				for j := range n.Switch(i).Ports() {
					if pt := n.Switch(i).Port(j); pt.Bytes() > 0 && pt.BusyUntil() < n.Now() {
						t.Fatalf("port %d of %s idles at %v with %d bytes waiting", j, n.Switch(i).Name(), n.Now(), pt.Bytes())
					}
				}
			}
		}
	})
}

func TestWeightedSchedulersShareByWeight(t *testing.T) {
	runtimetest.SkipRace(t)
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 20), 2, 8).Draw(t, "weights")
		sizes := rapid.SliceOfN(rapid.IntRange(60, 9000), len(weights), len(weights)).Draw(t, "sizes")
		quantum := rapid.IntRange(1, 10_000).Draw(t, "quantum")
		kind := rapid.SampledFrom([]fabric.SchedulerKind{fabric.WRR, fabric.DWRR}).Draw(t, "kind")
		served := backlogged(t, fabric.SchedulerSpec{Kind: kind, Weights: weights, Quantum: quantum}, sizes)
		// Over whole rounds each queue gets its share; within one, shares differ by at most a round's grant and a packet.
		for i := range weights {
			for j := range weights {
				a, b := float64(served[i])/float64(weights[i]), float64(served[j])/float64(weights[j])
				slack := 1.0 // a round
				if kind == fabric.DWRR {
					slack = float64(quantum) + float64(sizes[i])/float64(weights[i]) + float64(sizes[j])/float64(weights[j])
				}
				if a > b+slack {
					t.Fatalf("weights %v, served %v: queues %d and %d are more than %v apart", weights, served, i, j, slack)
				}
			}
		}
	})
}

// backlogged serves permanently full queues and returns the packets (WRR) or bytes (DWRR) served of each.
func backlogged(t *rapid.T, s fabric.SchedulerSpec, sizes []int) []int {
	t.Helper()
	n, err := fabric.New(&fabric.Spec{
		Topology: fabric.TopologySpec{Hosts: len(sizes) + 1, LinkOf: func(h fabric.HostID) fabric.LinkSpec {
			if int(h) == len(sizes) { // half as fast, so that the queue of large packets always grows
				return fabric.LinkSpec{Rate: clock.Gbps / 2}
			}
			return fabric.LinkSpec{Rate: clock.Gbps}
		}},
		Switch: fabric.SwitchSpec{Queues: make([]fabric.QueueSpec, len(sizes)), Scheduler: s},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range sizes {
		n.Host(fabric.HostID(i)).Attach(&source{to: fabric.HostID(len(sizes)), size: size, left: 1 << 30, class: uint8(i)})
	}
	served := make([]int, len(sizes))
	start := clock.Time(5 * clock.Millisecond) // all queues are long by then
	n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		if !at.Host && at.Stage == fabric.Egress && now >= start {
			if s.Kind == fabric.WRR {
				served[at.Queue]++
			} else {
				served[at.Queue] += int(p.Size)
			}
		}
	})
	if err := n.Run(start.Add(8 * clock.Millisecond)); err != nil {
		t.Fatal(err)
	}
	return served
}

func TestStrictPriorityAndZeroWeightsGoFirst(t *testing.T) {
	for _, s := range []fabric.SchedulerSpec{{Kind: fabric.Strict}, {Kind: fabric.DWRR, Weights: []int{1, 1, 0}}} {
		n, err := fabric.New(&fabric.Spec{
			Topology: fabric.TopologySpec{Hosts: 3},
			Switch:   fabric.SwitchSpec{Queues: []fabric.QueueSpec{{}, {}, {}}, Scheduler: s},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n.Host(0).Attach(&source{to: 2, size: 1500, left: 100, class: 0})
		n.Host(1).Attach(&source{to: 2, size: 1500, left: 100, class: 2})
		var order []byte
		n.Host(2).Attach(&source{onPacket: func(_ clock.Time, p *fabric.Packet) { order = append(order, '0'+p.Class) }})
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		// The first packet of class 0 was sent before the others arrived.
		if want := "0" + strings.Repeat("2", 100) + strings.Repeat("0", 99); string(order) != want {
			t.Errorf("%v: order %s", s, order)
		}
	}
}

func TestPFCLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := fabric.Spec{Topology: topologies(t), Switch: fabric.SwitchSpec{
			Queues:  make([]fabric.QueueSpec, 8),
			PFC:     fabric.PFCSpec{Classes: 0b0000_1000, XOff: rapid.IntRange(1, 50_000).Draw(t, "xoff")},
			Latency: clock.Duration(rapid.Int64Range(0, int64(clock.Microsecond)).Draw(t, "latency")),
		}}
		for i := range spec.Switch.Queues {
			spec.Switch.Queues[i].MaxPackets = 5
		}
		n, err := fabric.New(&spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		lossless := map[uint64]bool{}
		n.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
			switch {
			case p.Class != 3:
			case at.Stage == fabric.Dropped && at.Reason != fabric.ReasonTTL:
				t.Fatalf("packet %d of a lossless class is dropped at %+v", p.ID, at)
			case at.Host && at.Stage == fabric.Egress:
				lossless[p.ID] = true
			case at.Host && at.Stage == fabric.Ingress:
				delete(lossless, p.ID)
			}
		})
		victim := fabric.HostID(rapid.IntRange(0, n.Hosts()-1).Draw(t, "victim"))
		for id := range fabric.HostID(n.Hosts()) {
			n.Host(id).Attach(&source{to: victim, size: rapid.IntRange(60, 9000).Draw(t, "size"), left: 50, idle: id == victim,
				class: uint8(3 + id%2)})
		}
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		if len(lossless) != 0 {
			t.Fatalf("%d lossless packets never arrived", len(lossless))
		}
	})
}

func TestPauseHoldsASenderBack(t *testing.T) {
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 3}, Switch: fabric.SwitchSpec{
		Queues: []fabric.QueueSpec{{MaxPackets: 1}}, PFC: fabric.PFCSpec{Classes: 1, XOff: 10_000}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Host(0).Attach(&source{to: 2, size: 1500, left: 1000})
	n.Host(1).Attach(&source{to: 2, size: 1500, left: 1000})
	sink := &source{}
	n.Host(2).Attach(sink)
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	in := n.Switch(0).Port(0).Counters()
	if sink.received != 2000 || in.PausesSent == 0 || n.Host(0).Port().Counters().PausesReceived != in.PausesSent {
		t.Errorf("%d received, %d pauses sent, %d received", sink.received, in.PausesSent,
			n.Host(0).Port().Counters().PausesReceived)
	}
	if limit := n.Switch(0).Spec().PFC.XOff + n.Switch(0).Spec().PFC.Headroom; in.MaxIngressUsed > limit ||
		in.MaxIngressUsed < 10_000 {
		t.Errorf("%d bytes held of %d", in.MaxIngressUsed, limit)
	}
}

func TestTooLittleHeadroomIsNoticed(t *testing.T) {
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 3}, Switch: fabric.SwitchSpec{
		PFC: fabric.PFCSpec{Classes: 1, XOff: 10_000, Headroom: 1500}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Host(0).Attach(&source{to: 2, size: 1500, left: 1000})
	n.Host(1).Attach(&source{to: 2, size: 1500, left: 1000})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if n.Switch(0).Dropped(fabric.ReasonHeadroom) == 0 {
		t.Error("a lossless class lost packets, and no counter says so")
	}
}

func TestECMPKeepsAFlowOnOnePathAndUsesAllPaths(t *testing.T) {
	spec := fabric.Spec{Topology: fabric.TopologySpec{Kind: fabric.FatTree, K: 8}}
	n, err := fabric.New(&spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	type visit struct {
		flow uint32
		sw   int
	}
	paths, cores := map[visit]int{}, map[int]bool{}
	n.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
		if at.Host || at.Stage != fabric.Egress {
			return
		}
		v := visit{p.Flow, at.Node}
		if port, ok := paths[v]; ok && port != at.Port {
			t.Fatalf("flow %d leaves switch %d by ports %d and %d", p.Flow, at.Node, port, at.Port)
		}
		paths[v] = at.Port
		if strings.HasPrefix(n.Switch(at.Node).Name(), "core") {
			cores[at.Node] = true
		}
	})
	to := permutation(n.Hosts())
	for id := range fabric.HostID(n.Hosts()) {
		n.Host(id).Attach(&source{to: to(id), size: 1500, left: 20})
	}
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if len(cores) != 16 {
		t.Errorf("%d of 16 cores are used", len(cores))
	}
}

func TestSprayingSpreadsOneFlowEvenly(t *testing.T) {
	for _, balance := range []fabric.Balance{fabric.SprayRandom, fabric.SprayRoundRobin} {
		n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{
			Kind: fabric.LeafSpine, Hosts: 2, Leaves: 2, Spines: 4, Balance: balance}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n.Host(0).Attach(&source{to: 1, size: 1500, left: 4000})
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		for spine := 2; spine < 6; spine++ {
			sent := n.Switch(spine).Port(1).Counters().Sent
			if off := int(sent) - 1000; balance == fabric.SprayRoundRobin && off != 0 || off*off > 150*150 {
				t.Errorf("%s: %s carries %d of 4000", balance, n.Switch(spine).Name(), sent)
			}
		}
	}
}

func TestSameSeedSameBytesOtherSeedOtherBytes(t *testing.T) {
	run := func(seed uint64) []byte {
		n, err := fabric.New(&fabric.Spec{Seed: seed,
			Topology: fabric.TopologySpec{Kind: fabric.FatTree, K: 4, Balance: fabric.SprayRandom},
			Switch:   fabric.SwitchSpec{Queues: []fabric.QueueSpec{{MaxPackets: 4}}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		c := fabric.NewCapture(n, &file, "test", nil)
		n.SetTap(c.See)
		for id := range fabric.HostID(n.Hosts()) {
			n.Host(id).Attach(&source{to: (id * 5) % 16, size: 700, left: 50})
		}
		if err := errors.Join(n.Run(clock.Never), c.Close()); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	a, b, c := run(1), run(1), run(2)
	if !bytes.Equal(a, b) {
		t.Error("two runs of one seed differ")
	}
	if bytes.Equal(a, c) {
		t.Error("seeds make no difference")
	}
}

func TestRunningInSlicesChangesNothing(t *testing.T) {
	run := func(slices int) string {
		n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 4}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) { fmt.Fprintln(&log, at, now, p.ID) })
		for id := range fabric.HostID(3) {
			n.Host(id).Attach(&source{to: 3, size: 1000, left: 200, interval: clock.Duration(id) * 50 * clock.Nanosecond})
		}
		for i := range slices {
			if err := n.Run(clock.Time(i) * clock.Time(100*clock.Microsecond) / clock.Time(slices)); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	if run(1) != run(1000) {
		t.Error("where Run stops changes what happens")
	}
}

func TestByRankServesTheLowestRankAndKeepsTies(t *testing.T) {
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2,
		Link: fabric.LinkSpec{Rate: 100 * clock.Gbps}},
		Switch: fabric.SwitchSpec{Queues: []fabric.QueueSpec{{Order: fabric.ByRank}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The switch's port is busy with a large frame while small ones arrive.
	s := &talker{out: []fabric.Header{{Dst: 1, Size: 9000, Protocol: fabric.Raw, Flags: fabric.Ranked}}}
	for i, rank := range []uint64{3, 1, 2, 1, 3} {
		s.out = append(s.out, fabric.Header{Dst: 1, Size: 100, Protocol: fabric.Raw, Rank: rank, Flags: fabric.Ranked,
			Flow: uint32(i)})
	}
	var got []uint32
	n.Host(0).Attach(s)
	n.Host(1).Attach(&source{onPacket: func(_ clock.Time, p *fabric.Packet) { got = append(got, p.Flow) }})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if want := []uint32{0, 1, 3, 2, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestMarksFollowTheQueue(t *testing.T) {
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 3}, Switch: fabric.SwitchSpec{
		Queues: []fabric.QueueSpec{{Mark: fabric.MarkSpec{MinBytes: 15_000, MaxBytes: 15_000}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	waiting, wrong, marked := 0, 0, 0
	n.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
		if at.Host {
			return
		}
		if at.Stage == fabric.Ingress {
			waiting = n.Switch(0).Port(2).Queue(0).Bytes()
			p.Meta = uint32(waiting)
			return
		}
		if p.ECN == packet.CE {
			marked++
		}
		if (p.ECN == packet.CE) != (p.Meta >= 15_000 && p.Src == 0) {
			wrong++
		}
	})
	n.Host(0).Attach(&source{to: 2, size: 1500, left: 100, ecn: packet.ECT0})
	n.Host(1).Attach(&source{to: 2, size: 1500, left: 100})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if wrong != 0 || marked == 0 || uint64(marked) != n.Switch(0).Port(2).Queue(0).Counters().Marked {
		t.Errorf("%d marked, %d wrongly", marked, wrong)
	}
}

func TestAForwardingStepAllocatesNothing(t *testing.T) {
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 9}}, busyless)
	if err != nil {
		t.Fatal(err)
	}
	flood(n, func(fabric.HostID) fabric.HostID { return 8 })
	at := clock.Time(100 * clock.Microsecond)
	if err := n.Run(at); err != nil {
		t.Fatal(err)
	}
	if allocs := runtimetest.FewestAllocs(0, func() {
		at = at.Add(10 * clock.Microsecond)
		if err := n.Run(at); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations in 10 us of simulated time", allocs)
	}
}

func busyless(*fabric.Switch) fabric.Mechanism { return fabric.TailDrop{} }

func TestWrongSpecsNameEveryField(t *testing.T) {
	_, err := fabric.New(&fabric.Spec{
		Topology: fabric.TopologySpec{Kind: fabric.LeafSpine, Hosts: 7, Leaves: 2, Link: fabric.LinkSpec{Delay: -1}},
		Switch: fabric.SwitchSpec{
			Queues:    []fabric.QueueSpec{{}, {Alpha: -1, Mark: fabric.MarkSpec{Probability: 2}}},
			Scheduler: fabric.SchedulerSpec{Kind: "lottery", Weights: []int{1}},
			PFC:       fabric.PFCSpec{XOff: 1, XOn: 2},
		},
	}, nil)
	for _, field := range []string{"topology.hosts: 7", "topology.spines", "topology.link.rate", "topology.link.delay",
		"switch.queues[1].alpha", "switch.queues[1].mark.probability", "switch.scheduler.kind: lottery",
		"switch.scheduler.weights",
		"switch.pfc.xon"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%q is missing in: %v", field, err)
		}
	}
	var one *fabric.FieldError
	if !errors.As(err, &one) {
		t.Errorf("%T is no FieldError", err)
	}
}
