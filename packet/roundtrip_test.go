package packet_test

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"candela.dev/candela/packet"
)

// samePacket compares packets field by field; an empty slice equals nil.
var samePacket = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.EquateComparable(netip.Addr{}),
	cmpopts.IgnoreUnexported(packet.Packet{}),
	cmpopts.IgnoreFields(packet.Packet{}, "SumUDP"), // a wish, not a field
}

func TestEverySampleSurvivesEncodingAndDecoding(t *testing.T) {
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			frame := s.p.AppendTo(nil)
			if len(frame) != s.p.Len() {
				t.Errorf("%d bytes, Len says %d", len(frame), s.p.Len())
			}
			var got packet.Packet
			if err := got.Parse(frame); err != nil {
				t.Fatal(err)
			}
			if status := packet.CheckICRC(frame, &got); status != packet.ICRCValid {
				t.Errorf("iCRC is %v", status)
			}
			if status := got.CheckICRC(); status != packet.ICRCValid {
				t.Errorf("iCRC of the parsed packet is %v", status)
			}
			if got.Truncated() || got.PayloadLen() != len(s.p.Payload) {
				t.Errorf("truncated %v, payload of %d bytes; want a whole one of %d", got.Truncated(), got.PayloadLen(),
					len(s.p.Payload))
			}
			if encoded := got.AppendTo(nil); !bytes.Equal(encoded, frame) {
				t.Errorf("decoding and encoding changed the frame:\n got %x\nwant %x", encoded, frame)
			}
			s.p.Seal()
			if diff := cmp.Diff(*s.p, got, samePacket); diff != "" {
				t.Errorf("sealed and parsed packet differ (-sealed +parsed):\n%s", diff)
			}
		})
	}
}

func TestSealKeepsEveryByte(t *testing.T) {
	for _, s := range samples() {
		before := s.p.AppendTo(nil)
		s.p.Seal()
		if s.p.Derived {
			t.Errorf("%s: still derived", s.name)
		}
		if after := s.p.AppendTo(nil); !bytes.Equal(before, after) {
			t.Errorf("%s:\nbefore %x\nafter  %x", s.name, before, after)
		}
	}
}

func TestAppendToKeepsItsReceiverAndWhatTheSliceHeld(t *testing.T) {
	for _, s := range samples() {
		original := *s.p
		out := s.p.AppendTo([]byte("prefix"))
		if diff := cmp.Diff(original, *s.p, samePacket); diff != "" {
			t.Errorf("%s: AppendTo changed the packet:\n%s", s.name, diff)
		}
		if want := append([]byte("prefix"), s.p.AppendTo(nil)...); !bytes.Equal(out, want) {
			t.Errorf("%s: appended bytes depend on the prefix", s.name)
		}
	}
}

