package fields

import "candela.dev/candela/trace"

// NewGeneral returns an analyzer without the fast path.
func NewGeneral(meta trace.Meta, cfg Config) *Analyzer {
	a := New(meta, cfg)
	a.general = true
	return a
}
