package trace

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"candela.dev/candela/packet"
)

// TestConvertedMirrorCopiesAreWhatHostsSentAndGot compares each plain frame with the packet that was mirrored, over
// IPv4 and IPv6, with and without UDP checksum.
func TestConvertedMirrorCopiesAreWhatHostsSentAndGot(t *testing.T) {
	six := func(p *packet.Packet) *packet.Packet {
		p.Eth.Type, p.IP.Version = packet.EtherTypeIPv6, 6
		p.IP.Src, p.IP.Dst = netip.MustParseAddr("fd00::a00:1"), netip.MustParseAddr("fd00::a00:2")
		return p
	}
	for _, family := range []uint8{4, 6} {
		for _, event := range []EventType{EventNone, EventDrop, EventECN, EventCorrupt, EventTrim} {
			p := testPacket(packet.WriteMiddle, 17, 9, 64)
			p.IP.TOS = uint8(packet.ECT0)
			if family == 6 {
				p = six(p)
			}
			original := p.AppendTo(nil)
			mirror := mirrorFile(t, []copyOf{{seq: 1, event: event, p: p}})
			for _, view := range []View{ViewBefore, ViewAfter} {
				var out bytes.Buffer
				n, err := ToPlain(t.Context(), memorySource("m.pcap", mirror), FormatMirror, view, &out, "p.pcap")
				if view == ViewAfter && event == EventTrim {
					if err == nil || !strings.Contains(err.Error(), "mirror 1: event trim can't be redone from a mirror copy") {
						t.Errorf("trimmed: %v", err)
					}
					continue
				}
				frames, readErr := readAll(out.Bytes())
				if err != nil || readErr != nil || int(n) != len(frames) {
					t.Fatalf("IPv%d, %v: %d frames, %v, %v", family, event, n, err, readErr)
				}
				if view == ViewAfter && event == EventDrop {
					if n != 0 {
						t.Errorf("a dropped packet is seen behind the injector")
					}
					continue
				}
				checkPlain(t, family, view == ViewAfter, event, original, frames[0].Data)
			}
		}
	}
	var out bytes.Buffer
	cut := mirrorFile(t, []copyOf{{seq: 1}})
	if _, err := ToPlain(t.Context(), memorySource("m.pcap", cut[:len(cut)-1]), FormatMirror, ViewBefore, &out,
		"p.pcap"); err == nil {
		t.Error("a truncated file is converted")
	}
	if _, err := ToPlain(t.Context(), memorySource("m.pcap", cut), FormatMirror, ViewBefore, &fullDisk{},
		"p.pcap"); err == nil {
		t.Error("a full disk is no error of ToPlain")
	}
	if _, err := ToMirror(t.Context(), memorySource("m.pcap", out.Bytes()), &fullDisk{}, "p.pcap"); err == nil {
		t.Error("a full disk is no error of ToMirror")
	}
}

// checkPlain compares a converted frame with the original.
func checkPlain(t *testing.T, family uint8, after bool, event EventType, original, got []byte) {
	t.Helper()
	var want, have packet.Packet
	if err := want.Parse(original); err != nil {
		t.Fatal(err)
	}
	if err := have.Parse(got); err != nil {
		t.Fatalf("IPv%d, %v: %v", family, event, err)
	}
	hit := func(e EventType) bool { return after && event == e }
	host := func(last byte) packet.MAC {
		if family == 6 {
			return packet.MAC{2, 0, 0x0a, 0, 0, last}
		}
		return packet.MAC{2, 0, 10, 0, 0, last}
	}
	if have.Eth.Src != host(1) || have.Eth.Dst != host(2) || have.IP.TTL != 64 {
		t.Errorf("IPv%d, %v: %v to %v, TTL %d", family, event, have.Eth.Src, have.Eth.Dst, have.IP.TTL)
	}
	if ecn := have.IP.ECN(); ecn != map[bool]packet.ECN{true: packet.CE, false: packet.ECT0}[hit(EventECN)] {
		t.Errorf("IPv%d, %v: ECN %v", family, event, ecn)
	}
	if valid := packet.CheckICRC(got, &have) == packet.ICRCValid; valid == hit(EventCorrupt) {
		t.Errorf("IPv%d, %v: iCRC %v", family, event, packet.CheckICRC(got, &have))
	}
	if have.BTH != want.BTH || !bytes.Equal(have.Payload, want.Payload) || have.IP.Src != want.IP.Src ||
		have.IP.Dst != want.IP.Dst {
		t.Errorf("IPv%d, %v: the packet changed", family, event)
	}
	if family == 4 {
		l3 := got[packet.EthernetLen : packet.EthernetLen+packet.IPv4Len]
		if packet.HeaderChecksum(l3) != be16(l3[10:]) {
			t.Errorf("%v: the header checksum is wrong", event)
		}
	}
}

// TestAChecksumFollowsTheWordThatChanges compares with the sum of all words, for every carry.
func TestAChecksumFollowsTheWordThatChanges(t *testing.T) {
	sum := func(words ...uint16) uint16 {
		acc := uint32(0)
		for _, w := range words {
			acc += uint32(w)
		}
		for acc>>16 != 0 {
			acc = acc>>16 + acc&0xffff
		}
		return ^uint16(acc)
	}
	values := []uint16{0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff, 0x1234}
	for _, other := range values {
		for _, old := range values {
			for _, changed := range values {
				want := sum(0x4500, other, changed)
				if got := adjustChecksum(sum(0x4500, other, old), old, changed); got != want {
					t.Fatalf("%#x beside %#x becomes %#x: %#x, want %#x", old, other, changed, got, want)
				}
			}
		}
	}
}
