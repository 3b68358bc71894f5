package packet_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/packet"
)

// field reads what Rewrite sets.
func field(p *packet.Packet, f packet.RewriteField) uint64 {
	switch f {
	case packet.RewriteDSCP:
		return uint64(p.IP.DSCP())
	case packet.RewriteECN:
		return uint64(p.IP.ECN())
	case packet.RewriteHopLimit:
		return uint64(p.IP.TTL)
	case packet.RewriteSrcPort:
		return uint64(p.UDP.SrcPort)
	case packet.RewriteDestQP:
		return uint64(p.BTH.DestQP)
	case packet.RewriteAckReq:
		if p.BTH.AckReq {
			return 1
		}
	case packet.RewritePSN:
		return uint64(p.BTH.PSN)
	case packet.RewriteSyndrome:
		return uint64(p.AETH.Syndrome)
	case packet.RewriteMSN:
		return uint64(p.AETH.MSN)
	case packet.RewriteOpcode:
		return uint64(p.BTH.Opcode)
	case packet.RewritePKey:
		return uint64(p.BTH.PKey)
	case packet.RewriteSolicited:
		if p.BTH.Solicited {
			return 1
		}
	case packet.RewriteRKey:
		return uint64(p.RETH.RKey | p.AtomicETH.RKey) // a packet has one of them
	case packet.RewriteDMALength:
		return uint64(p.RETH.Length)
	}
	return 0
}

func TestRewrittenPacketsLookAsIfTheyWereSentSo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := rapid.SampledFrom(encapsulations).Draw(rt, "encapsulation")
		p := sample(rapid.SampledFrom(knownOpcodes()).Draw(rt, "opcode"), rapid.IntRange(0, 40).Draw(rt, "payload"))
		e.wrap(p)
		if rapid.Bool().Draw(rt, "explicit") {
			frame := p.AppendTo(nil)
			if err := p.Parse(frame); err != nil {
				rt.Fatal(err)
			}
		}
		f := rapid.SampledFrom(packet.RewriteFields()).Draw(rt, "field")
		v := rapid.Uint64Range(0, 1<<f.Bits()-1).Draw(rt, "value")
		lacks := !p.Offers(f, v)
		if p.Rewrite(f, v) == lacks {
			rt.Fatalf("rewriting %v: reported %v", f, !lacks)
		}
		frame := p.AppendTo(nil)
		var back packet.Packet
		if err := back.Parse(frame); err != nil {
			rt.Fatal(err)
		}
		if got := field(&back, f); !lacks && got != v {
			rt.Errorf("%v is %d, want %d", f, got, v)
		}
		if status := packet.CheckICRC(frame, &back); status != packet.ICRCValid {
			rt.Errorf("after rewriting %v the iCRC is %v", f, status)
		}
		checkChecksums(t, frame, &back)
	})
}

func TestFieldsThatAPacketLacksAreNotOffered(t *testing.T) {
	for _, c := range []struct {
		op    packet.Opcode
		field packet.RewriteField
		value uint64
		want  bool
	}{
		{packet.WriteMiddle, packet.RewriteSyndrome, 0, false},
		{packet.Acknowledge, packet.RewriteSyndrome, 0x63, true},
		{packet.WriteMiddle, packet.RewriteRKey, 1, false},
		{packet.ReadRequest, packet.RewriteRKey, 1, true},
		{packet.FetchAdd, packet.RewriteRKey, 1, true},
		{packet.FetchAdd, packet.RewriteDMALength, 1, false},
		{packet.WriteFirst, packet.RewriteDMALength, 1, true},
		{packet.WriteMiddle, packet.RewriteOpcode, uint64(packet.WriteLast), true},
		{packet.WriteMiddle, packet.RewriteOpcode, uint64(packet.WriteLastImm), false},
		{packet.WriteMiddle, packet.RewriteOpcode, uint64(packet.ReadResponseMiddle), false},
		{packet.WriteMiddle, packet.RewriteOpcode, uint64(packet.CNP), false},
		{packet.WriteMiddle, packet.RewriteOpcode, 0xff, false},
		{packet.WriteMiddle, packet.RewritePKey, 0, true},
		{packet.WriteMiddle, packet.RewriteNone, 0, false},
	} {
		p := sample(c.op, 8)
		overIPv4(p)
		if got := p.Offers(c.field, c.value); got != c.want {
			t.Errorf("%v: %v to %#x: got %v, want %v", c.op, c.field, c.value, got, c.want)
		}
	}
}

func TestRewritingDoesNotRepairADamagedPacket(t *testing.T) {
	p := sample(packet.WriteOnly, 9)
	overIPv4(p)
	p.Corrupt()
	if !p.Rewrite(packet.RewritePSN, 7) || p.CheckICRC() != packet.ICRCInvalid {
		t.Errorf("psn %v, iCRC %v; want 7 and invalid", p.BTH.PSN, p.CheckICRC())
	}
}

func TestAPayloadByteIsDamagedAndNothingElse(t *testing.T) {
	for _, e := range encapsulations {
		for offset := range 9 {
			t.Run(fmt.Sprintf("%s, byte %d", e.name, offset), func(t *testing.T) {
				p := sample(packet.WriteOnly, 9)
				e.wrap(p)
				payload := p.Payload
				before := append([]byte(nil), payload...)
				if !p.CorruptPayload(offset, 0x41) {
					t.Fatal("refused")
				}
				frame := p.AppendTo(nil)
				checkChecksums(t, frame, p)
				if p.Payload[offset] != before[offset]^0x41 || string(payload) != string(before) {
					t.Errorf("payload %x from %x; the original's is %x", p.Payload, before, payload)
				}
				if status := packet.CheckICRC(frame, p); status != packet.ICRCInvalid {
					t.Errorf("iCRC %v", status)
				}
			})
		}
	}
	p := sample(packet.WriteOnly, 9)
	for _, wrong := range []struct {
		offset int
		xor    uint8
	}{{9, 1}, {-1, 1}, {0, 0}} {
		if p.CorruptPayload(wrong.offset, wrong.xor) || p.CheckICRC() != packet.ICRCValid {
			t.Errorf("byte %d by %#x: damaged", wrong.offset, wrong.xor)
		}
	}
}
