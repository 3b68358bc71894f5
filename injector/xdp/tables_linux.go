package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/trace"
)

// Limits of the program's arrays.
const (
	maxSessions = 1024
	maxTurns    = 1024
	l2Cells     = 256
	floodPort   = MaxPorts // as an egress port
)

// eventTables numbers the tables of events in the program's one map of them.
var eventTables = map[uint32]uint64{
	p4.TableEvent: 1, p4.TableEventAny: 2, p4.TableControlEvent: 3, p4.TableWatchedEvent: 4,
}

// eventKey returns the program's key of an event entry.
func eventKey(table uint32, k p4.Key) (uint64, bool) {
	number, ok := eventTables[table]
	key := number << 61
	switch table {
	case p4.TableEvent: // flow, space, psn, iter
		key |= k[0].Lo<<41 | k[1].Lo<<40 | k[2].Lo<<16 | k[3].Lo
	case p4.TableEventAny: // flow, space, psn
		key |= k[0].Lo<<25 | k[1].Lo<<24 | k[2].Lo
	case p4.TableControlEvent: // flow, class, ordinal
		key |= k[0].Lo<<20 | k[1].Lo<<16 | k[2].Lo
	case p4.TableWatchedEvent: // slot, nth
		key |= k[0].Lo<<16 | k[1].Lo
	}
	return key, ok
}

// watchKey packs flow, space, class and PSN.
func watchKey(k p4.Key) uint64 { return k[0].Lo<<29 | k[1].Lo<<28 | k[2].Lo<<24 | k[3].Lo }

// Reset forgets entries, registers and counters.
func (d *Datapath) Reset() {
	d.set(bpfVarGate, uint64(0))
	d.set(bpfVarSnap, uint32(0))
	d.set(bpfVarL2Default, uint32(floodPort))
	d.set(bpfVarWatches, uint32(0))
	d.set(bpfVarDataEntries, uint32(0))
	d.set(bpfVarControlEntries, uint32(0))
	for _, name := range []string{bpfMapConnectionV4, bpfMapConnectionV6, bpfMapEvents, bpfMapWatch, bpfMapL2} {
		d.note("clear "+name, clearHash(d.table(name)))
	}
	d.indices, d.freed = map[uint64]uint32{}, nil
	d.inData, d.controls, d.watches = map[dataEntry]bool{}, map[uint64]struct{}{}, map[uint64]struct{}{}
	d.filters, d.cells = map[uint32]bpfFilter{}, map[uint32]uint64{}
	d.sessions, d.group = map[uint32]uint16{}, nil
	d.connections = newConnections()
	d.clearArrays()
}

// clearArrays zeroes registers and counters; those of events are zeroed when an entry gets one. The next epoch would
// initialise the registers, but a pushed pipeline starts without any.
func (d *Datapath) clearArrays() {
	d.note("clear rounds", fillArray(d.table(bpfMapRounds), bpfRound{}))
	d.note("clear forwarding", fillArray(d.table(bpfMapL2Cells), uint64(0)))
	d.note("clear connections", fillArray(d.table(bpfMapFlowCells), uint32(0)))
	d.note("clear filters", fillArray(d.table(bpfMapFilters), bpfFilter{}))
	d.note("clear ordinals", fillArray(d.table(bpfMapOrdinals), uint32(0)))
	d.note("clear arrivals", fillArray(d.table(bpfMapArrivals), uint32(0)))
	d.note("clear turns", fillArray(d.table(bpfMapTurns), uint32(0)))
	d.note("clear sessions", fillArray(d.table(bpfMapSessions), uint32(MaxPorts)))
	d.note("clear group", fillArray(d.table(bpfMapGroupPorts), uint32(0)))
	d.note("clear state", fillArray(d.table(bpfMapStates), bpfState{}))
	for _, name := range []string{bpfMapRoceRx, bpfMapRoceTx, bpfMapPauseRx, bpfMapMirrored} {
		for i := range d.table(name).MaxEntries() {
			d.note("clear "+name, d.putCounts(name, i, bpfCount{}))
		}
	}
	for i := range uint32(MaxPorts) {
		d.note("clear group", d.table(bpfMapGroup).Delete(i))
	}
}

