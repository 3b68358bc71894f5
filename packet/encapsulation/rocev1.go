package encapsulation

import (
	"encoding/binary"

	"candela.dev/candela/packet"
)

// nextHeaderBTH is the next header of a global route header before a BTH (IBTA volume 1, 8.3).
const nextHeaderBTH = 0x1b

// fromV1 turns a RoCEv1 packet into the RoCEv2 packet with the same addresses and transport headers. A global route
// header has the layout of an IPv6 header; IPv4-mapped GIDs become an IPv4 header, as in RoCEv2. The invariant CRC is
// checked and then set to a right, or wrong, one for the new headers.
func (u *Unwrapper) fromV1(w *walk) Frame {
	grh := w.b[w.packet:]
	body := grh[ipv6Len:]
	length := int(be16(grh[4:])) // BTH to iCRC
	whole := length >= bthLen+icrcLen && length <= len(body)
	if whole {
		body = body[:length]
	}
	valid := whole && v1CRC(grh[:ipv6Len+length-icrcLen]) == binary.LittleEndian.Uint32(body[length-icrcLen:])
	mapped := isMapped(grh[8:24]) && isMapped(grh[24:40])
	etherType := uint16(typeIPv6)
	if mapped {
		etherType = typeIPv4
	}
	b := w.appendEthernet(u.buf[:0], etherType)
	class := grh[0]<<4 | grh[1]>>4
	udpLength := uint16(min(udpLen+length, 0xffff))
	if mapped {
		b = append(b, 0x45, class)
		b = binary.BigEndian.AppendUint16(b, uint16(min(ipv4Len+udpLen+length, 0xffff)))
		b = append(b, 0, 0, 0x40, 0, grh[7], protocolUDP, 0, 0)
		b = append(append(b, grh[20:24]...), grh[36:40]...)
		binary.BigEndian.PutUint16(b[ethernetLen+10:], packet.HeaderChecksum(b[ethernetLen:]))
	} else {
		b = append(b, grh[:4]...)
		b = binary.BigEndian.AppendUint16(b, udpLength)
		b = append(b, protocolUDP, grh[7])
		b = append(b, grh[8:40]...)
	}
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint16(b, portRoCE)
	b = binary.BigEndian.AppendUint16(b, udpLength)
	b = append(b, 0, 0)
	added := len(b)
	b = append(b, body...)
	if whole {
		crc := packet.ComputeICRC(b[ethernetLen : len(b)-icrcLen])
		if !valid {
			crc = ^crc
		}
		binary.LittleEndian.PutUint32(b[len(b)-icrcLen:], crc)
	}
	u.buf = b
	return Frame{Data: b, Cut: w.packet + ipv6Len, Added: added, Layers: w.layers, Stamp: w.stamp}
}

// v1CRC returns the invariant CRC of a RoCEv1 packet from its global route header up to and without the iCRC (IBTA
// volume 1, 7.8.1 and annex A16): CRC-32 over eight bytes of ones and the packet with traffic class, flow label, hop
// limit and the reserved byte of the BTH set to ones.
func v1CRC(grh []byte) uint32 {
	const ones = 0xff
	var head [ipv6Len + bthLen]byte
	n := copy(head[:], grh)
	head[0] |= 0x0f
	head[1], head[2], head[3], head[7], head[ipv6Len+4] = ones, ones, ones, ones, ones
	return packet.CRC(head[:n], grh[n:])
}

// isMapped reports whether a GID is an IPv4-mapped address.
func isMapped(gid []byte) bool {
	return binary.BigEndian.Uint64(gid) == 0 && be16(gid[8:]) == 0 && be16(gid[10:]) == 0xffff
}
