package tcp_test

import (
	"math"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
)

func swiftConfig() tcp.Config {
	c := config()
	c.Control, c.DelayedACK, c.InitialWindow = tcp.SwiftControl, 0, 1
	c.Swift = tcp.Swift{BaseTarget: 50 * clock.Microsecond, FlowRange: 0, FlowMin: 0.1, FlowMax: 100,
		EndpointTarget: 100 * clock.Microsecond, Increase: 1, Beta: 0.8, MaxDecrease: 0.5, MinWindow: 0.01, MaxWindow: 100,
		ResetAfter: 2}
	return c
}

// Algorithm 1 with a constant round trip of 200 us: above the target, the window halves once in a round trip, and
// packets are RTT / cwnd apart (3.4).
func TestSwiftPacesBelowOneSegment(t *testing.T) {
	w := newWire(t, swiftConfig())
	if err := w.hosts[0].Write(1, 1, 6*mss, 0); err != nil {
		t.Fatal(err)
	}
	w.run(clock.Time(100*clock.Millisecond), 0)
	if len(w.at) != 6 {
		t.Fatalf("%d segments were sent", len(w.at))
	}
	for i, window := 1, 0.5; i < len(w.at); i, window = i+1, window/2 {
		trip := 2*delay + 2*step
		if gap := w.at[i].Sub(w.at[i-1]); math.Abs(float64(gap)/(float64(trip)/window)-1) > 0.02 {
			t.Errorf("segment %d was sent %v after the one before it, want %v / %v", i, gap, trip, window)
		}
	}
}

// Below the target, a window of one segment grows to n segments after n - 1 round trips.
func TestSwiftGrowsByASegmentInARoundTrip(t *testing.T) {
	c := swiftConfig()
	c.Swift.BaseTarget = clock.Millisecond
	w := newWire(t, c)
	if err := w.hosts[0].Write(1, 1, 1000*mss, 0); err != nil {
		t.Fatal(err)
	}
	w.run(clock.Time(20*2*delay+10*clock.Microsecond), 0)
	// 1 + 2 + ... + n, less what rounding of the window to whole segments leaves
	if n := len(w.at); n < 170 || n > 231 {
		t.Errorf("%d segments were sent in 20 round trips, want about 210", n)
	}
}

func TestSwiftsParametersAreChecked(t *testing.T) {
	for name, spoil := range map[string]func(*tcp.Config){
		"no target":         func(c *tcp.Config) { c.Swift.BaseTarget = 0 },
		"flow scaling":      func(c *tcp.Config) { c.Swift.FlowMin = 100 },
		"greatest decrease": func(c *tcp.Config) { c.Swift.MaxDecrease = 1 },
		"least window":      func(c *tcp.Config) { c.Swift.MinWindow = 0 },
		"reset":             func(c *tcp.Config) { c.Swift.ResetAfter = 0 },
		"ECN":               func(c *tcp.Config) { c.ECN.Codepoint = 1 },
	} {
		c := swiftConfig()
		if spoil(&c); c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
