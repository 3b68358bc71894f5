package ndp

import "testing"

func TestEveryInputIsDeclaredInEveryState(t *testing.T) {
	for _, m := range []*machine{senderMachine, receiverMachine} {
		if holes := m.Holes(); len(holes) > 0 {
			t.Errorf("%s: %v", m.Name(), holes)
		}
	}
}

func TestEveryViolationOfTheMachinesIsInTheTableOfRules(t *testing.T) {
	known := make(map[Rule]bool)
	for _, r := range ruleTable {
		if known[r.Rule] || r.Statement == "" {
			t.Errorf("%s is twice in the table, or incomplete", r.Rule)
		}
		known[r.Rule] = true
	}
	for _, m := range []*machine{senderMachine, receiverMachine} {
		for name, rule := range m.Transitions {
			if rule != "" && !known[rule] {
				t.Errorf("%s: no rule %s", name, rule)
			}
		}
	}
}
