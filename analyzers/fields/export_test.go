package fields

import "candela.dev/candela/trace"

// NewGeneral returns an analyzer that takes no packet for ordinary.
func NewGeneral(meta trace.Meta, cfg Config) *Analyzer {
	a := New(meta, cfg)
	a.general = true
	return a
}
