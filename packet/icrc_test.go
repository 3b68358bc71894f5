package packet_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"testing"

	"candela.dev/candela/packet"
)

// l3Of returns a sample's bytes from the IP header up to and without the iCRC, and the offset of its UDP header in
// them.
func l3Of(p *packet.Packet) (l3 []byte, udp int) {
	frame := p.AppendTo(nil)
	start := packet.EthernetLen
	if p.Eth.Tagged {
		start += packet.VLANLen
	}
	udp = packet.IPv6Len
	if p.IP.Version == 4 {
		udp = packet.IPv4Len + len(p.IP.Options)
	}
	return frame[start : len(frame)-packet.ICRCLen], udp
}

// variantMask returns which bits of l3 may change on the way (annex A17.3.3), as a table of byte offsets written
// independently of the implementation.
func variantMask(version uint8, udp, length int) []byte {
	mask := make([]byte, length)
	if version == 4 {
		mask[1] = 0xff                  // type of service
		mask[8] = 0xff                  // time to live
		mask[10], mask[11] = 0xff, 0xff // header checksum
	} else {
		mask[0] = 0x0f // traffic class, upper half
		mask[1] = 0xff // traffic class, lower half; flow label
		mask[2], mask[3] = 0xff, 0xff
		mask[7] = 0xff // hop limit
	}
	mask[udp+6], mask[udp+7] = 0xff, 0xff // UDP checksum
	mask[udp+8+4] = 0xff                  // FECN, BECN and the six bits next to them
	return mask
}

// bitwiseICRC is the definition: CRC-32 bit by bit over eight bytes of ones and the masked packet.
func bitwiseICRC(l3, mask []byte) uint32 {
	crc := ^uint32(0)
	feed := func(b byte) {
		crc ^= uint32(b)
		for range 8 {
			crc = crc>>1 ^ 0xedb88320&-(crc&1)
		}
	}
	for range 8 {
		feed(0xff)
	}
	for i, b := range l3 {
		feed(b | mask[i])
	}
	return ^crc
}

func TestICRCFollowsItsDefinition(t *testing.T) {
	for _, s := range samples() {
		l3, udp := l3Of(s.p)
		mask := variantMask(s.p.IP.Version, udp, len(l3))
		if got, want := packet.ComputeICRC(l3), bitwiseICRC(l3, mask); got != want {
			t.Errorf("%s: %08x, bit by bit %08x", s.name, got, want)
		}
	}
}

func TestICRCCoversEveryBitButTheVariantOnes(t *testing.T) {
	for _, e := range encapsulations {
		t.Run(e.name, func(t *testing.T) {
			p := sample(packet.WriteOnlyImm, 6)
			e.wrap(p)
			l3, udp := l3Of(p)
			mask := variantMask(p.IP.Version, udp, len(l3))
			before := packet.ComputeICRC(l3)
			// The version and IPv4 header length bits define the layout: packets that differ there are not comparable.
			firstBit := 4
			if p.IP.Version == 4 {
				firstBit = 8
			}
			for bit := firstBit; bit < len(l3)*8; bit++ {
				at, flip := bit/8, byte(0x80>>(bit%8))
				l3[at] ^= flip
				changed := packet.ComputeICRC(l3) != before
				if variant := mask[at]&flip != 0; changed == variant {
					t.Errorf("byte %d bit %#02x: variant %v, but flipping it changes the iCRC: %v", at, flip, variant, changed)
				}
				l3[at] ^= flip
			}
		})
	}
}

func TestHopsThatRewriteVariantFieldsKeepTheICRCValid(t *testing.T) {
	hops := []struct {
		name    string
		rewrite func(p *packet.Packet)
	}{
		{"congestion mark", func(p *packet.Packet) { p.SetECN(packet.CE) }},
		{"another traffic class", func(p *packet.Packet) { p.SetDSCP(46) }},
		{"a router's TTL", func(p *packet.Packet) { p.IP.TTL-- }},
		{"another flow label", func(p *packet.Packet) { p.IP.FlowLabel ^= 0x54321 }},
		{"another IPv4 header checksum", func(p *packet.Packet) { p.IP.Checksum ^= 0xffff }},
		{"another UDP checksum", func(p *packet.Packet) { p.UDP.Checksum ^= 0xffff }},
		{"FECN", func(p *packet.Packet) { p.BTH.FECN = true }},
		{"BECN", func(p *packet.Packet) { p.BTH.BECN = true }},
		{"other MAC addresses", func(p *packet.Packet) { p.Eth.Src, p.Eth.Dst = p.Eth.Dst, p.Eth.Src }},
		{"a VLAN tag added", func(p *packet.Packet) { p.Eth.Tagged = true }},
		{"Ethernet padding added", func(p *packet.Packet) { p.Trailer = make([]byte, 7) }},
	}
	for _, e := range encapsulations {
		for _, hop := range hops {
			t.Run(fmt.Sprintf("%s, %s", e.name, hop.name), func(t *testing.T) {
				p := sample(packet.SendLast, 3)
				e.wrap(p)
				p.Seal()
				hop.rewrite(p)
				if status := p.CheckICRC(); status != packet.ICRCValid {
					t.Errorf("iCRC is %v", status)
				}
			})
		}
	}
}

