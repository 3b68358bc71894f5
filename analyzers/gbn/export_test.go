package gbn

import (
	"reflect"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/trace"
)

// NewGeneral returns an analyzer without the fast path for ordinary packets.
func NewGeneral(meta trace.Meta, cfg Config) *Analyzer {
	a := New(meta, cfg)
	a.general = true
	return a
}

// Same reports whether two analyzers of one trace are in the same state.
func Same(a, b *Analyzer) bool {
	a.general, b.general = false, false
	return reflect.DeepEqual(a, b)
}

// TakeNothingForOrdinary makes a go on as one of NewGeneral.
func TakeNothingForOrdinary(a *Analyzer) { a.general = true }

// OwnCauses are those of this package, without the observer's.
func OwnCauses() []cause.Cause { return ownCauses() }
