package p4_test

import (
	"bytes"
	"net/netip"
	"testing"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"candela.dev/candela/injector/p4"
)

// The examples of the P4Runtime specification, tables "Examples of Valid/Invalid Bytestring Encoding".
func TestBytestringsOfTheSpecification(t *testing.T) {
	tests := []struct {
		in    string
		width int
		want  uint64
		ok    bool
	}{
		{"\x63", 8, 99, true}, {"\x00\x63", 16, 99, true}, {"\x63", 16, 99, true}, {"\x30\x64", 16, 12388, true},
		{"\x00\x30\x64", 16, 12388, true}, {"\x00\x63", 12, 99, true}, {"\x00\x00\x63", 12, 99, true},
		{"\x01\x63", 8, 0, false}, {"", 8, 0, false}, {"\x01\x00\x63", 16, 0, false}, {"\x10\x63", 12, 0, false},
		{"\x01\x00\x63", 12, 0, false}, {"\x00\x40\x63", 12, 0, false}, {"\x00", 1, 0, true}, {"\x02", 1, 0, false},
		{"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 128, 0, false},
	}
	for _, tt := range tests {
		v, err := p4.ParseValue([]byte(tt.in), tt.width)
		switch {
		case tt.ok && (err != nil || v != p4.Uint(tt.want)):
			t.Errorf("%x as bit<%d>: %v, %v, want %d", tt.in, tt.width, v, err, tt.want)
		case !tt.ok && status.Code(err) != codes.OutOfRange:
			t.Errorf("%x as bit<%d>: error %v, want OUT_OF_RANGE", tt.in, tt.width, err)
		}
	}
}

func TestValuesSurviveTheirBytestrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := p4.Value{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
		if rapid.Bool().Draw(t, "short") {
			v.Hi = 0
		}
		b := v.Bytes()
		if len(b) > 1 && b[0] == 0 {
			t.Fatalf("%x is not canonical", b)
		}
		if got, err := p4.ParseValue(append(make([]byte, rapid.IntRange(0, 20).Draw(t, "zeros")), b...), 128); err != nil ||
			got != v {
			t.Fatalf("%v became %v, %v", v, got, err)
		}
	})
}

func TestAddressesSurviveTheirValues(t *testing.T) {
	for _, s := range []string{"10.0.0.1", "255.255.255.255", "0.0.0.0"} {
		if a := netip.MustParseAddr(s); p4.AddrValue(a).Addr(32) != a {
			t.Errorf("%v became %v", a, p4.AddrValue(a).Addr(32))
		}
	}
	for _, s := range []string{"::", "fd00::1", "2001:db8:1:2:3:4:5:6"} {
		if a := netip.MustParseAddr(s); p4.AddrValue(a).Addr(128) != a {
			t.Errorf("%v became %v", a, p4.AddrValue(a).Addr(128))
		}
	}
}

func TestEntriesSurviveTheirMessages(t *testing.T) {
	table := p4.Base().Table(p4.TableEvent)
	k := p4.KeyOf(4095, 1, 0xffffff, 65534)
	if got, err := table.ParseMatch(table.Match(k)); err != nil || got != k {
		t.Errorf("key became %v, %v", got, err)
	}
	a := p4.NewAction(p4.ActionTrim, 64, 0x3f, 7)
	if got, err := table.ParseAction(p4.Base().TableAction(a), false); err != nil || got != a {
		t.Errorf("action became %v, %v", got, err)
	}
}

func TestMalformedEntriesAreRefused(t *testing.T) {
	event, mirror := p4.Base().Table(p4.TableEvent), p4.Base().Table(p4.TableMirror)
	exact := func(id uint32, b ...byte) *p4pb.FieldMatch {
		return &p4pb.FieldMatch{FieldId: id, FieldMatchType: &p4pb.FieldMatch_Exact_{Exact: &p4pb.FieldMatch_Exact{Value: b}}}
	}
	match := func(t *p4.Table, m ...*p4pb.FieldMatch) error { _, err := t.ParseMatch(m); return err }
	act := func(asDefault bool, id uint32, params ...*p4pb.Action_Param) error {
		_, err := event.ParseAction(&p4pb.TableAction{Type: &p4pb.TableAction_Action{Action: &p4pb.Action{ActionId: id,
			Params: params}}}, asDefault)
		return err
	}
	param := func(id uint32, b ...byte) *p4pb.Action_Param { return &p4pb.Action_Param{ParamId: id, Value: b} }
	tests := []struct {
		name string
		err  error
		want codes.Code
	}{
		{"a missing field", match(event, exact(1, 0), exact(2, 0), exact(3, 0)), codes.InvalidArgument},
		{"an unknown field", match(event, exact(9, 0)), codes.InvalidArgument},
		{"a field given twice", match(event, exact(1, 0), exact(1, 0)), codes.InvalidArgument},
		{"a match that is not exact", match(event, &p4pb.FieldMatch{FieldId: 1}), codes.InvalidArgument},
		{"a value that does not fit", match(event, exact(2, 2)), codes.OutOfRange},
		{"a key for a keyless table", match(mirror, exact(1, 0)), codes.InvalidArgument},
		{"an unknown action", act(false, 5), codes.InvalidArgument},
		{"a default-only action in an entry", act(false, p4.ActionNoAction), codes.PermissionDenied},
		{"a missing parameter", act(false, p4.ActionTrim, param(1, 1)), codes.InvalidArgument},
		{"a parameter too many", act(false, p4.ActionDrop, param(1, 1)), codes.InvalidArgument},
		{"a parameter given twice", act(false, p4.ActionTrim, param(1, 1), param(1, 1)), codes.InvalidArgument},
		{"a parameter that does not fit", act(false, p4.ActionTrim, param(2, 64)), codes.OutOfRange},
		{"no action", func() error { _, err := event.ParseAction(nil, false); return err }(), codes.InvalidArgument},
	}
	for _, tt := range tests {
		if status.Code(tt.err) != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, tt.err, tt.want)
		}
	}
}

// FuzzParseValue compares the parser with big-endian arithmetic.
func FuzzParseValue(f *testing.F) {
	f.Add([]byte{0, 0x30, 0x64}, 16)
	f.Add([]byte{}, 1)
	f.Fuzz(func(t *testing.T, b []byte, width int) {
		width = width&127 + 1
		v, err := p4.ParseValue(b, width)
		if err != nil {
			return
		}
		if got := bytes.TrimLeft(b, "\x00"); !bytes.Equal(bytes.TrimLeft(v.Bytes(), "\x00"), got) {
			t.Errorf("%x became %x", b, v.Bytes())
		}
	})
}
