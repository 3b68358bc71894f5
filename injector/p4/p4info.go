// Package p4 is the injector contract in P4: the frozen P4Info, its ids by name, and the translation between values of
// table entries and bytestrings of P4Runtime.
//
// [Base] is the current contract. A target may lack some actions ([Info.Without]), and software targets may add some;
// so clients parse with [New] what the target serves and use the result, never Base. Everything here is immutable and
// safe for concurrent use.
package p4

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/trace"
)

//go:embed injector.p4info.txtpb
var baseText []byte

var base = sync.OnceValue(func() *Info {
	var pb configpb.P4Info
	if err := prototext.Unmarshal(baseText, &pb); err != nil {
		panic("p4: the embedded P4Info does not parse: " + err.Error())
	}
	info, err := New(&pb)
	if err != nil {
		panic("p4: the embedded P4Info is unusable: " + err.Error())
	}
	return info
})

// Base returns the frozen contract.
func Base() *Info { return base() }

// Parse reads a P4Info, as text or binary.
func Parse(data []byte) (*Info, error) {
	pb := new(configpb.P4Info)
	asText := prototext.Unmarshal(data, pb)
	if asText != nil {
		if err := proto.Unmarshal(data, pb); err != nil {
			return nil, fmt.Errorf("neither text nor binary P4Info: %w", asText)
		}
	}
	return New(pb)
}

// Limits of what an [Info] describes, well above the contract's, so that keys and actions are values.
const (
	MaxFields = 4 // match fields of a table, parameters of an action
	maxField  = 128
	maxParam  = 64
)

// Field is a match field of a table or a parameter of an action.
type Field struct {
	ID   uint32
	Name string
	Bits int
}

// ActionInfo describes an action.
type ActionInfo struct {
	ID     uint32
	Name   string
	Params []Field
}

// ActionRef is an action that a table offers. Compilers for hardware want an action for each table where actions count:
// then action "event.drop" of table "event" is the contract's "drop", with its id; only messages have the other one.
type ActionRef struct {
	*ActionInfo
	TableOnly, DefaultOnly bool // scope: only for entries, only as default action
	wire                   uint32
}

// Table describes a table.
type Table struct {
	ID             uint32
	Name           string
	Fields         []Field
	Actions        []ActionRef
	Size           int    // entries
	DirectCounter  uint32 // id, 0 if none
	InitialDefault Action
}

// Counter describes an indirect counter.
type Counter struct {
	ID   uint32
	Name string
	Size int // indices 0 … Size−1
}

// Info is a P4Info, indexed.
type Info struct {
	pb       *configpb.P4Info
	tables   []*Table
	tableID  map[uint32]*Table
	actionID map[uint32]*ActionInfo
	counters []*Counter
}

// New indexes pb, which must not change afterwards. It accepts what this project's pipelines use: exact matches, at
// most [MaxFields] fields and parameters, unique ids and names.
func New(pb *configpb.P4Info) (*Info, error) {
	info := &Info{pb: pb, tableID: map[uint32]*Table{}, actionID: map[uint32]*ActionInfo{}}
	for _, a := range pb.GetActions() {
		if err := info.addAction(a); err != nil {
			return nil, fmt.Errorf("action %q: %w", a.GetPreamble().GetName(), err)
		}
	}
	for _, t := range pb.GetTables() {
		if err := info.addTable(t); err != nil {
			return nil, fmt.Errorf("table %q: %w", t.GetPreamble().GetName(), err)
		}
	}
	for _, c := range pb.GetCounters() {
		if info.Counter(c.GetPreamble().GetId()) != nil || c.GetPreamble().GetId() == 0 {
			return nil, fmt.Errorf("counter %q: id %d is zero or taken", c.GetPreamble().GetName(), c.GetPreamble().GetId())
		}
		if c.GetSize() < 0 || c.GetSize() > maxCounters {
			return nil, fmt.Errorf("counter %q: size %d is not in 0…%d", c.GetPreamble().GetName(), c.GetSize(), maxCounters)
		}
		info.counters = append(info.counters, &Counter{c.GetPreamble().GetId(), c.GetPreamble().GetName(), int(c.GetSize())})
	}
	for _, d := range pb.GetDirectCounters() {
		t := info.tableID[d.GetDirectTableId()]
		if t == nil {
			return nil, fmt.Errorf("direct counter %q: no table has id %d", d.GetPreamble().GetName(), d.GetDirectTableId())
		}
		t.DirectCounter = d.GetPreamble().GetId()
	}
	return info, nil
}

const maxCounters = 1 << 20 // far above any target's; bounds what a hostile P4Info makes us allocate

func (info *Info) addAction(a *configpb.Action) error {
	id := a.GetPreamble().GetId()
	if id == 0 || info.actionID[id] != nil {
		return fmt.Errorf("id %d is zero or taken", id)
	}
	if len(a.GetParams()) > MaxFields {
		return fmt.Errorf("%d parameters, more than %d", len(a.GetParams()), MaxFields)
	}
	out := &ActionInfo{ID: id, Name: a.GetPreamble().GetName()}
	for _, p := range a.GetParams() {
		if p.GetBitwidth() < 1 || p.GetBitwidth() > maxParam {
			return fmt.Errorf("parameter %q: width %d is not in 1…%d", p.GetName(), p.GetBitwidth(), maxParam)
		}
		out.Params = append(out.Params, Field{p.GetId(), p.GetName(), int(p.GetBitwidth())})
	}
	if err := uniqueFields(out.Params); err != nil {
		return err
	}
	info.actionID[id] = out
	return nil
}

