package trace

import (
	"bytes"
	"context"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/packet"
)

// drawnCapture is a mirror capture of frames of all kinds, most of them of a few templates, on the connections of
// benchTrace.
func drawnCapture(t *rapid.T) []byte {
	ops := []packet.Opcode{
		packet.WriteMiddle, packet.WriteOnly, packet.Acknowledge, packet.ReadRequest, packet.CmpSwap,
		packet.AtomicAcknowledge,
		packet.ReadResponseFirst, packet.SendOnlyInv, packet.CNP, packet.WriteOnlyImm, packet.SendLastImm,
	}
	var out bytes.Buffer
	w := NewPcapWriter(&out, "drawn.pcap", 0)
	at := int64(0)
	for i := range rapid.IntRange(1, 60).Draw(t, "packets") {
		p := testPacket(rapid.SampledFrom(ops).Draw(t, "opcode"), packet.QPN(rapid.IntRange(198, 202).Draw(t, "qpn")),
			packet.PSN(rapid.IntRange(0, 1<<24-1).Draw(t, "psn")), 4*rapid.IntRange(0, 3).Draw(t, "words"))
		p.BTH.AckReq = rapid.Bool().Draw(t, "ackreq")
		p.RETH = packet.RETH{VA: rapid.Uint64().Draw(t, "va"), Length: rapid.Uint32().Draw(t, "length"),
			RKey: rapid.Uint32().Draw(t, "rkey")}
		p.AtomicETH.RKey, p.IETH, p.ImmDt = p.RETH.RKey, p.RETH.RKey, rapid.Uint32().Draw(t, "immediate")
		p.AtomicETH.VA, p.AtomicAckETH = p.RETH.VA, rapid.Uint64().Draw(t, "original")
		p.AETH = packet.AETH{Syndrome: packet.Syndrome(rapid.Byte().Draw(t, "syndrome")),
			MSN: rapid.Uint32Range(0, 1<<24-1).Draw(t, "msn")}
		if rapid.IntRange(0, 3).Draw(t, "tagged") == 0 {
			p.Eth.Tagged = true // no template
		}
		if rapid.Bool().Draw(t, "six") {
			p.IP.Version, p.IP.Src, p.IP.Dst, p.Eth.Type = 6, address6(1), address6(2), packet.EtherTypeIPv6
		}
		frame := p.AppendTo(nil)
		if rapid.IntRange(0, 5).Draw(t, "damage") == 0 {
			frame[len(frame)-1] ^= 1
		}
		at += rapid.SampledFrom([]int64{0, 100, 70_000, 1 << 40}).Draw(t, "gap")
		event := EventType(rapid.IntRange(0, int(MaxEventType)).Draw(t, "event"))
		if err := EncodeMirror(frame, MirrorMeta{Seq: uint64(i + 7), TimeNS: at, Event: event,
			UDPDstPort: packet.Port}); err != nil {
			t.Fatal(err)
		}
		cut := min(len(frame), rapid.SampledFrom([]int{1 << 10, 96, 90}).Draw(t, "snap"))
		if err := w.Write(1_700_000_000e9+at, frame[:cut], len(frame)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// decodedAnew decodes every frame with a new decoder, so that no template is used.
func decodedAnew(t *rapid.T, src Source, c *Connections) (list []Record) {
	var clock TimeUnwrapper
	err := src.ForEachFrame(context.Background(), func(f *Frame) error {
		d := NewDecoder(FormatMirror, c, true)
		d.clock = clock
		var r Record
		if d.Decode(f, &r) == nil {
			list = append(list, r)
		}
		clock = d.clock
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func records(t *rapid.T, stream func(context.Context, func(*Record) error) error) (list []Record) {
	if err := stream(context.Background(), func(r *Record) error { list = append(list, *r); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestTemplatesAndRecordingsAgreeWithDecodingFrameByFrame(t *testing.T) {
	_, connections := benchTrace(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		src := memorySource("drawn.pcap", drawnCapture(t))
		want := decodedAnew(t, src, connections)
		for _, limit := range []int{0, 200, recordingLimit} { // of none, some and all packets
			s := newScan(src, Options{Format: FormatMirror, Connections: connections})
			s.recording = &recording{limit: limit}
			if err := s.run(context.Background()); err != nil {
				t.Fatal(err)
			}
			s.recording.finish(s.dec, connections)
			got := records(t, s.stream(Meta{Connections: connections, ICRCCheckable: true}))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("limit %d: %s", limit, diff)
			}
			// Without connections: their flows are put in at the end.
			s = newScan(src, Options{Format: FormatMirror})
			s.recording = &recording{limit: limit}
			if err := s.run(context.Background()); err != nil {
				t.Fatal(err)
			}
			s.recording.finish(s.dec, connections)
			got = records(t, s.stream(Meta{Connections: connections, ICRCCheckable: true}))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("limit %d, connections known at the end: %s", limit, diff)
			}
		}
	})
}

func TestARecordingTakesLittleMemoryAndStaysBelowItsLimit(t *testing.T) {
	const n = 100_000
	data, connections := benchTrace(t, n)
	s := newScan(memorySource("bench.pcap", data), Options{Format: FormatMirror, Connections: connections})
	s.recording = &recording{limit: recordingLimit}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if per := s.recording.size / n; per > 12 || s.recording.full {
		t.Errorf("%d bytes a packet, full: %v", per, s.recording.full)
	}
	s = newScan(memorySource("bench.pcap", data), Options{Format: FormatMirror, Connections: connections})
	s.recording = &recording{limit: 1 << 10}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if size := s.recording.size; !s.recording.full || size > 1<<10+64 {
		t.Errorf("%d bytes, full: %v", size, s.recording.full)
	}
}

func address6(last byte) netip.Addr { return netip.AddrFrom16([16]byte{0: 0xfd, 15: last}) }
