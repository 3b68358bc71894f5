package tcp_test

import (
	"testing"

	"candela.dev/candela/clock"
)

// RFC 6298, 5.5 and 2.5: the timer doubles up to its maximum, even from a small minimum.
func TestTheTimerDoublesUpToTwoMinutes(t *testing.T) {
	cfg := config()
	cfg.MinRTO = 50 * clock.Microsecond
	w := newWire(t, cfg)
	lost := make([]uint64, 26)
	w.fate = dropping(lost...)
	w.write(t, mss)
	if !w.run(clock.Time(2000*clock.Second), 0) {
		t.Fatal("the segment never arrived")
	}
	if len(w.at) != len(lost)+1 {
		t.Fatalf("sent %d times, want %d", len(w.at), len(lost)+1)
	}
	want := cfg.MinRTO
	for i := 1; i < len(w.at); i++ {
		if got := w.at[i].Sub(w.at[i-1]); got != want {
			t.Errorf("timeout %d took %s, want %s", i, got.Text(), want.Text())
		}
		want = min(2*want, 120*clock.Second)
	}
}
