package gbn

import (
	"testing"

	"candela.dev/candela/trace"
)

// TestAWindowForgetsNothingBeforeItHasItsUsualLength: a short window saves memory, not knowledge.
func TestAWindowForgetsNothingBeforeItHasItsUsualLength(t *testing.T) {
	w := newWindow()
	for p := range pos(windowMin) {
		if w.put(p, p, &trace.Record{ID: uint64(p)}); len(w.ring) > 2*int(p) && len(w.ring) > windowStart {
			t.Fatalf("%d requests take a ring of %d", p+1, len(w.ring))
		}
	}
	for p := range pos(windowMin) {
		if s, ok := w.get(p); !ok || s.id != uint64(p) {
			t.Errorf("request %d: %v, %+v", p, ok, s)
		}
	}
	w.put(windowMin, windowMin, &trace.Record{})
	if _, ok := w.get(0); ok || len(w.ring) != windowMin {
		t.Errorf("ring of %d, the first request is known: %v; want %d, as all but the latest are acknowledged", len(w.ring),
			ok, windowMin)
	}
}
