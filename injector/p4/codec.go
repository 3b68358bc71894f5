package p4

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Value is an unsigned integer of up to 128 bits.
type Value struct{ Hi, Lo uint64 }

// Uint returns v as a Value.
func Uint(v uint64) Value { return Value{Lo: v} }

// AddrValue returns an IP address as a number: 32 bits for IPv4, 128 for IPv6.
func AddrValue(a netip.Addr) Value {
	if a.Is4() {
		b := a.As4()
		return Value{Lo: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return Value{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// bitLen returns the number of bits that v needs, 0 for zero.
func (v Value) bitLen() int {
	if v.Hi != 0 {
		return 64 + bits.Len64(v.Hi)
	}
	return bits.Len64(v.Lo)
}

// Bytes returns v as a canonical bytestring: big-endian, as short as possible, at least one byte (P4Runtime 8.4).
func (v Value) Bytes() []byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], v.Hi)
	binary.BigEndian.PutUint64(b[8:], v.Lo)
	n := max(1, (v.bitLen()+7)/8)
	return append([]byte(nil), b[16-n:]...)
}

// ParseValue reads a bytestring of a bit<width> value. Leading zeros are accepted, as the specification requires; an
// empty string and a value that needs more bits are OUT_OF_RANGE.
func ParseValue(b []byte, width int) (Value, error) {
	if len(b) == 0 {
		return Value{}, status.Error(codes.OutOfRange, "empty bytestring")
	}
	for len(b) > 1 && b[0] == 0 {
		b = b[1:]
	}
	var v Value
	if len(b) > 16 {
		return v, status.Errorf(codes.OutOfRange, "0x%x… needs more than %d bits", b[:16], width)
	}
	for _, x := range b {
		v.Hi = v.Hi<<8 | v.Lo>>56
		v.Lo = v.Lo<<8 | uint64(x)
	}
	if v.bitLen() > width {
		return v, status.Errorf(codes.OutOfRange, "0x%x needs more than %d bits", b, width)
	}
	return v, nil
}

// Key is the match key of a table entry: the values of the fields in the order of the P4Info, the rest zero.
type Key [MaxFields]Value

// KeyOf returns a key of integer fields.
func KeyOf(fields ...uint64) Key {
	var k Key
	for i, f := range fields {
		k[i].Lo = f
	}
	return k
}

// Action is an action with the values of its parameters in the order of the P4Info.
type Action struct {
	ID     uint32
	Params [MaxFields]uint64
}

// NewAction returns an action with parameters.
func NewAction(id uint32, params ...uint64) Action {
	a := Action{ID: id}
	copy(a.Params[:], params)
	return a
}

// Match encodes k.
func (t *Table) Match(k Key) []*p4pb.FieldMatch {
	out := make([]*p4pb.FieldMatch, len(t.Fields))
	for i, f := range t.Fields {
		out[i] = &p4pb.FieldMatch{FieldId: f.ID, FieldMatchType: &p4pb.FieldMatch_Exact_{
			Exact: &p4pb.FieldMatch_Exact{Value: k[i].Bytes()}}}
	}
	return out
}

// ParseMatch decodes the match fields of an entry, in any order. Its errors are gRPC statuses.
func (t *Table) ParseMatch(match []*p4pb.FieldMatch) (Key, error) {
	var k Key
	if len(t.Fields) == 0 {
		return k, status.Errorf(codes.InvalidArgument, "table %q has no key, so no match entries", t.Name)
	}
	var seen [MaxFields]bool
	for _, m := range match {
		i := fieldIndex(t.Fields, m.GetFieldId())
		switch {
		case i < 0:
			return k, status.Errorf(codes.InvalidArgument, "table %q has no match field %d", t.Name, m.GetFieldId())
		case seen[i]:
			return k, status.Errorf(codes.InvalidArgument, "match field %q is given twice", t.Fields[i].Name)
		case m.GetExact() == nil:
			return k, status.Errorf(codes.InvalidArgument, "match field %q must be an exact match", t.Fields[i].Name)
		}
		v, err := ParseValue(m.GetExact().GetValue(), t.Fields[i].Bits)
		if err != nil {
			return k, named("match field", t.Fields[i].Name, err)
		}
		k[i], seen[i] = v, true
	}
	for i, f := range t.Fields {
		if !seen[i] {
			return k, status.Errorf(codes.InvalidArgument, "match field %q is missing", f.Name)
		}
	}
	return k, nil
}

// TableAction encodes a, whose action info must know under its own id.
func (info *Info) TableAction(a Action) *p4pb.TableAction { return info.actionID[a.ID].encode(a.ID, a) }

// Action encodes a for t, which must offer it.
func (t *Table) Action(a Action) *p4pb.TableAction {
	ref := t.Offers(a.ID)
	if ref == nil {
		return (*ActionInfo)(nil).encode(a.ID, a)
	}
	return ref.encode(ref.wire, a)
}

// encode encodes action a under an id; an action that is not known has no parameters.
func (known *ActionInfo) encode(id uint32, a Action) *p4pb.TableAction {
	out := &p4pb.Action{ActionId: id}
	if known != nil {
		for i, f := range known.Params {
			out.Params = append(out.Params, &p4pb.Action_Param{ParamId: f.ID, Value: Uint(a.Params[i]).Bytes()})
		}
	}
	return &p4pb.TableAction{Type: &p4pb.TableAction_Action{Action: out}}
}

// ParseAction decodes an action for an entry of t or, with asDefault, for its default entry. Its errors are gRPC
// statuses.
func (t *Table) ParseAction(ta *p4pb.TableAction, asDefault bool) (Action, error) {
	a := ta.GetAction()
	if a == nil {
		return Action{}, status.Errorf(codes.InvalidArgument, "table %q needs a direct action", t.Name)
	}
	i := slices.IndexFunc(t.Actions, func(r ActionRef) bool { return r.wire == a.GetActionId() })
	if i < 0 {
		return Action{}, status.Errorf(codes.InvalidArgument, "table %q offers no action %d", t.Name, a.GetActionId())
	}
	ref := &t.Actions[i]
	switch {
	case ref.DefaultOnly && !asDefault:
		return Action{}, status.Errorf(codes.PermissionDenied, "action %q may only be the default of table %q", ref.Name,
			t.Name)
	case ref.TableOnly && asDefault:
		return Action{}, status.Errorf(codes.PermissionDenied, "action %q may not be the default of table %q", ref.Name,
			t.Name)
	}
	return ref.parseParams(a.GetParams())
}

func (a *ActionInfo) parseParams(params []*p4pb.Action_Param) (Action, error) {
	out := Action{ID: a.ID}
	var seen [MaxFields]bool
	for _, p := range params {
		i := fieldIndex(a.Params, p.GetParamId())
		switch {
		case i < 0:
			return out, status.Errorf(codes.InvalidArgument, "action %q has no parameter %d", a.Name, p.GetParamId())
		case seen[i]:
			return out, status.Errorf(codes.InvalidArgument, "parameter %q is given twice", a.Params[i].Name)
		}
		v, err := ParseValue(p.GetValue(), a.Params[i].Bits)
		if err != nil {
			return out, named("parameter", a.Params[i].Name, err)
		}
		out.Params[i], seen[i] = v.Lo, true
	}
	for i, f := range a.Params {
		if !seen[i] {
			return out, status.Errorf(codes.InvalidArgument, "parameter %q of action %q is missing", f.Name, a.Name)
		}
	}
	return out, nil
}

func fieldIndex(fields []Field, id uint32) int {
	for i := range fields {
		if fields[i].ID == id {
			return i
		}
	}
	return -1
}

// named prefixes a status error with the name of the value and keeps its code.
func named(kind, name string, err error) error {
	s, _ := status.FromError(err)
	return status.Errorf(s.Code(), "%s %q: %s", kind, name, s.Message())
}

// Addr returns v as the IP address that AddrValue made it from; bits is 32 or 128.
func (v Value) Addr(bits int) netip.Addr {
	if bits == 32 {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(v.Lo))))
	}
	b := binary.BigEndian.AppendUint64(nil, v.Hi)
	return netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(b, v.Lo)))
}
