package fabric

import (
	"encoding/binary"
	"net/netip"

	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/packet"
	"candela.dev/candela/packet/ndp"
)

// The address plan: host h has the locally administered MAC 02:ca:de:xx:xx:xx, 10.0.0.0/8 + h+1 and fd00:ca:de::/64 +
// h+1.

// MAC returns the host's Ethernet address.
func (h HostID) MAC() packet.MAC { return packet.MACFromUint48(0x02ca_de00_0000 | uint64(h)) }

// IPv4 returns the host's IPv4 address.
func (h HostID) IPv4() netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24|uint32(h)+1)
	return netip.AddrFrom4(b)
}

// IPv6 returns the host's IPv6 address.
func (h HostID) IPv6() netip.Addr {
	b := [16]byte{0xfd, 0, 0, 0xca, 0, 0xde}
	binary.BigEndian.PutUint64(b[8:], uint64(h)+1)
	return netip.AddrFrom16(b)
}

// UDP ports of frames: a packet's entropy picks a port of the dynamic range (RFC 6335) on the sender's side.
const (
	rawPort     = 9 // discard (RFC 863)
	dynamicPort = 0xc000
)

const (
	protocolICMP   = 1
	protocolTCP    = 6
	protocolICMPv6 = 58
	echoRequest    = 8
	echoRequestV6  = 128
	icmpLen        = 8
	noFragment     = 0x4000
)

// MinFrame returns the least Size of a packet with p's protocol and IP version that leaves its headers whole.
func (p *Packet) MinFrame() int {
	return p.networkLen() + p.transportLen()
}

func (p *Packet) networkLen() int {
	if p.IPv6 {
		return packet.EthernetLen + packet.IPv6Len
	}
	return packet.EthernetLen + packet.IPv4Len
}

func (p *Packet) transportLen() int {
	switch p.Protocol {
	case NDP:
		return packet.UDPLen + ndp.Size
	case TCP:
		return tcp.HeaderLen
	case Echo:
		return icmpLen
	case PFC:
		return 0
	default:
		return packet.UDPLen
	}
}

// AppendFrame appends the packet as an Ethernet frame of Size bytes without FCS; what no header describes is zero.
// Lengths and checksums are valid unless the packet's flags call them stale: then they are those of the packet as it
// was sent. A frame that is shorter than its headers is cut.
func (p *Packet) AppendFrame(b []byte) []byte { return p.AppendFrameWith(b, nil) }

// AppendFrameWith is AppendFrame with payload behind the transport header, which the checksum covers.
func (p *Packet) AppendFrameWith(b, payload []byte) []byte {
	start, size := len(b), int(p.Size)
	if p.Protocol == PFC {
		b = p.appendPause(b)
	} else {
		b = p.appendHeaders(b, payload)
	}
	if have := len(b) - start; have > size {
		return b[:start+size]
	}
	for len(b)-start < size {
		b = append(b, make([]byte, min(64, size-(len(b)-start)))...)
	}
	return b
}

func (p *Packet) appendHeaders(b, payload []byte) []byte {
	dst, src := p.Dst.MAC(), p.Src.MAC()
	b = append(append(b, dst[:]...), src[:]...)
	length, whole := int(p.Size)-p.networkLen(), int(p.Original)-p.networkLen()
	announced := length
	if p.Flags&LengthStale != 0 {
		announced = whole
	}
	summed := announced
	if p.Flags&HeaderSumStale != 0 {
		summed = whole
	}
	if p.IPv6 {
		b = p.appendIPv6(b, announced)
	} else {
		b = p.appendIPv4(b, announced, summed)
	}
	return p.appendTransport(b, payload, announced, whole)
}

func (p *Packet) ipProtocol() byte {
	switch {
	case p.Protocol == TCP:
		return protocolTCP
	case p.Protocol != Echo:
		return packet.ProtocolUDP
	case p.IPv6:
		return protocolICMPv6
	default:
		return protocolICMP
	}
}

// appendIPv4 appends EtherType and header; the checksum is that of a packet of summed bytes.
func (p *Packet) appendIPv4(b []byte, length, summed int) []byte {
	b = binary.BigEndian.AppendUint16(b, packet.EtherTypeIPv4)
	at := len(b)
	b = append(b, 0x45, p.DSCP<<2|uint8(p.ECN))
	b = binary.BigEndian.AppendUint16(b, uint16(packet.IPv4Len+summed))
	b = binary.BigEndian.AppendUint16(b, uint16(p.ID))
	b = binary.BigEndian.AppendUint16(b, noFragment)
	b = append(b, p.TTL, p.ipProtocol(), 0, 0)
	src, dst := p.Src.IPv4().As4(), p.Dst.IPv4().As4()
	b = append(append(b, src[:]...), dst[:]...)
	binary.BigEndian.PutUint16(b[at+10:], packet.HeaderChecksum(b[at:]))
	binary.BigEndian.PutUint16(b[at+2:], uint16(packet.IPv4Len+length))
	return b
}

