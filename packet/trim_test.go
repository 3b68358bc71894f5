package packet_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"candela.dev/candela/packet"
)

// trimBytes is Trim on the bytes of an explicit frame whose IP header starts at l3.
func trimBytes(frame []byte, l3, size int, dscp uint8, flags packet.TrimFlags) []byte {
	out := bytes.Clone(frame[:l3+size])
	ip := out[l3:]
	headerLen := 40
	if frame[l3]>>4 == 4 {
		headerLen = int(frame[l3]&0xf) * 4
	}
	if size < headerLen {
		ip = append(bytes.Clone(ip), frame[l3+size:]...) // patch a whole header, then cut it
	}
	if flags&packet.TrimSetDSCP != 0 {
		if headerLen == 40 {
			word := binary.BigEndian.Uint32(ip)
			binary.BigEndian.PutUint32(ip, word&^(0xfc<<20)|uint32(dscp&0x3f)<<22)
		} else {
			ip[1] = ip[1]&3 | dscp<<2
		}
	}
	if flags&packet.TrimUpdateIPLength != 0 && size >= headerLen {
		if headerLen == 40 {
			binary.BigEndian.PutUint16(ip[4:], uint16(size-40))
		} else {
			binary.BigEndian.PutUint16(ip[2:], uint16(size))
		}
	}
	if flags&packet.TrimUpdateUDPLength != 0 && size >= headerLen+8 {
		binary.BigEndian.PutUint16(ip[headerLen+4:], uint16(size-headerLen))
	}
	if frame[l3]>>4 == 4 {
		binary.BigEndian.PutUint16(ip[10:], packet.HeaderChecksum(ip[:headerLen]))
	}
	copy(out[l3:], ip)
	return out
}

func trimSample(v6 bool) *packet.Packet {
	p := &packet.Packet{
		Derived: true, HasUDP: true, Headers: packet.HasBTH | packet.HasRETH, Payload: bytes.Repeat([]byte{7}, 1022),
		Eth: packet.Ethernet{Type: packet.EtherTypeIPv4},
		IP: packet.IP{Version: 4, TTL: 9, Protocol: packet.ProtocolUDP, TOS: 2, Src: netip.MustParseAddr("10.0.0.1"),
			Dst: netip.MustParseAddr("10.0.0.2")},
		UDP: packet.UDP{SrcPort: 5, DstPort: packet.Port},
		BTH: packet.BTH{Opcode: packet.WriteFirst, PadCount: 2, PSN: 3, DestQP: 4},
	}
	if v6 {
		p.Eth.Type, p.IP.Version = packet.EtherTypeIPv6, 6
		p.IP.Src, p.IP.Dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	}
	return p
}

func TestTrimCutsWhatTheBytesSay(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		whole := trimSample(v6).AppendTo(nil)
		for _, size := range []int{1, 19, 20, 27, 28, 39, 40, 41, 48, 55, 60, 64, 76, 128, 1000, len(whole) - 15,
			len(whole) - 14, 9000} {
			for flags := range packet.TrimFlags(8) {
				p := trimSample(v6)
				want := whole
				trimmed := size < len(whole)-14
				if trimmed {
					want = trimBytes(whole, 14, size, 9, flags)
				}
				if n := p.TrimmedLen(size); n != len(want) {
					t.Errorf("v6 %t size %d: TrimmedLen is %d, want %d", v6, size, n, len(want))
				}
				if got := p.Trim(size, 9, flags); got != trimmed {
					t.Errorf("v6 %t size %d: Trim returns %t", v6, size, got)
				}
				if got := p.AppendTo(nil); !bytes.Equal(got, want) {
					t.Errorf("v6 %t size %d flags %d:\n got %x\nwant %x", v6, size, flags, got, want)
				}
			}
		}
	}
}

// FuzzTrim cuts arbitrary frames: the result has the length of TrimmedLen and starts and ends as the frame did.
func FuzzTrim(f *testing.F) {
	f.Add(trimSample(false).AppendTo(nil), 64, uint8(9), uint8(7))
	f.Add(trimSample(true).AppendTo(nil), 30, uint8(1), uint8(2))
	f.Fuzz(func(t *testing.T, frame []byte, size int, dscp, flags uint8) {
		var p packet.Packet
		if p.Parse(frame) != nil {
			return
		}
		size &= 0xffff
		length := p.TrimmedLen(size)
		trimmed := p.Trim(size, dscp, packet.TrimFlags(flags))
		got := p.AppendTo(nil)
		if len(got) != length || trimmed != (length < len(frame)) {
			t.Fatalf("trimmed %t to %d bytes of %d, want %d", trimmed, len(got), len(frame), length)
		}
		if !bytes.Equal(got[:14], frame[:14]) {
			t.Errorf("the Ethernet header changed: %x, was %x", got[:14], frame[:14])
		}
	})
}

// TestAReceiverKnowsACutPacketByItsBytes: a frame that was cut in its extended headers decodes to the packet that Trim
// leaves, which simulated receivers get.
func TestAReceiverKnowsACutPacketByItsBytes(t *testing.T) {
	cut := 0
	for _, v6 := range []bool{false, true} {
		for size := 28; size < 120; size++ {
			for flags := range packet.TrimFlags(8) {
				left := trimSample(v6)
				left.Trim(size, 9, flags)
				var got packet.Packet
				err := got.ParseReceived(left.AppendTo(nil))
				if (err == nil) != (left.IsRoCE() || left.CutRoCE()) && left.HasUDP {
					t.Errorf("v6 %t size %d flags %d: %v, RoCE %t, cut %t", v6, size, flags, err, left.IsRoCE(), left.CutRoCE())
				}
				if err == nil && (got.CutRoCE() != left.CutRoCE() || got.BTH != left.BTH || got.CheckICRC() != left.CheckICRC()) {
					t.Errorf("v6 %t size %d flags %d:\n got %+v\nwant %+v", v6, size, flags, &got, left)
				}
				if left.CutRoCE() {
					cut++
				}
			}
		}
	}
	if cut < 100 {
		t.Errorf("only %d cut packets were tried", cut)
	}
}
