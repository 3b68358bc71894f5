package tcp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
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

// A sample of 200 us makes a timer of 600 us (RFC 6298, 2.2).
func TestTheTimerIsAsConfigured(t *testing.T) {
	base := newReno()
	base.MinRTO, base.InitialRTO = clock.Microsecond, clock.Millisecond
	with := func(change func(*tcp.Config)) tcp.Config {
		cfg := base
		change(&cfg)
		return cfg
	}
	stamped := with(func(c *tcp.Config) { c.Timestamps = true })
	const us = clock.Microsecond
	for _, tt := range []struct {
		name string
		cfg  tcp.Config
		drop []uint64
		at   []clock.Duration // of the second write
		want []clock.Duration // transmissions
	}{
		{"ACKs restart it", base, []uint64{0, 1}, []clock.Duration{400 * us}, []clock.Duration{0, 400 * us, 1000 * us, 1200 * us}},
		{"transmissions do, too", with(func(c *tcp.Config) { c.RestartsOnSend = true }), []uint64{0, 1},
			[]clock.Duration{400 * us}, []clock.Duration{0, 400 * us, 1400 * us, 1600 * us}},
		{"Karn's algorithm takes no sample of a retransmission", base, []uint64{0, 1}, []clock.Duration{2000 * us},
			[]clock.Duration{0, 1000 * us, 2000 * us, 3000 * us}},
		{"a time stamp tells its transmissions apart", stamped, []uint64{0, 1}, []clock.Duration{2000 * us},
			[]clock.Duration{0, 1000 * us, 2000 * us, 2600 * us}},
	} {
		w := newWire(t, tt.cfg)
		w.fate = dropping(tt.drop...)
		w.write(t, mss)
		for _, at := range tt.at {
			if err := w.hosts[0].Write(1, 7, mss, clock.Time(at)); err != nil {
				t.Fatal(err)
			}
		}
		w.run(clock.Time(clock.Second), 0)
		var got []clock.Duration
		for _, at := range w.at {
			got = append(got, at.Sub(0)/(10*us)*(10*us))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	if cfg := with(func(c *tcp.Config) { c.Timestamps, c.Detection = true, tcp.SACK }); cfg.Validate() == nil {
		t.Error("time stamps beside SACK are accepted")
	}
}