func (p *Packet) appendIPv6(b []byte, length int) []byte {
	b = binary.BigEndian.AppendUint16(b, packet.EtherTypeIPv6)
	class := uint32(p.DSCP<<2 | uint8(p.ECN))
	b = binary.BigEndian.AppendUint32(b, 6<<28|class<<20|mixFlow(p))
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(b, p.ipProtocol(), p.TTL)
	src, dst := p.Src.IPv6().As16(), p.Dst.IPv6().As16()
	return append(append(b, src[:]...), dst[:]...)
}

// mixFlow returns a flow label (RFC 6437) for the packet's flow and entropy, the same on the way back.
func mixFlow(p *Packet) uint32 { return uint32(mix(uint64(p.Flow)<<16|uint64(p.Entropy))) & 0xfffff }

func (p *Packet) appendTransport(b, payload []byte, length, whole int) []byte {
	at := len(b)
	if p.Protocol == Echo {
		kind := byte(echoRequest)
		if p.IPv6 {
			kind = echoRequestV6
		}
		b = append(b, kind, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(p.Flow))
		b = append(binary.BigEndian.AppendUint16(b, p.Entropy), payload...)
		p.checksum(b[at:], 2, whole, whole)
		return b
	}
	if p.Protocol == TCP {
		// Both ends have the same port: data go both ways, so that neither is the one that called.
		port := uint16(dynamicPort | p.Entropy&0x3fff)
		b = append(p.TCP.AppendTo(b, port, port), payload...)
		summed := length
		if p.Flags&ChecksumStale != 0 {
			summed = whole
		}
		p.checksum(b[at:], 16, summed, summed)
		return b
	}
	near, far := uint16(dynamicPort|p.Entropy&0x3fff), uint16(rawPort)
	if p.Protocol == NDP {
		far = ndp.Port
	}
	if p.Flags&Returned != 0 {
		near, far = far, near
	}
	b = binary.BigEndian.AppendUint16(b, near)
	b = binary.BigEndian.AppendUint16(b, far)
	b = append(b, 0, 0, 0, 0)
	if p.Protocol == NDP {
		h := p.NDP
		if p.Flags&ChecksumStale != 0 {
			h.Flags &^= ndp.FlagTrimmed | ndp.FlagReturned // as it was sent
		}
		b = h.AppendTo(b)
	}
	b = append(b, payload...)
	summed := length
	if p.Flags&ChecksumStale != 0 {
		summed = whole
	}
	binary.BigEndian.PutUint16(b[at+4:], uint16(summed))
	p.checksum(b[at:], 6, summed, summed)
	binary.BigEndian.PutUint16(b[at+4:], uint16(length))
	if p.Protocol == NDP {
		b[at+packet.UDPLen+3] = byte(p.NDP.Flags)
	}
	return b
}

// checksum sets the transport checksum, at offset of b, of a datagram of length bytes that begins with b and goes on
// with zeros.
func (p *Packet) checksum(b []byte, offset, length, announced int) {
	var sum uint64
	if p.Protocol != Echo || p.IPv6 {
		sum = p.pseudoHeader() + uint64(announced)
	}
	for i := 0; i+1 < min(len(b), length); i += 2 {
		sum += uint64(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	check := ^uint16(sum)
	if check == 0 && p.Protocol != Echo {
		check = 0xffff // 0 would say that there is none (RFC 768)
	}
	binary.BigEndian.PutUint16(b[offset:], check)
}

// pseudoHeader returns the sum of addresses and protocol, without the length.
func (p *Packet) pseudoHeader() uint64 {
	sum := uint64(p.ipProtocol())
	for _, h := range [2]HostID{p.Src, p.Dst} {
		var b []byte
		if p.IPv6 {
			a := h.IPv6().As16()
			b = a[:]
		} else {
			a := h.IPv4().As4()
			b = a[:]
		}
		for i := 0; i < len(b); i += 2 {
			sum += uint64(binary.BigEndian.Uint16(b[i:]))
		}
	}
	return sum
}

// appendPause appends a PFC frame: MAC control, opcode 0x0101, class enable vector, one timer per class in quanta of
// 512 bit times.
func (p *Packet) appendPause(b []byte) []byte {
	b = append(b, 0x01, 0x80, 0xc2, 0, 0, 1) // the address of MAC control (IEEE 802.3 annex 31B)
	b = append(b, 0x02, 0xca, 0xde, 0xff, 0xff, 0xff)
	b = binary.BigEndian.AppendUint16(b, 0x8808)
	b = binary.BigEndian.AppendUint16(b, 0x0101)
	b = binary.BigEndian.AppendUint16(b, 0x00ff)
	for class := range 8 {
		quanta := uint16(0)
		if p.Meta&(1<<class) != 0 {
			quanta = 0xffff
		}
		b = binary.BigEndian.AppendUint16(b, quanta)
	}
	return b
}
