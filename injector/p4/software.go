package p4

import (
	"fmt"
	"sync"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/proto"
)

// Ids of the actions that software targets add to the contract (design, "Injector contract"). Their presence in the P4Info
// that a target serves is how a controller knows that the target has them.
const (
	ActionDelay          uint32 = 0x01000020 + iota // delay(ns)
	ActionDuplicate                                 // duplicate(n)
	ActionReorder                                   // reorder(by)
	ActionRewrite                                   // rewrite(field, value)
	ActionCorruptPayload                            // corrupt_payload(offset, xor)
)

// softwareActions declares the added actions: names and widths are part of the contract between controller and target.
var softwareActions = []struct {
	id     uint32
	name   string
	params []Field
}{
	{ActionDelay, "delay", []Field{{1, "ns", 48}}},
	{ActionDuplicate, "duplicate", []Field{{1, "n", 8}}},
	{ActionReorder, "reorder", []Field{{1, "by", 16}}},
	{ActionRewrite, "rewrite", []Field{{1, "field", 8}, {2, "value", 64}}},
	{ActionCorruptPayload, "corrupt_payload", []Field{{1, "offset", 16}, {2, "xor", 8}}},
}

// eventTables are the tables whose entries are events.
var eventTables = []uint32{TableEvent, TableEventAny, TableControlEvent, TableWatchedEvent}

var software = sync.OnceValue(func() *Info {
	pb := proto.Clone(Base().Proto()).(*configpb.P4Info)
	for _, a := range softwareActions {
		action := &configpb.Action{Preamble: &configpb.Preamble{Id: a.id, Name: a.name, Alias: a.name}}
		for _, p := range a.params {
			action.Params = append(action.Params, &configpb.Action_Param{Id: p.ID, Name: p.Name, Bitwidth: int32(p.Bits)})
		}
		pb.Actions = append(pb.Actions, action)
	}
	for _, t := range pb.GetTables() {
		for _, id := range eventTables {
			if t.GetPreamble().GetId() != id {
				continue
			}
			for _, a := range softwareActions {
				t.ActionRefs = append(t.ActionRefs, &configpb.ActionRef{Id: a.id})
			}
		}
	}
	info, err := New(pb)
	if err != nil {
		panic(fmt.Sprintf("p4: the software actions break the P4Info: %v", err))
	}
	return info
})

// Software returns the base contract with the actions of software targets in every event table.
func Software() *Info { return software() }
