package qemu

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAHoldIsBoundedByItsClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := time.Duration(rapid.Int64Range(1, int64(5*time.Minute)).Draw(t, "took"))
		var h Holds
		h.add(took)
		bound, known := h.Longest()
		if !known || bound < took || bound > max(8, took+took/4+1) {
			t.Fatalf("%d was bounded by %d, %t", took, bound, known)
		}
	})
}

func TestHoldsSurviveTheirText(t *testing.T) {
	var before, after Holds
	if before.String() != "" {
		t.Errorf("a host that never answered has the text %q", before.String())
	}
	before.add(time.Second)
	after = before
	after.add(20 * time.Millisecond)
	after.Waiting = 7 * time.Millisecond
	for _, h := range []Holds{{}, before, after} {
		if got, err := ParseHolds(h.String()); err != nil || got != h {
			t.Errorf("%q was read as %q, %v", h, got, err)
		}
	}
	since := after.Since(before)
	if bound, known := since.Longest(); !known || bound < 20*time.Millisecond || bound > 25*time.Millisecond ||
		since.Echoes() != 1 {
		t.Errorf("since: %v, %t, %d echoes", bound, known, since.Echoes())
	}
	after.Waiting = 3 * time.Second
	if bound, _ := after.Since(before).Longest(); bound != 3*time.Second {
		t.Errorf("an echo without an answer for 3 s bounds the hold by %v", bound)
	}
	for _, text := range []string{"x", "-1", "5 3", "5 3:x", "5 160:1", "5 -1:1"} {
		if _, err := ParseHolds(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
