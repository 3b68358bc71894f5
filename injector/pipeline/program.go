package pipeline

import (
	"fmt"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
)

// Set inserts an entry or replaces the action of an existing one, which keeps its hits. The values must fit the widths
// of the contract, as p4.Table parses them. Set refuses what the registers or ports cannot serve.
func (p *Pipeline) Set(table uint32, k p4.Key, a p4.Action) error {
	switch table {
	case p4.TableConnectionV4, p4.TableConnectionV6:
		return p.setFlow(table, k, a)
	case p4.TableWatch:
		return p.setWatch(k, a)
	case p4.TableL2Forward:
		port, err := p.forwardPort(a)
		if err == nil {
			*p.l2.put(macKey(k[0].Lo)) = uint16(port)
		}
		return err
	case p4.TableMirrorSlot:
		return p.setTurn(int(k[0].Lo), a)
	}
	t, key := p.eventTable(table, k)
	if t == nil {
		return fmt.Errorf("this pipeline has no table %d with a key", table)
	}
	compiled, err := compile(a)
	if err != nil {
		return err
	}
	switch table {
	case p4.TableEvent, p4.TableEventAny:
		p.noteData(k[0], k[1], k[2])
	}
	t.put(key).action = compiled
	return nil
}

// noteData adds data packets of a PSN to their flow's filter. Keys of event_any for a class of control packets set an
// unneeded bit, which costs time but is correct.
func (p *Pipeline) noteData(flow, space, psn p4.Value) {
	index := flow.Lo & p4.FlowIndexMask
	p.usedFlows = max(p.usedFlows, int(index)+1)
	p.rounds[2*index+space.Lo&1].filter |= filterBit(packet.PSN(psn.Lo))
}

// forgetData clears the filters once no entry for data packets is left.
func (p *Pipeline) forgetData() {
	if p.event.n+p.eventAny.n+p.watch.n > 0 {
		return
	}
	for i := range p.rounds[:2*p.usedFlows] {
		p.rounds[i].filter = 0
	}
}

// Unset deletes an entry; it does nothing if there is none.
func (p *Pipeline) Unset(table uint32, k p4.Key) {
	p.unset(table, k)
	switch table {
	case p4.TableEvent, p4.TableEventAny, p4.TableWatch:
		p.forgetData()
	}
}

func (p *Pipeline) unset(table uint32, k p4.Key) {
	switch table {
	case p4.TableConnectionV4:
		p.v4.remove(v4KeyOf(k))
	case p4.TableConnectionV6:
		p.v6.remove(v6KeyOf(k))
	case p4.TableWatch:
		p.watch.remove(watchKeyOf(k))
	case p4.TableL2Forward:
		p.l2.remove(macKey(k[0].Lo))
	case p4.TableMirrorSlot:
		if turn := int(k[0].Lo); turn < len(p.turns) {
			p.turns[turn] = none
		}
	default:
		if t, key := p.eventTable(table, k); t != nil {
			t.remove(key)
		}
	}
}

// SetDefault sets the default action of a table. Most tables accept NoAction only.
func (p *Pipeline) SetDefault(table uint32, a p4.Action) error {
	switch {
	case table == p4.TableMirror && a.ID == p4.ActionOpen:
		if a.Params[0] == 0 {
			return fmt.Errorf("open: slots must be at least 1")
		}
		p.gateOpen, p.slots, p.turn = true, uint16(a.Params[0]), 0
	case table == p4.TableMirror && a.ID == p4.ActionNoAction:
		p.gateOpen = false
	case table == p4.TableMirrorEgress && a.ID == p4.ActionSetSnap:
		p.snap = uint32(a.Params[0])
	case table == p4.TableMirrorEgress && a.ID == p4.ActionNoAction:
		p.snap = 0
	case table == p4.TableL2Forward:
		port, err := p.forwardPort(a)
		if err != nil {
			return err
		}
		p.l2Default = port
	case a.ID != p4.ActionNoAction:
		return fmt.Errorf("this pipeline has no default action %d for table %d", a.ID, table)
	}
	return nil
}

// SetCloneSession sets the egress ports of a clone session; none deletes it.
func (p *Pipeline) SetCloneSession(id uint32, ports []uint16) error {
	if id == 0 || id >= MaxSessions {
		return fmt.Errorf("clone session %d is not in 1…%d", id, MaxSessions-1)
	}
	if err := p.checkPorts(ports); err != nil {
		return err
	}
	p.sessions[id] = ports
	return nil
}

// SetMulticastGroup sets the egress ports of a multicast group; none deletes it. Only [p4.FloodGroup] is used.
func (p *Pipeline) SetMulticastGroup(id uint32, ports []uint16) error {
	if err := p.checkPorts(ports); err != nil {
		return err
	}
	if id != p4.FloodGroup {
		return nil
	}
	p.group = ports
	for ingress := range p.floodFrom {
		out := make([]uint16, 0, len(ports))
		for _, port := range ports {
			if int(port) != ingress {
				out = append(out, port)
			}
		}
		p.floodFrom[ingress] = out
	}
	return nil
}

// Hits returns the direct counter of an event entry, 0 if there is no such entry.
func (p *Pipeline) Hits(table uint32, k p4.Key) uint64 {
	if t, key := p.eventTable(table, k); t != nil {
		if e := t.find(hashInt(key), key); e != nil {
			return e.hits
		}
	}
	return 0
}

