package delay_test

import (
	"testing"
	"time"

	"candela.dev/candela/injector/delay"
)

func TestCountsAreReadBackAndKnowTheLongest(t *testing.T) {
	var before delay.Counts
	before.Add(3 * time.Second)
	now := before
	for _, d := range []time.Duration{-1, 0, 90 * time.Microsecond, 300 * time.Millisecond} {
		now.Add(d)
	}
	read, err := delay.Parse(now.String())
	if err != nil || read != now {
		t.Fatalf("%v, %v: want %v", read, err, now)
	}
	since := read.Since(before)
	if n, longest := since.Frames(), since.Longest(); n != 4 || longest > 300*time.Millisecond ||
		longest < 150*time.Millisecond {
		t.Errorf("%d frames, the longest at least %v; want 4, and 150 to 300 ms", n, longest)
	}
	if (delay.Counts{}).Longest() != 0 {
		t.Error("no frame took a time")
	}
	for _, text := range []string{"", "1 2", before.String() + " 1", "x" + before.String()[1:]} {
		if _, err := delay.Parse(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
