package packet

import "encoding/binary"

// AppendTo appends the frame of p, without FCS, to b and returns the extended slice. It does not change p and allocates
// only if b lacks room. An explicit packet is written with its fields as they are, right or wrong; a derived one with
// right lengths, checksums and iCRC. Addresses must be of the family in IP.Version.
func (p *Packet) AppendTo(b []byte) []byte {
	start := len(b)
	b = p.appendEthernet(b)
	if p.IP.Version == 0 {
		b = append(b, p.Payload...)
		return append(b, p.Trailer...)
	}
	l3 := len(b)
	ipLen := p.IP.headerLen()
	l3Len := p.Len() - (l3 - start) - len(p.Trailer)
	b = p.appendIP(b, l3Len)
	if p.HasUDP {
		b = p.appendUDP(b, l3Len-ipLen)
	}
	if p.IsRoCE() {
		b = p.AppendTransportHeaders(b)
	}
	b = append(b, p.Payload...)
	if p.IsRoCE() && !p.Truncated() {
		b = append(b, p.Pad[:p.BTH.padLen()]...)
		icrc := p.ICRC
		if p.Derived {
			icrc = ComputeICRC(b[l3:])
		}
		b = binary.LittleEndian.AppendUint32(b, icrc)
	}
	if p.Derived && p.SumUDP && p.HasUDP {
		udp := b[l3+ipLen:]
		binary.BigEndian.PutUint16(udp[6:], udpChecksum(b[l3:], udp))
	}
	return append(b, p.Trailer...)
}

func (p *Packet) appendEthernet(b []byte) []byte {
	b = append(b, p.Eth.Dst[:]...)
	b = append(b, p.Eth.Src[:]...)
	if p.Eth.Tagged {
		b = binary.BigEndian.AppendUint16(b, EtherTypeVLAN)
		b = binary.BigEndian.AppendUint16(b, p.Eth.TCI)
	}
	return binary.BigEndian.AppendUint16(b, p.Eth.Type)
}

// appendIP appends the IP header of a packet of l3Len bytes, header included.
func (p *Packet) appendIP(b []byte, l3Len int) []byte {
	ip := &p.IP
	length := ip.Length
	if ip.Version == 6 {
		if p.Derived {
			length = uint16(l3Len - IPv6Len)
		}
		b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(ip.TOS)<<20|ip.FlowLabel&0xfffff)
		b = binary.BigEndian.AppendUint16(b, length)
		b = append(b, ip.Protocol, ip.TTL)
		src, dst := ip.Src.As16(), ip.Dst.As16()
		b = append(b, src[:]...)
		return append(b, dst[:]...)
	}
	if p.Derived {
		length = uint16(l3Len)
	}
	start := len(b)
	b = append(b, byte(4<<4|ip.headerLen()/4), ip.TOS)
	b = binary.BigEndian.AppendUint16(b, length)
	b = binary.BigEndian.AppendUint16(b, ip.ID)
	b = binary.BigEndian.AppendUint16(b, ip.FlagsFragment)
	b = append(b, ip.TTL, ip.Protocol)
	b = binary.BigEndian.AppendUint16(b, ip.Checksum)
	src, dst := ip.Src.As4(), ip.Dst.As4()
	b = append(b, src[:]...)
	b = append(b, dst[:]...)
	b = append(b, ip.Options...)
	if p.Derived {
		binary.BigEndian.PutUint16(b[start+10:], HeaderChecksum(b[start:]))
	}
	return b
}

// appendUDP appends the UDP header of a datagram of length bytes, header included. A derived packet's checksum is
// filled in after its payload.
func (p *Packet) appendUDP(b []byte, length int) []byte {
	field, sum := p.UDP.Length, p.UDP.Checksum
	if p.Derived {
		field, sum = uint16(length), 0
	}
	b = binary.BigEndian.AppendUint16(b, p.UDP.SrcPort)
	b = binary.BigEndian.AppendUint16(b, p.UDP.DstPort)
	b = binary.BigEndian.AppendUint16(b, field)
	return binary.BigEndian.AppendUint16(b, sum)
}

func bit(on bool, mask byte) byte {
	if on {
		return mask
	}
	return 0
}

// AppendTransportHeaders appends the BTH and the extended headers in p.Headers to b.
func (p *Packet) AppendTransportHeaders(b []byte) []byte {
	h := &p.BTH
	b = append(b, byte(h.Opcode), bit(h.Solicited, 0x80)|bit(h.MigReq, 0x40)|h.PadCount&3<<4|h.Version&0xf)
	b = binary.BigEndian.AppendUint16(b, h.PKey)
	flags := bit(h.FECN, 0x80) | bit(h.BECN, 0x40) | h.Resv6&0x3f
	b = binary.BigEndian.AppendUint32(b, uint32(flags)<<24|uint32(h.DestQP)&0xffffff)
	flags = bit(h.AckReq, 0x80) | h.Resv7&0x7f
	b = binary.BigEndian.AppendUint32(b, uint32(flags)<<24|uint32(h.PSN)&0xffffff)
	if p.Headers&HasRETH != 0 {
		b = binary.BigEndian.AppendUint64(b, p.RETH.VA)
		b = binary.BigEndian.AppendUint32(b, p.RETH.RKey)
		b = binary.BigEndian.AppendUint32(b, p.RETH.Length)
	}
	if p.Headers&HasAtomicETH != 0 {
		b = binary.BigEndian.AppendUint64(b, p.AtomicETH.VA)
		b = binary.BigEndian.AppendUint32(b, p.AtomicETH.RKey)
		b = binary.BigEndian.AppendUint64(b, p.AtomicETH.Swap)
		b = binary.BigEndian.AppendUint64(b, p.AtomicETH.Compare)
	}
	if p.Headers&HasAETH != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(p.AETH.Syndrome)<<24|p.AETH.MSN&0xffffff)
	}
	if p.Headers&HasAtomicAckETH != 0 {
		b = binary.BigEndian.AppendUint64(b, p.AtomicAckETH)
	}
	if p.Headers&HasImmDt != 0 {
		b = binary.BigEndian.AppendUint32(b, p.ImmDt)
	}
	if p.Headers&HasIETH != 0 {
		b = binary.BigEndian.AppendUint32(b, p.IETH)
	}
	return b
}

// udpChecksum computes the checksum of the UDP datagram udp inside the IP packet l3 (RFC 768, RFC 8200 section 8.1).
// The datagram's checksum field must be zero.
func udpChecksum(l3, udp []byte) uint16 {
	addresses := l3[12:20]
	if l3[0]>>4 == 6 {
		addresses = l3[8:40]
	}
	acc := sum(uint64(ProtocolUDP)+uint64(len(udp)), addresses)
	return transmitted(fold(sum(acc, udp)))
}

// transmitted returns the form in which a UDP checksum is sent: a zero field means that there is none (RFC 768).
func transmitted(check uint16) uint16 {
	if check == 0 {
		return 0xffff
	}
	return check
}
