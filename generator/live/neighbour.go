package live

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"candela.dev/candela/packet"
)

// A Neighbour answers for addresses on a link: ARP requests (RFC 826) and neighbour solicitations (RFC 4861, 7.2).
type Neighbour struct {
	MAC packet.MAC
	IPs []netip.Addr
}

const (
	etherTypeARP = 0x0806
	arpLen       = 28
	arpRequest   = 1
	arpReply     = 2

	protocolICMPv6 = 58
	icmpLen        = 24 // of a solicitation or advertisement without options
	solicitation   = 135
	advertisement  = 136
	ndHopLimit     = 255 // RFC 4861, 7.1.1: a lower value has passed a router
	optionTarget   = 2   // target link-layer address
	optionLen      = 8
)

// Answer appends the answer to an untagged frame to b, or returns nil if the frame is not a request for one of the IPs.
func (n *Neighbour) Answer(b, frame []byte) []byte {
	if len(frame) < packet.EthernetLen {
		return nil
	}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherTypeARP:
		return n.answerARP(b, frame)
	case packet.EtherTypeIPv6:
		return n.answerSolicitation(b, frame)
	}
	return nil
}

func (n *Neighbour) answerARP(b, frame []byte) []byte {
	arp := frame[packet.EthernetLen:]
	ethernetIPv4 := []byte{0, 1, 8, 0, 6, 4, 0, arpRequest}
	if len(arp) < arpLen || !slices.Equal(arp[:8], ethernetIPv4) {
		return nil
	}
	target := netip.AddrFrom4([4]byte(arp[24:28]))
	if !slices.Contains(n.IPs, target) {
		return nil
	}
	b = append(b, frame[6:12]...)
	b = append(b, n.MAC[:]...)
	b = append(b, 8, 6, 0, 1, 8, 0, 6, 4, 0, arpReply)
	b = append(b, n.MAC[:]...)
	b = append(b, arp[24:28]...) // the requested address
	return append(b, arp[8:18]...)
}

func (n *Neighbour) answerSolicitation(b, frame []byte) []byte {
	ip := frame[packet.EthernetLen:]
	if len(ip) < packet.IPv6Len+icmpLen || ip[0]>>4 != 6 || ip[6] != protocolICMPv6 || ip[7] != ndHopLimit {
		return nil
	}
	length := int(binary.BigEndian.Uint16(ip[4:]))
	icmp := ip[packet.IPv6Len:]
	if length < icmpLen || len(icmp) < length || icmp[0] != solicitation || icmp[1] != 0 {
		return nil
	}
	target := netip.AddrFrom16([16]byte(icmp[8:24]))
	if !slices.Contains(n.IPs, target) || icmpChecksum(ip[8:40], icmp[:length]) != 0 {
		return nil
	}
	asker := netip.AddrFrom16([16]byte(ip[8:24]))
	to, flags := asker.As16(), byte(0x60) // solicited, override
	if asker.IsUnspecified() {
		// Duplicate address detection: answer to all nodes.
		to, flags = netip.MustParseAddr("ff02::1").As16(), 0x20
	}
	b = append(b, frame[6:12]...)
	b = append(b, n.MAC[:]...)
	b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0, 0, icmpLen+optionLen, protocolICMPv6, ndHopLimit)
	addresses := len(b)
	b = append(b, icmp[8:24]...)
	b = append(b, to[:]...)
	message := len(b)
	b = append(b, advertisement, 0, 0, 0, flags, 0, 0, 0)
	b = append(b, icmp[8:24]...)
	b = append(b, optionTarget, 1)
	b = append(b, n.MAC[:]...)
	binary.BigEndian.PutUint16(b[message+2:], icmpChecksum(b[addresses:message], b[message:]))
	return b
}

// icmpChecksum returns the checksum over addresses, pseudo-header and message; 0 if the message has a correct checksum.
func icmpChecksum(addresses, message []byte) uint16 {
	sum := uint32(len(message)) + protocolICMPv6
	for _, b := range [][]byte{addresses, message} {
		for len(b) >= 2 {
			sum += uint32(binary.BigEndian.Uint16(b))
			b = b[2:]
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
