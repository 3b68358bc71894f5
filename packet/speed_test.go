package packet_test

import (
	"fmt"
	"testing"

	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
)

// speedFrames are the packets that dominate traces: a full data packet and an acknowledgement.
func speedFrames() []namedPacket {
	var all []namedPacket
	for _, e := range encapsulations[:2] {
		for _, s := range []struct {
			opcode  packet.Opcode
			payload int
		}{{packet.WriteMiddle, 1024}, {packet.Acknowledge, 0}} {
			p := sample(s.opcode, s.payload)
			e.wrap(p)
			all = append(all, namedPacket{fmt.Sprintf("%v/%s", s.opcode, e.name), p})
		}
	}
	return all
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	for _, s := range speedFrames() {
		frame := s.p.AppendTo(nil)
		buf := make([]byte, 0, len(frame))
		var p packet.Packet
		paths := []struct {
			name string
			run  func()
		}{
			{"Parse", func() {
				if err := p.Parse(frame); err != nil {
					t.Fatal(err)
				}
			}},
			{"ParseTransport", func() {
				if err := p.ParseTransport(frame[len(frame)-packet.ICRCLen-len(s.p.Payload)-packet.BTHLen-packet.AETHLen:],
					0); err != nil {
					t.Fatal(err)
				}
			}},
			{"AppendTo of a derived packet", func() { buf = s.p.AppendTo(buf[:0]) }},
			{"Parse, CheckICRC and AppendTo", func() {
				if err := p.Parse(frame); err != nil || packet.CheckICRC(frame, &p) != packet.ICRCValid {
					t.Fatal(err)
				}
				buf = p.AppendTo(buf[:0])
			}},
			{"SetECN and SetDSCP", func() { p.SetECN(packet.CE); p.SetDSCP(3) }},
			{"Corrupt of an explicit packet", func() { p.Corrupt() }},
			{"Class", func() { _ = p.Class() }},
		}
		for _, path := range paths {
			if n := runtimetest.FewestAllocs(0, path.run); n != 0 {
				t.Errorf("%s, %s: %v allocations", s.name, path.name, n)
			}
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, s := range speedFrames() {
		b.Run(s.name, func(b *testing.B) {
			frame := s.p.AppendTo(nil)
			var p packet.Packet
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				if err := p.Parse(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAppendTo includes the checksums and the iCRC for derived packets, not for explicit ones.
func BenchmarkAppendTo(b *testing.B) {
	for _, derived := range []bool{true, false} {
		for _, s := range speedFrames() {
			b.Run(fmt.Sprintf("derived=%v/%s", derived, s.name), func(b *testing.B) {
				if !derived {
					s.p.Seal()
				}
				buf := make([]byte, 0, s.p.Len())
				b.ReportAllocs()
				b.SetBytes(int64(s.p.Len()))
				for b.Loop() {
					buf = s.p.AppendTo(buf[:0])
				}
			})
		}
	}
}

func BenchmarkCheckICRC(b *testing.B) {
	for _, s := range speedFrames() {
		b.Run(s.name, func(b *testing.B) {
			frame := s.p.AppendTo(nil)
			var p packet.Packet
			if err := p.Parse(frame); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				if packet.CheckICRC(frame, &p) != packet.ICRCValid {
					b.Fatal("iCRC is wrong")
				}
			}
		})
	}
}
