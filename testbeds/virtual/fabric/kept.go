package fabric

import "candela.dev/candela/generator/wire"

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

// Frame returns the frame that p was made of, nil if there is none. It is valid while p exists and is not to be
// changed.
func (n *Network) Frame(p *Packet) []byte { return n.frame(p) }

// frame returns the frame that p was made of, nil if there is none.
func (n *Network) frame(p *Packet) []byte {
	if int(p.number) >= len(n.frames) || n.frames[p.number].id != p.ID {
		return nil
	}
	return n.frames[p.number].bytes
}

// SetCodecs says how the packets of transports become frames. A protocol without a codec is carried as UDP datagrams of
// zeros.
func (n *Network) SetCodecs(c *wire.Codecs) { n.codecs = c }

// Codecs returns what SetCodecs set.
func (n *Network) Codecs() *wire.Codecs { return n.codecs }

// AppendFrame appends p as a frame: the one that it was made of with what switches changed, or, if none is kept, a new
// one.
func (n *Network) AppendFrame(b []byte, p *Packet) []byte {
	if p.Protocol == PFC {
		return p.appendPause(b)
	}
	if frame := n.frame(p); frame != nil {
		return n.codecs.AppendEdited(b, &p.Header, frame)
	}
	return n.codecs.Append(b, &p.Header, nil)
}