// SetHits sets the direct counter of an event entry; it does nothing if there is none.
func (p *Pipeline) SetHits(table uint32, k p4.Key, hits uint64) {
	if t, key := p.eventTable(table, k); t != nil {
		if e := t.find(hashInt(key), key); e != nil {
			e.hits = hits
		}
	}
}

// Counter returns a cell of an indirect counter; cells that this pipeline does not have are zero.
func (p *Pipeline) Counter(id uint32, index int) (packets, bytes uint64) {
	if c := p.counter(id, index); c != nil {
		return c.packets, c.bytes
	}
	return 0, 0
}

// SetCounter sets a cell of an indirect counter.
func (p *Pipeline) SetCounter(id uint32, index int, packets, bytes uint64) {
	if c := p.counter(id, index); c != nil {
		*c = count{packets, bytes}
	}
}

func (p *Pipeline) counter(id uint32, index int) *count {
	var cells []count
	switch id {
	case p4.CounterRoCERx:
		cells = p.roceRx[:]
	case p4.CounterRoCETx:
		cells = p.roceTx[:]
	case p4.CounterPauseRx:
		cells = p.pauseRx[:]
	case p4.CounterMirrored:
		cells = p.mirrored[:]
	}
	if index < 0 || index >= len(cells) {
		return nil
	}
	return &cells[index]
}

func (p *Pipeline) setFlow(table uint32, k p4.Key, a p4.Action) error {
	id := uint16(a.Params[0])
	index := id &^ p4.FlowMessageScope
	if index >= p4.MaxFlows {
		return fmt.Errorf("flow id %d: indices go up to %d, bit 15 is the message scope", id, p4.MaxFlows-1)
	}
	p.usedFlows = max(p.usedFlows, int(index)+1)
	f := flow{id: id, ipsn: [2]packet.PSN{packet.PSN(a.Params[1]), packet.PSN(a.Params[2])}, epoch: uint16(a.Params[3])}
	if table == p4.TableConnectionV4 {
		*p.v4.put(v4KeyOf(k)) = f
	} else {
		*p.v6.put(v6KeyOf(k)) = f
	}
	return nil
}

func (p *Pipeline) setWatch(k p4.Key, a p4.Action) error {
	slot := uint16(a.Params[0])
	index := slot &^ p4.WatchEvery
	if index >= p4.MaxWatchSlots {
		return fmt.Errorf("watch slot %d: slots go up to %d, bit 15 marks one that doesn't count", slot, p4.MaxWatchSlots-1)
	}
	p.usedSlots = max(p.usedSlots, int(index)+1)
	p.noteData(k[0], k[1], k[3])
	*p.watch.put(watchKeyOf(k)) = slot
	return nil
}

func (p *Pipeline) setTurn(turn int, a p4.Action) error {
	session := a.Params[0]
	if session == 0 || session >= MaxSessions {
		return fmt.Errorf("clone session %d is not in 1…%d", session, MaxSessions-1)
	}
	for len(p.turns) <= turn {
		p.turns = append(p.turns, none)
	}
	p.turns[turn] = int32(session)
	return nil
}

// forwardPort returns the port of a forward action, or flood.
func (p *Pipeline) forwardPort(a p4.Action) (int, error) {
	if a.ID == p4.ActionFlood {
		return flood, nil
	}
	port := uint16(a.Params[0])
	return int(port), p.checkPorts([]uint16{port})
}

func (p *Pipeline) checkPorts(ports []uint16) error {
	for _, port := range ports {
		if int(port) >= p.cfg.Ports {
			return fmt.Errorf("port %d: this pipeline has ports 0…%d", port, p.cfg.Ports-1)
		}
	}
	return nil
}

// eventTable returns the event table with an id and k as its key, or nil.
func (p *Pipeline) eventTable(table uint32, k p4.Key) (*eventTable, uint64) {
	switch table {
	case p4.TableEvent:
		return &p.event, eventKey(uint16(k[0].Lo), packet.Space(k[1].Lo), packet.PSN(k[2].Lo), uint16(k[3].Lo))
	case p4.TableEventAny:
		return &p.eventAny, eventAnyKey(uint16(k[0].Lo), packet.Space(k[1].Lo), packet.PSN(k[2].Lo))
	case p4.TableControlEvent:
		return &p.controlEvent, controlKey(uint16(k[0].Lo), packet.Class(k[1].Lo), uint16(k[2].Lo))
	case p4.TableWatchedEvent:
		return &p.watchedEvent, watchedKey(uint16(k[0].Lo), uint16(k[1].Lo))
	}
	return nil, 0
}

func v4KeyOf(k p4.Key) v4Key { return v4Key{k[0].Lo<<32 | k[1].Lo, k[2].Lo | occupied} }

func v6KeyOf(k p4.Key) v6Key {
	return v6Key{[2]uint64{k[0].Hi, k[0].Lo}, [2]uint64{k[1].Hi, k[1].Lo}, k[2].Lo | occupied}
}

func watchKeyOf(k p4.Key) uint64 {
	return watchKey(uint16(k[0].Lo), packet.Space(k[1].Lo), packet.Class(k[2].Lo), packet.PSN(k[3].Lo))
}
