package config

// Metadata describes a test for its maintainers. Reports show it; it does not influence judgements.
type Metadata struct {
	ID          string `json:"id,omitempty"`          // of the test case
	Owner       string `json:"owner,omitempty"`       // the person or team responsible for the test
	Requirement string `json:"requirement,omitempty"` // that the test covers
	Issue       string `json:"issue,omitempty"`       // that the test is about
	// Was lists what the test was called before, so that its history goes on: ids, or files with names.
	Was []string `json:"was,omitempty"`
}

// Pair is a name and a value, for people.
type Pair struct{ Name, Value string }

// Pairs returns the fields of m that are set, in order.
func (m *Metadata) Pairs() []Pair {
	if m == nil {
		return nil
	}
	var pairs []Pair
	for _, p := range []Pair{{"id", m.ID}, {"owner", m.Owner}, {"requirement", m.Requirement}, {"issue", m.Issue}} {
		if p.Value != "" {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

var metadataForm = text{newPattern(`^[^\x00-\x1f]{1,200}$`), "one line of at most 200 characters"}

func metadataSchema() *object {
	word := func(key, doc string, at func(parent any) any) field {
		return field{key: key, doc: doc, kind: optionalText{metadataForm}, at: at}
	}
	return &object{
		title: "metadata",
		doc:   "Information for people. It is in every report and has no effect on the verdict.",
		fields: []field{
			word("id", "Identifier of the test case, such as that in a test plan.",
				at(func(m *Metadata) *string { return &m.ID })),
			word("owner", "Person or team that answers for the test.", at(func(m *Metadata) *string { return &m.Owner })),
			word("requirement", "Requirement that the test covers.",
				at(func(m *Metadata) *string { return &m.Requirement })),
			word("issue", "Issue that the test is about, as a number or an address.",
				at(func(m *Metadata) *string { return &m.Issue })),
			{key: "was", doc: "Former ids of the test, or its former FILE#NAME if it had none, so that its history goes on.",
				kind: list[string]{of: metadataForm, max: 16, omit: true},
				at:   at(func(m *Metadata) *[]string { return &m.Was })},
		},
	}
}
