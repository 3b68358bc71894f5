package fair

import (
	"candela.dev/candela/fair"
	"candela.dev/candela/packet/fairshim"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// labelShim returns what fills in the shim of a packet: by its label, and the path of the label's node.
func labelShim(set *fair.Settings) func(h *fabric.Header, shim *fairshim.Header) {
	paths := make([][]uint16, len(set.Nodes)) // below the link
	for i := 1; i < len(set.Nodes); i++ {
		parent := paths[set.Nodes[i].Parent]
		paths[i] = append(parent[:len(parent):len(parent)], uint16(i))
	}
	return func(h *fabric.Header, shim *fairshim.Header) {
		node, rate := fair.OfLabel(h.Rank)
		shim.SetNodes(paths[min(node, len(paths)-1)]...)
		shim.Kbps = uint32(inShim(rate) / fair.ShimUnit)
	}
}

// inShim returns a rate as a shim has it.
func inShim(rate uint64) uint64 {
	const most = 1<<32 - 1
	return min(rate/fair.ShimUnit, most) * fair.ShimUnit
}

// shimSizes returns the bytes of shims, by the node of the label.
func shimSizes(set *fair.Settings) (sizes []int32) {
	if !set.Shim {
		return nil
	}
	for node := range set.Nodes {
		sizes = append(sizes, int32(fair.ShimBytes(set.Layers(node))))
	}
	return sizes
}

// labelled reports whether a packet of another switch has a label.
func (m *Mechanism) labelled(p *fabric.Packet) bool {
	return p.Flags&fabric.Ranked != 0 && (m.shims == nil || p.Flags&fabric.Shimmed != 0)
}

// shimOf returns the bytes of the shim that a packet has.
func (m *Mechanism) shimOf(p *fabric.Packet) int32 {
	if m.shims == nil || p.Flags&fabric.Shimmed == 0 {
		return 0
	}
	node, _ := fair.OfLabel(p.Rank)
	return m.shims[min(node, len(m.shims)-1)]
}

// nextShim returns the bytes of the shim with which a packet leaves by a port.
func (m *Mechanism) nextShim(parent int, at *egress) int32 {
	if m.shims == nil || at.last && !m.faults.keepsShim || m.faults.dropsShim {
		return 0
	}
	return m.shims[parent]
}

// resize gives a packet with a shim of came bytes one of next bytes.
func (m *Mechanism) resize(p *fabric.Packet, came, next int32) {
	p.Size += next - came
	p.Original += next - came
	if p.Flags &^= fabric.Shimmed; next > 0 {
		p.Flags |= fabric.Shimmed
	}
}

// relabel writes the label for the next hop, as a shim of next bytes if that is not 0.
func (m *Mechanism) relabel(p *fabric.Packet, parent int, before, after uint64, next int32) {
	if next > 0 && m.faults.staleShim {
		after = inShim(before)
	}
	if next > 0 && m.faults.shimUnits {
		after = inShim(after / fair.ShimUnit)
	}
	if p.SetRank(fair.Label(parent, after)); m.shims != nil && next == 0 {
		m.unlabel(p, 0)
	}
}

// unlabel takes off the label, with the shim of size bytes that has it.
func (m *Mechanism) unlabel(p *fabric.Packet, size int32) {
	m.resize(p, size, 0)
	p.Rank = 0
	p.Flags &^= fabric.Ranked
}
