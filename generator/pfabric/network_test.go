package pfabric_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/pfabric"
	"candela.dev/candela/generator/wire"
)

// A network carries packets between hosts 1 and 2, whose fates are drawn: lost, delayed, or copied.
type network struct {
	t      *rapid.T
	hosts  map[pfabric.Endpoint]*pfabric.Host
	flying []flight // by arrival
	now    clock.Time
	acked  map[uint32]map[uint32]bool // numbers whose acknowledgements have reached host 1, by connection
	lossy  bool
}

type flight struct {
	at clock.Time
	p  pfabric.Packet
}

func (n *network) fly(p pfabric.Packet) {
	if n.lossy && rapid.IntRange(0, 9).Draw(n.t, "lost") == 0 {
		return
	}
	copies := 1
	if n.lossy && rapid.IntRange(0, 19).Draw(n.t, "copied") == 0 {
		copies = 2
	}
	for range copies {
		f := flight{n.now.Add(clock.Duration(rapid.IntRange(1, 30).Draw(n.t, "us")) * clock.Microsecond), p}
		i, _ := slices.BinarySearchFunc(n.flying, f, func(a, b flight) int { return int(a.at - b.at) })
		n.flying = slices.Insert(n.flying, i, f)
	}
}

// step goes on to the next event and reports whether there is one.
func (n *network) step() bool {
	next := clock.Never
	if len(n.flying) > 0 {
		next = n.flying[0].at
	}
	for _, h := range n.hosts {
		if at, ok := h.NextTimer(); ok {
			next = min(next, at)
		}
	}
	if next == clock.Never {
		return false
	}
	if next < n.now {
		n.t.Fatalf("a timer of %v is due at %v", next, n.now)
	}
	n.now = next
	for len(n.flying) > 0 && n.flying[0].at == n.now {
		p := n.flying[0].p
		n.flying = n.flying[1:]
		if p.Kind == pfabric.Ack && p.Number != pfabric.NoNumber {
			n.acked[p.Connection][p.Number] = true
		}
		for number := range p.Total {
			if p.Kind == pfabric.Ack {
				n.acked[p.Connection][number] = true
			}
		}
		n.hosts[p.To].HandlePacket(n.now, &p)
	}
	for _, id := range []pfabric.Endpoint{1, 2} {
		h := n.hosts[id]
		if at, ok := h.NextTimer(); ok && at <= n.now {
			h.HandleTimer(n.now)
		}
		for p := (pfabric.Packet{}); h.Poll(n.now, &p); {
			if p.Kind == pfabric.Data && n.acked[p.Connection][p.Number] {
				n.t.Fatalf("packet %d of flow %d is sent though its acknowledgement has arrived", p.Number, p.Connection)
			}
			n.fly(p)
		}
	}
	return true
}

