package rounds

import (
	"reflect"

	"candela.dev/candela/trace"
)

// NewGeneral returns a tracker without the fast path.
func NewGeneral(meta trace.Meta) *Tracker {
	t := New(meta)
	t.general = true
	return t
}

// Same reports whether two trackers know the same of every stream.
func Same(a, b *Tracker) bool { return reflect.DeepEqual(a.streams, b.streams) }
