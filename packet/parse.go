package packet

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrMalformed is what every error of Parse answers to.
var ErrMalformed = errors.New("malformed packet")

// A ParseError says where a frame stops making sense.
type ParseError struct {
	Layer   string // e.g. "IPv4", "BTH"
	Offset  int    // byte offset of the layer in the frame
	Problem string
}

// Error names the layer, its offset and the problem.
func (e *ParseError) Error() string {
	return fmt.Sprintf("%s at byte %d: %s", e.Layer, e.Offset, e.Problem)
}

// Is makes every ParseError an ErrMalformed.
func (e *ParseError) Is(target error) bool { return target == ErrMalformed }

func tooShort(layer string, offset, need, have int) error {
	return &ParseError{layer, offset, fmt.Sprintf("needs %d bytes, the frame has %d left", need, have)}
}

// Parse decodes frame, which starts at the Ethernet header and has no FCS, into p, overwriting it. Payload and Trailer
// alias frame.
//
// A frame that is not RoCE (another EtherType, a fragment, another protocol or UDP port) parses without error as far as
// possible, the rest being Payload. A RoCE frame that ends before the length that its headers announce is Truncated,
// not malformed, if its transport headers are whole. Opcodes that are not [Opcode.Known] have everything after the BTH
// as Payload. On error p holds the layers before the offending one.
func (p *Packet) Parse(frame []byte) error {
	*p = Packet{}
	if len(frame) < EthernetLen {
		return tooShort("Ethernet", 0, EthernetLen, len(frame))
	}
	p.Eth.Dst, p.Eth.Src = MAC(frame[0:6]), MAC(frame[6:12])
	p.Eth.Type = be16(frame[12:])
	off := EthernetLen
	if p.Eth.Type == EtherTypeVLAN {
		if len(frame) < off+VLANLen {
			return tooShort("802.1Q", off, VLANLen, len(frame)-off)
		}
		p.Eth.Tagged, p.Eth.TCI, p.Eth.Type = true, be16(frame[off:]), be16(frame[off+2:])
		off += VLANLen
	}
	switch p.Eth.Type {
	case EtherTypeIPv4:
		return p.parseIPv4(frame, off)
	case EtherTypeIPv6:
		return p.parseIPv6(frame, off)
	}
	p.Payload = frame[off:]
	return nil
}

func (p *Packet) parseIPv4(frame []byte, off int) error {
	b := frame[off:]
	if len(b) < IPv4Len {
		return tooShort("IPv4", off, IPv4Len, len(b))
	}
	headerLen := int(b[0]&0xf) * 4
	switch {
	case b[0]>>4 != 4:
		return &ParseError{"IPv4", off, fmt.Sprintf("version field is %d", b[0]>>4)}
	case headerLen < IPv4Len:
		return &ParseError{"IPv4", off, fmt.Sprintf("header length field says %d bytes, below %d", headerLen, IPv4Len)}
	case len(b) < headerLen:
		return tooShort("IPv4", off, headerLen, len(b))
	case int(be16(b[2:])) < headerLen:
		return &ParseError{"IPv4", off, fmt.Sprintf("total length %d is below the header's %d bytes", be16(b[2:]), headerLen)}
	}
	// Field by field, here and for the BTH: a literal is built separately and copied, which costs a third of the parse.
	ip := &p.IP
	ip.Version, ip.TOS, ip.Length = 4, b[1], be16(b[2:])
	ip.ID, ip.FlagsFragment = be16(b[4:]), be16(b[6:])
	ip.TTL, ip.Protocol, ip.Checksum = b[8], b[9], be16(b[10:])
	ip.Src, ip.Dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	if headerLen > IPv4Len {
		ip.Options = b[IPv4Len:headerLen]
	}
	const moreFragmentsOrOffset = 0x3fff
	return p.parseIPPayload(frame, off+headerLen, int(ip.Length)-headerLen, ip.FlagsFragment&moreFragmentsOrOffset != 0)
}

func (p *Packet) parseIPv6(frame []byte, off int) error {
	b := frame[off:]
	if len(b) < IPv6Len {
		return tooShort("IPv6", off, IPv6Len, len(b))
	}
	if b[0]>>4 != 6 {
		return &ParseError{"IPv6", off, fmt.Sprintf("version field is %d", b[0]>>4)}
	}
	word := be32(b)
	ip := &p.IP
	ip.Version, ip.TOS, ip.FlowLabel, ip.Length = 6, uint8(word>>20), word&0xfffff, be16(b[4:])
	ip.Protocol, ip.TTL = b[6], b[7]
	ip.Src, ip.Dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	return p.parseIPPayload(frame, off+IPv6Len, int(p.IP.Length), false)
}

