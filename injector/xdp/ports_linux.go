package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"candela.dev/candela/injector/p4"
)

// SetCloneSession sets the mirror port of a clone session; none deletes it. A broadcast redirect reaches one forward
// and one mirror port, so a session has one port.
func (d *Datapath) SetCloneSession(id uint32, ports []uint16) error {
	switch {
	case id == 0 || id >= maxSessions:
		return fmt.Errorf("clone session %d is not in 1…%d", id, maxSessions-1)
	case len(ports) > 1:
		return fmt.Errorf(
			"clone session %d has %d ports: the xdp datapath copies a packet to one; give each dumper a session",
			id, len(ports))
	case len(ports) == 0:
		delete(d.sessions, id)
		return d.table(bpfMapSessions).Put(id, uint32(MaxPorts))
	}
	mirror := ports[0]
	if err := d.checkPort(uint64(mirror)); err != nil {
		return err
	}
	for egress := range uint32(len(d.ports)) {
		if err := d.pair(egress, mirror); err != nil {
			return err
		}
	}
	if err := d.pair(floodPort, mirror); err != nil {
		return err
	}
	d.sessions[id] = mirror
	return d.table(bpfMapSessions).Put(id, uint32(mirror))
}

// pair makes the map of a broadcast redirect to an egress port, or to the flood group, and a mirror port.
func (d *Datapath) pair(egress uint32, mirror uint16) error {
	index := egress*MaxPorts + uint32(mirror)
	m := d.pairs[index]
	if m != nil && egress != floodPort {
		return nil
	}
	if m == nil {
		spec, err := loadBpf()
		if err != nil {
			return err
		}
		if m, err = ebpf.NewMap(spec.Maps[bpfMapPairs].InnerMap); err != nil {
			return fmt.Errorf("redirect map of ports %d and %d: %w", egress, mirror, err)
		}
		d.pairs[index] = m
		if err := d.table(bpfMapPairs).Put(index, uint32(m.FD())); err != nil {
			return fmt.Errorf("redirect map of ports %d and %d: %w", egress, mirror, err)
		}
	}
	if egress == floodPort {
		return errors.Join(d.device(m, MaxPorts, mirror, bpfProgCopy), d.fill(m))
	}
	// The kernel handles the last entry first: the receiver's processing begins before the dumper's.
	return errors.Join(d.device(m, 0, mirror, bpfProgCopy), d.device(m, MaxPorts, uint16(egress), bpfProgForward))
}

// fill makes the first MaxPorts entries of a device map the flood group.
func (d *Datapath) fill(m *ebpf.Map) error {
	member := d.members()
	for i := range uint32(MaxPorts) {
		if !member[i] {
			d.note("leave the flood group", m.Delete(i))
			continue
		}
		if err := d.device(m, i, uint16(i), bpfProgForward); err != nil {
			return err
		}
	}
	return nil
}

func (d *Datapath) members() (member [MaxPorts]bool) {
	for _, port := range d.group {
		member[port] = true
	}
	return member
}

// SetMulticastGroup sets the ports of a multicast group; none deletes it. Only [p4.FloodGroup] is used.
func (d *Datapath) SetMulticastGroup(id uint32, ports []uint16) error {
	for _, port := range ports {
		if err := d.checkPort(uint64(port)); err != nil {
			return err
		}
	}
	if id != p4.FloodGroup {
		return nil
	}
	d.group = ports
	for i, member := range d.members() {
		if err := d.table(bpfMapGroupPorts).Put(uint32(i), uint32(flag(member))); err != nil {
			return err
		}
	}
	if err := d.fill(d.table(bpfMapGroup)); err != nil {
		return err
	}
	for _, mirror := range d.sessions {
		if err := d.pair(floodPort, mirror); err != nil {
			return err
		}
	}
	return d.Fault()
}

// Hits returns the direct counter of an event entry, 0 if there is no such entry.
func (d *Datapath) Hits(table uint32, k p4.Key) uint64 {
	key, ok := eventKey(table, k)
	index, known := d.indices[key]
	if !ok || !known {
		return 0
	}
	var cpus []uint64
	d.note("read hits", d.table(bpfMapHits).Lookup(index, &cpus))
	var sum uint64
	for _, n := range cpus {
		sum += n
	}
	return sum
}

// SetHits sets the direct counter of an event entry; it does nothing if there is none.
func (d *Datapath) SetHits(table uint32, k p4.Key, hits uint64) {
	key, ok := eventKey(table, k)
	if index, known := d.indices[key]; ok && known {
		d.note("write hits", d.putCounts(bpfMapHits, index, hits))
	}
}

var counterMaps = map[uint32]string{
	p4.CounterRoCERx:   bpfMapRoceRx,
	p4.CounterRoCETx:   bpfMapRoceTx,
	p4.CounterPauseRx:  bpfMapPauseRx,
	p4.CounterMirrored: bpfMapMirrored,
}

// Counter returns a cell of an indirect counter; cells that the program does not have are zero.
func (d *Datapath) Counter(id uint32, index int) (packets, bytes uint64) {
	name, ok := counterMaps[id]
	if !ok || index < 0 || index >= int(d.table(name).MaxEntries()) {
		return 0, 0
	}
	var cpus []bpfCount
	d.note("read "+name, d.table(name).Lookup(uint32(index), &cpus))
	for _, c := range cpus {
		packets += c.Packets
		bytes += c.Bytes
	}
	return packets, bytes
}

// SetCounter sets a cell of an indirect counter.
func (d *Datapath) SetCounter(id uint32, index int, packets, bytes uint64) {
	name, ok := counterMaps[id]
	if !ok || index < 0 || index >= int(d.table(name).MaxEntries()) {
		return
	}
	d.note("write "+name, d.putCounts(name, uint32(index), bpfCount{Packets: packets, Bytes: bytes}))
}

// putCounts sets a per-CPU cell: all of it on the first CPU.
func (d *Datapath) putCounts(name string, index uint32, value any) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	switch v := value.(type) {
	case uint64:
		cells := make([]uint64, cpus)
		cells[0] = v
		return d.table(name).Put(index, cells)
	case bpfCount:
		cells := make([]bpfCount, cpus)
		cells[0] = v
		return d.table(name).Put(index, cells)
	}
	return fmt.Errorf("xdp: %s has no cells of %T", name, value)
}
