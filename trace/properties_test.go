package trace_test

import (
	"testing"

	"candela.dev/candela/trace"
)

// Properties of events that analyzers use. Events outside the table have none.
func TestWhatBecomesOfThePacketOfAnEvent(t *testing.T) {
	type fate struct{ loses, arrives, forges, damages, marks, late, departs bool }
	want := map[trace.EventType]fate{
		trace.EventNone:        {arrives: true},
		trace.EventDrop:        {loses: true},
		trace.EventECN:         {arrives: true, marks: true},
		trace.EventCorrupt:     {loses: true, arrives: true, damages: true},
		trace.EventTrim:        {loses: true, arrives: true},
		trace.EventDelay:       {arrives: true, late: true, departs: true},
		trace.EventDuplicate:   {arrives: true, departs: true},
		trace.EventReorder:     {arrives: true, late: true, departs: true},
		trace.EventRewrite:     {arrives: true, forges: true, departs: true},
		trace.MaxEventType + 1: {arrives: true},
		trace.EventType(0xff):  {arrives: true},
	}
	for e, w := range want {
		if got := (fate{e.Loses(), e.Arrives(), e.Forges(), e.Damages(), e.Marks(), e.Late(), e.Departs()}); got != w {
			t.Errorf("%v: %+v, want %+v", e, got, w)
		}
	}
}