func (info *Info) addTable(t *configpb.Table) error {
	id := t.GetPreamble().GetId()
	if id == 0 || info.tableID[id] != nil {
		return fmt.Errorf("id %d is zero or taken", id)
	}
	if len(t.GetMatchFields()) > MaxFields {
		return fmt.Errorf("%d match fields, more than %d", len(t.GetMatchFields()), MaxFields)
	}
	out := &Table{ID: id, Name: t.GetPreamble().GetName(), Size: int(t.GetSize())}
	for _, f := range t.GetMatchFields() {
		switch {
		case f.GetMatchType() != configpb.MatchField_EXACT:
			return fmt.Errorf("field %q: match type %v, only EXACT is known", f.GetName(), f.GetMatchType())
		case f.GetBitwidth() < 1 || f.GetBitwidth() > maxField:
			return fmt.Errorf("field %q: width %d is not in 1…%d", f.GetName(), f.GetBitwidth(), maxField)
		}
		out.Fields = append(out.Fields, Field{f.GetId(), f.GetName(), int(f.GetBitwidth())})
	}
	if err := uniqueFields(out.Fields); err != nil {
		return err
	}
	for _, r := range t.GetActionRefs() {
		a := info.actionID[r.GetId()]
		if a == nil {
			return fmt.Errorf("refers to action %d, which does not exist", r.GetId())
		}
		ref := ActionRef{a, r.GetScope() == configpb.ActionRef_TABLE_ONLY,
			r.GetScope() == configpb.ActionRef_DEFAULT_ONLY, a.ID}
		if name, own := strings.CutPrefix(a.Name, out.Name+"."); own {
			if row := slices.IndexFunc(trace.Actions, func(row trace.Action) bool { return row.Name == name }); row >= 0 {
				ref.ActionInfo = &ActionInfo{ID: trace.Actions[row].ID, Name: name, Params: a.Params}
			}
		}
		if out.Offers(ref.ID) != nil {
			return fmt.Errorf("offers action %q twice", ref.Name)
		}
		out.Actions = append(out.Actions, ref)
	}
	out.InitialDefault = Action{ID: t.GetInitialDefaultAction().GetActionId()}
	info.tables = append(info.tables, out)
	info.tableID[id] = out
	return nil
}

func uniqueFields(fields []Field) error {
	for i, f := range fields {
		if f.ID == 0 || slices.ContainsFunc(fields[:i], func(g Field) bool { return g.ID == f.ID }) {
			return fmt.Errorf("field %q: id %d is zero or taken", f.Name, f.ID)
		}
	}
	return nil
}

// Proto returns the P4Info itself; it must not be changed.
func (info *Info) Proto() *configpb.P4Info { return info.pb }

// Tables returns all tables in the order of the P4Info; the slice must not be changed.
func (info *Info) Tables() []*Table { return info.tables }

// Table returns the table with an id, or nil.
func (info *Info) Table(id uint32) *Table { return info.tableID[id] }

// TableNamed returns the table with a name, or nil.
func (info *Info) TableNamed(name string) *Table {
	for _, t := range info.tables {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Action returns the action with an id, or nil.
func (info *Info) Action(id uint32) *ActionInfo { return info.actionID[id] }

// Counters returns the indirect counters in the order of the P4Info; the slice must not be changed.
func (info *Info) Counters() []*Counter { return info.counters }

// Counter returns the indirect counter with an id, or nil.
func (info *Info) Counter(id uint32) *Counter {
	for _, c := range info.counters {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// CounterNamed returns the indirect counter with a name, or nil. Compilers for hardware number counters as they like.
func (info *Info) CounterNamed(name string) *Counter {
	for _, c := range info.counters {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Offers returns the action that t offers under an id, or nil.
func (t *Table) Offers(id uint32) *ActionRef {
	for i := range t.Actions {
		if t.Actions[i].ID == id {
			return &t.Actions[i]
		}
	}
	return nil
}

// EntryActions returns the names of the actions that entries of t may have, in the order of the P4Info.
func (t *Table) EntryActions() []string {
	var names []string
	for _, a := range t.Actions {
		if !a.DefaultOnly {
			names = append(names, a.Name)
		}
	}
	return names
}

// Without returns info less the named actions: what a target that lacks them serves.
func (info *Info) Without(actions ...string) *Info {
	pb := proto.Clone(info.pb).(*configpb.P4Info)
	gone := map[uint32]bool{}
	pb.Actions = slices.DeleteFunc(pb.Actions, func(a *configpb.Action) bool {
		if slices.Contains(actions, a.GetPreamble().GetName()) {
			gone[a.GetPreamble().GetId()] = true
		}
		return gone[a.GetPreamble().GetId()]
	})
	for _, t := range pb.Tables {
		t.ActionRefs = slices.DeleteFunc(t.ActionRefs, func(r *configpb.ActionRef) bool { return gone[r.GetId()] })
	}
	out, err := New(pb)
	if err != nil {
		panic("p4: removing actions broke the P4Info: " + err.Error())
	}
	return out
}
