package xdp

import "candela.dev/candela/injector/p4"

// For a connection over IPv4 the program first reads a cell, which names a slot with key and flow, and uses the hash
// map only if the cell is another connection's: a hash lookup costs as much as the rest of the decision.
const (
	flowCells = 4 * p4.MaxFlows
	flowSlots = 2 * p4.MaxFlows
)

// connections says which slot the cell of a connection names.
type connections struct {
	cells map[uint32]cell // by place
	free  []uint32        // slots, the one freed last at the end: the program may still read it for a packet in flight
}

type cell struct {
	owner bpfV4Key
	slot  uint32
}

func newConnections() connections {
	c := connections{cells: map[uint32]cell{}, free: make([]uint32, flowSlots)}
	for i := range c.free {
		c.free[i] = uint32(i)
	}
	return c
}

// cellOf is the program's cell_of.
func cellOf(k bpfV4Key) uint32 {
	x := (uint64(k.Src)<<32 | uint64(k.Dst)) * 0x9e3779b97f4a7c15
	return (uint32(x>>32) + k.Qpn) & (flowCells - 1)
}

// setConnection writes the hash map, which has room for all, and a slot unless the cell is another connection's. A new
// flow of a known connection gets a new slot: the cell is one word, so the program sees either the old flow or the new
// one.
func (d *Datapath) setConnection(k bpfV4Key, f bpfFlow) error {
	if err := d.table(bpfMapConnectionV4).Put(k, f); err != nil {
		return err
	}
	c := &d.connections
	place := cellOf(k)
	old, taken := c.cells[place]
	if taken && old.owner != k {
		return nil
	}
	slot := c.free[0]
	if err := d.table(bpfMapFlowSlots).Put(slot, bpfSlot{Key: k, Flow: f}); err != nil {
		return err
	}
	if err := d.table(bpfMapFlowCells).Put(place, slot+1); err != nil {
		return err
	}
	c.free = c.free[1:]
	if taken {
		c.free = append(c.free, old.slot)
	}
	c.cells[place] = cell{k, slot}
	return nil
}

func (d *Datapath) unsetConnection(k bpfV4Key) {
	place := cellOf(k)
	if old, taken := d.connections.cells[place]; taken && old.owner == k {
		d.note("delete connection", d.table(bpfMapFlowCells).Put(place, uint32(0)))
		delete(d.connections.cells, place)
		d.connections.free = append(d.connections.free, old.slot)
	}
	d.note("delete connection", d.table(bpfMapConnectionV4).Delete(k))
}
