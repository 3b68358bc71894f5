package tcp

import (
	"encoding/binary"
	"net/netip"

	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/packet"
)

// tcpFrame is what a captured frame of a TCP host says.
type tcpFrame struct {
	src, dst netip.Addr
	port     uint16 // of both ends
	id       uint16 // of IPv4
	v6       bool
	header   tcp.Header
	payload  int // bytes
}

const protocolTCP = 6

// parse decodes a frame and reports whether it is an undamaged TCP packet: a trimmed one has a checksum that is wrong.
func (t *tcpFrame) parse(frame []byte) bool {
	if len(frame) < packet.EthernetLen {
		return false
	}
	etherType, b := binary.BigEndian.Uint16(frame[12:]), frame[packet.EthernetLen:]
	var segment []byte
	var addresses []byte
	switch {
	case etherType == packet.EtherTypeIPv4 && len(b) >= packet.IPv4Len && b[0] == 0x45:
		total := int(binary.BigEndian.Uint16(b[2:]))
		if b[9] != protocolTCP || binary.BigEndian.Uint16(b[6:])&0x3fff != 0 || total < packet.IPv4Len || total > len(b) {
			return false
		}
		t.v6, t.id, addresses, segment = false, binary.BigEndian.Uint16(b[4:]), b[12:20], b[packet.IPv4Len:total]
	case etherType == packet.EtherTypeIPv6 && len(b) >= packet.IPv6Len && b[0]>>4 == 6:
		length := int(binary.BigEndian.Uint16(b[4:]))
		if b[6] != protocolTCP || length > len(b)-packet.IPv6Len {
			return false
		}
		t.v6, t.id, addresses, segment = true, 0, b[8:40], b[packet.IPv6Len:packet.IPv6Len+length]
	default:
		return false
	}
	half := len(addresses) / 2
	t.src, _ = netip.AddrFromSlice(addresses[:half])
	t.dst, _ = netip.AddrFromSlice(addresses[half:])
	if t.header.Parse(segment) != nil || tcpSum(addresses, segment) != 0xffff {
		return false
	}
	t.port, t.payload = binary.BigEndian.Uint16(segment), len(segment)-tcp.HeaderLen
	return t.port == binary.BigEndian.Uint16(segment[2:])
}

// tcpSum returns the sum of a segment and its pseudo header (RFC 9293, 3.1): all ones if the checksum in it is right.
func tcpSum(addresses, segment []byte) uint64 {
	sum := uint64(protocolTCP) + uint64(len(segment))
	for _, b := range [][]byte{addresses, segment} {
		for ; len(b) >= 2; b = b[2:] {
			sum += uint64(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			sum += uint64(b[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return sum
}
