package trace

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/packet"
)

// drawFrame draws a RoCE frame over IPv4 or IPv6, tagged or not.
func drawFrame(t *rapid.T) []byte {
	p := testPacket(rapid.SampledFrom([]packet.Opcode{packet.WriteOnly, packet.WriteMiddle, packet.Acknowledge,
		packet.ReadRequest,
		packet.CNP, packet.ReadResponseFirst, packet.SendLastInv, packet.CmpSwap, packet.AtomicAcknowledge}).Draw(t,
		"opcode"),
		packet.QPN(rapid.Uint32Range(0, maxUint24).Draw(t, "qpn")),
		packet.PSN(rapid.Uint32Range(0, maxUint24).Draw(t, "psn")),
		rapid.IntRange(0, 300).Draw(t, "payload"))
	p.BTH.PadCount = uint8(-len(p.Payload) & 3)
	p.Eth.Tagged = rapid.Bool().Draw(t, "tagged")
	p.SumUDP = rapid.Bool().Draw(t, "udp checksum")
	p.IP.TOS = rapid.Byte().Draw(t, "tos")
	if rapid.Bool().Draw(t, "v6") {
		p.Eth.Type = packet.EtherTypeIPv6
		p.IP = packet.IP{Version: 6, TOS: p.IP.TOS, TTL: 64, Protocol: packet.ProtocolUDP,
			FlowLabel: rapid.Uint32Range(0, 1<<20-1).Draw(t, "flow label"),
			Src:       netip.MustParseAddr("fd00::1"), Dst: netip.MustParseAddr("fd00::2")}
	}
	return p.AppendTo(nil)
}

func drawMeta(t *rapid.T) MirrorMeta {
	return MirrorMeta{
		Event:      EventType(rapid.IntRange(0, int(MaxEventType)).Draw(t, "event")),
		Seq:        rapid.Uint64Range(0, stampMask).Draw(t, "seq"),
		TimeNS:     int64(rapid.Uint64Range(0, stampMask).Draw(t, "stamp")),
		UDPDstPort: rapid.Uint16().Draw(t, "port"),
	}
}

func TestMirrorMetadataComesBackAndTheICRCHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frame, m := drawFrame(t), drawMeta(t)
		original := bytes.Clone(frame)
		if err := EncodeMirror(frame, m); err != nil {
			t.Fatal(err)
		}
		got, err := DecodeMirror(frame)
		if err != nil || got != m {
			t.Fatalf("decoded %+v, %v; want %+v", got, err, m)
		}
		RestorePort(frame)
		var p, q packet.Packet
		if err := p.Parse(frame); err != nil {
			t.Fatal(err)
		}
		if packet.CheckICRC(frame, &p) != packet.ICRCValid {
			t.Error("iCRC does not hold after the port was restored")
		}
		if p.IP.Version == 4 && packet.HeaderChecksum(frame[l2(&p):l2(&p)+packet.IPv4Len]) != p.IP.Checksum {
			t.Error("wrong IPv4 checksum")
		}
		// Nothing but the overwritten fields may differ from the original.
		if err := q.Parse(original); err != nil {
			t.Fatal(err)
		}
		q.Eth.Src, q.Eth.Dst, q.IP.TTL, q.IP.Checksum = p.Eth.Src, p.Eth.Dst, p.IP.TTL, p.IP.Checksum
		if !bytes.Equal(q.AppendTo(nil), frame) {
			t.Errorf("the copy differs in other fields:\n%x\n%x", original, frame)
		}
	})
}

func l2(p *packet.Packet) int {
	if p.Eth.Tagged {
		return packet.EthernetLen + packet.VLANLen
	}
	return packet.EthernetLen
}

func TestOtherFramesAreLeftAlone(t *testing.T) {
	arp := append(make([]byte, 12), 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1)
	udp := testPacket(packet.WriteOnly, 1, 1, 8).AppendTo(nil)
	fragment := bytes.Clone(udp)
	fragment[20] |= 0x20
	tcp := bytes.Clone(udp)
	tcp[23] = 6
	for name, frame := range map[string][]byte{"empty": {}, "ARP": arp, "fragment": fragment, "TCP": tcp,
		"cut in UDP": udp[:40]} {
		before := bytes.Clone(frame)
		if err := EncodeMirror(frame, MirrorMeta{Seq: 5}); !errors.Is(err, ErrNotMirror) {
			t.Errorf("%s: error %v", name, err)
		}
		if _, err := DecodeMirror(frame); !errors.Is(err, ErrNotMirror) {
			t.Errorf("%s: decode error %v", name, err)
		}
		RestorePort(frame)
		if !bytes.Equal(before, frame) {
			t.Errorf("%s was changed", name)
		}
	}
	bad := bytes.Clone(udp)
	if err := EncodeMirror(bad, MirrorMeta{Event: MaxEventType + 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeMirror(bad); err == nil {
		t.Error("a TTL beyond the event types was accepted")
	}
}

func TestStampsUnwrap(t *testing.T) {
	const turn = 1 << 48
	for _, tc := range []struct {
		name   string
		stamps []uint64
		want   []int64
	}{
		{"forward", []uint64{5, 7, 7, 9}, []int64{5, 7, 7, 9}},
		{"wrap", []uint64{turn - 3, turn - 1, 2}, []int64{turn - 3, turn - 1, turn + 2}},
		{"a small step back is not a wrap", []uint64{100, 60, 120}, []int64{100, 60, 120}},
		{"a step back across zero is not a wrap", []uint64{3, turn - 4, 5}, []int64{3, -4, 5}},
		{"the longest forward step", []uint64{0, 1<<47 - 1}, []int64{0, 1<<47 - 1}},
		{"2^47 ahead counts as back", []uint64{0, 1 << 47}, []int64{0, -1 << 47}},
		{"two wraps", []uint64{turn - 1, 1 << 46, 1<<46 + 1<<46, 1<<47 + 1<<46, 0},
			[]int64{turn - 1, turn + 1<<46, turn + 1<<47, turn + 1<<47 + 1<<46, 2 * turn}},
	} {
		var u TimeUnwrapper
		for i, s := range tc.stamps {
			if got := u.Unwrap(s); got != tc.want[i] {
				t.Errorf("%s: stamp %d became %d, want %d", tc.name, i, got, tc.want[i])
			}
		}
	}
}

func FuzzDecodeMirror(f *testing.F) {
	f.Add(testPacket(packet.WriteOnly, 1, 1, 8).AppendTo(nil))
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := DecodeMirror(frame)
		if err != nil {
			return
		}
		if err := EncodeMirror(frame, m); err != nil {
			t.Fatal(err)
		}
		if second, err := DecodeMirror(frame); err != nil || second != m {
			t.Errorf("encoding what was decoded gives %+v, %v; want %+v", second, err, m)
		}
		RestorePort(frame)
		_ = NormaliseLumina(frame, 7)
		_ = WireLen(frame)
	})
}