func TestDamageToAnyInvariantFieldIsFound(t *testing.T) {
	damages := []struct {
		name   string
		damage func(p *packet.Packet)
	}{
		{"IP source", func(p *packet.Packet) { p.IP.Src = p.IP.Src.Next() }},
		{"IP destination", func(p *packet.Packet) { p.IP.Dst = p.IP.Dst.Next() }},
		{"UDP source port", func(p *packet.Packet) { p.UDP.SrcPort ^= 0x8000 }},
		{"opcode", func(p *packet.Packet) { p.BTH.Opcode = packet.WriteOnlyImm ^ 0xe0 }},
		{"solicited event", func(p *packet.Packet) { p.BTH.Solicited = !p.BTH.Solicited }},
		{"partition key", func(p *packet.Packet) { p.BTH.PKey ^= 0x8000 }},
		{"destination QP", func(p *packet.Packet) { p.BTH.DestQP ^= 1 }},
		{"acknowledge request", func(p *packet.Packet) { p.BTH.AckReq = !p.BTH.AckReq }},
		{"PSN", func(p *packet.Packet) { p.BTH.PSN = p.BTH.PSN.Next() }},
		{"remote address", func(p *packet.Packet) { p.RETH.VA++ }},
		{"immediate data", func(p *packet.Packet) { p.ImmDt++ }},
		{"payload", func(p *packet.Packet) { p.Payload[0] ^= 1 }},
		{"pad", func(p *packet.Packet) { p.Pad[0] ^= 1 }},
		{"iCRC itself", func(p *packet.Packet) { p.ICRC ^= 1 }},
	}
	for _, e := range encapsulations {
		for _, d := range damages {
			p := sample(packet.WriteOnlyImm, 6)
			e.wrap(p)
			p.Seal()
			d.damage(p)
			if status := p.CheckICRC(); status != packet.ICRCInvalid {
				t.Errorf("%s, %s: iCRC is %v", e.name, d.name, status)
			}
		}
	}
}

// A congestion notification that a ConnectX-4 Lx sent, and a packet of another service from soft-RoCE, as published
// with Scapy's RoCE tests: known answers from independent implementations.
func TestICRCOfPacketsFromOtherImplementations(t *testing.T) {
	addr := netip.MustParseAddr
	cnp := packet.Packet{
		Derived: true,
		Eth:     packet.Ethernet{Type: packet.EtherTypeIPv4},
		IP: packet.IP{Version: 4, TOS: 0xc2, TTL: 64, Protocol: packet.ProtocolUDP, ID: 0x718c, FlagsFragment: 0x4000,
			Src: addr("10.0.17.1"), Dst: addr("10.0.18.1")},
		HasUDP:  true,
		UDP:     packet.UDP{DstPort: packet.Port},
		Headers: packet.HasBTH,
		BTH:     packet.BTH{Opcode: packet.CNP, PKey: 0xffff, BECN: true, DestQP: 0x118},
		Payload: make([]byte, packet.CNPPayloadLen),
	}
	ucSend := packet.Packet{
		Derived: true,
		Eth:     packet.Ethernet{Type: packet.EtherTypeIPv4},
		IP: packet.IP{Version: 4, TOS: 1, TTL: 64, Protocol: packet.ProtocolUDP, ID: 1144, FlagsFragment: 0x4000,
			Src: addr("192.168.0.7"), Dst: addr("192.168.0.7")},
		HasUDP:  true,
		UDP:     packet.UDP{SrcPort: 49152, DstPort: packet.Port},
		Headers: packet.HasBTH,
		BTH:     packet.BTH{Opcode: 0x24, MigReq: true, PadCount: 2, PKey: 0xffff, DestQP: 211, PSN: 13571856},
		Payload: []byte{0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a, 0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e,
			0x50},
	}
	tests := []struct {
		name, icrc, headerChecksum string
		p                          *packet.Packet
	}{
		{"CNP of a ConnectX-4 Lx", "82fd002a", "9161", &cnp},
		{"UC SEND ONLY of soft-RoCE", "78f353f3", "b4d5", &ucSend},
	}
	for _, test := range tests {
		frame := test.p.AppendTo(nil)
		if got := hex.EncodeToString(frame[len(frame)-packet.ICRCLen:]); got != test.icrc {
			t.Errorf("%s: iCRC on the wire %s, want %s", test.name, got, test.icrc)
		}
		const checksum = packet.EthernetLen + 10
		if got := hex.EncodeToString(frame[checksum : checksum+2]); got != test.headerChecksum {
			t.Errorf("%s: IPv4 header checksum %s, want %s", test.name, got, test.headerChecksum)
		}
	}
}
