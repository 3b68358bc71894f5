package pipeline_test

import (
	"testing"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
)

func TestMirroringTakesTurnsWhileTheGateIsOpen(t *testing.T) {
	p := newPipeline(t, 8)
	openGate(t, p, 5, 6, 5)
	if err := p.SetDefault(p4.TableMirrorEgress, p4.NewAction(p4.ActionSetSnap, 128)); err != nil {
		t.Fatal(err)
	}
	var got []pipeline.Mirror
	var r pipeline.Result
	udpPorts := map[uint16]bool{}
	for i := range 6 {
		p.Process(int64(i)+1<<48, 0, dataPacket(packet.PSN(i)), &r) // of no known flow: mirrored all the same
		udpPorts[r.Mirror.UDPDstPort] = true
		r.Mirror.UDPDstPort = 0
		got = append(got, r.Mirror)
	}
	mirror := func(i int64, session, port uint16) pipeline.Mirror {
		return pipeline.Mirror{Active: true, Session: session, Snap: 128, Seq: uint64(i) + 1, TimeNS: i,
			Ports: []uint16{port}}
	}
	equal(t, "mirror decisions", got, []pipeline.Mirror{mirror(0, 1, 5), mirror(1, 2, 6), mirror(2, 3, 5), mirror(3, 1, 5),
		mirror(4, 2, 6), mirror(5, 3, 5)})
	if len(udpPorts) < 5 {
		t.Errorf("6 copies have %d UDP ports: they don't spread", len(udpPorts))
	}
	if packets, _ := p.Counter(p4.CounterMirrored, 2); packets != 2 {
		t.Errorf("session 2 counted %d copies, want 2", packets)
	}

	if err := p.SetDefault(p4.TableMirror, p4.NewAction(p4.ActionNoAction)); err != nil {
		t.Fatal(err)
	}
	p.Process(0, 0, dataPacket(1), &r)
	if r.Mirror.Active {
		t.Error("a closed gate mirrors")
	}
}

func TestATurnWithoutSessionLeavesAHoleInTheSequence(t *testing.T) {
	p := newPipeline(t, 8)
	openGate(t, p, 5, 6)
	if err := p.SetCloneSession(1, nil); err != nil {
		t.Fatal(err)
	}
	var r pipeline.Result
	p.Process(0, 0, dataPacket(1), &r)
	if r.Mirror.Active {
		t.Error("mirrored through a deleted session")
	}
	p.Process(0, 0, dataPacket(1), &r)
	equal(t, "sequence", r.Mirror.Seq, uint64(2))
}

func TestTheSameSeedGivesTheSameUDPPorts(t *testing.T) {
	ports := func(seed uint64) (out []uint16) {
		p, err := pipeline.New(pipeline.Config{Ports: 8, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		openGate(t, p, 5)
		var r pipeline.Result
		for range 32 {
			p.Process(0, 0, dataPacket(1), &r)
			out = append(out, r.Mirror.UDPDstPort)
		}
		return out
	}
	equal(t, "ports of one seed", ports(1), ports(1))
	same := 0
	for i, port := range ports(1) {
		if port == ports(2)[i] {
			same++
		}
		if port < 1024 {
			t.Errorf("port %d is a well-known one", port)
		}
	}
	if same > 3 {
		t.Errorf("%d of 32 ports are the same with another seed", same)
	}
}

func TestForwarding(t *testing.T) {
	unknown := packet.MAC{2, 0, 0, 0, 0, 99}
	tests := []struct {
		name    string
		dst     packet.MAC
		etype   uint16
		ingress uint16
		want    pipeline.Forward
	}{
		{"a known address goes to its port", hostB, packet.EtherTypeIPv4, 0, pipeline.Forward{Port: 1}},
		{"an unknown address floods to the group less the ingress port", unknown, packet.EtherTypeIPv4, 1,
			pipeline.Forward{Flood: true, Ports: []uint16{0, 2}}},
		{"a broadcast floods", packet.MAC{255, 255, 255, 255, 255, 255}, 0x0806, 3,
			pipeline.Forward{Flood: true, Ports: []uint16{0, 1, 2}}},
		{"a multicast floods", packet.MAC{0x33, 0x33, 0, 0, 0, 1}, packet.EtherTypeIPv6, 0,
			pipeline.Forward{Flood: true, Ports: []uint16{1, 2}}},
		{"a pause frame ends here", packet.MAC{1, 0x80, 0xc2, 0, 0, 1}, 0x8808, 2, pipeline.Forward{Drop: true}},
	}
	p := newPipeline(t, 4)
	mustSet(t, p, p4.TableL2Forward, p4.KeyOf(hostB.Uint48()), p4.NewAction(p4.ActionForward, 1))
	if err := p.SetMulticastGroup(p4.FloodGroup, []uint16{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	openGate(t, p, 3)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r pipeline.Result
			p.Process(0, tt.ingress, &packet.Packet{Eth: packet.Ethernet{Dst: tt.dst, Src: hostA, Type: tt.etype}}, &r)
			equal(t, "forward", r.Forward, tt.want)
			if r.Mirror.Active || r.RoCE {
				t.Error("a frame that is not RoCE was mirrored")
			}
		})
	}
	if packets, _ := p.Counter(p4.CounterPauseRx, 2); packets != 1 {
		t.Errorf("pause_rx[2] = %d, want 1", packets)
	}
	if err := p.SetDefault(p4.TableL2Forward, p4.NewAction(p4.ActionForward, 3)); err != nil {
		t.Fatal(err)
	}
	var r pipeline.Result
	p.Process(0, 0, &packet.Packet{Eth: packet.Ethernet{Dst: unknown}}, &r)
	equal(t, "an unknown address with a default port", r.Forward, pipeline.Forward{Port: 3})
}

func TestCountersCountWhatPasses(t *testing.T) {
	p := newPipeline(t, 4)
	addFlow(t, p, 0, 1)
	mustSet(t, p, p4.TableL2Forward, p4.KeyOf(hostB.Uint48()), p4.NewAction(p4.ActionForward, 1))
	mustSet(t, p, p4.TableEvent, p4.KeyOf(0, 0, ipsn, 1), doDrop)
	mustSet(t, p, p4.TableEvent, p4.KeyOf(0, 0, ipsn+1, 1), p4.NewAction(p4.ActionTrim, 64))
	packets := data(1, 2, 3)
	process(p, packets...)
	length := uint64(packets[0].Len())
	got := [4]uint64{}
	got[0], got[1] = p.Counter(p4.CounterRoCERx, 0)
	got[2], got[3] = p.Counter(p4.CounterRoCETx, 1)
	equal(t, "received and sent, packets and bytes", got, [4]uint64{3, 3 * length, 2, 14 + 64 + length})
}
