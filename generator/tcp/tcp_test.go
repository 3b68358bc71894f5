package tcp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	wiretcp "candela.dev/candela/packet/tcp"
)

const rtt = 2 * delay

func TestTheFirstWindowIsTenSegmentsAndDoublesEachRoundTrip(t *testing.T) {
	cfg := config()
	cfg.DelayedACK = 0 // every segment counts
	w := newWire(t, cfg)
	w.write(t, 1000*mss)
	w.run(clock.Time(4*rtt), 0)
	var rounds []int
	for i := range clock.Duration(3) {
		rounds = append(rounds, w.perRound(i))
	}
	if diff := cmp.Diff([]int{10, 20, 40}, rounds); diff != "" {
		t.Error("segments in each round trip", diff)
	}
}

// RFC 5681, 3.1: from the threshold on, the window grows by a segment in a round trip.
func TestTheFirstSlowStartEndsAtItsThreshold(t *testing.T) {
	cfg := config()
	cfg.DelayedACK, cfg.Control, cfg.InitialWindow, cfg.Threshold = 0, tcp.Reno, 4, 8
	w := newWire(t, cfg)
	w.write(t, 1000*mss)
	w.run(clock.Time(5*rtt), 0)
	var rounds []int
	for i := range clock.Duration(4) {
		rounds = append(rounds, w.perRound(i))
	}
	if diff := cmp.Diff([]int{4, 8, 8, 9}, rounds); diff != "" {
		t.Error("segments in each round trip", diff)
	}
	if cfg.Threshold = 1; cfg.Validate() == nil {
		t.Error("a threshold of one segment is accepted")
	}
}

func TestASmallWriteTakesHalfARoundTripAndOneSegment(t *testing.T) {
	w := newWire(t, config())
	w.write(t, 1)
	if !w.run(clock.Time(clock.Second), 0) || len(w.sent) != 1 || w.sent[0].Payload != 1 ||
		w.sent[0].Header.Flags != tcp.FlagACK|tcp.FlagPSH {
		t.Fatalf("sent %+v", w.sent)
	}
	if c := w.hosts[1].Counters(); c.ACKsSent != 1 || c.SegmentsReceived != 1 {
		t.Errorf("receiver: %+v", c)
	}
}

func TestACKsAreDelayedOnceAConnectionIsOld(t *testing.T) {
	w := newWire(t, config())
	w.write(t, 117*mss) // 16 quick ones, 50 pairs, and one after the ACK delay
	w.run(clock.Time(clock.Second), 0)
	if c := w.hosts[1].Counters(); c.ACKsSent != 16+50+1 {
		t.Errorf("%d ACKs", c.ACKsSent)
	}
	last := w.when[0][len(w.when[0])-1] // all is acknowledged
	sent := w.at[len(w.at)-1]
	if got := last.Sub(sent); got != rtt+40*clock.Millisecond {
		t.Errorf("the odd segment is acknowledged after %v", got)
	}
}

func TestFastRetransmit(t *testing.T) {
	tests := []struct {
		name          string
		segments      uint64
		drop          []uint64
		retransmitted uint64 // retransmissions
		timeouts      uint64
		recovers      uint64
	}{
		{"three later segments arrive: retransmitted at once", 10, []uint64{6}, 1, 0, 1},
		{"two later segments arrive: only the timeout knows", 10, []uint64{7}, 1, 1, 0},
		{"the last segment is lost: only the timeout knows", 10, []uint64{9}, 1, 1, 0},
		{"all are lost", 3, []uint64{0, 1, 2}, 3, 1, 0},
		{"three holes in one window are one recovery", 40, []uint64{12, 14, 17}, 3, 0, 1},
		{"a window of which all but three are lost", 10, []uint64{0, 1, 2, 3, 4, 5, 6}, 7, 0, 1},
		{"a retransmission is lost while more is sent: retransmitted without timeout", 200, []uint64{20, 20}, 2, 0, 1},
		{"a retransmission is lost twice", 400, []uint64{20, 20, 20}, 3, 0, 1},
		{"a retransmission is lost at the end", 10, []uint64{6, 6}, 2, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWire(t, config())
			w.fate = dropping(test.drop...)
			w.write(t, test.segments*mss)
			if !w.run(clock.Time(10*clock.Second), 0) || w.model[1].delivered != test.segments*mss {
				t.Fatalf("%d bytes of %d arrived", w.model[1].delivered, test.segments*mss)
			}
			got := w.hosts[0].Counters()
			if got.Retransmitted != test.retransmitted || got.Timeouts != test.timeouts || got.Recoveries != test.recovers {
				t.Errorf("%d retransmissions, %d timeouts, %d recoveries", got.Retransmitted, got.Timeouts, got.Recoveries)
			}
			if d := w.hosts[1].Counters().Duplicates; d > 0 {
				t.Errorf("%d segments arrived twice", d)
			}
		})
	}
}

