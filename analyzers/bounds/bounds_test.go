package bounds_test

import (
	"testing"

	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/trace"
)

const ms = 1_000_000

// TestADelayIsMeasuredOrAssumedByTheKindOfTrace holds the bound against what is known of the hosts.
func TestADelayIsMeasuredOrAssumedByTheKindOfTrace(t *testing.T) {
	for _, c := range []struct {
		name  string
		hosts bounds.Hosts
		kind  trace.Kind
		want  int64
	}{
		{"hosts at a switch", bounds.Hosts{}, trace.KindMirror, 20 * ms},
		{"software hosts at a switch", bounds.Hosts{Software: true}, trace.KindMirror, 250 * ms},
		{"a capture", bounds.Hosts{}, trace.KindPlain, 250 * ms},
		{"two captures", bounds.Hosts{}, trace.KindPair, 250 * ms},
		{"measured", bounds.Hosts{DelayNS: 7, Software: true, LinkNS: ms}, trace.KindMirror, 7},
		{"links that take longer", bounds.Hosts{LinkNS: 30 * ms}, trace.KindMirror, 60 * ms},
	} {
		d := c.hosts.Delay(c.kind)
		if d.NS() != c.want || d.RoundTripNS() != 2*c.want || d.Measured() != (c.hosts.DelayNS > 0) {
			t.Errorf("%s: delay %d ns, round trip %d ns, measured %v; want %d ns", c.name, d.NS(), d.RoundTripNS(), d.Measured(),
				c.want)
		}
	}
}

// TestAnAssumedDelayFitsTheTimer: a connection whose timeout is shorter than a round trip cannot work, unless the test
// wants that.
func TestAnAssumedDelayFitsTheTimer(t *testing.T) {
	for _, c := range []struct {
		name      string
		hosts     bounds.Hosts
		timeoutNS int64
		want      int64
	}{
		{"a short timer", bounds.Hosts{}, 4 * ms, ms},
		{"a long timer", bounds.Hosts{}, 1000 * ms, 20 * ms},
		{"a timer below the round trip of the links", bounds.Hosts{LinkNS: 2 * ms}, 4 * ms, 4 * ms},
		{"measured", bounds.Hosts{DelayNS: 3 * ms}, 4 * ms, 3 * ms},
		{"no timer", bounds.Hosts{}, 0, 0},
	} {
		if got := c.hosts.Delay(trace.KindMirror).BesideNS(c.timeoutNS); got != c.want {
			t.Errorf("%s: %d ns, want %d ns", c.name, got, c.want)
		}
	}
}

// TestAnUnknownTimerIsTheShortest also checks that the window for consequences covers what is assumed of a mirror's
// hosts.
func TestAnUnknownTimerIsTheShortest(t *testing.T) {
	if got := bounds.TimeoutNS(0); got != bounds.ShortestTimeoutNS {
		t.Errorf("unknown timer: %d ns, want %d ns", got, bounds.ShortestTimeoutNS)
	}
	if got := bounds.TimeoutNS(5 * ms); got != 5*ms {
		t.Errorf("known timer: %d ns, want 5 ms", got)
	}
	if trip := (bounds.Hosts{}).Delay(trace.KindMirror).RoundTripNS(); trip > bounds.ReactionNS {
		t.Errorf("a round trip takes %d ns, longer than the window of %d ns", trip, bounds.ReactionNS)
	}
}
