package packet_test

import (
	"fmt"
	"net/netip"
	"slices"

	"candela.dev/candela/packet"
)

// knownOpcodes lists every opcode that the package decodes, in numerical order.
func knownOpcodes() []packet.Opcode {
	var known []packet.Opcode
	for n := range 256 {
		if o := packet.Opcode(n); o.Known() {
			known = append(known, o)
		}
	}
	return known
}

// An encapsulation is one way to carry a RoCE packet.
type encapsulation struct {
	name string
	wrap func(p *packet.Packet)
}

var encapsulations = []encapsulation{
	{"IPv4", overIPv4},
	{"IPv6", overIPv6},
	{"VLAN and IPv4", func(p *packet.Packet) { overIPv4(p); p.Eth.Tagged, p.Eth.TCI = true, 0x6abc }},
	{"VLAN and IPv6", func(p *packet.Packet) { overIPv6(p); p.Eth.Tagged, p.Eth.TCI = true, 0xe001 }},
	{"IPv4 with options", func(p *packet.Packet) { overIPv4(p); p.IP.Options = []byte{0x94, 4, 0, 0, 1, 1, 1, 0} }},
	{"IPv6 with a UDP checksum", func(p *packet.Packet) { overIPv6(p); p.SumUDP = true }},
	{"IPv4 with a UDP checksum", func(p *packet.Packet) { overIPv4(p); p.SumUDP = true }},
}

func overIPv4(p *packet.Packet) {
	p.Eth.Type = packet.EtherTypeIPv4
	p.IP = packet.IP{
		Version: 4, TOS: 0x6a, TTL: 63, Protocol: packet.ProtocolUDP, ID: 0x1234, FlagsFragment: 0x4000,
		Src: netip.MustParseAddr("10.1.2.3"), Dst: netip.MustParseAddr("192.168.4.5"),
	}
}

func overIPv6(p *packet.Packet) {
	p.Eth.Type = packet.EtherTypeIPv6
	p.IP = packet.IP{
		Version: 6, TOS: 0x69, TTL: 64, Protocol: packet.ProtocolUDP, FlowLabel: 0xabcde,
		Src: netip.MustParseAddr("fd00::1:2:3"), Dst: netip.MustParseAddr("fd00::4:5:6"),
	}
}

// sample returns a derived packet with a distinct value in every field that opcode o has.
func sample(o packet.Opcode, payload int) *packet.Packet {
	p := &packet.Packet{
		Derived: true,
		Eth:     packet.Ethernet{Dst: packet.MACFromUint48(0x020000000002), Src: packet.MACFromUint48(0x020000000001)},
		HasUDP:  true,
		UDP:     packet.UDP{SrcPort: 0xc0de, DstPort: packet.Port},
		Headers: packet.HasBTH | o.Headers(),
		BTH: packet.BTH{
			Opcode: o, Solicited: o.Ends(), MigReq: true, PadCount: uint8(-payload & 3), PKey: 0xffff,
			DestQP: 0x1a2b3c, AckReq: o.Ends(), PSN: 0xfffffe,
		},
		Payload: make([]byte, payload),
	}
	if o == packet.CNP {
		p.BTH = packet.BTH{Opcode: o, BECN: true, PKey: 0xffff, DestQP: 0x1a2b3c}
		p.Payload = make([]byte, packet.CNPPayloadLen)
		return p
	}
	for i := range p.Payload {
		p.Payload[i] = byte(i*7 + 1)
	}
	if p.Headers&packet.HasRETH != 0 {
		p.RETH = packet.RETH{VA: 0x0102030405060708, RKey: 0x090a0b0c, Length: 0x0d0e0f10}
	}
	if p.Headers&packet.HasAtomicETH != 0 {
		p.AtomicETH = packet.AtomicETH{VA: 0x1112131415161718, RKey: 0x191a1b1c, Swap: 0x2122232425262728,
			Compare: 0x3132333435363738}
	}
	if p.Headers&packet.HasAETH != 0 {
		p.AETH = packet.AETH{Syndrome: 0x1e, MSN: 0x414243}
	}
	if p.Headers&packet.HasAtomicAckETH != 0 {
		p.AtomicAckETH = 0x5152535455565758
	}
	if p.Headers&packet.HasImmDt != 0 {
		p.ImmDt = 0x61626364
	}
	if p.Headers&packet.HasIETH != 0 {
		p.IETH = 0x71727374
	}
	return p
}

// carriesPayload reports whether sample packets of opcode o have payloads of various lengths.
func carriesPayload(o packet.Opcode) bool {
	fixed := []packet.Opcode{packet.ReadRequest, packet.Acknowledge, packet.AtomicAcknowledge, packet.CmpSwap,
		packet.FetchAdd, packet.CNP}
	return !slices.Contains(fixed, o)
}

// A namedPacket is a sample with the description that subtests and failures print.
type namedPacket struct {
	name string
	p    *packet.Packet
}

// samples returns derived packets for every opcode, encapsulation and pad length, and for every AETH syndrome and flag.
func samples() []namedPacket {
	var all []namedPacket
	add := func(e encapsulation, what string, p *packet.Packet) {
		e.wrap(p)
		all = append(all, namedPacket{fmt.Sprintf("%v over %s, %s", p.BTH.Opcode, e.name, what), p})
	}
	for _, e := range encapsulations {
		for _, o := range knownOpcodes() {
			lengths := []int{0}
			if carriesPayload(o) {
				lengths = []int{0, 1, 2, 3, 4, 257, 1024}
			}
			for _, n := range lengths {
				add(e, fmt.Sprintf("%d bytes", n), sample(o, n))
			}
		}
	}
	v4 := encapsulations[0]
	for _, s := range []packet.Syndrome{0x00, 0x1f, 0x20, 0x2d, 0x3f, 0x60, 0x61, 0x62, 0x63, 0x64} {
		p := sample(packet.Acknowledge, 0)
		p.AETH.Syndrome = s
		add(v4, s.String(), p)
	}
	for _, f := range []struct {
		name string
		set  func(h *packet.BTH)
	}{
		{"no flag", func(h *packet.BTH) { h.MigReq = false }},
		{"solicited", func(h *packet.BTH) { h.Solicited = true }},
		{"acknowledge request", func(h *packet.BTH) { h.AckReq = true }},
		{"FECN", func(h *packet.BTH) { h.FECN = true }},
		{"BECN", func(h *packet.BTH) { h.BECN = true }},
		{"limited partition key", func(h *packet.BTH) { h.PKey = 0x7abc }},
	} {
		p := sample(packet.WriteMiddle, 8)
		f.set(&p.BTH)
		add(v4, f.name, p)
	}
	return all
}
