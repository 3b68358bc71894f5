package switches_test

import (
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

func TestReasonsAreNamedByTheFabricAndTheFamily(t *testing.T) {
	f := switches.Family{Reasons: []analyzers.DropReason{{Name: "unlucky", Decided: true}, {Name: "copied", Copied: true}}}
	for _, c := range []struct {
		reason fabric.Reason
		want   analyzers.DropReason
	}{
		{fabric.ReasonTail, analyzers.DropReason{Name: "tail", Decided: true}},
		{fabric.ReasonEarly, analyzers.DropReason{Name: "early", Decided: true}},
		{fabric.ReasonTTL, analyzers.DropReason{Name: "ttl"}},
		{fabric.ReasonHeadroom, analyzers.DropReason{Name: "headroom"}},
		{fabric.ReasonConsumed, analyzers.DropReason{Name: "consumed"}},
		{fabric.ReasonOwn, analyzers.DropReason{Name: "unlucky", Decided: true}},
		{fabric.ReasonOwn + 1, analyzers.DropReason{Name: "copied", Copied: true}},
		{fabric.ReasonOwn + 2, analyzers.DropReason{}},
		{fabric.ReasonStopped, analyzers.DropReason{Name: "stopped", Outage: true}},
		{fabric.ReasonTrunkFailed, analyzers.DropReason{Name: "trunk-failed", Outage: true}},
		{fabric.ReasonTrunkDown, analyzers.DropReason{Name: "trunk-down", Outage: true, Unseen: true}},
		{fabric.ReasonUnreachable, analyzers.DropReason{Name: "unreachable", Outage: true, Unseen: true}},
		{0, analyzers.DropReason{}},
	} {
		if got := f.Reason(c.reason); got != c.want {
			t.Errorf("reason %d is %+v, want %+v", c.reason, got, c.want)
		}
	}
}

// A family that uses all its reasons does not overlap with the fabric's.
func TestReasonsOfAFamilyDoNotMeetTheFabrics(t *testing.T) {
	f := switches.Family{Reasons: make([]analyzers.DropReason, switches.MaxReasons)}
	for i := range f.Reasons {
		f.Reasons[i].Name = "own"
	}
	own := 0
	for r := range fabric.Reason(fabric.Reasons) {
		if f.Reason(r).Name == "own" {
			own++
			if r.Name() != "" {
				t.Errorf("reason %d is the fabric's %q", r, r.Name())
			}
		}
	}
	if own != switches.MaxReasons {
		t.Errorf("%d reasons are the family's, want %d", own, switches.MaxReasons)
	}
}

func TestModelsAreFoundByTheirNames(t *testing.T) {
	f := switches.Family{Models: []switches.Model{{Model: parameter.Model{Name: "a"}},
		{Model: parameter.Model{Name: "b"}, Ranks: true}}}
	if m, ok := f.Model("b"); !ok || !m.Ranks {
		t.Errorf("model b: %+v, %v", m, ok)
	}
	if _, ok := f.Model("c"); ok {
		t.Error("there is a model c")
	}
}
