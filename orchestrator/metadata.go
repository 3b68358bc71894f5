package orchestrator

import (
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

// MetadataFacts returns the metadata of a test as reports show it.
func MetadataFacts(m *config.Metadata) []report.Fact {
	var facts []report.Fact
	for _, p := range m.Pairs() {
		facts = append(facts, report.Fact{Name: p.Name, Value: p.Value})
	}
	return facts
}
