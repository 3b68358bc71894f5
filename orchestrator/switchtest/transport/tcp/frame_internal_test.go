package tcp

import (
	"testing"

	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/testbeds/virtual/fabric"
)

func tcpSample(v6 bool, payload int) []byte {
	p := fabric.Packet{Header: fabric.Header{
		Protocol: fabric.TCP, Src: 3, Dst: 5, IPv6: v6, ID: 0x12345, Entropy: 77, TTL: 9,
		TCP: tcp.Header{Seq: 1000, Ack: 2000, Flags: tcp.FlagACK, Window: 9, SACK: tcp.Block{Start: 3000, End: 4000}},
	}}
	p.Size = int32(tcp.Codec().HeaderSize(v6) + payload)
	p.Original = p.Size
	return (&wire.Codecs{fabric.TCP: tcp.Codec()}).Append(nil, &p.Header, nil)
}

func TestFramesTellWhatTheirHostSentUnlessTheyAreDamaged(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		frame := tcpSample(v6, 1001)
		var f tcpFrame
		if !f.parse(frame) {
			t.Fatalf("IPv6 %v: not recognised", v6)
		}
		src, dst, id := fabric.HostID(3).IPv4(), fabric.HostID(5).IPv4(), uint16(0x2345)
		if v6 {
			src, dst, id = fabric.HostID(3).IPv6(), fabric.HostID(5).IPv6(), 0
		}
		if f.src != src || f.dst != dst || f.ID != id || f.IPv6 != v6 || f.port != 0xc000|77 || f.payload != 1001 ||
			f.header.Seq != 1000 || f.header.Ack != 2000 || f.header.SACK.End != 4000 || f.header.Window != 9 {
			t.Errorf("IPv6 %v: %+v", v6, f)
		}
		for i := 14; i < len(frame); i++ {
			if harmless := !v6 && (i == 15 || i >= 18 && i < 26 && i != 23 && i != 20 && i != 21) || v6 &&
				(i == 14 || i < 18 || i == 21); harmless {
				continue // not covered by the TCP checksum: ToS, identification, TTL and checksum of IP
			}
			frame[i] ^= 0x10
			if f.parse(frame) && !(i == 14 || i == 18) {
				t.Errorf("IPv6 %v: byte %d damaged: %+v", v6, i, f)
			}
			frame[i] ^= 0x10
		}
	}
}

// FuzzTCPFrames checks that parse accepts or refuses any bytes, without a panic.
func FuzzTCPFrames(f *testing.F) {
	f.Add(tcpSample(false, 10))
	f.Add(tcpSample(true, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		var frame tcpFrame
		if frame.parse(data) && (frame.payload < 0 || frame.payload > len(data)-tcp.Codec().HeaderSize(frame.IPv6)) {
			t.Errorf("%d bytes of payload in a frame of %d", frame.payload, len(data))
		}
	})
}
