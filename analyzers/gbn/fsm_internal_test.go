package gbn

import "testing"

func TestEveryInputIsDeclaredInEveryState(t *testing.T) {
	for _, m := range []*machine{requesterMachine, responderMachine} {
		if holes := m.Holes(); len(holes) > 0 {
			t.Errorf("%s: %v", m.Name(), holes)
		}
	}
	if len(requesterInputs) != int(rqFatal)+1 || len(responderInputs) != int(rsFatalMissing)+1 {
		t.Error("names and inputs differ in number")
	}
}

func TestEveryViolationOfTheMachinesIsInTheTableOfRules(t *testing.T) {
	for _, m := range []*machine{requesterMachine, responderMachine} {
		for name, rule := range m.Transitions {
			if _, ok := ruleIndex[rule]; rule != "" && !ok {
				t.Errorf("%s: no rule %s", name, rule)
			}
		}
	}
	for _, r := range ruleTable {
		if r.Clause == "" || r.Statement == "" || r.Severity == "" {
			t.Errorf("%s is incomplete", r.Rule)
		}
	}
}
