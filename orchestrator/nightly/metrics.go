package nightly

// Metrics counts what a night does.
type Metrics struct{}

func (m *Metrics) attempt(*Attempt, int, int) {}
func (m *Metrics) bed(string, bool)           {}
func (m *Metrics) night(*Summary)             {}
