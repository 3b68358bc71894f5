// Package fairshim is the wire format of labels between switches with core-stateless fair queueing: a shim after the IP
// header, which the edge inserts, every hop rewrites and the last hop removes.
//
// The reference model (hcsfq.md, section 3) gives it 1 byte of version and depth, 4 bytes of rate and 2 bytes for each
// node id, and says that these are 4+2d bytes. They are 5+2d, and what the shim replaces in the IP header has to go
// somewhere, too. This format has 4+2d bytes, d being the number of interior nodes from the link to the flow's parent:
// the link is not named, as each port has its own, and its two bytes hold the protocol instead. In network byte order:
//
//	byte  0   1        2                 6        8
//	      v d protocol rate (kbit/s)     node 1   node 2 …
//
// The high four bits of byte 0 are the version, the low four d, from 1 to 15. CSFQ has d = 1: six bytes, without a
// node. Rates are from 0 to 4294967295 kbit/s, or 4.29 Tb/s.
//
// The IP header announces the shim by Protocol (IPv4) or as its next header (IPv6); the number that was there is in the
// shim. Total length and header checksum count the shim. What follows is unchanged: checksums of transports hold with
// the original protocol and length in their pseudo header.
package fairshim

import (
	"encoding/binary"
	"errors"
	"fmt"

	"candela.dev/candela/packet"
)

const (
	// Protocol is the number for experiments (RFC 3692, 2.1).
	Protocol = 253
	// MaxDepth is how many nodes a path has at most, the link included.
	MaxDepth = 15
	// MaxSize is the size of the largest shim.
	MaxSize = 4 + 2*MaxDepth
	// UnitBPS is the unit of rates in bit/s.
	UnitBPS = 1000

	version = 1
	fixed   = 6 // bytes before the nodes
)

// Size returns the bytes of a shim with so many nodes, the link included.
func Size(depth int) int { return 4 + 2*depth }

// Header is a shim.
type Header struct {
	Next  byte   // protocol of what follows
	Depth uint8  // nodes from the link to the flow's parent, 1 to MaxDepth
	Kbps  uint32 // label in kbit/s
	ids   [MaxDepth - 1]uint16
}

// Nodes returns the nodes below the link, in the order of the path; the caller only reads them.
func (h *Header) Nodes() []uint16 { return h.ids[:min(max(h.Depth, 1), MaxDepth)-1] }

// SetNodes sets the nodes below the link, at most MaxDepth-1, and with them the depth.
func (h *Header) SetNodes(ids ...uint16) { h.Depth = 1 + uint8(copy(h.ids[:], ids)) }

// Parent returns the last node of the path; 0: the link.
func (h *Header) Parent() uint16 {
	if n := h.Nodes(); len(n) > 0 {
		return n[len(n)-1]
	}
	return 0
}

// Size returns the bytes of the shim.
func (h *Header) Size() int { return Size(int(h.Depth)) }

// ErrForeign is wrapped by errors of Parse.
var ErrForeign = errors.New("not a label of this version")

// Parse decodes a shim from the front of b, what follows an IP header with Protocol. On error h is unchanged.
func (h *Header) Parse(b []byte) error {
	if len(b) < fixed {
		return fmt.Errorf("%w: %d bytes, want at least %d", ErrForeign, len(b), fixed)
	}
	depth := int(b[0] & 0xf)
	switch {
	case b[0]>>4 != version:
		return fmt.Errorf("%w: byte 0: version %d, want %d", ErrForeign, b[0]>>4, version)
	case depth == 0:
		return fmt.Errorf("%w: byte 0: no node, want 1 to %d", ErrForeign, MaxDepth)
	case b[1] == Protocol:
		return fmt.Errorf("%w: byte 1: protocol %d announces a second label", ErrForeign, b[1])
	case len(b) < Size(depth):
		return fmt.Errorf("%w: %d bytes, want %d with %d nodes", ErrForeign, len(b), Size(depth), depth)
	}
	of := Header{Next: b[1], Depth: uint8(depth), Kbps: binary.BigEndian.Uint32(b[2:])}
	for i, before := 0, uint16(0); i < depth-1; i++ {
		at := fixed + 2*i
		of.ids[i] = binary.BigEndian.Uint16(b[at:])
		if of.ids[i] <= before { // of a tree parents have smaller numbers
			return fmt.Errorf("%w: byte %d: node %d is below node %d, want a number above it", ErrForeign, at, of.ids[i], before)
		}
		before = of.ids[i]
	}
	*h = of
	return nil
}

// AppendTo appends the shim to b. What follows it, by the caller.
func (h *Header) AppendTo(b []byte) []byte {
	b = append(b, version<<4|h.Depth, h.Next)
	b = binary.BigEndian.AppendUint32(b, h.Kbps)
	for _, id := range h.Nodes() {
		b = binary.BigEndian.AppendUint16(b, id)
	}
	return b
}

