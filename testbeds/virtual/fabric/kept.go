package fabric

import (
	"encoding/binary"

	"candela.dev/candela/packet"
	"candela.dev/candela/packet/ndp"
)

// keptFrame is the frame that a packet was made of. It is the packet's for as long as that has the ID: numbers of
// packets are used again.
type keptFrame struct {
	id    uint64
	bytes []byte
}

// KeepFrames has the network keep frames that packets are made of (SetFrame), as a live switch needs: what no header
// describes passes unchanged.
func (n *Network) KeepFrames() {
	if n.frames == nil {
		n.frames = make([]keptFrame, 0, slab)
	}
}

// SetFrame says which frame p, which a stack is filling in (Stack.Poll), is made of. The bytes are copied.
func (n *Network) SetFrame(p *Packet, frame []byte) {
	for len(n.frames) <= int(p.number) {
		n.frames = append(n.frames, keptFrame{})
	}
	k := &n.frames[p.number]
	k.id, k.bytes = p.ID, append(k.bytes[:0], frame...)
}

// copyFrame has c, a copy of p, made of the same frame.
func (n *Network) copyFrame(c, p *Packet) {
	if n.frames == nil {
		return
	}
	if frame := n.frame(p); frame != nil {
		n.SetFrame(c, frame)
	}
}

// frame returns the frame that p was made of, nil if there is none.
func (n *Network) frame(p *Packet) []byte {
	if int(p.number) >= len(n.frames) || n.frames[p.number].id != p.ID {
		return nil
	}
	return n.frames[p.number].bytes
}

// AppendFrame appends p as a frame: the one that it was made of with what switches changed, or, if none is kept,
// Packet.AppendFrame's.
func (n *Network) AppendFrame(b []byte, p *Packet) []byte {
	frame := n.frame(p)
	if frame == nil || p.Protocol == PFC {
		return p.AppendFrame(b)
	}
	return p.appendEdited(b, frame)
}

// appendEdited appends frame, which p was made of, with what switches changed: addresses, size, class, TTL, marks.
// Transport checksums stay as they are: those of the packet as it was sent.
func (p *Packet) appendEdited(b, frame []byte) []byte {
	at, size := len(b), int(p.Size)
	b = append(b, frame[:min(size, len(frame))]...)
	for len(b)-at < size {
		b = append(b, 0)
	}
	edited := b[at:]
	if len(edited) < p.MinFrame() {
		return b // cut within its headers: nothing says how
	}
	dst, src := p.Dst.MAC(), p.Src.MAC()
	copy(edited, dst[:])
	copy(edited[len(dst):], src[:])
	length, whole := size-p.networkLen(), int(p.Original)-p.networkLen()
	announced := length
	if p.Flags&LengthStale != 0 {
		announced = whole
	}
	summed := announced
	if p.Flags&HeaderSumStale != 0 {
		summed = whole
	}
	ip := edited[packet.EthernetLen:]
	if p.IPv6 {
		p.editIPv6(ip, announced)
	} else {
		p.editIPv4(ip, announced, summed)
	}
	p.editTransport(edited[p.networkLen():], announced)
	return b
}

func (p *Packet) editIPv4(ip []byte, length, summed int) {
	ip[1], ip[8] = p.DSCP<<2|uint8(p.ECN), p.TTL
	src, dst := p.Src.IPv4().As4(), p.Dst.IPv4().As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	binary.BigEndian.PutUint16(ip[2:], uint16(packet.IPv4Len+summed))
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], packet.HeaderChecksum(ip[:packet.IPv4Len]))
	binary.BigEndian.PutUint16(ip[2:], uint16(packet.IPv4Len+length))
}

func (p *Packet) editIPv6(ip []byte, length int) {
	class := uint32(p.DSCP<<2 | uint8(p.ECN))
	const label = 0xfffff
	binary.BigEndian.PutUint32(ip, 6<<28|class<<20|binary.BigEndian.Uint32(ip)&label)
	binary.BigEndian.PutUint16(ip[4:], uint16(length))
	ip[7] = p.TTL
	src, dst := p.Src.IPv6().As16(), p.Dst.IPv6().As16()
	copy(ip[8:], src[:])
	copy(ip[24:], dst[:])
}

func (p *Packet) editTransport(b []byte, length int) {
	if p.Protocol == TCP || p.Protocol == Echo {
		return
	}
	if (p.Flags&Returned != 0) != (p.Flags&PortsSwapped != 0) {
		var near [2]byte
		copy(near[:], b)
		copy(b, b[2:4])
		copy(b[2:], near[:])
	}
	binary.BigEndian.PutUint16(b[4:], uint16(length))
	if p.Protocol == NDP && len(b) >= packet.UDPLen+ndp.Size {
		b[packet.UDPLen+3] = byte(p.NDP.Flags)
	}
}
