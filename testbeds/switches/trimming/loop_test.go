package trimming

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
)

func paperLoop() LoopConfig {
	return LoopConfig{Line: 100 * gbps, Burst: 2 * fullMTU, T0: 6 * us, T1: 24 * us, Response: ToQuarter,
		Flavour: ThreeMeters}
}

func at(d clock.Duration) clock.Time { return clock.Time(d) }

func TestModesFollowANotification(t *testing.T) {
	type check struct {
		at   clock.Duration
		want Mode
	}
	tests := []struct {
		name   string
		change func(*LoopConfig)
		notify []clock.Duration
		checks []check
	}{
		{"nothing was deflected", nil, nil, []check{{0, Optimistic}, {us, Optimistic}, {clock.Second, Optimistic}}},
		{"6 us pessimistic, then 18 us half", nil, []clock.Duration{10 * us}, []check{
			{10 * us, Pessimistic}, {16 * us, Pessimistic}, {16*us + 1*ns, HalfPessimistic}, {34 * us, HalfPessimistic},
			{34*us + 1*ns, Optimistic},
		}},
		{"a notification in the half phase starts over", nil, []clock.Duration{10 * us, 20 * us}, []check{
			{26 * us, Pessimistic}, {27 * us, HalfPessimistic}, {44 * us, HalfPessimistic}, {45 * us, Optimistic},
		}},
		{"a notification in the pessimistic phase restarts both times", nil, []clock.Duration{10 * us, 15 * us}, []check{
			{21 * us, Pessimistic}, {39 * us, HalfPessimistic}, {40 * us, Optimistic},
		}},
		{"without a half phase the port is optimistic at once", func(c *LoopConfig) { c.T1 = 0 }, []clock.Duration{10 * us},
			[]check{{16 * us, Pessimistic}, {17 * us, Optimistic}}},
		{"a response of no duration is none", func(c *LoopConfig) { c.T0, c.T1 = 0, 0 }, []clock.Duration{10 * us},
			[]check{{10 * us, Optimistic}}},
	}
	for _, test := range tests {
		for _, flavour := range []Flavour{ThreeMeters, TwoMeters} {
			t.Run(fmt.Sprintf("%s, flavour %d", test.name, flavour), func(t *testing.T) {
				cfg := paperLoop()
				cfg.Flavour = flavour
				if test.change != nil {
					test.change(&cfg)
				}
				l := NewLoop(cfg)
				for _, n := range test.notify {
					l.Notify(at(n))
				}
				for _, c := range test.checks {
					if got := l.Mode(at(c.at)); got != c.want {
						t.Errorf("at %v: %v, want %v", c.at, got, c.want)
					}
				}
			})
		}
	}
}

// share drives a loop with line rate from one port and returns the share of untrimmed packets between two instants.
func share(l *Loop, from, to clock.Duration) float64 {
	passed, all := 0, 0
	for now := from; now < to; now += 120 * ns {
		all++
		if !l.Trim(at(now), fullMTU) {
			passed++
		}
	}
	return float64(passed) / float64(all)
}

func TestEachModeTrimsToItsRate(t *testing.T) {
	tests := []struct {
		name                        string
		change                      func(*LoopConfig)
		pessimistic, half, after    float64
		pessimisticFor, halfThereby clock.Duration
	}{
		{"three meters", func(*LoopConfig) {}, 0.25, 0.5, 1, 60 * us, 180 * us},
		{"two meters", func(c *LoopConfig) { c.Flavour = TwoMeters }, 0.25, 0.5, 1, 60 * us, 180 * us},
		{"everything while congested", func(c *LoopConfig) { c.Response, c.T1 = TrimAll, 0 }, 0, 1, 1, 60 * us, 180 * us},
		{"everything, then half", func(c *LoopConfig) { c.Response = TrimAll }, 0, 0.5, 1, 60 * us, 180 * us},
		{"pessimistic only", func(c *LoopConfig) { c.T1 = 0 }, 0.25, 1, 1, 60 * us, 180 * us},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := paperLoop()
			cfg.T0, cfg.T1 = test.pessimisticFor, test.pessimisticFor+test.halfThereby
			test.change(&cfg)
			l := NewLoop(cfg)
			near := func(what string, got, want float64) {
				t.Helper()
				if got < want-0.01 || got > want+0.01 {
					t.Errorf("%s: %.3f of the packets pass, want %.2f", what, got, want)
				}
			}
			near("before", share(&l, 0, 600*us), 1) // the strict meters' bursts are used up
			l.Notify(at(600 * us))
			near("pessimistic", share(&l, 600*us, 660*us), test.pessimistic)
			near("half", share(&l, 661*us, 840*us), test.half)
			near("after", share(&l, 841*us, 1200*us), test.after)
		})
	}
}

