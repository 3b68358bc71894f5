package wire

import (
	"encoding/binary"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Protocol numbers above IP, besides packet.ProtocolUDP.
const (
	ProtocolICMP   = 1
	ProtocolTCP    = 6
	ProtocolICMPv6 = 58
)

// Codec encodes and decodes the IP payload of one transport.
type Codec struct {
	IPv4, IPv6 byte // numbers of the protocol (RFC 790)
	Len        int  // bytes of its header
	// Append appends the header with its checksum, then payload. The datagram has length bytes, whole bytes before
	// trimming.
	Append func(b []byte, h *Header, payload []byte, length, whole int) []byte
	// Edit writes the header fields that switches may change into a datagram of an earlier h. nil: no such fields.
	Edit func(b []byte, h *Header, length int)
	// Tag returns the first bytes of the payload on real links; no header carries them. nil: none.
	Tag func(h *Header) []byte
	// Port is the destination port of a transport over UDP, 0 otherwise. Senders use ports from DynamicPort on.
	Port uint16
	// Reply is the destination port of answers, which have the flag Returned; 0: the sender's port, and answers come from
	// Port.
	Reply uint16
	// Parse fills h from a UDP payload, and reports whether that is a packet of the transport.
	Parse func(body []byte, h *Header) bool
}

// HeaderSize returns the bytes of all headers of a full packet, without FCS.
func (c *Codec) HeaderSize(v6 bool) int { return HeaderLen(v6) + c.Len }

// next returns the IP protocol number.
func (c *Codec) next(v6 bool) byte {
	if v6 {
		return c.IPv6
	}
	return c.IPv4
}

// Ports of frames: a packet's entropy selects the sender's port in the dynamic range (RFC 6335).
const (
	DynamicPort = 0xc000
	PortMask    = 0x3fff
)

// Port returns the sender's port of a packet.
func (h *Header) Port() uint16 { return DynamicPort | h.Entropy&PortMask }

// Codecs has the codec of each protocol. A protocol without one is encoded as UDP datagrams of zeros.
type Codecs [trace.Protocols]*Codec

// Of returns the codec of a protocol.
func (c *Codecs) Of(p trace.Protocol) *Codec {
	if of := c[p]; of != nil {
		return of
	}
	return zeros
}

var zeros = UDP{Port: DiscardPort}.Codec()

// MinFrame returns the least Size that keeps all headers of a packet.
func (c *Codecs) MinFrame(h *Header) int { return c.Of(h.Protocol).HeaderSize(h.IPv6) }

// Append appends a packet as an Ethernet frame of Size bytes without FCS. Payload and the packet's rank, if it has one,
// follow the transport header; the rest is zero. Lengths and checksums are valid, except those that the packet's flags
// mark as stale: these have the values of the packet as sent. A frame shorter than its headers is truncated.
func (c *Codecs) Append(b []byte, h *Header, payload []byte) []byte {
	start, of := len(b), c.Of(h.Protocol)
	if h.Flags&trace.Ranked != 0 {
		payload = h.appendRank(payload)
	}
	dst, src := h.Dst.MAC(), h.Src.MAC()
	b = append(append(b, dst[:]...), src[:]...)
	announced, summed, whole := h.lengths()
	if next := of.next(h.IPv6); h.IPv6 {
		b = h.appendIPv6(b, next, announced)
	} else {
		b = h.appendIPv4(b, next, announced, summed)
	}
	return Fit(of.Append(b, h, payload, announced, whole), start, int(h.Size))
}

// AppendTagged is Append for frames on real links.
func (c *Codecs) AppendTagged(b []byte, h *Header) []byte {
	var payload []byte
	if tag := c.Of(h.Protocol).Tag; tag != nil {
		payload = tag(h)
	}
	return c.Append(b, h, payload)
}

// AppendEdited appends frame, the packet's original encoding, with the changes of switches: addresses, size, class,
// TTL, marks. Transport checksums keep the values of the packet as sent.
func (c *Codecs) AppendEdited(b []byte, h *Header, frame []byte) []byte {
	at, of := len(b), c.Of(h.Protocol)
	b = Fit(append(b, frame...), at, int(h.Size))
	edited := b[at:]
	if len(edited) < of.HeaderSize(h.IPv6) {
		return b // truncated within its headers
	}
	dst, src := h.Dst.MAC(), h.Src.MAC()
	copy(edited, dst[:])
	copy(edited[len(dst):], src[:])
	announced, summed, _ := h.lengths()
	ip := edited[packet.EthernetLen:]
	if h.IPv6 {
		h.editIPv6(ip, announced)
	} else {
		h.editIPv4(ip, announced, summed)
	}
	if of.Edit != nil {
		of.Edit(edited[HeaderLen(h.IPv6):], h, announced)
	}
	return b
}

// Fit cuts the frame that begins at start of b to size, or pads it with zeros.
func Fit(b []byte, start, size int) []byte {
	if have := len(b) - start; have > size {
		return b[:start+size]
	}
	for len(b)-start < size {
		b = append(b, make([]byte, min(64, size-(len(b)-start)))...)
	}
	return b
}

// lengths returns the lengths after the IP header: the one that IP announces, the one that its checksum covers, and the
// one of the packet before trimming.
func (h *Header) lengths() (announced, summed, whole int) {
	announced, whole = int(h.Size)-HeaderLen(h.IPv6), int(h.Original)-HeaderLen(h.IPv6)
	if h.Flags&trace.LengthStale != 0 {
		announced = whole
	}
	if summed = announced; h.Flags&trace.HeaderSumStale != 0 {
		summed = whole
	}
	return announced, summed, whole
}

const noFragment = 0x4000

// appendIPv4 appends EtherType and header. The checksum is that of a packet of summed bytes.
func (h *Header) appendIPv4(b []byte, next byte, length, summed int) []byte {
	b = binary.BigEndian.AppendUint16(b, packet.EtherTypeIPv4)
	at := len(b)
	b = append(b, 0x45, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(h.ID))
	b = binary.BigEndian.AppendUint16(b, noFragment)
	b = append(b, 0, next, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	h.editIPv4(b[at:], length, summed)
	return b
}

func (h *Header) editIPv4(ip []byte, length, summed int) {
	ip[1], ip[8] = h.DSCP<<2|uint8(h.ECN), h.TTL
	src, dst := h.Src.IPv4().As4(), h.Dst.IPv4().As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	binary.BigEndian.PutUint16(ip[2:], uint16(packet.IPv4Len+summed))
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], packet.HeaderChecksum(ip[:packet.IPv4Len]))
	binary.BigEndian.PutUint16(ip[2:], uint16(packet.IPv4Len+length))
}