// String prints the shim on one line.
func (h *Header) String() string {
	return fmt.Sprintf("label %s at nodes %d then protocol %d", RateText(h.Kbps), append([]uint16{0}, h.Nodes()...),
		h.Next)
}

// RateText prints a rate in kbit/s for people.
func RateText(kbps uint32) string {
	switch rate := float64(kbps); {
	case rate >= 1e6:
		return fmt.Sprintf("%.4g Gb/s", rate/1e6)
	case rate >= 1e3:
		return fmt.Sprintf("%.4g Mb/s", rate/1e3)
	}
	return fmt.Sprintf("%d kb/s", kbps)
}

// network is the IP header of an Ethernet frame.
type network struct {
	at, end       int // in the frame; end: of the header
	protocol, sum int // offsets of its fields; sum 0: there is none
	length        int // offset of the length
	counted       int // bytes of the header that the length counts
}

// locate finds the IP header of an untagged frame.
func locate(frame []byte) (n network, err error) {
	const at = packet.EthernetLen
	if len(frame) < at+packet.IPv4Len {
		return n, fmt.Errorf("frame of %d bytes has no IP header", len(frame))
	}
	switch etherType := binary.BigEndian.Uint16(frame[12:]); {
	case etherType == packet.EtherTypeIPv4 && frame[at]>>4 == 4:
		n = network{at: at, end: at + 4*int(frame[at]&0xf), protocol: at + 9, sum: at + 10, length: at + 2}
		n.counted = n.end - n.at
	case etherType == packet.EtherTypeIPv6 && frame[at]>>4 == 6:
		n = network{at: at, end: at + packet.IPv6Len, protocol: at + 6, length: at + 4}
	default:
		return n, fmt.Errorf("byte 12: EtherType %#04x does not lead to an IP header", etherType)
	}
	if n.end < at+packet.IPv4Len || n.end > len(frame) {
		return n, fmt.Errorf("byte %d: IP header of %d bytes in a frame of %d", at, n.end-at, len(frame))
	}
	return n, nil
}

// set writes protocol, length and checksum.
func (n *network) set(frame []byte, protocol byte, length int) {
	frame[n.protocol] = protocol
	binary.BigEndian.PutUint16(frame[n.length:], uint16(length))
	if n.sum != 0 {
		frame[n.sum], frame[n.sum+1] = 0, 0
		binary.BigEndian.PutUint16(frame[n.sum:], packet.HeaderChecksum(frame[n.at:n.end]))
	}
}

// Insert puts a shim into the frame that begins at start of b and ends with it, an untagged Ethernet frame with an IP
// header. Next is set to the protocol of the frame. On error b is unchanged.
func (h *Header) Insert(b []byte, start int) ([]byte, error) {
	n, err := locate(b[start:])
	if err != nil {
		return b, err
	}
	frame, size := b[start:], h.Size()
	length := int(binary.BigEndian.Uint16(frame[n.length:])) + size
	switch {
	case frame[n.protocol] == Protocol:
		return b, fmt.Errorf("byte %d: protocol %d: the frame has a label", n.protocol, Protocol)
	case length > 0xffff:
		return b, fmt.Errorf("byte %d: a length of %d, want at most %d", n.length, length, 0xffff)
	}
	h.Next = frame[n.protocol]
	var shim [MaxSize]byte
	b = append(b, shim[:size]...)
	frame = b[start:]
	copy(frame[n.end+size:], frame[n.end:len(frame)-size])
	h.AppendTo(frame[n.end:n.end])
	n.set(frame, Protocol, length)
	return b, nil
}

// Remove takes the shim out of an untagged Ethernet frame with an IP header and returns the frame without it, in the
// same memory. ok is false, and the frame unchanged, if its IP header does not announce one.
func (h *Header) Remove(frame []byte) (plain []byte, ok bool, err error) {
	n, err := locate(frame)
	if err != nil || frame[n.protocol] != Protocol {
		return frame, false, nil
	}
	body := frame[n.end:]
	if length := int(binary.BigEndian.Uint16(frame[n.length:])) - n.counted; length < len(body) {
		body = body[:max(0, length)] // padding is not part of the packet
	}
	if err := h.Parse(body); err != nil {
		return frame, false, fmt.Errorf("after the IP header, at byte %d: %w", n.end, err)
	}
	size := h.Size()
	length := int(binary.BigEndian.Uint16(frame[n.length:])) - size
	copy(frame[n.end:], frame[n.end+size:])
	frame = frame[:len(frame)-size]
	n.set(frame, h.Next, length)
	return frame, true, nil
}