// The layouts of IBTA volume 1, chapter 9, written out by hand: what follows the BTH of each opcode.
func TestOpcodesHaveTheNumbersAndExtendedHeadersOfTheSpecification(t *testing.T) {
	const (
		reth      = "0102030405060708 090a0b0c 0d0e0f10"
		atomicETH = "1112131415161718 191a1b1c 2122232425262728 3132333435363738"
		aeth      = "1e 414243"
		atomicAck = "5152535455565758"
		immDt     = "61626364"
		ieth      = "71727374"
	)
	tests := []struct {
		opcode  packet.Opcode
		number  uint8
		headers string
	}{
		{packet.SendFirst, 0x00, ""},
		{packet.SendMiddle, 0x01, ""},
		{packet.SendLast, 0x02, ""},
		{packet.SendLastImm, 0x03, immDt},
		{packet.SendOnly, 0x04, ""},
		{packet.SendOnlyImm, 0x05, immDt},
		{packet.WriteFirst, 0x06, reth},
		{packet.WriteMiddle, 0x07, ""},
		{packet.WriteLast, 0x08, ""},
		{packet.WriteLastImm, 0x09, immDt},
		{packet.WriteOnly, 0x0a, reth},
		{packet.WriteOnlyImm, 0x0b, reth + immDt},
		{packet.ReadRequest, 0x0c, reth},
		{packet.ReadResponseFirst, 0x0d, aeth},
		{packet.ReadResponseMiddle, 0x0e, ""},
		{packet.ReadResponseLast, 0x0f, aeth},
		{packet.ReadResponseOnly, 0x10, aeth},
		{packet.Acknowledge, 0x11, aeth},
		{packet.AtomicAcknowledge, 0x12, aeth + atomicAck},
		{packet.CmpSwap, 0x13, atomicETH},
		{packet.FetchAdd, 0x14, atomicETH},
		{packet.SendLastInv, 0x16, ieth},
		{packet.SendOnlyInv, 0x17, ieth},
		{packet.CNP, 0x81, ""},
	}
	if known := knownOpcodes(); len(known) != len(tests) {
		t.Errorf("%d opcodes are known, %d are in this table: %v", len(known), len(tests), known)
	}
	for _, test := range tests {
		bth := "c0 ffff 00 1a2b3c 80 fffffe"
		switch {
		case test.opcode == packet.CNP:
			bth = "00 ffff 40 1a2b3c 00 000000"
		case !test.opcode.Ends():
			bth = "40 ffff 00 1a2b3c 00 fffffe"
		}
		want, err := hex.DecodeString(strings.ReplaceAll(bth+test.headers, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		want = append([]byte{test.number}, want...)
		if got := sample(test.opcode, 0).AppendTransportHeaders(nil); !bytes.Equal(got, want) {
			t.Errorf("%v:\n got %x\nwant %x", test.opcode, got, want)
		}
	}
}

func TestBTHBitsAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frame := sample(packet.WriteMiddle, 4)
		overIPv4(frame)
		want := packet.BTH{
			Opcode:    packet.WriteMiddle,
			Solicited: rapid.Bool().Draw(t, "SE"),
			MigReq:    rapid.Bool().Draw(t, "M"),
			PadCount:  rapid.Uint8Range(0, 3).Draw(t, "pad"),
			Version:   rapid.Uint8Range(0, 15).Draw(t, "tver"),
			PKey:      rapid.Uint16().Draw(t, "pkey"),
			FECN:      rapid.Bool().Draw(t, "FECN"),
			BECN:      rapid.Bool().Draw(t, "BECN"),
			Resv6:     rapid.Uint8Range(0, 63).Draw(t, "resv6"),
			DestQP:    packet.QPN(rapid.Uint32Range(0, 1<<24-1).Draw(t, "qpn")),
			AckReq:    rapid.Bool().Draw(t, "A"),
			Resv7:     rapid.Uint8Range(0, 127).Draw(t, "resv7"),
			PSN:       packet.PSN(rapid.Uint32Range(0, 1<<24-1).Draw(t, "psn")),
		}
		frame.BTH = want
		var got packet.Packet
		if err := got.Parse(frame.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		if got.BTH != want {
			t.Fatalf("got %+v, want %+v", got.BTH, want)
		}
	})
}

func TestParseTransportReadsAUDPPayload(t *testing.T) {
	p := sample(packet.WriteOnlyImm, 5)
	overIPv4(p)
	frame := p.AppendTo(nil)
	const transport = packet.EthernetLen + packet.IPv4Len + packet.UDPLen
	var whole, alone packet.Packet
	if err := whole.Parse(frame); err != nil {
		t.Fatal(err)
	}
	if err := alone.ParseTransport(frame[transport:], 0); err != nil {
		t.Fatal(err)
	}
	whole.Eth, whole.IP, whole.UDP, whole.HasUDP = packet.Ethernet{}, packet.IP{}, packet.UDP{}, false
	if diff := cmp.Diff(whole, alone, samePacket); diff != "" {
		t.Errorf("frame and UDP payload decode differently:\n%s", diff)
	}
}