func clearHash(m *ebpf.Map) error {
	var keys [][]byte
	key := make([]byte, m.KeySize())
	value := make([]byte, m.ValueSize())
	for it := m.Iterate(); it.Next(&key, &value); {
		keys = append(keys, append([]byte(nil), key...))
	}
	for _, k := range keys {
		if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

// fillArray gives every cell of an array the same value.
func fillArray[T any](m *ebpf.Map, value T) error {
	keys := make([]uint32, m.MaxEntries())
	values := make([]T, len(keys))
	for i := range keys {
		keys[i], values[i] = uint32(i), value
	}
	_, err := m.BatchUpdate(keys, values, nil)
	return err
}

// device maps key of a device map to a port, with an egress program.
func (d *Datapath) device(m *ebpf.Map, key uint32, port uint16, program string) error {
	v := bpfBpfDevmapVal{Ifindex: uint32(d.ports[port].ifindex)}
	v.BpfProg.Fd = int32(d.shared.Programs[program].FD())
	return d.home.do(func() error { return m.Put(key, v) })
}

func (d *Datapath) checkPort(port uint64) error {
	if port >= uint64(len(d.ports)) {
		return fmt.Errorf("port %d: this switch has ports 0…%d", port, len(d.ports)-1)
	}
	return nil
}

// Set inserts an entry or replaces the action of one; a replaced entry keeps its hits.
func (d *Datapath) Set(table uint32, k p4.Key, a p4.Action) error {
	switch table {
	case p4.TableConnectionV4, p4.TableConnectionV6:
		return d.setFlow(table, k, a)
	case p4.TableWatch:
		return d.setWatch(k, a)
	case p4.TableL2Forward:
		egress, err := d.egress(a)
		if err != nil {
			return err
		}
		return d.setForwarding(k[0].Lo, egress)
	case p4.TableMirrorSlot:
		return d.setTurn(k[0].Lo, a)
	}
	return d.setEvent(table, k, a)
}

// setForwarding writes the hash map, which has room for all addresses, and the cell of the address unless another has
// it. A cell is one word, so the program sees it whole. An empty one is zero, so address 0 has none.
func (d *Datapath) setForwarding(mac uint64, egress uint32) error {
	if err := d.table(bpfMapL2).Put(mac, egress); err != nil {
		return err
	}
	index := uint32(mac % l2Cells)
	if owner, taken := d.cells[index]; taken && owner != mac {
		return nil
	}
	if mac == 0 {
		return nil
	}
	d.cells[index] = mac
	return d.table(bpfMapL2Cells).Put(index, uint64(egress)<<48|mac)
}

func (d *Datapath) unsetForwarding(mac uint64) {
	index := uint32(mac % l2Cells)
	if owner, taken := d.cells[index]; taken && owner == mac {
		d.note("delete forwarding", d.table(bpfMapL2Cells).Put(index, uint64(0)))
		delete(d.cells, index)
	}
	d.note("delete forwarding", d.table(bpfMapL2).Delete(mac))
}

// egress returns the program's egress port of a forwarding action.
func (d *Datapath) egress(a p4.Action) (uint32, error) {
	switch a.ID {
	case p4.ActionForward:
		return uint32(a.Params[0]), d.checkPort(a.Params[0])
	case p4.ActionFlood, p4.ActionNoAction:
		return floodPort, nil
	}
	return 0, fmt.Errorf("action %d is not a forwarding action", a.ID)
}

func (d *Datapath) setFlow(table uint32, k p4.Key, a p4.Action) error {
	id := uint16(a.Params[0])
	if index := id &^ p4.FlowMessageScope; index >= p4.MaxFlows {
		return fmt.Errorf("flow id %d: indices go up to %d, bit 15 is the message scope", id, p4.MaxFlows-1)
	}
	f := bpfFlow{Id: id, Epoch: uint16(a.Params[3]), Ipsn: [2]uint32{uint32(a.Params[1]), uint32(a.Params[2])}}
	if table == p4.TableConnectionV4 {
		return d.setConnection(v4Key(k), f)
	}
	return d.table(bpfMapConnectionV6).Put(v6Key(k), f)
}

func (d *Datapath) setWatch(k p4.Key, a p4.Action) error {
	slot := uint16(a.Params[0])
	if index := slot &^ p4.WatchEvery; index >= p4.MaxWatchSlots {
		return fmt.Errorf("watch slot %d: slots go up to %d, bit 15 marks one that doesn't count", slot, p4.MaxWatchSlots-1)
	}
	key := watchKey(k)
	if err := d.addFilter(dataEntry{p4.TableWatch, key}, k[0].Lo, k[1].Lo, bpfFilter{Watched: bit(k[3].Lo)}); err != nil {
		return err
	}
	if err := d.table(bpfMapWatch).Put(key, uint32(slot)); err != nil {
		return err
	}
	d.watches[key] = struct{}{}
	d.set(bpfVarWatches, uint32(len(d.watches)))
	return nil
}

func (d *Datapath) setTurn(turn uint64, a p4.Action) error {
	session := a.Params[0]
	switch {
	case session == 0 || session >= maxSessions:
		return fmt.Errorf("clone session %d is not in 1…%d", session, maxSessions-1)
	case turn >= maxTurns:
		return fmt.Errorf("turn %d: this switch has turns 0…%d", turn, maxTurns-1)
	}
	return d.table(bpfMapTurns).Put(uint32(turn), uint32(session))
}

// compile returns what the program does for an action.
func compile(a p4.Action) (bpfAction, error) {
	switch a.ID {
	case p4.ActionNoAction:
		return bpfAction{}, nil
	case p4.ActionDrop:
		return bpfAction{Event: uint8(trace.EventDrop)}, nil
	case p4.ActionMarkECN:
		return bpfAction{Event: uint8(trace.EventECN)}, nil
	case p4.ActionCorrupt:
		return bpfAction{Event: uint8(trace.EventCorrupt)}, nil
	case p4.ActionTrim:
		return bpfAction{Event: uint8(trace.EventTrim), Size: uint16(a.Params[0]), Dscp: uint8(a.Params[1]) & 0x3f,
			Flags: uint8(a.Params[2])}, nil
	}
	return bpfAction{}, fmt.Errorf("the xdp datapath has no action %d for events", a.ID)
}

func (d *Datapath) setEvent(table uint32, k p4.Key, a p4.Action) error {
	key, ok := eventKey(table, k)
	if !ok {
		return fmt.Errorf("the xdp datapath has no table %d with a key", table)
	}
	action, err := compile(a)
	if err != nil {
		return err
	}
	switch table {
	case p4.TableEvent:
		err = d.addFilter(dataEntry{table, key}, k[0].Lo, k[1].Lo, bpfFilter{Exact: bit(k[2].Lo), Iters: bit(k[3].Lo)})
	case p4.TableEventAny:
		err = d.addFilter(dataEntry{table, key}, k[0].Lo, k[1].Lo, bpfFilter{Any: bit(k[2].Lo)})
	}
	if err != nil {
		return err
	}
	index, known := d.indices[key]
	if !known {
		index = d.newIndex()
		if err := d.putCounts(bpfMapHits, index, uint64(0)); err != nil {
			return err
		}
	}
	action.Hits = index
	if err := d.table(bpfMapEvents).Put(key, action); err != nil {
		return err
	}
	d.indices[key] = index
	if table != p4.TableEvent {
		d.controls[key] = struct{}{}
		d.set(bpfVarControlEntries, uint32(len(d.controls)))
	}
	return nil
}

func (d *Datapath) newIndex() uint32 {
	if n := len(d.freed); n > 0 {
		index := d.freed[n-1]
		d.freed = d.freed[:n-1]
		return index
	}
	return uint32(len(d.indices))
}

// bit is where a filter has a PSN or an ITER.
func bit(n uint64) uint64 { return 1 << (n & 63) }

// addFilter adds bits to the filter of a flow and space, before their entry is written.
func (d *Datapath) addFilter(e dataEntry, flow, space uint64, bits bpfFilter) error {
	index := uint32(2*(flow&p4.FlowIndexMask) + space&1)
	old := d.filters[index]
	filter := bpfFilter{Watched: old.Watched | bits.Watched, Exact: old.Exact | bits.Exact, Iters: old.Iters | bits.Iters,
		Any: old.Any | bits.Any}
	if filter != old {
		if err := d.table(bpfMapFilters).Put(index, filter); err != nil {
			return err
		}
		d.filters[index] = filter
	}
	d.inData[e] = true
	d.set(bpfVarDataEntries, uint32(len(d.inData)))
	return nil
}

// Unset deletes an entry; it does nothing if there is none.
func (d *Datapath) Unset(table uint32, k p4.Key) {
	switch table {
	case p4.TableConnectionV4:
		d.unsetConnection(v4Key(k))
	case p4.TableConnectionV6:
		d.note("delete connection", d.table(bpfMapConnectionV6).Delete(v6Key(k)))
	case p4.TableWatch:
		key := watchKey(k)
		d.note("delete watch", d.table(bpfMapWatch).Delete(key))
		delete(d.watches, key)
		d.set(bpfVarWatches, uint32(len(d.watches)))
		d.forget(dataEntry{table, key})
	case p4.TableL2Forward:
		d.unsetForwarding(k[0].Lo)
	case p4.TableMirrorSlot:
		d.note("delete turn", d.table(bpfMapTurns).Put(uint32(k[0].Lo), uint32(0)))
	default:
		d.unsetEvent(table, k)
	}
}

func (d *Datapath) unsetEvent(table uint32, k p4.Key) {
	key, ok := eventKey(table, k)
	if !ok {
		return
	}
	d.note("delete event", d.table(bpfMapEvents).Delete(key))
	if index, known := d.indices[key]; known {
		d.freed = append(d.freed, index)
		delete(d.indices, key)
	}
	delete(d.controls, key)
	d.set(bpfVarControlEntries, uint32(len(d.controls)))
	d.forget(dataEntry{table, key})
}

// forget clears the filters once no entry for data packets is left.
func (d *Datapath) forget(e dataEntry) {
	delete(d.inData, e)
	d.set(bpfVarDataEntries, uint32(len(d.inData)))
	if len(d.inData) > 0 {
		return
	}
	for index := range d.filters {
		d.note("clear filter", d.table(bpfMapFilters).Put(index, bpfFilter{}))
	}
	clear(d.filters)
}

// SetDefault sets the default action of a table.
func (d *Datapath) SetDefault(table uint32, a p4.Action) error {
	switch {
	case table == p4.TableMirror && a.ID == p4.ActionOpen:
		slots := a.Params[0]
		if slots == 0 || slots > maxTurns {
			return fmt.Errorf("open: slots must be in 1…%d", maxTurns)
		}
		// A new value for each opening makes the program start with turn 0.
		d.gates++
		d.set(bpfVarGate, d.gates<<16|slots)
	case table == p4.TableMirror && a.ID == p4.ActionNoAction:
		d.set(bpfVarGate, uint64(0))
	case table == p4.TableMirrorEgress && a.ID == p4.ActionSetSnap:
		d.set(bpfVarSnap, uint32(a.Params[0]))
	case table == p4.TableMirrorEgress && a.ID == p4.ActionNoAction:
		d.set(bpfVarSnap, uint32(0))
	case table == p4.TableL2Forward:
		egress, err := d.egress(a)
		if err != nil {
			return err
		}
		d.set(bpfVarL2Default, egress)
	case a.ID != p4.ActionNoAction:
		return fmt.Errorf("the xdp datapath has no default action %d for table %d", a.ID, table)
	}
	return d.Fault()
}
