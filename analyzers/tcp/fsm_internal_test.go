package tcp

import "testing"

func TestEveryInputIsDeclaredInEveryState(t *testing.T) {
	for _, m := range []*machine{senderMachine, receiverMachine} {
		if holes := m.Holes(); len(holes) > 0 {
			t.Errorf("%s: %v", m.Name(), holes)
		}
	}
	if len(senderInputs) != int(txRetries)+1 || len(receiverInputs) != int(rxSlow)+1 {
		t.Error("names and inputs differ in number")
	}
}

func TestEveryViolationOfTheMachinesIsInTheTableOfRules(t *testing.T) {
	known := make(map[string]bool)
	for _, r := range Rules() {
		if known[r.ID] || r.Clause == "" || r.Statement == "" || r.Severity == "" {
			t.Errorf("%s is twice in the table, or incomplete", r.ID)
		}
		known[r.ID] = true
	}
	for _, m := range []*machine{senderMachine, receiverMachine} {
		for name, rule := range m.Transitions {
			if rule != "" && !known[rule] {
				t.Errorf("%s: no rule %s", name, rule)
			}
		}
	}
}
