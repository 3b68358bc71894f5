package fault_test

import (
	"strings"
	"testing"

	"candela.dev/candela/generator/fault"
)

type bug uint8

var table = fault.Catalogue[bug]{{Name: "late", Rule: "x.late"}, {Name: "lost", Rule: "x.lost"}}

func TestNamesBecomeASetAndUnknownOnesAnErrorThatListsThoseThatExist(t *testing.T) {
	set, err := table.Parse([]string{"lost"})
	if err != nil || set != fault.NewSet(bug(1)) || set.Has(0) || !set.Has(1) {
		t.Errorf("%v, %v", set, err)
	}
	if none, err := table.Parse(nil); err != nil || !none.Empty() {
		t.Errorf("no names: %v, %v", none, err)
	}
	if _, err := table.Parse([]string{"late", "los"}); err == nil ||
		!strings.Contains(err.Error(), `"los" is unknown (known: late, lost)`) {
		t.Error(err)
	}
}

func TestTheListNumbersFaultsByTheirPlace(t *testing.T) {
	for i, f := range table.List() {
		if f.Bug != bug(i) || f.Name != table[i].Name || f.Rule != table[i].Rule {
			t.Errorf("%d: %+v", i, f)
		}
	}
}

// Faults beyond the first 64 don't share the place of another.
func TestASetHoldsAsManyFaultsAsItMay(t *testing.T) {
	for b := range bug(fault.Most) {
		set := fault.NewSet(b)
		for other := range bug(fault.Most) {
			if set.Has(other) != (b == other) {
				t.Fatalf("the set of %d alone: has %d: %t", b, other, set.Has(other))
			}
		}
	}
}
