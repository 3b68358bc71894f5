package pipeline

import (
	"testing"

	"candela.dev/candela/clock"
)

func TestPacketsLeaveBeforeTheNanosecondInWhichTheirTimeIsUp(t *testing.T) {
	at := func(ps int64) clock.Time { return clock.Time(ps) }
	for _, tt := range []struct {
		now  int64
		ns   int64
		want int64
	}{{0, 1, 999}, {999, 1, 999}, {1000, 1, 1999}, {1500, 3, 3999}} {
		if got := dueAfter(at(tt.now), tt.ns); got != at(tt.want) {
			t.Errorf("%d ps and %d ns: due at %d, want %d", tt.now, tt.ns, got, tt.want)
		}
	}
}