// perRound returns the number of segments sent in a round trip.
func (w *wire) perRound(round clock.Duration) int { return len(w.numbers(round*rtt, (round+1)*rtt)) }

func TestLossShrinksTheWindow(t *testing.T) {
	for _, test := range []struct {
		name    string
		control tcp.Control
		share   float64
	}{{"Reno halves it", tcp.Reno, 0.5}, {"CUBIC keeps 0.7 of it", tcp.Cubic, 0.7}} {
		t.Run(test.name, func(t *testing.T) {
			cfg := config()
			cfg.DelayedACK, cfg.Control = 0, test.control
			w := newWire(t, cfg)
			w.fate = dropping(35) // the window is 40 at that time, and grows until the loss is detected
			w.write(t, 2000*mss)
			w.run(clock.Time(10*rtt), 0)
			// 10, 20, 40 segments; the loss of segment 35, in the third round, is detected in the fourth after some 5 more ACKs,
			// at a window of 45.
			before, after := float64(45), float64(w.perRound(5))
			if want := before * test.share; after < want-2 || after > want+3 {
				t.Errorf("%v segments in the round after recovery, want %v", after, want)
			}
		})
	}
}

func TestCongestionAvoidanceOfRenoAddsOneSegmentEachRoundTrip(t *testing.T) {
	cfg := config()
	cfg.DelayedACK, cfg.Control = 0, tcp.Reno
	w := newWire(t, cfg)
	w.fate = dropping(35)
	w.write(t, 4000*mss)
	w.run(clock.Time(40*rtt), 0)
	if a, b := w.perRound(8), w.perRound(28); b-a < 18 || b-a > 21 {
		t.Errorf("%d segments in one round, %d twenty rounds later", a, b)
	}
}

func TestTimeoutsBackOffAndStartFromOneSegment(t *testing.T) {
	w := newWire(t, config())
	dead := true
	w.fate = func(_ int, p *tcp.Packet) []clock.Duration {
		if p.From == 0 && dead && p.Number > 0 {
			return nil
		}
		return []clock.Duration{0}
	}
	w.write(t, 10*mss)
	w.run(clock.Time(2*clock.Second), 0)
	dead = false
	w.run(clock.Time(10*clock.Second), 0)
	var at []clock.Duration
	for i, e := range w.events[0] {
		if e.Kind == tcp.TimedOut {
			at = append(at, (w.when[0][i].Sub(0)-rtt)/clock.Millisecond)
		}
	}
	if diff := cmp.Diff([]clock.Duration{200, 600, 1400, 3000}, at); diff != "" {
		t.Error("timeouts in ms after the only ACK", diff)
	}
	if first := w.numbers(3*clock.Second+rtt, 3*clock.Second+2*rtt); !cmp.Equal(first, []uint64{1}) {
		t.Errorf("after the last timeout went %v", first)
	}
	if second := w.numbers(3*clock.Second+2*rtt, 3*clock.Second+3*rtt); !cmp.Equal(second, []uint64{2, 3}) {
		t.Errorf("then %v", second)
	}
}

func TestTheReceiversWindowBoundsWhatIsUnderWay(t *testing.T) {
	cfg := config()
	cfg.ReceiveWindow = 16 << 10
	w := newWire(t, cfg)
	w.write(t, 500*mss)
	if !w.run(clock.Time(10*clock.Second), 0) || w.model[1].delivered != 500*mss {
		t.Fatal("not all arrived")
	}
	for round := range clock.Duration(20) {
		if n := w.perRound(round); n > 17 {
			t.Errorf("%d segments in a round trip through a window of 16", n)
		}
	}
	if w.hosts[1].Counters().OutOfWindow > 0 {
		t.Error("the window was overrun")
	}
}

