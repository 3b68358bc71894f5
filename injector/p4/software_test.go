package p4_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/trace"
)

func TestSoftwareTargetsOfferTheBaseContractAndTheirOwnActions(t *testing.T) {
	var own []string
	for i := range trace.Actions {
		if a := &trace.Actions[i]; a.Software {
			own = append(own, a.Name)
		}
	}
	base := proto.Clone(p4.Base().Proto())
	info := p4.Software()
	if !proto.Equal(base, p4.Base().Proto()) {
		t.Error("making the software P4Info changed the base contract")
	}
	for _, table := range p4.Base().Tables() {
		got, want := info.Table(table.ID).EntryActions(), table.EntryActions()
		if slices.Contains(want, "drop") {
			want = append(want, own...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("table %s offers %v, want %v", table.Name, got, want)
		}
	}
	for i, name := range []string{"delay", "duplicate", "reorder", "rewrite", "corrupt_payload"} {
		if a := info.Action(0x01000020 + uint32(i)); a == nil || a.Name != name {
			t.Errorf("action %#x is %v, want %s", 0x01000020+i, a, name)
		}
	}
	less := info.Without(own...)
	if !proto.Equal(less.Proto(), base) {
		t.Error("without its actions the software P4Info is not the base contract")
	}
}

// TestTheTableOfActionsIsThatOfTheContract compares names, ids, parameters and their widths.
func TestTheTableOfActionsIsThatOfTheContract(t *testing.T) {
	for i := range trace.Actions {
		row := &trace.Actions[i]
		info := p4.Base()
		if row.Software {
			info = p4.Software()
		}
		a := info.Action(row.ID)
		if a == nil || a.Name != row.Name || len(a.Params) != len(row.Params) || len(row.Params) > trace.MaxActionParams {
			t.Errorf("action %s, id %#x: the P4Info has %+v", row.Name, row.ID, a)
			continue
		}
		for n, p := range a.Params {
			if d := &row.Params[n]; p.Name != d.Name || p.Bits != d.Bits {
				t.Errorf("%s: parameter %d is %s of %d bits, the P4Info has %+v", row.Name, n+1, d.Name, d.Bits, p)
			}
		}
		if words := strings.Count(row.Text, "%s"); row.Text != "" && words != len(row.Params) {
			t.Errorf("%s: %d words in %q for %d parameters", row.Name, words, row.Text, len(row.Params))
		}
	}
}
