package deflect

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/testbeds/virtual/fabric"
)

const us = clock.Microsecond

// §6.1: what is left of the message and how often a packet, or after a silence its flow, was retransmitted.
func TestSendersMarkWhatIsLeftAndWhatWasSentAgain(t *testing.T) {
	type packet struct {
		at             clock.Duration
		number, offset uint32
		left           uint32
		want           deflect.Mark
	}
	for _, c := range []struct {
		name    string
		source  deflect.Source
		packets []packet
	}{
		{"two messages, of which the second follows", deflect.Remaining, []packet{
			{0, 0, 0, 3000, deflect.Mark{First: true, Value: 3000}},
			{1, 1, 1000, 2000, deflect.Mark{Value: 2000}},
			{2, 2, 2000, 1000, deflect.Mark{Value: 1000}},
			{3, 3, 3000, 500, deflect.Mark{First: true, Flowlet: 1, Value: 500}},
			{4, 1, 1000, 2000, deflect.Mark{Ret: 1, Value: 2000}},
			{5, 1, 1000, 2000, deflect.Mark{Ret: 2, Value: 2000}},
		}},
		{"a silence boosts the whole flow, a retransmission without one does not", deflect.Remaining, []packet{
			{0, 0, 0, 5000, deflect.Mark{First: true, Value: 5000}},
			{1, 1, 1000, 4000, deflect.Mark{Value: 4000}},
			{2, 0, 0, 5000, deflect.Mark{First: true, Ret: 1, Value: 5000}},
			{3, 2, 2000, 3000, deflect.Mark{Value: 3000}},
			{400, 1, 1000, 4000, deflect.Mark{Ret: 1, Value: 4000}},
			{401, 3, 3000, 2000, deflect.Mark{Ret: 1, Value: 2000}},
			{402, 3, 3000, 2000, deflect.Mark{Ret: 2, Value: 2000}},
			{403, 4, 4000, 1000, deflect.Mark{Ret: 1, Value: 1000}},
			{404, 5, 5000, 700, deflect.Mark{First: true, Flowlet: 1, Value: 700}},
		}},
		{"LAS counts from each silence", deflect.LAS, []packet{
			{0, 0, 0, 5000, deflect.Mark{First: true}},
			{1, 1, 1000, 4000, deflect.Mark{Value: 1000}},
			{400, 2, 2000, 3000, deflect.Mark{First: true, Flowlet: 1}},
			{401, 3, 3000, 2000, deflect.Mark{Flowlet: 1, Value: 1000}},
			{402, 1, 1000, 4000, deflect.Mark{Value: 1000}},
		}},
	} {
		for _, origin := range []uint32{0, 1<<32 - 1500} { // sequence numbers wrap
			s := NewShim(deflect.Settings{Priority: c.source, Gap: 360 * us}, faults{})
			f := new(sending)
			for i, p := range c.packets {
				now := clock.Time(p.at * us)
				if got := s.mark(now, f, p.number, origin+p.offset, p.left); got != p.want {
					t.Errorf("%s, packet %d: %+v, want %+v", c.name, i, got, p.want)
				}
				f.last = now
			}
		}
	}
}

// shuffler holds packets for up to most, at random.
type shuffler struct {
	fabric.TailDrop
	most  clock.Duration
	loses uint64 // one packet of so many, at random; 0: none
	held  map[uint64]*fabric.Packet
	next  uint64
}

func (m *shuffler) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if m.loses > 0 && sw.Rand().Uint64N(m.loses) == 0 {
		return v.Drop(fabric.ReasonEarly)
	}
	m.next++
	m.held[m.next] = p
	sw.Wake(now.Add(clock.Duration(sw.Rand().Int64N(int64(m.most)))), m.next)
	return v.Consumed()
}

func (m *shuffler) HandleTimer(now clock.Time, sw *fabric.Switch, token uint64) {
	p := m.held[token]
	delete(m.held, token)
	sw.Place(now, p, fabric.Verdict{}.To(sw.Port(int(p.Egress)), 0))
}

// listener notes what a stack receives.
type listener struct {
	talker
	got []uint32
}

func (l *listener) Receive(_ clock.Time, p *fabric.Packet) { l.got = append(l.got, p.Number) }

// mailer sends a message of packets of 1000 bytes with what is left as rank, at line rate.
type mailer struct {
	talker
	packets, sent uint32
}

func (m *mailer) Poll(_ clock.Time, p *fabric.Packet) bool {
	if m.sent == m.packets {
		return false
	}
	payload := uint64(1000 - rawCodec.HeaderSize(false))
	p.Dst, p.Size, p.Protocol, p.Number = 1, 1000, fabric.Raw, m.sent
	p.SetRank(payload * uint64(m.packets-m.sent))
	m.sent++
	return true
}

