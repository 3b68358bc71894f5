package fabric

import (
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet/fairshim"
)

// keptFrame is the original frame of a packet. It is valid only while the packet has the ID, because packet numbers are
// reused.
type keptFrame struct {
	id    uint64
	bytes []byte
}

// KeepFrames makes the network keep the original frames of packets (SetFrame), as a live switch needs: bytes that no
// header describes then pass unchanged.
func (n *Network) KeepFrames() {
	if len(n.parts) > 1 {
		panic("fabric: only a network that one worker simulates keeps frames")
	}
	if n.frames == nil {
		n.frames = make([]keptFrame, 0, slab)
	}
}

// SetFrame sets the original frame of p, which a stack is filling in (Stack.Poll). The bytes are copied.
func (n *Network) SetFrame(p *Packet, frame []byte) {
	for len(n.frames) <= int(p.number) {
		n.frames = append(n.frames, keptFrame{})
	}
	k := &n.frames[p.number]
	k.id, k.bytes = p.ID, append(k.bytes[:0], frame...)
}

// copyFrame gives c, a copy of p, the same original frame.
func (n *Network) copyFrame(c, p *Packet) {
	if n.frames == nil {
		return
	}
	if frame := n.frame(p); frame != nil {
		n.SetFrame(c, frame)
	}
}

// Frame returns the original frame of p; nil: none. It is valid while p exists and must not be changed.
func (n *Network) Frame(p *Packet) []byte { return n.frame(p) }

// frame returns the original frame of p; nil: none.
func (n *Network) frame(p *Packet) []byte {
	if int(p.number) >= len(n.frames) || n.frames[p.number].id != p.ID {
		return nil
	}
	return n.frames[p.number].bytes
}

// SetCodecs sets the codecs that turn packets of transports into frames. A protocol without a codec is carried as UDP
// datagrams of zeros.
func (n *Network) SetCodecs(c *wire.Codecs) { n.codecs = c }

// Codecs returns the codecs set by SetCodecs.
func (n *Network) Codecs() *wire.Codecs { return n.codecs }

// AppendFrame appends p as a frame: its original frame with the changes made by switches or, if none is kept, a new
// frame.
func (n *Network) AppendFrame(b []byte, p *Packet) []byte {
	if p.Protocol == PFC {
		return p.appendPause(b)
	}
	if size := n.shimOf(p); size > 0 {
		return n.appendShimmed(b, p, size)
	}
	return n.appendPlain(b, p, &p.Header)
}

// appendPlain appends p with the header h.
func (n *Network) appendPlain(b []byte, p *Packet, h *Header) []byte {
	if frame := n.frame(p); frame != nil {
		return n.codecs.AppendEdited(b, h, frame)
	}
	return n.codecs.Append(b, h, nil)
}

// shimOf returns how many bytes the shim of a packet takes.
func (n *Network) shimOf(p *Packet) int {
	if p.Flags&Shimmed == 0 || n.spec.Switch.LabelShim == nil {
		return 0
	}
	var shim fairshim.Header
	n.spec.Switch.LabelShim(&p.Header, &shim)
	return shim.Size()
}

// appendShimmed appends p with its shim of size bytes, which has the label that the payload has otherwise.
func (n *Network) appendShimmed(b []byte, p *Packet, size int) []byte {
	var shim fairshim.Header
	n.spec.Switch.LabelShim(&p.Header, &shim)
	plain, start := p.Header, len(b)
	plain.Size, plain.Original = plain.Size-int32(size), plain.Original-int32(size)
	plain.Flags &^= Shimmed | Ranked
	b, err := shim.Insert(n.appendPlain(b, p, &plain), start)
	if err != nil { // it has an IP header, and one shim
		panic(err)
	}
	return b
}
