package fsm_test

import (
	"maps"
	"slices"
	"testing"

	"candela.dev/candela/analyzers/fsm"
)

// A door that must not be locked while it is open.
const (
	shut uint8 = iota
	open
	locked
)

const (
	push uint8 = iota
	turn
)

func door() *fsm.Machine[string] {
	return fsm.Declare("door", []string{"shut", "open", "locked"}, []string{"push", "turn"}, []fsm.Row[string]{
		{Input: push, To: open},
		{Input: push, States: []uint8{open}, To: shut},
		{Input: push, States: []uint8{locked}, To: fsm.Stay},
		{Input: turn, To: locked},
		{Input: turn, States: []uint8{open}, To: fsm.Stay, Rule: "door.locked-open"},
	})
}

func TestLaterRowsOverrideEarlierOnesAndStepsFollowThem(t *testing.T) {
	c := fsm.NewCoverage(door())
	state := shut
	for i, step := range []struct {
		input, want uint8
		rule        string
	}{{push, open, ""}, {turn, open, "door.locked-open"}, {push, shut, ""}, {turn, locked, ""}, {push, locked, ""}} {
		if rule := c.Step(&state, step.input); rule != step.rule || state != step.want {
			t.Errorf("step %d: state %d, rule %q", i, state, rule)
		}
	}
	legal, illegal := make(map[string]int64), make(map[string]int64)
	c.AddTo(legal)
	c.AddIllegal(illegal)
	if want := map[string]int64{
		"door: shut + push -> open": 1, "door: open + push -> shut": 1, "door: locked + push -> locked": 1,
		"door: shut + turn -> locked":   1,
		"door: locked + turn -> locked": 0,
	}; !maps.Equal(legal, want) {
		t.Errorf("%v", legal)
	}
	if !maps.Equal(illegal, map[string]int64{"door: open + turn -> open": 1}) {
		t.Errorf("%v", illegal)
	}
}

func TestPairsOfNoRowAreHolesAndNoTransitions(t *testing.T) {
	m := fsm.Declare("door", []string{"shut", "open"}, []string{"push"},
		[]fsm.Row[string]{{Input: push, States: []uint8{shut}, To: open}})
	if holes := m.Holes(); !slices.Equal(holes, []string{"open/push"}) {
		t.Error(holes)
	}
	for name, rule := range m.Transitions {
		if name != "door: shut + push -> open" || rule != "" {
			t.Error(name, rule)
		}
	}
	if whole := door().Holes(); len(whole) > 0 {
		t.Error(whole)
	}
}