// DEF-12: no packet is held for longer than ω, none is lost or doubled, and none is later than it came. If no packet
// is later than ω, and none is lost, all are in order.
func TestReceiversRestoreOrderWithinOmega(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		omega := clock.Duration(rapid.IntRange(5, 60).Draw(t, "omega")) * us
		most := clock.Duration(rapid.IntRange(1, 60).Draw(t, "most")) * us
		loses := rapid.SampledFrom([]uint64{0, 0, 7}).Draw(t, "loses")
		las := rapid.Bool().Draw(t, "las")
		n, err := fabric.New(&fabric.Spec{Seed: rapid.Uint64().Draw(t, "seed"), Topology: fabric.TopologySpec{Hosts: 2,
			Link: fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: us}}},
			func(*fabric.Switch) fabric.Mechanism {
				return &shuffler{most: most, loses: loses, held: make(map[uint64]*fabric.Packet)}
			})
		if err != nil {
			t.Fatal(err)
		}
		set := deflect.Settings{Ordering: true, Hold: omega, Gap: 360 * us}
		if las {
			set.Priority = deflect.LAS
		}
		count, to := uint32(60), &listener{}
		n.Host(0).Attach(&mailer{packets: count})
		n.Host(1).Attach(to)
		shim := NewShim(set, faults{})
		n.Host(0).SetShim(NewShim(set, faults{}))
		n.Host(1).SetShim(shim)
		came := map[uint64]clock.Time{}
		var arrived []uint32
		times := make([]clock.Time, count) // of arrival, by number
		longest := clock.Duration(0)
		n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
			if !at.Host || at.Node != 1 {
				return
			}
			switch at.Stage {
			case fabric.Arrived:
				came[p.ID] = now
				arrived = append(arrived, p.Number)
				times[p.Number] = now
			case fabric.Ingress:
				longest = max(longest, now.Sub(came[p.ID]))
			}
		})
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		if longest > omega || int64(longest) != shim.Counters().LongestHoldPS {
			t.Fatalf("held for %v, of %v; counted %d", longest, omega, shim.Counters().LongestHoldPS)
		}
		inversions := func(list []uint32) (n uint64) {
			most := uint32(0)
			for _, v := range list {
				if v < most {
					n++
				}
				most = max(most, v)
			}
			return n
		}
		c := shim.Counters()
		if c.Reordered != inversions(arrived) || c.Late != inversions(to.got) || c.Late > c.Reordered {
			t.Fatalf("%d came late, %d were passed on late; %+v", inversions(arrived), inversions(to.got), c)
		}
		latest, waits := clock.Time(0), clock.Duration(0) // for one before it: packets wait at the link, too
		for _, at := range times {
			latest = max(latest, at)
			waits = max(waits, latest.Sub(at))
		}
		if waits < omega && loses == 0 && c.Late > 0 {
			t.Fatalf("%d are not in order", c.Late)
		}
		slices.Sort(arrived)
		got := slices.Sorted(slices.Values(to.got))
		if !slices.Equal(arrived, got) || loses == 0 && len(got) != int(count) {
			t.Fatalf("%d arrived, %d were passed on", len(arrived), len(got))
		}
	})
}

// Every seeded bug of hosts changes what they mark, hold or pass on.
func TestSeededBugsOfHostsChangeWhatTheyDo(t *testing.T) {
	run := func(bugs ...string) (sum uint64) {
		n, err := fabric.New(&fabric.Spec{Seed: 3, Topology: fabric.TopologySpec{Hosts: 2,
			Link: fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: us}}},
			func(*fabric.Switch) fabric.Mechanism {
				return &shuffler{most: 40 * us, loses: 9, held: make(map[uint64]*fabric.Packet)}
			})
		if err != nil {
			t.Fatal(err)
		}
		set := deflect.Settings{Ordering: true, Hold: 10 * us, Gap: 360 * us}
		n.Host(0).Attach(&mailer{packets: 200})
		n.Host(1).Attach(&listener{})
		for id := range fabric.HostID(2) {
			n.Host(id).SetShim(NewShim(set, faultsOf(hostBugs(), bugs)))
		}
		var h mixed
		n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
			h.add(uint64(at.Node), uint64(at.Stage), uint64(now), p.ID, p.Rank)
		})
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		return uint64(h)
	}
	correct := run()
	for _, b := range hostBugs() {
		if b.Name != "keeps-ret" && run(b.Name) == correct {
			t.Errorf("%s changes nothing", b.Name)
		}
	}
	s := NewShim(deflect.Settings{}, faultsOf(hostBugs(), []string{"keeps-ret"}))
	f := new(sending)
	s.mark(0, f, 0, 0, 100)
	if got := s.mark(1, f, 0, 0, 100); got.Ret != 0 {
		t.Errorf("keeps-ret marks a retransmission with %+v", got)
	}
}
