package tcp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
)

// newReno returns a configuration of RFC 6582 with immediate ACKs.
func newReno() tcp.Config {
	cfg := config()
	cfg.Detection, cfg.Control, cfg.DelayedACK = tcp.NewReno, tcp.Reno, 0
	return cfg
}

func TestLossesAreFoundAsConfigured(t *testing.T) {
	with := func(change func(*tcp.Config)) tcp.Config {
		cfg := newReno()
		change(&cfg)
		return cfg
	}
	off := with(func(c *tcp.Config) { c.NoFastRetransmit = true })
	packets := with(func(c *tcp.Config) { c.Detection = tcp.PerPacket })
	for _, test := range []struct {
		name          string
		cfg           tcp.Config
		segments      uint64
		drop          []uint64
		retransmitted uint64
		timeouts      uint64
		recoveries    uint64
	}{
		{"new-reno: three duplicate ACKs", newReno(), 10, []uint64{6}, 1, 0, 1},
		{"new-reno: two are too few", newReno(), 10, []uint64{7}, 1, 1, 0},
		{"new-reno: partial ACKs retransmit a segment a round trip", newReno(), 40, []uint64{12, 14, 17}, 3, 0, 1},
		{"new-reno: a lost retransmission waits for the timeout", newReno(), 12, []uint64{2, 2}, 2, 1, 1},
		{"per-packet: three packets later", packets, 10, []uint64{6}, 1, 0, 1},
		{"per-packet: one ACK may show the loss of several", packets, 10, []uint64{2, 3, 4, 5, 6}, 5, 0, 1},
		{"per-packet: a lost retransmission is another congestion", packets, 200, []uint64{20, 20}, 2, 0, 2},
		{"per-packet: losses of one window are one", packets, 200, []uint64{20, 24, 25, 29}, 4, 0, 1},
		{"fast retransmit off", off, 10, []uint64{2}, 1, 1, 0},
		{"fast retransmit off, with SACK", with(func(c *tcp.Config) { c.NoFastRetransmit, c.Detection = true, tcp.SACK }),
			10, []uint64{2}, 1, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWire(t, test.cfg)
			w.fate = dropping(test.drop...)
			w.write(t, test.segments*mss)
			if !w.run(clock.Time(10*clock.Second), 0) || w.model[1].delivered != test.segments*mss {
				t.Fatalf("%d bytes of %d arrived", w.model[1].delivered, test.segments*mss)
			}
			got := w.hosts[0].Counters()
			if got.Retransmitted != test.retransmitted || got.Timeouts != test.timeouts || got.Recoveries != test.recoveries {
				t.Errorf("%d retransmissions, %d timeouts, %d recoveries", got.Retransmitted, got.Timeouts, got.Recoveries)
			}
		})
	}
}

// RFC 6582: while a recovery lasts, partial ACKs retransmit one segment each; afterwards the window is the threshold.
func TestNewRenoRetransmitsASegmentEachRoundTrip(t *testing.T) {
	w := newWire(t, newReno())
	w.fate = dropping(10, 14, 18) // of the second round, in which the window grows from 10 to 20
	w.write(t, 200*mss)
	w.run(clock.Time(clock.Second), 0)
	var at []clock.Duration // round trips
	sent := make(map[uint64]int)
	for i := range w.sent {
		if sent[w.sent[i].Number]++; sent[w.sent[i].Number] == 2 {
			at = append(at, w.at[i].Sub(0)/rtt)
		}
	}
	if diff := cmp.Diff([]clock.Duration{2, 3, 4}, at); diff != "" {
		t.Error("round trips of the retransmissions", diff)
	}
	if got := w.hosts[0].Counters(); got.Recoveries != 1 || got.Timeouts != 0 {
		t.Errorf("%+v", got)
	}
	if n := w.perRound(5); n < 8 || n > 13 { // the window was between 20 and 26 segments
		t.Errorf("%d segments in the round trip after the recovery", n)
	}
}

func TestLimitedTransmitSendsTwoSegments(t *testing.T) {
	for name, off := range map[string]bool{"on": false, "off": true} {
		cfg := newReno()
		cfg.NoLimitedTransmit, cfg.InitialWindow = off, 3
		w := newWire(t, cfg)
		w.fate = dropping(0)
		w.write(t, 20*mss)
		w.run(clock.Time(clock.Second), 0)
		fast := w.hosts[0].Counters().Recoveries == 1
		if n := w.perRound(1); off && (n != 0 || fast) || !off && (n < 2 || !fast) {
			t.Errorf("%s: %d segments in the second round trip, fast retransmit %v", name, n, fast)
		}
	}
}

func TestConnectionsAreGivenUp(t *testing.T) {
	for _, handshake := range []bool{false, true} {
		cfg := newReno()
		cfg.MaxRetries, cfg.Handshake, cfg.MinRTO, cfg.MaxRTO = 3, handshake, 100*clock.Millisecond, 200*clock.Millisecond
		w := newWire(t, cfg)
		sent := 0
		w.fate = func(int, *tcp.Packet) []clock.Duration { sent++; return nil }
		w.write(t, 1)
		if !w.run(clock.Time(10*clock.Second), 0) {
			t.Fatal("a timer is left")
		}
		last := w.events[0][len(w.events[0])-1]
		// 100 ms, and three times the maximum
		at := w.when[0][len(w.when[0])-1]
		if sent != 4 || last.Kind != tcp.Aborted || at != clock.Time(700*clock.Millisecond) {
			t.Errorf("handshake %v: %d packets, %+v at %v", handshake, sent, last, at)
		}
	}
}

// The window of a receiver that does not scale it limits what is in flight to 65,535 bytes.
func TestAWindowWithoutScalingLimitsTheRate(t *testing.T) {
	cfg := greeting()
	cfg.Unscaled, cfg.ReceiveWindow = true, 0xffff
	w := newWire(t, cfg)
	w.write(t, 1000*mss)
	if !w.run(clock.Time(clock.Second), 0) || w.model[1].delivered != 1000*mss {
		t.Fatal("not all arrived")
	}
	if n := w.perRound(8); n != 65 {
		t.Errorf("%d segments of %d bytes in a round trip, not 65", n, mss)
	}
}

func TestACKsAreDelayedAsConfigured(t *testing.T) {
	for _, test := range []struct {
		name         string
		delay        clock.Duration
		quick, every int
		acks         uint64
	}{
		{"at once", 0, 0, 0, 100},
		{"every second", 40 * clock.Millisecond, -1, 0, 50},
		{"every fifth", 40 * clock.Millisecond, -1, 5, 20},
		{"the first ten at once, then every third", 40 * clock.Millisecond, 10, 3, 10 + 30},
	} {
		cfg := config()
		cfg.DelayedACK, cfg.QuickACKs, cfg.ACKEvery = test.delay, test.quick, test.every
		w := newWire(t, cfg)
		w.write(t, 100*mss)
		w.run(clock.Time(clock.Second), 0)
		if got := w.hosts[1].Counters().ACKsSent; got != test.acks {
			t.Errorf("%s: %d ACKs, want %d", test.name, got, test.acks)
		}
	}
}
