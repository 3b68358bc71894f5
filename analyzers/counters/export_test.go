package counters

import (
	"reflect"

	"candela.dev/candela/trace"
)

// NewGeneral returns an analyzer without the fast path.
func NewGeneral(meta trace.Meta, cfg Input) *Analyzer {
	a := New(meta, cfg)
	a.general = true
	return a
}

// Same reports whether two analyzers expect the same.
func Same(a, b *Analyzer) bool {
	a.general, b.general = false, false
	a.tracker, b.tracker = nil, nil
	return reflect.DeepEqual(a, b)
}
