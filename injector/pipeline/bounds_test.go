package pipeline_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func TestNumbersOfPorts(t *testing.T) {
	for ports, ok := range map[int]bool{-1: false, 0: false, 1: true, 512: true, 513: false} {
		_, err := pipeline.New(pipeline.Config{Ports: ports})
		if (err == nil) != ok {
			t.Errorf("%d ports: %v", ports, err)
		}
		if want := fmt.Sprintf("injector pipeline: %d ports, allowed are 1…512", ports); err != nil && err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTheLastOfEachIsAcceptedAndTheNextRefused names each bound in the error.
func TestTheLastOfEachIsAcceptedAndTheNextRefused(t *testing.T) {
	p := newPipeline(t, 4)
	flow := func(id uint64) error {
		return p.Set(p4.TableConnectionV4, p4.Key{p4.Uint(id)}, p4.NewAction(p4.ActionSetFlow, id, 0, 0, 1))
	}
	watch := func(slot uint64) error {
		return p.Set(p4.TableWatch, p4.KeyOf(0, 0, 0, slot), p4.NewAction(p4.ActionSetWatch, slot))
	}
	turn := func(session uint64) error {
		return p.Set(p4.TableMirrorSlot, p4.KeyOf(3), p4.NewAction(p4.ActionSelectSession, session))
	}
	port := func(n uint16) error { return p.SetCloneSession(1, []uint16{n}) }
	session := func(n uint32) error { return p.SetCloneSession(n, []uint16{1}) }
	group := func(n uint16) error { return p.SetMulticastGroup(p4.FloodGroup, []uint16{n}) }
	for _, tt := range []struct {
		name string
		good []error
		bad  []error
		text string
	}{
		{"flow", []error{flow(0), flow(4095), flow(4095 | 1<<15)}, []error{flow(4096)},
			"flow id 4096: indices go up to 4095,"},
		{"slot", []error{watch(0), watch(8191), watch(8191 | 1<<15)}, []error{watch(8192)},
			"watch slot 8192: slots go up to 8191,"},
		{"turn", []error{turn(1), turn(1023)}, []error{turn(1024)}, "clone session 1024 is not in 1…1023"},
		{"turn of no session", nil, []error{turn(0)}, "clone session 0 is not in 1…1023"},
		{"session", []error{session(1), session(1023)}, []error{session(1024)}, "clone session 1024 is not in 1…1023"},
		{"session 0", nil, []error{session(0)}, "clone session 0 is not in 1…1023"},
		{"port", []error{port(0), port(3)}, []error{port(4)}, "port 4: this pipeline has ports 0…3"},
		{"port of the group", []error{group(3)}, []error{group(4)}, "port 4: this pipeline has ports 0…3"},
	} {
		for i, err := range tt.good {
			if err != nil {
				t.Errorf("%s, good %d: %v", tt.name, i, err)
			}
		}
		for _, err := range tt.bad {
			if err == nil || !strings.HasPrefix(err.Error(), tt.text) {
				t.Errorf("%s: error %v, want %s", tt.name, err, tt.text)
			}
		}
	}
}

func TestRewritesTakeWhatTheirFieldHolds(t *testing.T) {
	p := newPipeline(t, 4)
	for _, f := range packet.RewriteFields() {
		for value, ok := range map[uint64]bool{0: true, 1<<f.Bits() - 1: true, 1 << f.Bits(): false} {
			err := p.Set(p4.TableEvent, p4.KeyOf(0, 0, 1, 1), p4.NewAction(p4.ActionRewrite, uint64(f), value))
			if (err == nil) != ok {
				t.Errorf("rewrite %v to %d: %v", f, value, err)
			}
		}
	}
	if err := p.Set(p4.TableEvent, p4.KeyOf(0, 0, 1, 1), p4.NewAction(p4.ActionRewrite, 0, 0)); err == nil {
		t.Error("a rewrite of no field is accepted")
	}
}

func TestDefaultsThatTablesDoNotHaveAreRefused(t *testing.T) {
	p := newPipeline(t, 4)
	none, open, snap := p4.NewAction(p4.ActionNoAction), p4.NewAction(p4.ActionOpen, 1), p4.NewAction(p4.ActionSetSnap, 64)
	for _, tt := range []struct {
		table  uint32
		action p4.Action
		ok     bool
	}{
		{p4.TableMirror, open, true}, {p4.TableMirror, none, true}, {p4.TableMirror, snap, false},
		{p4.TableMirror, p4.NewAction(p4.ActionOpen, 0), false},
		{p4.TableMirrorEgress, snap, true}, {p4.TableMirrorEgress, none, true}, {p4.TableMirrorEgress, open, false},
		{p4.TableL2Forward, p4.NewAction(p4.ActionFlood), true}, {p4.TableL2Forward, p4.NewAction(p4.ActionForward, 3), true},
		{p4.TableL2Forward, p4.NewAction(p4.ActionForward, 4), false},
		{p4.TableEvent, none, true}, {p4.TableEvent, open, false}, {p4.TableEvent, snap, false},
		{p4.TableEvent, doDrop, false},
	} {
		if err := p.SetDefault(tt.table, tt.action); (err == nil) != tt.ok {
			t.Errorf("table %d, action %d: %v", tt.table, tt.action.ID, err)
		}
	}
	if err := p.Set(p4.TableMirror, p4.Key{}, none); err == nil ||
		err.Error() != "this pipeline has no table 33554442 with a key" {
		t.Errorf("an entry without a key: %v", err)
	}
}

func TestTheGateAndTheSnapLengthAreTurnedOnAndOff(t *testing.T) {
	p := newPipeline(t, 4)
	openGate(t, p, 3)
	set := func(table uint32, a p4.Action) pipeline.Mirror {
		if err := p.SetDefault(table, a); err != nil {
			t.Fatal(err)
		}
		var r pipeline.Result
		p.Process(0, 0, dataPacket(1), &r)
		return r.Mirror
	}
	if m := set(p4.TableMirrorEgress, p4.NewAction(p4.ActionSetSnap, 64)); !m.Active || m.Snap != 64 {
		t.Errorf("with a snap length: %+v", m)
	}
	if m := set(p4.TableEvent, p4.NewAction(p4.ActionNoAction)); !m.Active || m.Snap != 64 {
		t.Errorf("another table's default: %+v", m)
	}
	if m := set(p4.TableMirrorEgress, p4.NewAction(p4.ActionNoAction)); !m.Active || m.Snap != 0 {
		t.Errorf("without a snap length: %+v", m)
	}
	if m := set(p4.TableMirror, p4.NewAction(p4.ActionNoAction)); m.Active {
		t.Errorf("behind a closed gate: %+v", m)
	}
}

func TestCountersEndWithTheirTables(t *testing.T) {
	p := newPipeline(t, 4)
	for id, cells := range map[uint32]int{p4.CounterRoCERx: 512, p4.CounterRoCETx: 512, p4.CounterPauseRx: 512,
		p4.CounterMirrored: 1024} {
		for _, index := range []int{-1, 0, cells - 1, cells} {
			p.SetCounter(id, index, 5, 50)
			packets, bytes := p.Counter(id, index)
			if exists := index >= 0 && index < cells; (packets == 5 && bytes == 50) != exists || !exists && packets+bytes != 0 {
				t.Errorf("counter %d, cell %d: %d packets, %d bytes", id, index, packets, bytes)
			}
		}
	}
	if packets, _ := p.Counter(1, 0); packets != 0 {
		t.Error("an unknown counter has packets")
	}
}

func TestCountersCountEveryCopyThatLeaves(t *testing.T) {
	p := newPipeline(t, 4)
	addFlow(t, p, 0, 1)
	if err := p.SetMulticastGroup(p4.FloodGroup, []uint16{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	mustSet(t, p, p4.TableEvent, p4.KeyOf(0, 0, ipsn+1, 1), p4.NewAction(p4.ActionDuplicate, 2))
	mustSet(t, p, p4.TableEvent, p4.KeyOf(0, 0, ipsn+2, 1), p4.NewAction(p4.ActionTrim, 2000))
	process(p, data(1, 2, 3)...)
	var got [4]uint64
	for port := range got {
		got[port], _ = p.Counter(p4.CounterRoCETx, port)
	}
	equal(t, "sent", got, [4]uint64{0, 5, 5, 0})
	if p.Runts() != 1 {
		t.Errorf("%d runts, want 1", p.Runts())
	}
	var r pipeline.Result
	p.Process(0, 512, dataPacket(ipsn), &r) // port numbers have 9 bits
	if packets, _ := p.Counter(p4.CounterRoCERx, 0); packets != 4 {
		t.Errorf("port 0 received %d packets, want 4", packets)
	}
}

func TestReservedAddressesEndHere(t *testing.T) {
	p := newPipeline(t, 2)
	for last, ends := range map[byte]bool{0: true, 0xf: true, 0x10: false} {
		var r pipeline.Result
		p.Process(0, 0, &packet.Packet{Eth: packet.Ethernet{Dst: packet.MAC{1, 0x80, 0xc2, 0, 0, last}}}, &r)
		if r.Forward.Drop != ends || r.Forward.Flood == ends {
			t.Errorf("01-80-c2-00-00-%02x: %+v", last, r.Forward)
		}
	}
	if p.Ports() != 2 {
		t.Errorf("%d ports, want 2", p.Ports())
	}
}

func TestUDPPortsOfMirrorCopiesAreThoseOfEarlierReleases(t *testing.T) {
	p, err := pipeline.New(pipeline.Config{Ports: 8, Seed: 42})
	if err != nil {
		t.Fatal(err)
	}
	openGate(t, p, 5)
	var got []uint16
	for range 6 {
		var r pipeline.Result
		p.Process(0, 0, dataPacket(1), &r)
		got = append(got, r.Mirror.UDPDstPort)
	}
	equal(t, "ports", got, []uint16{48863, 11340, 18997, 23228, 3477, 57035})
}

func TestFlowsOfIPv6AreDistinguishedByEveryByte(t *testing.T) {
	p := newPipeline(t, 2)
	mustSet(t, p, p4.TableConnectionV6, p4.Key{p4.AddrValue(ip6A), p4.AddrValue(ip6B), p4.Uint(qpnB)},
		p4.NewAction(p4.ActionSetFlow, 0, ipsn, 5000, 1))
	flip := func(a netip.Addr, i int) netip.Addr {
		b := a.As16()
		b[i] ^= 1
		return netip.AddrFrom16(b)
	}
	flow := func(src, dst netip.Addr) trace.FlowID {
		pk := dataPacket(ipsn)
		pk.IP.Version, pk.Eth.Type, pk.IP.Src, pk.IP.Dst = 6, packet.EtherTypeIPv6, src, dst
		var r pipeline.Result
		p.Process(0, 0, pk, &r)
		return r.Flow
	}
	if f := flow(ip6A, ip6B); f != 0 {
		t.Fatalf("the flow is %d", f)
	}
	for i := range 16 {
		if flow(flip(ip6A, i), ip6B) != trace.NoFlow || flow(ip6A, flip(ip6B, i)) != trace.NoFlow {
			t.Errorf("byte %d of an address is not looked at", i)
		}
	}
}

func TestResponsesStartWhereTheirFlowSays(t *testing.T) {
	p := newPipeline(t, 2)
	addFlow(t, p, 0, 1)
	mustSet(t, p, p4.TableEvent, p4.KeyOf(0, 1, 5000, 1), doDrop)
	mustSet(t, p, p4.TableEvent, p4.KeyOf(0, 1, 4999, 2), doMark)
	first := rocePacket(packet.ReadResponseMiddle, 5000)
	equal(t, "events", process(p, first, rocePacket(packet.ReadResponseMiddle, 4999)), []trace.EventType{drop, ecn})
}

// TestAResetPipelineIsANewOne uses every table, register and counter, and compares with a new one.
func TestAResetPipelineIsANewOne(t *testing.T) {
	used := newPipeline(t, 4)
	drive := func(p *pipeline.Pipeline) (out []string) {
		var r pipeline.Result
		for i, pk := range append(append(data(1, 2, 1, 1), naks(ipsn, ipsn)...), nak(ipsn, packet.SyndromeAckNoCredit)) {
			p.Process(int64(i), 0, pk, &r)
			out = append(out, fmt.Sprintf("%v %d %d %+v %+v", r.Event, r.Flow, r.Iter, r.Mirror, r.Forward))
		}
		for _, id := range []uint32{p4.CounterRoCERx, p4.CounterRoCETx, p4.CounterPauseRx, p4.CounterMirrored} {
			for index := range 4 {
				packets, bytes := p.Counter(id, index)
				out = append(out, fmt.Sprint(id, index, packets, bytes))
			}
		}
		return append(out, fmt.Sprint(p.Runts()))
	}
	flow := func(p *pipeline.Pipeline, id uint64) { addFlow(t, p, id, 1) }
	program := func(p *pipeline.Pipeline, id uint64) {
		flow(p, id)
		openGate(t, p, 2, 3)
		mustSet(t, p, p4.TableL2Forward, p4.KeyOf(hostB.Uint48()), p4.NewAction(p4.ActionForward, 1))
		mustSet(t, p, p4.TableEvent, p4.KeyOf(id, 0, ipsn, 1), doDrop)
		mustSet(t, p, p4.TableEventAny, p4.KeyOf(id, 0, ipsn+1), p4.NewAction(p4.ActionTrim, 4000))
		mustSet(t, p, p4.TableWatch, p4.KeyOf(id, 0, 0, ipsn), p4.NewAction(p4.ActionSetWatch, 8191))
		mustSet(t, p, p4.TableWatchedEvent, p4.KeyOf(8191, 3), doMark)
		mustSet(t, p, p4.TableControlEvent, p4.KeyOf(id, uint64(packet.ClassNak), 2), doMark)
		for _, err := range []error{
			p.SetMulticastGroup(p4.FloodGroup, []uint16{0, 1, 2}),
			p.SetDefault(p4.TableMirrorEgress, p4.NewAction(p4.ActionSetSnap, 64)),
			p.SetDefault(p4.TableL2Forward, p4.NewAction(p4.ActionForward, 2)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		pause := &packet.Packet{Eth: packet.Ethernet{Dst: packet.MAC{1, 0x80, 0xc2, 0, 0, 1}, Type: 0x8808}}
		process(p, pause)
	}
	for _, id := range []uint64{0, 4095} {
		fresh := newPipeline(t, 4)
		if id == 0 { // what the test sees differs from a new pipeline's
			program(used, id)
			if before := drive(used); strings.Join(before, "\n") == strings.Join(drive(newPipeline(t, 4)), "\n") {
				t.Fatal("the tables change nothing")
			}
			used.Reset()
		}
		equal(t, "empty", drive(used), drive(fresh))
		program(used, id)
		drive(used)
		used.Reset()
		fresh = newPipeline(t, 4)
		program(used, id)
		program(fresh, id)
		equal(t, fmt.Sprintf("programmed, flow %d", id), drive(used), drive(fresh))
		used.Reset()
		fresh = newPipeline(t, 4)
		flow(used, id)
		flow(fresh, id)
		openGate(t, used, 1)
		openGate(t, fresh, 1)
		equal(t, "only a flow", drive(used), drive(fresh))
		used.Reset()
	}
}
