package parameter

// Model is what a test file may say about a model under test: its name, its parameters, and the bugs that can be seeded
// into it. The package of the model makes it; a registry names the constructor beside it.
type Model struct {
	Name       string // as test files write it
	Doc        string // one sentence
	Parameters Table
	Bugs       []Bug
}

// Bug is a mistake that a model makes on request, for tests of the harness itself, and the rule that must catch it;
// empty: expectations do.
type Bug struct{ Name, Doc, Rule string }

// HasBug reports whether the model knows a seeded bug.
func (m *Model) HasBug(name string) bool {
	for _, b := range m.Bugs {
		if b.Name == name {
			return true
		}
	}
	return false
}
