package fabric_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

func TestAQueueByRankRefusesPacketsWithoutARank(t *testing.T) {
	for _, ranked := range []bool{false, true} {
		n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2},
			Switch: fabric.SwitchSpec{Queues: []fabric.QueueSpec{{Order: fabric.ByRank}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := fabric.Header{Dst: 1, Size: 1500, Protocol: fabric.Raw, Number: 7}
		if ranked {
			h.Flags = fabric.Ranked
		}
		n.Host(0).Attach(&talker{out: []fabric.Header{h}})
		err = n.Run(clock.Never)
		if ranked && err != nil || !ranked &&
			(err == nil || !strings.Contains(err.Error(), "must give every packet a rank")) {
			t.Errorf("ranked %v: %v", ranked, err)
		}
	}
}

// evictor bounds the length of a queue of ranked packets by dropping the last.
type evictor struct {
	fabric.TailDrop
	most  int
	shift uint8
}

func (e evictor) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	port := sw.Port(int(v.Port))
	q := port.Queue(0)
	if q.Packets() < e.most {
		return v
	}
	tail := q.Tail()
	if tail.Rank>>e.shift <= p.Rank>>e.shift {
		return v.Drop(fabric.ReasonTail)
	}
	sw.Extract(now, port, 0, tail)
	sw.Discard(now, tail, v.Drop(fabric.ReasonTail))
	return v
}

// A sorted list is the oracle of queues by rank, including evictions at the tail. Lower bits may not count.
func TestQueuesByRankServeAndEvictAsASortedListWould(t *testing.T) {
	for _, shift := range []uint8{0, 32} {
		servesAsASortedList(t, shift)
	}
}

func servesAsASortedList(t *testing.T, shift uint8) {
	t.Helper()
	const most = 20
	n, err := fabric.New(&fabric.Spec{
		Topology: fabric.TopologySpec{Hosts: 2, LinkOf: func(id fabric.HostID) fabric.LinkSpec {
			return fabric.LinkSpec{Rate: clock.BitRate(100-99*int64(id)) * clock.Gbps} // the receiver's link is slow
		}},
		Switch: fabric.SwitchSpec{Queues: []fabric.QueueSpec{{Order: fabric.ByRank, MaxPackets: most, RankShift: shift}}},
	}, func(*fabric.Switch) fabric.Mechanism { return evictor{most: most, shift: shift} })
	if err != nil {
		t.Fatal(err)
	}
	s := &talker{}
	for i := range 600 {
		s.out = append(s.out, fabric.Header{Dst: 1, Size: 200, Protocol: fabric.Raw, Flags: fabric.Ranked,
			Rank: uint64(i*7919%13)<<shift | uint64(i*31%17)&(1<<shift-1), Number: uint32(i)})
	}
	n.Host(0).Attach(s)
	var list []fabric.Header // the oracle
	wrong := 0
	n.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
		switch {
		case at.Host:
		case at.Stage == fabric.Ingress:
			i := len(list)
			for i > 0 && list[i-1].Rank>>shift > p.Rank>>shift {
				i--
			}
			list = slices.Insert(list, i, p.Header)
		case at.Stage == fabric.Dropped:
			if last := list[len(list)-1]; last.Number != p.Number {
				wrong++
			}
			list = list[:len(list)-1]
		default:
			if list[0].Number != p.Number {
				wrong++
			}
			list = list[1:]
		}
	})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if wrong > 0 || len(list) > 0 || n.Total().Dropped < 100 {
		t.Errorf("shift %d: %d packets out of order, %d left, %d dropped", shift, wrong, len(list), n.Total().Dropped)
	}
}

// A maker answers every packet with its own and sends the packet by each candidate port in turn.
type maker struct {
	fabric.TailDrop
	seen map[string]bool
}

func (m maker) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	ports := sw.Candidates(p)
	m.seen[fmt.Sprint(len(ports))] = true
	if !slices.Contains(ports, v.Port) {
		m.seen["not a candidate"] = true
	}
	if _, local := sw.Port(int(v.Port)).HostAt(); local && p.Protocol == fabric.Raw && p.Flags&fabric.Made == 0 {
		c := sw.Make(now, fabric.Header{Src: p.Dst, Dst: p.Src, Size: 100, Protocol: fabric.Raw, Flow: p.Flow,
			Number: p.Number})
		port, _ := sw.Route(c)
		sw.Place(now, c, v.To(sw.Port(port), 0))
	}
	return v
}

func TestASwitchMakesPacketsAndSeesAllCandidates(t *testing.T) {
	m := maker{seen: map[string]bool{}}
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Kind: fabric.LeafSpine, Hosts: 4, Leaves: 2,
		Spines: 3}},
		func(*fabric.Switch) fabric.Mechanism { return m })
	if err != nil {
		t.Fatal(err)
	}
	s := &talker{}
	for i := range 50 {
		s.out = append(s.out, fabric.Header{Dst: 3, Size: 1500, Protocol: fabric.Raw, Number: uint32(i), Entropy: uint16(i)})
	}
	answers := 0
	n.Host(0).Attach(s)
	n.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
		if at.Host && at.Node == 0 && at.Stage == fabric.Ingress && p.Flags&fabric.Made != 0 {
			answers++
		}
	})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	if c := n.Total(); answers != 50 || c.Copied != 50 || c.Sent+c.Copied != c.Delivered || n.InFlight() != 0 {
		t.Errorf("%d answers, %+v, %d in flight", answers, c, n.InFlight())
	}
	if !m.seen["3"] || !m.seen["1"] || m.seen["not a candidate"] {
		t.Errorf("candidates: %v", m.seen)
	}
}
