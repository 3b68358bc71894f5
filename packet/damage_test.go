package packet_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/packet"
)

// internetSum is RFC 1071 by the book: the one's complement sum of 16-bit words.
func internetSum(parts ...[]byte) uint16 {
	var acc uint32
	for _, b := range parts {
		for i := 0; i < len(b); i += 2 {
			word := uint32(b[i]) << 8
			if i+1 < len(b) {
				word |= uint32(b[i+1])
			}
			if acc += word; acc > 0xffff {
				acc -= 0xffff
			}
		}
	}
	return uint16(acc)
}

// checkChecksums verifies the IPv4 header checksum and a non-zero UDP checksum of frame, which p was parsed from, as a
// receiver does: everything including the checksum field sums up to ones.
func checkChecksums(t *testing.T, frame []byte, p *packet.Packet) {
	t.Helper()
	l3 := frame[packet.EthernetLen:]
	if p.Eth.Tagged {
		l3 = frame[packet.EthernetLen+packet.VLANLen:]
	}
	udp, addresses := packet.IPv6Len, l3[8:40]
	if p.IP.Version == 4 {
		udp, addresses = packet.IPv4Len+len(p.IP.Options), l3[12:20]
		if sum := internetSum(l3[:udp]); sum != 0xffff {
			t.Errorf("IPv4 header sums up to %04x", sum)
		}
	}
	if p.UDP.Checksum == 0 {
		return
	}
	datagram := l3[udp : udp+int(p.UDP.Length)]
	pseudo := binary.BigEndian.AppendUint16([]byte{0, packet.ProtocolUDP}, p.UDP.Length)
	if sum := internetSum(addresses, pseudo, datagram); sum != 0xffff {
		t.Errorf("UDP datagram sums up to %04x", sum)
	}
}

func TestCorruptedPacketsDieOfTheirICRCAlone(t *testing.T) {
	for _, e := range encapsulations {
		for _, derived := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, derived %v", e.name, derived), func(t *testing.T) {
				p := sample(packet.WriteOnly, 9)
				e.wrap(p)
				if !derived {
					p.Seal()
				}
				hadSum := p.SumUDP
				id, port := p.IP.ID, p.UDP.SrcPort
				p.Corrupt()
				if p.IP.Version == 4 && p.IP.ID != id^0x8000 {
					t.Errorf("identification %04x became %04x", id, p.IP.ID)
				}
				if p.IP.Version == 6 && p.UDP.SrcPort != port^1 {
					t.Errorf("source port %04x became %04x", port, p.UDP.SrcPort)
				}
				var got packet.Packet
				frame := p.AppendTo(nil)
				if err := got.Parse(frame); err != nil {
					t.Fatal(err)
				}
				if status := packet.CheckICRC(frame, &got); status != packet.ICRCInvalid {
					t.Errorf("iCRC is %v", status)
				}
				if status := p.CheckICRC(); status != packet.ICRCInvalid {
					t.Errorf("iCRC of the packet is %v", status)
				}
				if hasSum := got.UDP.Checksum != 0; hasSum != hadSum {
					t.Errorf("UDP checksum %04x", got.UDP.Checksum)
				}
				checkChecksums(t, frame, &got)
			})
		}
	}
}

// A checksum that an update makes zero must be sent as ones: zero means "none", and IPv6 receivers would drop the
// packet for that instead of the iCRC.
func TestCorruptingNeverRemovesTheUDPChecksum(t *testing.T) {
	p := sample(packet.SendOnly, 4)
	overIPv6(p)
	p.SumUDP = true
	p.UDP.SrcPort = 0xc000
	clear(p.Payload)
	p.Seal()
	// Choose the payload such that the checksum is 1: one more in the source port makes it 0.
	binary.BigEndian.PutUint16(p.Payload, p.UDP.Checksum-1)
	p.UDP.Checksum = 1
	p.Corrupt()
	if p.UDP.Checksum != 0xffff {
		t.Errorf("UDP checksum %04x, want ffff", p.UDP.Checksum)
	}
	var got packet.Packet
	frame := p.AppendTo(nil)
	if err := got.Parse(frame); err != nil {
		t.Fatal(err)
	}
	checkChecksums(t, frame, &got)
}

func TestRewritingDSCPAndECNKeepsTheHeaderChecksumRight(t *testing.T) {
	rapid.Check(t, func(t2 *rapid.T) {
		e := rapid.SampledFrom(encapsulations).Draw(t2, "encapsulation")
		p := sample(packet.SendOnly, 2)
		e.wrap(p)
		p.IP.TOS = rapid.Uint8().Draw(t2, "ToS")
		p.IP.ID = rapid.Uint16().Draw(t2, "id")
		if rapid.Bool().Draw(t2, "explicit") {
			p.Seal()
		}
		dscp := rapid.Uint8Range(0, 63).Draw(t2, "DSCP")
		ecn := packet.ECN(rapid.Uint8Range(0, 3).Draw(t2, "ECN"))
		p.SetDSCP(dscp)
		p.SetECN(ecn)
		if p.IP.DSCP() != dscp || p.IP.ECN() != ecn {
			t2.Fatalf("ToS %02x, want DSCP %d and ECN %d", p.IP.TOS, dscp, ecn)
		}
		frame := p.AppendTo(nil)
		var got packet.Packet
		if err := got.Parse(frame); err != nil {
			t2.Fatal(err)
		}
		checkChecksums(t, frame, &got)
		if status := packet.CheckICRC(frame, &got); status != packet.ICRCValid || t.Failed() {
			t2.Fatalf("iCRC is %v", status)
		}
	})
}

func TestHeaderChecksumIgnoresTheChecksumField(t *testing.T) {
	p := sample(packet.SendOnly, 0)
	overIPv4(p)
	header := p.AppendTo(nil)[packet.EthernetLen : packet.EthernetLen+packet.IPv4Len]
	want := binary.BigEndian.Uint16(header[10:])
	header[10], header[11] = 0xde, 0xad
	if got := packet.HeaderChecksum(header); got != want {
		t.Errorf("%04x, want %04x", got, want)
	}
}
