package p4_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"candela.dev/candela/injector/p4"
)

func TestSoftwareTargetsOfferTheBaseContractAndFiveActionsMore(t *testing.T) {
	base := proto.Clone(p4.Base().Proto())
	info := p4.Software()
	if !proto.Equal(base, p4.Base().Proto()) {
		t.Error("making the software P4Info changed the base contract")
	}
	for _, table := range p4.Base().Tables() {
		got, want := info.Table(table.ID).EntryActions(), table.EntryActions()
		if slices.Contains(want, "drop") {
			want = append(want, "delay", "duplicate", "reorder", "rewrite", "corrupt_payload")
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
	less := info.Without("delay", "duplicate", "reorder", "rewrite", "corrupt_payload")
	if !proto.Equal(less.Proto(), base) {
		t.Error("without its actions the software P4Info is not the base contract")
	}
}