func TestAnIdleWindowDoesNotGrow(t *testing.T) {
	w := newWire(t, config())
	for i := range 200 { // one segment at a time
		if err := w.hosts[0].Write(1, 7, mss, clock.Time(clock.Duration(i)*clock.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.hosts[0].Write(1, 7, 500*mss, clock.Time(clock.Second)); err != nil {
		t.Fatal(err)
	}
	w.run(clock.Time(2*clock.Second), 0)
	if n := len(w.numbers(clock.Second, clock.Second+rtt)); n > 12 {
		t.Errorf("a burst of %d segments", n)
	}
}

func TestTrimmedSegmentsAreLost(t *testing.T) {
	w := newWire(t, config())
	trimmed := false
	w.fate = func(_ int, p *tcp.Packet) []clock.Duration {
		if p.Number == 3 && p.From == 0 && !trimmed {
			trimmed, p.Trimmed, p.Payload = true, true, 0
		}
		return []clock.Duration{0}
	}
	w.write(t, 20*mss)
	if !w.run(clock.Time(clock.Second), 0) || w.model[1].delivered != 20*mss || w.hosts[1].Counters().Damaged != 1 {
		t.Errorf("%+v", w.hosts[1].Counters())
	}
}

func TestRequestsAreAnsweredFromTheSink(t *testing.T) {
	w := newWire(t, config())
	const request, response, requests = 100, 3 * mss, 100
	answered := 0
	w.onData = func(host int, e tcp.Event) {
		var err error
		// every response carries the ACK of its request and vice versa, so no ACK is delayed
		switch {
		case host == 1 && e.Bytes%request == 0:
			err = w.hosts[1].Write(0, 7, response, w.now)
		case host == 0 && e.Bytes%response == 0:
			if answered++; answered < requests {
				err = w.hosts[0].Write(1, 7, request, w.now)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.write(t, 100)
	w.run(clock.Time(clock.Second), 0)
	if last := w.when[0][len(w.when[0])-1]; answered != requests || last > clock.Time(102*rtt) {
		t.Errorf("%d answers by %v", answered, last)
	}
}

// TestEveryByteArrivesOnce checks with loss, duplication and reordering that a host always delivers exactly the bytes
// that have arrived in order, and finally all.
func TestEveryByteArrivesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config()
		cfg.Control = tcp.Control(rapid.IntRange(0, 1).Draw(t, "control"))
		cfg.FirstSequence = rapid.SampledFrom([]uint32{0, 1<<32 - 1, 1<<32 - 20_000, 1 << 31}).Draw(t, "first")
		cfg.InitialWindow = rapid.IntRange(1, 12).Draw(t, "initial window")
		cfg.ReceiveWindow = rapid.SampledFrom([]int{1 << 10, 20 << 10, 6 << 20}).Draw(t, "receive window")
		cfg.DelayedACK = rapid.SampledFrom([]clock.Duration{0, 40 * clock.Millisecond}).Draw(t, "delayed ACK")
		cfg.Detection = tcp.Detection(rapid.IntRange(0, 2).Draw(t, "detection"))
		cfg.NoFastRetransmit = rapid.IntRange(0, 3).Draw(t, "fast retransmit") == 0
		cfg.NoLimitedTransmit, cfg.Handshake = rapid.Bool().Draw(t, "limited"), rapid.Bool().Draw(t, "handshake")
		cfg.ACKEvery, cfg.QuickACKs = rapid.IntRange(0, 4).Draw(t, "every"), rapid.IntRange(-1, 3).Draw(t, "quick")
		origin := cfg.FirstSequence
		if cfg.Handshake {
			origin++
		}
		w := newWire(t, cfg)
		bad := rapid.IntRange(0, 150).Draw(t, "troubled packets")
		w.fate = func(n int, p *tcp.Packet) []clock.Duration {
			if n >= bad {
				return []clock.Duration{0}
			}
			return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) clock.Duration {
				return rapid.SampledFrom([]clock.Duration{0, 0, 5, 300, 900_000}).Draw(t, "late") * clock.Microsecond
			}), 0, 2).Draw(t, "copies")
		}
		bytes := [2]uint64{uint64(rapid.IntRange(1, 60_000).Draw(t, "there")),
			uint64(rapid.IntRange(0, 20_000).Draw(t, "back"))}
		for i, n := range bytes {
			for n > 0 {
				part := min(n, uint64(rapid.IntRange(1, 9000).Draw(t, "write")))
				at := clock.Time(rapid.IntRange(0, 500).Draw(t, "at")) * clock.Time(clock.Microsecond)
				if err := w.hosts[i].Write(tcp.Endpoint(1-i), 7, part, at); err != nil {
					t.Fatal(err)
				}
				n -= part
			}
		}
		if !w.run(clock.Time(10_000*clock.Second), origin) {
			t.Fatalf("not over after %v", w.now)
		}
		if w.model[1].delivered != bytes[0] || w.model[0].delivered != bytes[1] {
			t.Fatalf("%d of %d bytes arrived there, %d of %d back", w.model[1].delivered, bytes[0], w.model[0].delivered,
				bytes[1])
		}
	})
}

func TestHeadersSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint32()
		h := tcp.Header{Seq: u.Draw(t, "seq"), Ack: u.Draw(t, "ack"), Window: rapid.Uint16().Draw(t, "window"),
			Flags: tcp.FlagACK}
		if rapid.Bool().Draw(t, "sack") {
			h.SACK = tcp.Block{Start: u.Draw(t, "start"), End: u.Draw(t, "end")}
		}
		if rapid.Bool().Draw(t, "SYN") {
			h.Flags = rapid.SampledFrom([]tcp.Flags{tcp.FlagSYN, tcp.FlagSYN | tcp.FlagACK}).Draw(t, "flags")
			h.SetMSS(int(rapid.Uint16().Draw(t, "MSS")))
			h.Options = wiretcp.Options(rapid.IntRange(0, 3).Draw(t, "options"))
		}
		var got tcp.Header
		b := h.AppendTo(nil, 1, 2)
		if err := got.Parse(b); err != nil || got != h || len(b) != tcp.HeaderLen {
			t.Fatalf("%+v became %+v, %v", h, got, err)
		}
	})
}

// A window is advertised in units of 1024 bytes. The sender must not use the remainder, even initially.
func TestASenderUsesNoMoreOfAWindowThanItsFieldCanHold(t *testing.T) {
	cfg := config()
	cfg.InitialWindow, cfg.ReceiveWindow = 100, 17<<10-1
	w := newWire(t, cfg)
	w.write(t, 500*mss)
	w.run(clock.Time(10*rtt), 0)
	if n := w.perRound(0); n == 0 || n*mss > 16<<10 {
		t.Errorf("%d bytes in the first round trip through a window that can only be told as %d", n*mss, 16<<10)
	}
}

func TestWrongConfigurationsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*tcp.Config){
		"no MSS":                      func(c *tcp.Config) { c.MSS = 0 },
		"no initial window":           func(c *tcp.Config) { c.InitialWindow = 0 },
		"a window below a segment":    func(c *tcp.Config) { c.ReceiveWindow = 999 },
		"one that is when it is told": func(c *tcp.Config) { c.MSS, c.ReceiveWindow = 1500, 2047 },
		"a window that can't be told": func(c *tcp.Config) { c.ReceiveWindow = 1 << 30 },
		"no minimum RTO":              func(c *tcp.Config) { c.MinRTO = 0 },
		"ACKs never":                  func(c *tcp.Config) { c.DelayedACK = 2 * clock.Second },
		"an unknown control":          func(c *tcp.Config) { c.Control = 9 },
		"a window that is not scaled": func(c *tcp.Config) { c.Unscaled, c.ReceiveWindow = true, 1<<16 },
		"initial below minimum RTO":   func(c *tcp.Config) { c.InitialRTO = clock.Millisecond },
		"maximum below minimum RTO":   func(c *tcp.Config) { c.MaxRTO = clock.Millisecond },
		"an unknown detection":        func(c *tcp.Config) { c.Detection = 9 },
	} {
		cfg := config()
		change(&cfg)
		if _, err := tcp.New(cfg, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzHost passes arbitrary headers to a host. It must neither panic nor deliver bytes that have not arrived.
func FuzzHost(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte("any string will do, as long as it has some headers' worth of letters in it"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := tcp.New(config(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Write(1, 7, 100*mss, 0); err != nil {
			t.Fatal(err)
		}
		now := clock.Time(0)
		h.HandleTimer(now)
		var out tcp.Packet
		for len(data) >= 12 {
			near := func(b byte) uint32 { return uint32(int32(int8(b))) * mss / 2 }
			p := tcp.Packet{From: 1, Connection: uint32(7 + data[0]%2), Payload: int(data[1]) * 8, Header: tcp.Header{
				Seq: near(data[2]), Ack: near(data[3]) + uint32(data[4]), SACK: tcp.Block{Start: near(data[5]), End: near(data[6])},
				Window: uint16(data[7]), Flags: tcp.Flags(data[8]),
			}}
			h.HandlePacket(now, &p)
			for range data[9] % 8 {
				h.Poll(now, &out)
			}
			now = now.Add(clock.Duration(data[10]) * 10 * clock.Millisecond)
			if at, ok := h.NextTimer(); ok && at <= now {
				h.HandleTimer(now)
				if at, ok := h.NextTimer(); ok && at <= now {
					t.Fatalf("the timer of %v is due at %v after it was served", at, now)
				}
			}
			data = data[11:]
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add((&tcp.Header{Seq: 1, Ack: 2, Flags: tcp.FlagACK, Window: 3}).AppendTo(nil, 4, 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, parsed tcp.Header
		if h.Parse(b) != nil {
			return
		}
		if err := parsed.Parse(h.AppendTo(nil, 1, 2)); err != nil || parsed != h {
			t.Fatalf("%+v became %+v, %v", h, parsed, err)
		}
	})
}
