package packet_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/packet"
)

// addSeeds adds one frame per opcode of each soft-RoCE capture, other traffic included, and every sample.
func addSeeds(f *testing.F) {
	f.Helper()
	for _, file := range rxeFiles(f) {
		seen := map[packet.Opcode]bool{}
		for _, frame := range readFrames(f, file) {
			var p packet.Packet
			if err := p.Parse(frame); err != nil {
				f.Fatal(err)
			}
			if o := p.BTH.Opcode; !seen[o] {
				seen[o] = true
				f.Add(frame)
			}
		}
	}
	for _, s := range samples() {
		if len(s.p.Payload) <= 4 {
			f.Add(s.p.AppendTo(nil))
		}
	}
}

// FuzzParse: any bytes give a packet or an error; a packet encodes to the same bytes, and these decode to the same
// packet.
func FuzzParse(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, frame []byte) {
		var p packet.Packet
		if err := p.Parse(frame); err != nil {
			if !errors.Is(err, packet.ErrMalformed) || p.IsRoCE() {
				t.Fatalf("error %v, RoCE %v", err, p.IsRoCE())
			}
			return
		}
		out := p.AppendTo(nil)
		if !bytes.Equal(out, frame) || len(out) != p.Len() {
			t.Fatalf("%d bytes, Len %d:\n got %x\nwant %x", len(out), p.Len(), out, frame)
		}
		if p.PayloadLen() < 0 {
			t.Fatalf("payload length %d", p.PayloadLen())
		}
		if quick, slow := packet.CheckICRC(frame, &p), p.CheckICRC(); quick != slow {
			t.Fatalf("iCRC of the frame is %v, of the packet %v", quick, slow)
		}
		var parsed packet.Packet
		if err := parsed.Parse(out); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p, parsed) {
			t.Fatalf("decoded twice:\n%s", cmp.Diff(p, parsed, samePacket))
		}
	})
}

// FuzzICRC: on any whole RoCE packet the iCRC equals its definition, marking congestion keeps it, Corrupt breaks it.
func FuzzICRC(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, frame []byte) {
		var p packet.Packet
		if p.Parse(frame) != nil || !p.IsRoCE() || p.Truncated() {
			return
		}
		l3, udp := l3Of(&p)
		l3 = l3[:len(l3)-len(p.Trailer)]
		p.ICRC = packet.ComputeICRC(l3)
		if want := bitwiseICRC(l3, variantMask(p.IP.Version, udp, len(l3))); p.ICRC != want {
			t.Fatalf("iCRC %08x, bit by bit %08x", p.ICRC, want)
		}
		p.SetECN(packet.CE)
		p.SetDSCP(p.IP.DSCP() ^ 0x15)
		if status := p.CheckICRC(); status != packet.ICRCValid {
			t.Fatalf("iCRC of a marked packet is %v", status)
		}
		p.Corrupt()
		if status := p.CheckICRC(); status != packet.ICRCInvalid {
			t.Fatalf("iCRC of a corrupted packet is %v", status)
		}
	})
}
