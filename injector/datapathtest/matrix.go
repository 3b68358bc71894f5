package datapathtest

import (
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
)

// A Cell is an action and a way of addressing its packet.
type Cell struct {
	Addressing string
	Action     string // name in the contract
	Case       Case
}

// Matrix returns the contract's actions by every way to address a packet, without pairs that no table offers.
func Matrix() (cells []Cell) {
	actions := []p4.Action{drop, ecn, corrupt, trim(64, 5, 7)}
	for _, way := range ways() {
		for _, a := range actions {
			if p4.Base().Table(way.table).Offers(a.ID) == nil {
				continue
			}
			cells = append(cells, Cell{way.name, p4.Base().Action(a.ID).Name, Case{
				Name: way.name, Entries: append(connection(4, way.options), way.entries(a)...), In: way.in}})
		}
	}
	return cells
}

// way is a way to address a packet.
type way struct {
	name    string
	table   uint32
	options uint64 // of the flow
	entries func(p4.Action) []Entry
	in      []Frame
}

func ways() []way {
	twice := append(message(4, 1, 4), message(4, 2, 4)...)
	acks := []Frame{control(4, packet.Acknowledge, 1, packet.SyndromeAck),
		control(4, packet.Acknowledge, 2, packet.SyndromeAck),
		control(4, packet.Acknowledge, 2, packet.SyndromeAck)}
	one := func(e func(p4.Action) Entry) func(p4.Action) []Entry {
		return func(a p4.Action) []Entry { return []Entry{e(a)} }
	}
	watched := func(slot, nth uint64, of Entry) func(p4.Action) []Entry {
		of.Action = p4.NewAction(p4.ActionSetWatch, slot)
		return func(a p4.Action) []Entry {
			return []Entry{of, {Table: p4.TableWatchedEvent, Key: p4.KeyOf(slot, nth), Action: a}}
		}
	}
	dataWatch := Entry{Table: p4.TableWatch, Key: p4.KeyOf(flow, 0, 0, uint64(ipsn.Add(1)))}
	ackWatch := Entry{Table: p4.TableWatch, Key: p4.KeyOf(answer, 1, uint64(packet.ClassAck), uint64(ipsn.Add(1)))}
	return []way{
		{"psn, iter", p4.TableEvent, 0, one(func(a p4.Action) Entry { return event(2, 2, a) }), twice},
		{"psn, iter, scope message", p4.TableEvent, p4.FlowMessageScope, one(func(a p4.Action) Entry {
			return Entry{Table: p4.TableEvent, Key: p4.KeyOf(flow|p4.FlowMessageScope, 0, uint64(ipsn.Add(1)), 2), Action: a}
		}), twice},
		{"psn, iter any", p4.TableEventAny, 0, one(func(a p4.Action) Entry { return eventAny(2, a) }), twice},
		{"psn, nth arrival (scope packet)", p4.TableWatchedEvent, 0, watched(9, 2, dataWatch), twice},
		{"control packet, nth", p4.TableControlEvent, 0, one(func(a p4.Action) Entry {
			return Entry{Table: p4.TableControlEvent, Key: p4.KeyOf(answer, uint64(packet.ClassAck), 2), Action: a}
		}), acks},
		{"control packet, nth any", p4.TableEventAny, 0, one(func(a p4.Action) Entry {
			return Entry{Table: p4.TableEventAny, Key: p4.KeyOf(answer|p4.FlowControlClass, 0, uint64(packet.ClassAck)),
				Action: a}
		}), acks},
		{"control packet, psn, nth", p4.TableWatchedEvent, 0, watched(8, 2, ackWatch), acks},
		{"control packet, psn, nth any", p4.TableWatchedEvent, 0, watched(p4.WatchEvery|8, 0, ackWatch), acks},
	}
}