func TestTrimNTrimsSoManyPacketsForEachNotification(t *testing.T) {
	cfg := paperLoop()
	cfg.Response, cfg.Count, cfg.T0, cfg.T1 = TrimCount, 12, 0, 0
	l := NewLoop(cfg)
	for range 3 {
		l.Notify(at(0))
	}
	trimmed := 0
	for i := range 100 { // much later, and at line rate: the count does not expire
		if l.Trim(at(clock.Millisecond+clock.Duration(i)*120*ns), fullMTU) {
			trimmed++
		}
	}
	if trimmed != 36 {
		t.Errorf("%d packets trimmed after three notifications of 12", trimmed)
	}
}

func TestTheTimestampOfSwitchP4WrapsOnlyOnRequest(t *testing.T) {
	const wrap = clock.Duration(1<<32) * ns
	cfg := paperLoop()
	cfg.Flavour = TwoMeters
	defect := cfg
	defect.WrapDefect = true
	sound, broken := NewLoop(cfg), NewLoop(defect)
	for _, now := range []clock.Duration{100 * us, clock.Second, wrap - 30*us} {
		if s, b := sound.Mode(at(now)), broken.Mode(at(now)); s != Optimistic || b != Optimistic {
			t.Errorf("at %v: %v and %v far from a wrap", now, s, b)
		}
	}
	if m := broken.Mode(at(wrap + 2*us)); m != Pessimistic {
		t.Errorf("just after a wrap an idle port is %v; the cleared register looks like news", m)
	}
	if m := sound.Mode(at(wrap + 2*us)); m != Optimistic {
		t.Errorf("without the defect an idle port is %v after a wrap", m)
	}
	sound.Notify(at(wrap - 10*us))
	broken.Notify(at(wrap - 10*us))
	if m := broken.Mode(at(wrap - 9*us)); m != HalfPessimistic && m != Optimistic {
		t.Errorf("a notification just before a wrap is heard: %v", m)
	}
	if m := sound.Mode(at(wrap - 9*us)); m != Pessimistic {
		t.Errorf("without the defect a notification before a wrap gives %v", m)
	}
}

// TestALoopNeverPassesMoreThanTheModeAllows checks, for any arrivals and notifications, that the traffic passed in a
// pessimistic phase fits into a quarter of line rate plus a burst.
func TestALoopNeverPassesMoreThanTheModeAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := paperLoop()
		cfg.Flavour = rapid.SampledFrom([]Flavour{ThreeMeters, TwoMeters}).Draw(t, "flavour")
		cfg.Burst = fullMTU * rapid.IntRange(1, 20).Draw(t, "burst")
		l := NewLoop(cfg)
		now, passed, since := clock.Time(1), 0, clock.Time(0)
		l.Notify(now)
		since = now
		for range rapid.IntRange(1, 300).Draw(t, "packets") {
			now = now.Add(clock.Duration(rapid.IntRange(0, 200).Draw(t, "gap ns")) * ns)
			if rapid.IntRange(0, 9).Draw(t, "notify") == 0 {
				l.Notify(now)
			}
			if l.Mode(now) != Pessimistic {
				return
			}
			if !l.Trim(now, fullMTU) {
				passed += fullMTU
			}
			allowed := float64(cfg.Burst) + 25e9/8*float64(now.Sub(since))/1e12
			if float64(passed) > allowed {
				t.Fatalf("%d bytes passed in %v, allowed %.0f", passed, now.Sub(since), allowed)
			}
		}
	})
}