// parseIPPayload continues after the IP header at off; announced is the length of what follows by the IP header.
func (p *Packet) parseIPPayload(frame []byte, off, announced int, fragment bool) error {
	rest := frame[off:]
	if len(rest) > announced {
		rest, p.Trailer = rest[:announced], rest[announced:]
	} else {
		p.missing = announced - len(rest)
	}
	if fragment || p.IP.Protocol != ProtocolUDP {
		p.Payload = rest
		return nil
	}
	if len(rest) < UDPLen {
		return tooShort("UDP", off, UDPLen, len(rest))
	}
	p.HasUDP = true
	p.UDP = UDP{SrcPort: be16(rest), DstPort: be16(rest[2:]), Length: be16(rest[4:]), Checksum: be16(rest[6:])}
	if p.UDP.DstPort != Port {
		p.Payload = rest[UDPLen:]
		return nil
	}
	return p.parseDatagram(frame[off:], off, len(rest))
}

// parseDatagram continues after the UDP header of a RoCE packet. b is the frame from the UDP header on, of which have
// bytes belong to the IP packet. If the two length fields disagree, the shorter one ends the datagram, as in receivers;
// but if it is the IP length, as after trimming with an unchanged UDP header, the rest of the UDP length is missing.
func (p *Packet) parseDatagram(b []byte, off, have int) error {
	length := int(p.UDP.Length)
	switch {
	case length < UDPLen:
		return &ParseError{"UDP", off, fmt.Sprintf("length field says %d bytes, below %d", length, UDPLen)}
	case length <= have:
		b, p.Trailer = b[:length], b[length:]
		p.missing = 0
	default:
		b = b[:have]
		p.missing = max(p.missing, length-have)
	}
	return p.parseTransport(b[UDPLen:], off+UDPLen)
}

// ParseTransport decodes a UDP payload, from the BTH to the iCRC, into p, overwriting it; the layers below stay zero.
// missing is the number of bytes that the lower layers announce and b lacks, 0 for a whole packet. Offsets in errors
// count from the BTH. Payload aliases b.
func (p *Packet) ParseTransport(b []byte, missing int) error {
	*p = Packet{missing: missing}
	return p.parseTransport(b, 0)
}

func (p *Packet) parseTransport(b []byte, off int) error {
	if len(b) < BTHLen {
		return tooShort("BTH", off, BTHLen, len(b))
	}
	h := &p.BTH
	h.Opcode = Opcode(b[0])
	h.Solicited, h.MigReq, h.PadCount, h.Version = b[1]&0x80 != 0, b[1]&0x40 != 0, b[1]>>4&3, b[1]&0xf
	h.PKey = be16(b[2:])
	h.FECN, h.BECN, h.Resv6, h.DestQP = b[4]&0x80 != 0, b[4]&0x40 != 0, b[4]&0x3f, QPN(be32(b[4:])&0xffffff)
	h.AckReq, h.Resv7, h.PSN = b[8]&0x80 != 0, b[8]&0x7f, PSN(be32(b[8:])&0xffffff)
	b, off = b[BTHLen:], off+BTHLen
	ext := p.BTH.Opcode.Headers()
	if n := ext.ExtendedLen(); len(b) < n {
		return tooShort(p.BTH.Opcode.String()+" extended headers", off, n, len(b))
	}
	b = p.parseExtended(b, ext)
	off += ext.ExtendedLen()
	p.Headers = ext | HasBTH
	if p.Truncated() {
		p.Payload = b
		return nil
	}
	pad := int(p.BTH.PadCount)
	if len(b) < pad+ICRCLen {
		p.Headers = 0
		return tooShort("pad and iCRC", off, pad+ICRCLen, len(b))
	}
	tail := b[len(b)-ICRCLen-pad:]
	p.Payload = b[:len(b)-len(tail)]
	copy(p.Pad[:], tail[:pad])
	p.ICRC = le32(tail[pad:])
	return nil
}

func (p *Packet) parseExtended(b []byte, ext Headers) []byte {
	if ext&HasRETH != 0 {
		p.RETH = RETH{VA: be64(b), RKey: be32(b[8:]), Length: be32(b[12:])}
		b = b[RETHLen:]
	}
	if ext&HasAtomicETH != 0 {
		p.AtomicETH = AtomicETH{VA: be64(b), RKey: be32(b[8:]), Swap: be64(b[12:]), Compare: be64(b[20:])}
		b = b[AtomicETHLen:]
	}
	if ext&HasAETH != 0 {
		p.AETH = AETH{Syndrome: Syndrome(b[0]), MSN: be32(b) & 0xffffff}
		b = b[AETHLen:]
	}
	if ext&HasAtomicAckETH != 0 {
		p.AtomicAckETH = be64(b)
		b = b[AtomicAckETHLen:]
	}
	if ext&HasImmDt != 0 {
		p.ImmDt = be32(b)
		b = b[ImmDtLen:]
	}
	if ext&HasIETH != 0 {
		p.IETH = be32(b)
		b = b[IETHLen:]
	}
	return b
}
