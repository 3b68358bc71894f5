package wire

import (
	"encoding/binary"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// DiscardPort is the port of datagrams without a protocol (RFC 863).
const DiscardPort = 9

// UDP is a transport over UDP.
type UDP struct {
	Port  uint16 // of its receivers
	Reply uint16 // of receivers of answers; 0: answers have the ports of requests, swapped
	Len   int    // bytes of its own header
	// Append appends the transport's header; with a stale checksum, as the packet was sent. nil: no header.
	Append func(b []byte, h *Header) []byte
	Edit   func(body []byte, h *Header) // writes the fields that switches set
	Tag    func(h *Header) []byte
	Parse  func(body []byte, h *Header) bool
}

// Codec returns the codec of the transport.
func (u UDP) Codec() *Codec {
	return &Codec{IPv4: packet.ProtocolUDP, IPv6: packet.ProtocolUDP, Len: packet.UDPLen + u.Len, Port: u.Port,
		Reply: u.Reply, Append: u.append, Edit: u.edit, Tag: u.Tag, Parse: u.Parse}
}

func (u UDP) append(b []byte, h *Header, payload []byte, length, whole int) []byte {
	near, far := h.Port(), u.Port
	switch {
	case h.Flags&trace.Returned == 0:
	case u.Reply != 0:
		far = u.Reply
	default:
		near, far = far, near
	}
	at := len(b)
	b = binary.BigEndian.AppendUint16(b, near)
	b = binary.BigEndian.AppendUint16(b, far)
	b = append(b, 0, 0, 0, 0)
	if u.Append != nil {
		b = u.Append(b, h)
	}
	b = append(b, payload...)
	if h.Flags&trace.ChecksumStale == 0 {
		whole = length
	}
	datagram := b[at:]
	binary.BigEndian.PutUint16(datagram[4:], uint16(whole))
	h.Checksum(datagram, packet.ProtocolUDP, 6, whole)
	u.finish(datagram, h, length)
	return b
}

func (u UDP) edit(b []byte, h *Header, length int) {
	switch returned := h.Flags&trace.Returned != 0; {
	case returned && u.Reply != 0:
		binary.BigEndian.PutUint16(b[2:], u.Reply)
	case returned != (h.Flags&trace.PortsSwapped != 0):
		near := binary.BigEndian.Uint16(b)
		copy(b, b[2:4])
		binary.BigEndian.PutUint16(b[2:], near)
	}
	u.finish(b, h, length)
}

// finish writes the length and the fields that switches set.
func (u UDP) finish(b []byte, h *Header, length int) {
	binary.BigEndian.PutUint16(b[4:], uint16(length))
	if body := b[packet.UDPLen:]; u.Edit != nil && len(body) >= u.Len {
		u.Edit(body, h)
	}
}

// ParseUDP fills h from a datagram and reports whether it is a packet of a transport with a codec.
func (c *Codecs) ParseUDP(b []byte, h *Header) bool {
	if len(b) < packet.UDPLen {
		return false
	}
	near, far := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	if p, returned := c.listening(near); returned && far != c[p].Reply {
		near, far, h.Flags = far, near, trace.Returned
	}
	p, ok := c.listening(far)
	if !ok || near < DynamicPort {
		return false
	}
	if far == c[p].Reply {
		h.Flags = trace.Returned
	}
	h.Protocol, h.Entropy = p, near&PortMask
	if !c[p].Parse(b[packet.UDPLen:], h) {
		return false
	}
	if len(b) > c[p].Len {
		h.ParseRank(b[c[p].Len:])
	}
	return true
}

// listening returns the protocol of a UDP port.
func (c *Codecs) listening(port uint16) (trace.Protocol, bool) {
	for p, of := range c {
		if of != nil && port != 0 && (of.Port == port || of.Reply == port) {
			return trace.Protocol(p), true
		}
	}
	return 0, false
}
