package p4

import (
	"fmt"
	"slices"
	"sync"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/trace"
)

// Ids of the actions that software targets add to the contract (design, "Injector contract"). A controller knows them
// from the P4Info that the target serves. [trace.Actions] declares names and widths.
const (
	ActionDelay          uint32 = 0x01000020 + iota // delay(ns)
	ActionDuplicate                                 // duplicate(n)
	ActionReorder                                   // reorder(by)
	ActionRewrite                                   // rewrite(field, value)
	ActionCorruptPayload                            // corrupt_payload(offset, xor)
)

// eventTables are the tables whose entries are events.
var eventTables = []uint32{TableEvent, TableEventAny, TableControlEvent, TableWatchedEvent}

var software = sync.OnceValue(func() *Info {
	pb := proto.Clone(Base().Proto()).(*configpb.P4Info)
	var refs []*configpb.ActionRef
	for i := range trace.Actions {
		a := &trace.Actions[i]
		if !a.Software {
			continue
		}
		action := &configpb.Action{Preamble: &configpb.Preamble{Id: a.ID, Name: a.Name, Alias: a.Name}}
		for n, p := range a.Params {
			action.Params = append(action.Params,
				&configpb.Action_Param{Id: uint32(n + 1), Name: p.Name, Bitwidth: int32(p.Bits)})
		}
		pb.Actions = append(pb.Actions, action)
		refs = append(refs, &configpb.ActionRef{Id: a.ID})
	}
	for _, t := range pb.GetTables() {
		if slices.Contains(eventTables, t.GetPreamble().GetId()) {
			t.ActionRefs = append(t.ActionRefs, refs...)
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
