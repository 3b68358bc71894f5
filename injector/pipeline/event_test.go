package pipeline_test

import (
	"testing"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

const (
	none    = trace.EventNone
	drop    = trace.EventDrop
	ecn     = trace.EventECN
	corrupt = trace.EventCorrupt
)

var (
	doDrop    = p4.NewAction(p4.ActionDrop)
	doMark    = p4.NewAction(p4.ActionMarkECN)
	doCorrupt = p4.NewAction(p4.ActionCorrupt)
)

// data returns WRITE packets with PSNs relative to the flow's first, 1-based.
func data(rel ...int) []*packet.Packet {
	var out []*packet.Packet
	for _, n := range rel {
		out = append(out, dataPacket(packet.PSN(ipsn).Add(n-1)))
	}
	return out
}

func naks(psns ...packet.PSN) []*packet.Packet {
	var out []*packet.Packet
	for _, psn := range psns {
		out = append(out, nak(psn, packet.SyndromeNakSequence))
	}
	return out
}

type tableEntry struct {
	table  uint32
	key    p4.Key
	action p4.Action
}

func TestEventsAct(t *testing.T) {
	const any = p4.FlowControlClass
	nakClass := uint64(packet.ClassNak)
	tests := []struct {
		name    string
		entries []tableEntry
		packets []*packet.Packet
		want    []trace.EventType
		hits    []uint64 // by entry
	}{
		{
			name: "each round of a PSN is addressed by its ITER",
			entries: []tableEntry{
				{p4.TableEvent, p4.KeyOf(0, 0, ipsn+1, 1), doDrop},
				{p4.TableEvent, p4.KeyOf(0, 0, ipsn+2, 2), doDrop},
			},
			packets: data(1, 2, 3, 4, 2, 3, 4, 3, 4),
			want:    []trace.EventType{none, drop, none, none, none, drop, none, none, none},
			hits:    []uint64{1, 1},
		},
		{
			name:    "event_any acts in every round",
			entries: []tableEntry{{p4.TableEventAny, p4.KeyOf(0, 0, ipsn+1), doMark}},
			packets: data(1, 2, 2, 3, 2),
			want:    []trace.EventType{none, ecn, ecn, none, ecn},
			hits:    []uint64{3},
		},
		{
			name: "an exact event wins over event_any and alone counts the hit",
			entries: []tableEntry{
				{p4.TableEventAny, p4.KeyOf(0, 0, ipsn), doMark},
				{p4.TableEvent, p4.KeyOf(0, 0, ipsn, 2), doDrop},
			},
			packets: data(1, 1, 1),
			want:    []trace.EventType{ecn, drop, ecn},
			hits:    []uint64{2, 1},
		},
		{
			name: "a watch slot counts arrivals of its PSN whatever the ITER",
			entries: []tableEntry{
				{p4.TableWatch, p4.KeyOf(0, 0, 0, ipsn+3), p4.NewAction(p4.ActionSetWatch, 8191)},
				{p4.TableWatchedEvent, p4.KeyOf(8191, 2), doDrop},
			},
			packets: data(1, 1, 1, 4, 1, 4, 4),
			want:    []trace.EventType{none, none, none, none, none, drop, none},
			hits:    []uint64{0, 1},
		},
		{
			name: "a watched arrival wins over event_any",
			entries: []tableEntry{
				{p4.TableWatch, p4.KeyOf(0, 0, 0, ipsn), p4.NewAction(p4.ActionSetWatch, 3)},
				{p4.TableWatchedEvent, p4.KeyOf(3, 2), doDrop},
				{p4.TableEventAny, p4.KeyOf(0, 0, ipsn), doMark},
			},
			packets: data(1, 1, 1),
			want:    []trace.EventType{ecn, drop, ecn},
			hits:    []uint64{0, 1, 2},
		},
		{
			name:    "control packets are counted by class and never by PSN",
			entries: []tableEntry{{p4.TableControlEvent, p4.KeyOf(0, nakClass, 2), doCorrupt}},
			packets: append(naks(7, 7), append([]*packet.Packet{nak(7, packet.SyndromeAckNoCredit)}, naks(9)...)...),
			want:    []trace.EventType{none, corrupt, none, none},
			hits:    []uint64{1},
		},
		{
			name: "every control packet of a class but the first, which has an event of its own",
			entries: []tableEntry{
				{p4.TableEventAny, p4.KeyOf(any, 0, nakClass), doDrop},
				{p4.TableControlEvent, p4.KeyOf(0, nakClass, 1), doMark},
			},
			packets: append(naks(7, 8, 9), data(int(nakClass)-ipsn+1)...),
			want:    []trace.EventType{ecn, drop, drop, none},
			hits:    []uint64{2, 1},
		},
		{
			name: "a slot that does not count acts at every arrival of its PSN",
			entries: []tableEntry{
				{p4.TableWatch, p4.KeyOf(0, 1, nakClass, 8), p4.NewAction(p4.ActionSetWatch, p4.WatchEvery|5)},
				{p4.TableWatchedEvent, p4.KeyOf(p4.WatchEvery|5, 0), doDrop},
			},
			packets: naks(7, 8, 8, 9),
			want:    []trace.EventType{none, drop, drop, none},
			hits:    []uint64{0, 2},
		},
		{
			name: "control packets never move ITER",
			entries: []tableEntry{
				{p4.TableEvent, p4.KeyOf(0, 1, 5000, 1), doDrop},
				{p4.TableEvent, p4.KeyOf(0, 0, ipsn+1, 1), doDrop},
			},
			packets: []*packet.Packet{
				dataPacket(ipsn), nak(5003, packet.SyndromeNakSequence), rocePacket(packet.ReadRequest, ipsn),
				rocePacket(packet.CNP, 0),
				dataPacket(ipsn + 1), rocePacket(packet.ReadResponseOnly, 5000),
			},
			want: []trace.EventType{none, none, none, none, drop, drop},
			hits: []uint64{1, 1},
		},
		{
			name:    "packets of other flows and reserved opcodes pass",
			entries: []tableEntry{{p4.TableEventAny, p4.KeyOf(0, 0, ipsn), doDrop}},
			packets: []*packet.Packet{
				func() *packet.Packet { p := dataPacket(ipsn); p.BTH.DestQP++; return p }(),
				func() *packet.Packet { p := dataPacket(ipsn); p.IP.Src, p.IP.Dst = p.IP.Dst, p.IP.Src; return p }(),
				rocePacket(0x60, ipsn),
				dataPacket(ipsn),
			},
			want: []trace.EventType{none, none, none, drop},
			hits: []uint64{1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPipeline(t, 4)
			addFlow(t, p, 0, 1)
			for _, e := range tt.entries {
				mustSet(t, p, e.table, e.key, e.action)
			}
			equal(t, "events", process(p, tt.packets...), tt.want)
			for i, e := range tt.entries {
				equal(t, "hits", p.Hits(e.table, e.key), tt.hits[i])
			}
		})
	}
}

func TestANewEpochRestartsITEROrdinalsAndArrivals(t *testing.T) {
	p := newPipeline(t, 4)
	mustSet(t, p, p4.TableEvent, p4.KeyOf(0, 0, ipsn+1, 1), doDrop)
	mustSet(t, p, p4.TableControlEvent, p4.KeyOf(0, uint64(packet.ClassNak), 1), doDrop)
	mustSet(t, p, p4.TableWatch, p4.KeyOf(0, 0, 0, ipsn+4), p4.NewAction(p4.ActionSetWatch, 0))
	mustSet(t, p, p4.TableWatchedEvent, p4.KeyOf(0, 1), doMark)
	packets := append(data(1, 2, 5, 2, 5), naks(1, 2)...)
	for epoch := range uint64(3) {
		addFlow(t, p, 0, epoch+1)
		equal(t, "events", process(p, packets...), []trace.EventType{none, drop, ecn, none, none, drop, none})
	}
}

func TestITERSurvivesTheWrapOfPSNs(t *testing.T) {
	p := newPipeline(t, 4)
	addFlow(t, p, 0, 1) // its IPSN does not matter: a first packet before it stays in round 1
	for _, e := range []struct{ psn, iter uint64 }{{0, 1}, {0xffffff, 2}, {0, 2}} {
		mustSet(t, p, p4.TableEvent, p4.KeyOf(0, 0, e.psn, e.iter), doDrop)
	}
	packets := []*packet.Packet{dataPacket(0x7fffff), dataPacket(0xfffffe), dataPacket(0xffffff), dataPacket(0),
		dataPacket(1),
		dataPacket(0xffffff), dataPacket(0)}
	equal(t, "events", process(p, packets...), []trace.EventType{none, none, none, drop, none, drop, drop})
}

func TestMessageScopeFollowsThePrototype(t *testing.T) {
	p := newPipeline(t, 4)
	const flow = p4.FlowMessageScope | 3
	addFlow(t, p, flow, 1)
	first := func(rel int) *packet.Packet { return rocePacket(packet.WriteFirst, packet.PSN(ipsn+rel-1)) }
	steps := []struct {
		p    *packet.Packet
		iter uint16
	}{
		{first(1), 1}, {data(2)[0], 1}, {data(3)[0], 1},
		{data(2)[0], 2}, {data(3)[0], 2}, // go back
		{data(5)[0], 3},                // a forward jump counts too
		{first(6), 1},                  // in order: a new message
		{data(7)[0], 1}, {first(6), 2}, // a retransmitted first packet adds 1
		{data(7)[0], 2}, {first(8), 1},
	}
	var r pipeline.Result
	for i, s := range steps {
		p.Process(0, 0, s.p, &r)
		if r.Iter != s.iter || r.Flow != 3 {
			t.Errorf("step %d: flow %d ITER %d, want flow 3 ITER %d", i, r.Flow, r.Iter, s.iter)
		}
	}
	mustSet(t, p, p4.TableEvent, p4.KeyOf(flow, 0, ipsn+8, 1), doDrop)
	equal(t, "event with the scope bit in its key", process(p, data(9)...), []trace.EventType{drop})
}

func TestIPv6FlowsMatch(t *testing.T) {
	p := newPipeline(t, 4)
	mustSet(t, p, p4.TableConnectionV6, p4.Key{p4.AddrValue(ip6A), p4.AddrValue(ip6B), p4.Uint(qpnB)},
		p4.NewAction(p4.ActionSetFlow, 1, ipsn, 0, 1))
	mustSet(t, p, p4.TableEvent, p4.KeyOf(1, 0, ipsn, 1), doCorrupt)
	pk := dataPacket(ipsn)
	pk.Eth.Type, pk.IP.Version, pk.IP.Src, pk.IP.Dst = packet.EtherTypeIPv6, 6, ip6A, ip6B
	pk.SumUDP = true
	equal(t, "events", process(p, dataPacket(ipsn), pk), []trace.EventType{none, corrupt})
}

func TestEntriesCanBeRemovedAndReplaced(t *testing.T) {
	p := newPipeline(t, 4)
	addFlow(t, p, 0, 1)
	k := p4.KeyOf(0, 0, ipsn)
	mustSet(t, p, p4.TableEventAny, k, doDrop)
	equal(t, "inserted", process(p, data(1)...), []trace.EventType{drop})
	mustSet(t, p, p4.TableEventAny, k, doMark)
	equal(t, "replaced", process(p, data(1)...), []trace.EventType{ecn})
	equal(t, "hits survive a replacement", p.Hits(p4.TableEventAny, k), uint64(2))
	p.Unset(p4.TableEventAny, k)
	equal(t, "removed", process(p, data(1)...), []trace.EventType{none})
	mustSet(t, p, p4.TableEventAny, k, doDrop)
	equal(t, "hits restart", p.Hits(p4.TableEventAny, k), uint64(0))
	p.Unset(p4.TableConnectionV4, p4.Key{p4.AddrValue(ipA), p4.AddrValue(ipB), p4.Uint(qpnB)})
	equal(t, "without its flow", process(p, data(1)...), []trace.EventType{none})
}

func TestWhatTheRegistersCannotServeIsRefused(t *testing.T) {
	p := newPipeline(t, 4)
	tests := []struct {
		name string
		err  error
	}{
		{"a flow index past the registers", p.Set(p4.TableConnectionV4, p4.Key{}, p4.NewAction(p4.ActionSetFlow, 4096))},
		{"a watch slot past the registers", p.Set(p4.TableWatch, p4.Key{}, p4.NewAction(p4.ActionSetWatch, 8192))},
		{"a port that does not exist", p.Set(p4.TableL2Forward, p4.Key{}, p4.NewAction(p4.ActionForward, 4))},
		{"clone session 0", p.Set(p4.TableMirrorSlot, p4.Key{}, p4.NewAction(p4.ActionSelectSession, 0))},
		{"an open gate without slots", p.SetDefault(p4.TableMirror, p4.NewAction(p4.ActionOpen, 0))},
		{"an unknown event action", p.Set(p4.TableEvent, p4.Key{}, p4.NewAction(p4.ActionOpen))},
		{"an unknown table", p.Set(1, p4.Key{}, doDrop)},
		{"an unknown default", p.SetDefault(p4.TableEvent, doDrop)},
		{"a session on a port that does not exist", p.SetCloneSession(1, []uint16{4})},
	}
	for _, tt := range tests {
		if tt.err == nil {
			t.Errorf("%s: accepted", tt.name)
		}
	}
	if _, err := pipeline.New(pipeline.Config{Ports: 513}); err == nil {
		t.Error("513 ports: accepted")
	}
}

func TestProcessingAllocatesNothing(t *testing.T) {
	p := newPipeline(t, 4)
	addFlow(t, p, 0, 1)
	openGate(t, p, 2)
	if err := p.SetMulticastGroup(p4.FloodGroup, []uint16{0, 1}); err != nil {
		t.Fatal(err)
	}
	for _, a := range []p4.Action{doDrop, doMark, doCorrupt} {
		mustSet(t, p, p4.TableEventAny, p4.KeyOf(0, 0, ipsn), a)
		explicit := dataPacket(ipsn)
		explicit.Seal()
		control := nak(1, packet.SyndromeNakSequence)
		var r pipeline.Result
		if n := runtimetest.FewestAllocs(0, func() {
			p.Process(0, 0, explicit, &r)
			r.Apply(explicit)
			p.Process(0, 0, control, &r)
		}); n != 0 {
			t.Errorf("action %d: %v allocations", a.ID, n)
		}
	}
}