// appendIPv6 appends EtherType and header. The flow label (RFC 6437) is a hash of flow and entropy, equal in both
// directions.
func (h *Header) appendIPv6(b []byte, next byte, length int) []byte {
	b = binary.BigEndian.AppendUint16(b, packet.EtherTypeIPv6)
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(Mix(uint64(h.Flow)<<16|uint64(h.Entropy)))&flowLabel)
	b = append(b, 0, 0, next, 0)
	b = append(b, make([]byte, 32)...)
	h.editIPv6(b[at:], length)
	return b
}

const flowLabel = 0xfffff

func (h *Header) editIPv6(ip []byte, length int) {
	class := uint32(h.DSCP<<2 | uint8(h.ECN))
	binary.BigEndian.PutUint32(ip, 6<<28|class<<20|binary.BigEndian.Uint32(ip)&flowLabel)
	binary.BigEndian.PutUint16(ip[4:], uint16(length))
	ip[7] = h.TTL
	src, dst := h.Src.IPv6().As16(), h.Dst.IPv6().As16()
	copy(ip[8:], src[:])
	copy(ip[24:], dst[:])
}

// Mix spreads a number over 64 bits.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Checksum writes the checksum of a datagram at offset of b. The datagram has length bytes: b, then zeros. It includes
// the pseudo header unless next, the protocol number, is ICMP.
func (h *Header) Checksum(b []byte, next byte, offset, length int) {
	var total uint64
	if next != ProtocolICMP {
		total = h.pseudoHeader(next) + uint64(length)
	}
	check := ^uint16(fold(total + words(b[:max(0, min(len(b), length))])))
	if check == 0 && next != ProtocolICMP && next != ProtocolICMPv6 {
		check = 0xffff // 0 means no checksum (RFC 768)
	}
	binary.BigEndian.PutUint16(b[offset:], check)
}

// pseudoHeader returns the checksum of addresses and protocol, without the length.
func (h *Header) pseudoHeader(next byte) uint64 {
	total := uint64(next)
	for _, host := range [2]HostID{h.Src, h.Dst} {
		if h.IPv6 {
			a := host.IPv6().As16()
			total += words(a[:])
		} else {
			a := host.IPv4().As4()
			total += words(a[:])
		}
	}
	return total
}

// words sums 16-bit words (RFC 1071); an odd byte is the upper half of a word.
func words(b []byte) (total uint64) {
	for ; len(b) >= 2; b = b[2:] {
		total += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		total += uint64(b[0]) << 8
	}
	return total
}

func fold(total uint64) uint64 {
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return total
}
