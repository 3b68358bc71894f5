package parameter

// Model describes a model under test for test files: its name, parameters and seeded bugs. The package of the model
// creates it; a registry lists the constructors.
type Model struct {
	Name       string // in test files
	Doc        string // one sentence
	Parameters Table
	Bugs       []Bug
}

// Bug is a fault that a model has on request, to test the harness, and the rule that must detect it. Empty:
// expectations detect it.
type Bug struct{ Name, Doc, Rule string }

// HasBug reports whether the model has a seeded bug.
func (m *Model) HasBug(name string) bool {
	for _, b := range m.Bugs {
		if b.Name == name {
			return true
		}
	}
	return false
}