// Whatever the network loses, delays and copies, all bytes arrive once, both ends report that once, and no packet is
// sent after its acknowledgement has arrived.
func TestEveryFlowArrivesOnceThroughNetworksThatLose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seen events
		n := &network{t: t, hosts: make(map[pfabric.Endpoint]*pfabric.Host), acked: make(map[uint32]map[uint32]bool),
			lossy: rapid.Bool().Draw(t, "lossy")}
		for _, id := range []pfabric.Endpoint{1, 2} {
			h, err := pfabric.New(pfabric.Config{Address: id, Payload: payload, Window: rapid.IntRange(1, 8).Draw(t, "window"),
				RTO: 65 * clock.Microsecond, ProbeAfter: rapid.IntRange(0, 3).Draw(t, "probe after")}, &seen)
			if err != nil {
				t.Fatal(err)
			}
			n.hosts[id] = h
		}
		sizes := rapid.SliceOfN(rapid.Uint64Range(1, 12*payload), 1, 4).Draw(t, "bytes")
		for _, bytes := range sizes {
			number, err := n.hosts[1].Send(pfabric.Flow{To: 2, Bytes: bytes, Rank: wire.Ranking{Kind: wire.RankByBytes},
				Start: at(rapid.IntRange(0, 50).Draw(t, "start"))})
			if err != nil {
				t.Fatal(err)
			}
			n.acked[number] = make(map[uint32]bool)
		}
		for steps := 0; n.step(); steps++ {
			if steps > 100_000 {
				t.Fatal("the flows do not end")
			}
		}
		for number, bytes := range sizes {
			var received, finished int
			for _, e := range seen {
				if e.Connection != uint32(number) {
					continue
				}
				packets := (bytes + payload - 1) / payload
				switch e.Kind {
				case pfabric.Received:
					if received++; e.Arrivals.Bytes != bytes || uint64(e.Arrivals.Packets) != packets {
						t.Fatalf("of %d bytes arrived %+v", bytes, e.Arrivals)
					}
				case pfabric.Finished:
					if finished++; e.Sent < packets || !n.lossy && e.Sent != packets {
						t.Fatalf("%d packets were sent of %d", e.Sent, packets)
					}
				case pfabric.TimedOut, pfabric.Retransmitted:
					if !n.lossy {
						t.Fatalf("nothing is lost, and %+v", e)
					}
				}
			}
			if received != 1 || finished != 1 {
				t.Fatalf("flow %d was received %d times and finished %d times", number, received, finished)
			}
		}
	})
}

// A packet's header survives its codec, and all packets of a connection are of one flow.
func TestHeadersSurviveTheirCodec(t *testing.T) {
	codec := pfabric.Codec()
	rapid.Check(t, func(t *rapid.T) {
		p := pfabric.Packet{From: 3, To: 5, Kind: pfabric.Kind(rapid.IntRange(1, 3).Draw(t, "kind")),
			Connection: rapid.Uint32().Draw(t, "connection"), Number: rapid.Uint32().Draw(t, "number"),
			Total: rapid.Uint32().Draw(t, "total"), Payload: 77, Rank: rapid.Uint64().Draw(t, "rank")}
		h := wire.Header{Src: 3, Dst: 5}
		p.Fill(&h)
		h.SetRank(p.Rank)
		b := codec.Append(nil, &h, nil, codec.Len, codec.Len)
		got := wire.Header{Src: 3, Dst: 5}
		body := b[len(b)-pfabric.HeaderLen:]
		if !codec.Parse(body, &got) || pfabric.FromHeader(&got, 77) != p {
			t.Fatalf("%+v came back as %+v", p, pfabric.FromHeader(&got, 77))
		}
		if cut := rapid.IntRange(0, pfabric.HeaderLen-1).Draw(t, "cut"); codec.Parse(body[:cut], new(wire.Header)) {
			t.Fatalf("%d bytes are a header", cut)
		}
		data, answer := p, p
		data.Kind, answer.Kind = pfabric.Data, pfabric.Ack
		if a, b := pfabric.FlowOf(3, 5, &data), pfabric.FlowOf(5, 3, &answer); a != b {
			t.Fatalf("data is of flow %d, its acknowledgement of %d", a, b)
		}
	})
	for _, kind := range []byte{0, 4, 255} {
		if codec.Parse(append([]byte{kind}, make([]byte, pfabric.HeaderLen)...), new(wire.Header)) {
			t.Errorf("%d is a kind", kind)
		}
	}
}

func TestBugsHaveNamesRulesAndSentences(t *testing.T) {
	var names []string
	for _, b := range pfabric.Catalogue() {
		if b.Name == "" || b.Rule == "" || b.What == "" || slices.Contains(names, b.Name) {
			t.Errorf("%+v lacks a field, or its name is taken", b)
		}
		names = append(names, b.Name)
		if set, err := pfabric.ParseBugs([]string{b.Name}); err != nil || !set.Has(b.Bug) {
			t.Errorf("%s: %v", b.Name, err)
		}
	}
	if _, err := pfabric.ParseBugs([]string{"none-such"}); err == nil {
		t.Error("an unknown bug is known")
	}
}
