package p4_test

import (
	"os"
	"testing"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"

	"candela.dev/candela/injector/p4"
)

func TestTheP4InfoIsTheFrozenContract(t *testing.T) {
	want, err := os.ReadFile("../../../shared/p4info/injector.p4info.txtpb")
	if os.IsNotExist(err) {
		t.Skip("the contract's original is not on this machine")
	} else if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("injector.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("injector.p4info.txtpb differs from the frozen contract")
	}
}

func TestConstantsAreTheIdsOfTheP4Info(t *testing.T) {
	info := p4.Base()
	tables := map[string]uint32{
		"connection_v4": p4.TableConnectionV4, "connection_v6": p4.TableConnectionV6, "event": p4.TableEvent,
		"event_any": p4.TableEventAny, "control_event": p4.TableControlEvent, "watch": p4.TableWatch,
		"watched_event": p4.TableWatchedEvent, "l2_forward": p4.TableL2Forward, "mirror_slot": p4.TableMirrorSlot,
		"mirror": p4.TableMirror, "mirror_egress": p4.TableMirrorEgress,
	}
	for name, id := range tables {
		if table := info.TableNamed(name); table == nil || table.ID != id || info.Table(id) != table {
			t.Errorf("table %q does not have id %d", name, id)
		}
	}
	if len(info.Tables()) != len(tables) {
		t.Errorf("the P4Info has %d tables, %d have constants", len(info.Tables()), len(tables))
	}
	actions := map[string]uint32{
		"NoAction": p4.ActionNoAction, "set_flow": p4.ActionSetFlow, "drop": p4.ActionDrop, "mark_ecn": p4.ActionMarkECN,
		"corrupt": p4.ActionCorrupt, "trim": p4.ActionTrim, "forward": p4.ActionForward, "flood": p4.ActionFlood,
		"select_session": p4.ActionSelectSession, "set_watch": p4.ActionSetWatch, "open": p4.ActionOpen,
		"set_snap": p4.ActionSetSnap,
	}
	for name, id := range actions {
		if a := info.Action(id); a == nil || a.Name != name {
			t.Errorf("action %q does not have id %d", name, id)
		}
	}
	counters := map[string]uint32{"roce_rx": p4.CounterRoCERx, "mirrored": p4.CounterMirrored,
		"pause_rx": p4.CounterPauseRx,
		"roce_tx":  p4.CounterRoCETx}
	for name, id := range counters {
		if c := info.Counter(id); c == nil || c.Name != name {
			t.Errorf("counter %q does not have id %d", name, id)
		}
	}
}

func TestATargetWithoutAnActionServesTheRest(t *testing.T) {
	info := p4.Base().Without("trim", "corrupt")
	got := info.Table(p4.TableEvent).EntryActions()
	if len(got) != 2 || got[0] != "drop" || got[1] != "mark_ecn" {
		t.Errorf("event offers %v", got)
	}
	if info.Action(p4.ActionTrim) != nil || p4.Base().Action(p4.ActionTrim) == nil {
		t.Error("trim is still there, or gone from the contract")
	}
}

func TestUnusableP4InfosAreRefused(t *testing.T) {
	preamble := func(id uint32) *configpb.Preamble { return &configpb.Preamble{Id: id, Name: "x"} }
	action := &configpb.Action{Preamble: preamble(1)}
	field := func(id uint32, bits int32) *configpb.MatchField {
		return &configpb.MatchField{Id: id, Bitwidth: bits, Match: &configpb.MatchField_MatchType_{
			MatchType: configpb.MatchField_EXACT}}
	}
	table := func(fields ...*configpb.MatchField) *configpb.P4Info {
		return &configpb.P4Info{Tables: []*configpb.Table{{Preamble: preamble(2), MatchFields: fields}}}
	}
	ternary := field(1, 8)
	ternary.Match = &configpb.MatchField_MatchType_{MatchType: configpb.MatchField_TERNARY}
	tests := []struct {
		name string
		info *configpb.P4Info
	}{
		{"two actions with one id", &configpb.P4Info{Actions: []*configpb.Action{action, action}}},
		{"a table without id", &configpb.P4Info{Tables: []*configpb.Table{{}}}},
		{"a ternary field", table(ternary)},
		{"a field of 129 bits", table(field(1, 129))},
		{"a field of 0 bits", table(field(1, 0))},
		{"two fields with one id", table(field(1, 8), field(1, 8))},
		{"five fields", table(field(1, 8), field(2, 8), field(3, 8), field(4, 8), field(5, 8))},
		{"an action that does not exist", &configpb.P4Info{Tables: []*configpb.Table{{Preamble: preamble(2),
			ActionRefs: []*configpb.ActionRef{{Id: 9}}}}}},
		{"a counter of negative size", &configpb.P4Info{Counters: []*configpb.Counter{{Preamble: preamble(3), Size: -1}}}},
		{"a direct counter of no table", &configpb.P4Info{DirectCounters: []*configpb.DirectCounter{{DirectTableId: 5}}}},
	}
	for _, tt := range tests {
		if _, err := p4.New(tt.info); err == nil {
			t.Errorf("%s: accepted", tt.name)
		}
	}
}
