package wire

import (
	"encoding/binary"

	"candela.dev/candela/packet"
)

// Datagram is the IP datagram of a frame.
type Datagram struct {
	IPv6      bool
	DSCP, TTL uint8
	ECN       packet.ECN
	Next      byte   // number of the protocol
	ID        uint16 // of IPv4
	Addresses []byte // source, destination
	Body      []byte
}

// Parse parses a frame and reports whether it is a complete IP datagram. The fields refer to the frame's bytes.
func (d *Datagram) Parse(frame []byte) bool {
	if len(frame) < packet.EthernetLen {
		return false
	}
	b := frame[packet.EthernetLen:]
	switch etherType := binary.BigEndian.Uint16(frame[12:]); {
	case etherType == packet.EtherTypeIPv4 && len(b) >= packet.IPv4Len && b[0] == 0x45:
		const fragment = 0x3fff
		total := int(binary.BigEndian.Uint16(b[2:]))
		if binary.BigEndian.Uint16(b[6:])&fragment != 0 || total < packet.IPv4Len || total > len(b) {
			return false
		}
		*d = Datagram{DSCP: b[1] >> 2, ECN: packet.ECN(b[1] & 3), TTL: b[8], Next: b[9],
			ID: binary.BigEndian.Uint16(b[4:]), Addresses: b[12:20], Body: b[packet.IPv4Len:total]}
	case etherType == packet.EtherTypeIPv6 && len(b) >= packet.IPv6Len && b[0]>>4 == 6:
		length := int(binary.BigEndian.Uint16(b[4:]))
		if length > len(b)-packet.IPv6Len {
			return false
		}
		class := uint8(binary.BigEndian.Uint16(b) >> 4)
		*d = Datagram{IPv6: true, DSCP: class >> 2, ECN: packet.ECN(class & 3), TTL: b[7], Next: b[6], Addresses: b[8:40],
			Body: b[packet.IPv6Len : packet.IPv6Len+length]}
	default:
		return false
	}
	return true
}

// Src returns the bytes of the source address.
func (d *Datagram) Src() []byte { return d.Addresses[:len(d.Addresses)/2] }

// Dst returns the bytes of the destination address.
func (d *Datagram) Dst() []byte { return d.Addresses[len(d.Addresses)/2:] }

// Intact reports whether the transport's checksum, including the pseudo header, is correct (RFC 9293, 3.1).
func (d *Datagram) Intact() bool {
	return fold(uint64(d.Next)+uint64(len(d.Body))+words(d.Addresses)+words(d.Body)) == 0xffff
}
