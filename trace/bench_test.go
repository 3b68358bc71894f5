package trace

import (
	"bytes"
	"context"
	"io"
	"net/netip"
	"testing"

	"candela.dev/candela/packet"
)

// benchTrace returns a mirror trace of n packets cut at 128 bytes on 16 connections, and the connections.
func benchTrace(tb testing.TB, n int) ([]byte, *Connections) {
	tb.Helper()
	const conns = 16
	list := make([]Connection, conns)
	for i := range list {
		list[i] = Connection{Index: i + 1, Verb: "write", MTU: 1024,
			Requester: Side{netip.MustParseAddr("10.0.0.1"), packet.QPN(100 + i), 1000},
			Responder: Side{netip.MustParseAddr("10.0.0.2"), packet.QPN(200 + i), 5000}}
	}
	c, err := NewConnections(list)
	if err != nil {
		tb.Fatal(err)
	}
	var out bytes.Buffer
	w := NewPcapWriter(&out, "bench.pcap", 128)
	var frame []byte
	for i := range n {
		p := testPacket(packet.WriteMiddle, packet.QPN(200+i%conns), packet.PSN(1000+i/conns), 1024)
		if i%10 == 9 {
			p = testPacket(packet.Acknowledge, packet.QPN(100+i%conns), packet.PSN(1000+i/conns), 0)
			p.IP.Src, p.IP.Dst = p.IP.Dst, p.IP.Src
		}
		frame = p.AppendTo(frame[:0])
		at := int64(i) * 100
		if err := EncodeMirror(frame, MirrorMeta{Seq: uint64(i + 1), TimeNS: at, UDPDstPort: packet.Port}); err != nil {
			tb.Fatal(err)
		}
		if err := w.Write(1_700_000_000e9+at, frame, len(frame)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes(), c
}

// testPacket returns a derived packet from 10.0.0.1 to 10.0.0.2.
func testPacket(op packet.Opcode, qpn packet.QPN, psn packet.PSN, payload int) *packet.Packet {
	return &packet.Packet{
		Derived: true, HasUDP: true, Headers: packet.HasBTH | op.Headers(),
		Eth: packet.Ethernet{Type: packet.EtherTypeIPv4, Src: packet.MAC{2, 0, 0, 0, 0, 1},
			Dst: packet.MAC{2, 0, 0, 0, 0, 2}},
		IP: packet.IP{Version: 4, TTL: 64, Protocol: packet.ProtocolUDP,
			Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")},
		UDP:     packet.UDP{SrcPort: 49152, DstPort: packet.Port},
		BTH:     packet.BTH{Opcode: op, PKey: 0xffff, DestQP: qpn, PSN: psn},
		AETH:    packet.AETH{Syndrome: packet.SyndromeAckNoCredit},
		Payload: make([]byte, payload),
	}
}

func memorySource(name string, b []byte) Source {
	return Source{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

func perPacket(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/packet")
}

func BenchmarkPcapRead(b *testing.B) {
	const n = 100_000
	data, _ := benchTrace(b, n)
	src := memorySource("bench.pcap", data)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := src.ForEachFrame(context.Background(), func(*Frame) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	perPacket(b, n)
}

func BenchmarkDecode(b *testing.B) {
	data, connections := benchTrace(b, 1000)
	var frames []Frame
	err := memorySource("bench.pcap", data).ForEachFrame(context.Background(), func(f *Frame) error {
		g := *f
		g.Data = bytes.Clone(f.Data)
		frames = append(frames, g)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	d := NewDecoder(FormatMirror, connections, true)
	var r Record
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Decode(&frames[i], &r); err != nil {
			b.Fatal(err)
		}
		if i++; i == len(frames) {
			i = 0
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	const n = 100_000
	data, connections := benchTrace(b, n)
	src := memorySource("bench.pcap", data)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Check(context.Background(), src,
			Options{Format: FormatMirror, Connections: connections}); err != nil {
			b.Fatal(err)
		}
	}
	perPacket(b, n)
}

func BenchmarkForEachRecord(b *testing.B) {
	const n = 100_000
	data, connections := benchTrace(b, n)
	checked, _, err := Check(context.Background(), memorySource("bench.pcap", data),
		Options{Format: FormatMirror, Connections: connections})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := checked.ForEach(context.Background(), func(*Record) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	perPacket(b, n)
}
