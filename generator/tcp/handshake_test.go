package tcp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	rankings "candela.dev/candela/generator/wire"
)

// greeting returns a configuration with a handshake, whose timer is 1 ms.
func greeting() tcp.Config {
	cfg := config()
	cfg.Handshake, cfg.MinRTO, cfg.FirstSequence, cfg.DelayedACK = true, clock.Millisecond, 1<<32-1, 0
	return cfg
}

// losing drops the SYNs, SYN-ACKs and ACKs without data with the given ordinals, of either host, counted from 0.
func losing(handshake ...int) func(int, *tcp.Packet) []clock.Duration {
	n := -1
	return func(_ int, p *tcp.Packet) []clock.Duration {
		if p.Payload > 0 {
			return []clock.Duration{0}
		}
		n++
		for _, lost := range handshake {
			if lost == n {
				return nil
			}
		}
		return []clock.Duration{0}
	}
}

func TestConnectionsOpenWithThreePackets(t *testing.T) {
	const ms = clock.Millisecond
	for _, test := range []struct {
		name string
		lost []int
		data []clock.Duration // when the first two segments are sent
	}{
		{"nothing is lost: data after a round trip", nil, []clock.Duration{rtt, rtt}},
		{"the SYN is lost", []int{0}, []clock.Duration{ms + rtt, ms + rtt}},
		{"the SYN-ACK is lost", []int{1}, []clock.Duration{ms + rtt, ms + rtt}},
		{"the ACK is lost: data confirms", []int{2}, []clock.Duration{rtt, rtt}},
		{"two SYNs are lost: a window of one segment", []int{0, 1}, []clock.Duration{3*ms + rtt, 3*ms + 2*rtt}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWire(t, greeting())
			w.fate = losing(test.lost...)
			w.write(t, 30*mss)
			if !w.run(clock.Time(clock.Second), 0) || w.model[1].delivered != 30*mss {
				t.Fatalf("%d bytes arrived", w.model[1].delivered)
			}
			if w.sent[0].Header.Seq != 0 {
				t.Errorf("data begins at %d, not after the SYN of 2^32-1", w.sent[0].Header.Seq)
			}
			var at []clock.Duration
			for i := range test.data {
				at = append(at, w.at[i].Sub(0)/(100*clock.Microsecond)*(100*clock.Microsecond))
			}
			if diff := cmp.Diff(test.data, at); diff != "" {
				t.Error(diff)
			}
			if n := w.hosts[0].Counters().Invalid + w.hosts[1].Counters().Invalid; n > 0 {
				t.Errorf("%d packets were invalid", n)
			}
		})
	}
}

// Both ends of a connection may open it at once (RFC 9293, figure 7).
func TestBothEndsMayOpenAConnection(t *testing.T) {
	w := newWire(t, greeting())
	w.write(t, 5*mss)
	if err := w.hosts[1].Write(0, 7, 3*mss, 0); err != nil {
		t.Fatal(err)
	}
	if !w.run(clock.Time(clock.Second), 0) || w.model[1].delivered != 5*mss || w.model[0].delivered != 3*mss {
		t.Errorf("%d and %d bytes arrived", w.model[1].delivered, w.model[0].delivered)
	}
}

// afd-dpp §10: 69 packets of 1500 bytes at 10 Gb/s and 40 us of RTT take the handshake, three rounds and their
// serialisation, 0.21 ms.
func TestSlowStartFillsAnEmptyPathInTheRoundsThatItsWindowTakes(t *testing.T) {
	cfg := greeting()
	w := newWire(t, cfg)
	w.write(t, 69*mss)
	w.run(clock.Time(clock.Second), 0)
	// Rounds of 10, 20 and 39 segments, whose last leaves 39 steps after the first of its round at the latest.
	last := w.when[1][len(w.when[1])-1].Sub(0)
	if least, most := rtt+2*rtt+delay, rtt+2*rtt+delay+69*step; last < least || last > most {
		t.Errorf("all has arrived after %v, not %v to %v", last, least, most)
	}
}

// Data that overtakes the ACK is dropped only if configured, and the ACK is sent again when the SYN-ACK comes again.
func TestAReceiverMayNeedTheACK(t *testing.T) {
	for _, needs := range []bool{false, true} {
		cfg := greeting()
		cfg.NeedsACK = needs
		var hosts [2]*tcp.Host
		for i := range hosts {
			cfg.Address = tcp.Endpoint(i)
			var err error
			if hosts[i], err = tcp.New(cfg, nil); err != nil {
				t.Fatal(err)
			}
		}
		now := clock.Time(0)
		next := func(i int) (list []tcp.Packet) {
			now = now.Add(clock.Microsecond)
			hosts[i].HandleTimer(now)
			for p := (tcp.Packet{}); hosts[i].Poll(now, &p); {
				list = append(list, p)
			}
			return list
		}
		give := func(i int, list ...tcp.Packet) {
			for _, p := range list {
				hosts[i].HandlePacket(now, &p)
			}
		}
		if err := hosts[0].Write(1, 7, 2*mss, 0); err != nil {
			t.Fatal(err)
		}
		give(1, next(0)...)
		answer := next(1)
		give(0, answer...)
		data := next(0) // the ACK and two segments
		give(1, data[1:]...)
		if got := hosts[1].Counters().SegmentsReceived; (got == 0) != needs {
			t.Errorf("needs the ACK: %v: %d segments before it are taken", needs, got)
		}
		give(0, answer...)
		if again := next(0); len(again) != 1 || again[0].Payload != 0 {
			t.Errorf("the SYN-ACK is answered by %+v", again)
		}
		give(1, data...)
		if got := hosts[1].Counters().SegmentsReceived; got < 2 {
			t.Errorf("needs the ACK: %v: %d segments after it are taken", needs, got)
		}
	}
}

// SYNs have no time stamps, so that of the ACK of a handshake echoes nothing (RFC 7323, 3.2): whoever answered has no
// sample of the RTT yet, and its timer runs for the initial timeout.
func TestTheACKOfAHandshakeGivesNoSampleByItsTimeStamp(t *testing.T) {
	cfg := greeting()
	cfg.Detection, cfg.Timestamps = tcp.NewReno, true
	w := newWire(t, cfg)
	if err := w.hosts[1].Write(0, 7, mss, clock.Time(50*clock.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := w.hosts[0].Write(1, 7, mss, clock.Time(60*clock.Millisecond)); err != nil {
		t.Fatal(err)
	}
	w.fate = dropping(0)
	w.run(clock.Time(clock.Second), cfg.FirstSequence+1)
	if len(w.at) != 2 || w.at[1].Sub(w.at[0]) != cfg.MinRTO {
		t.Errorf("sent at %v, want twice, a timeout of %v apart", w.at, cfg.MinRTO.Text())
	}
}

// With ranks by bytes a SYN has the rank of the whole flow. The SYN takes the first sequence number, so that the ACK
// and the data after it rank one lower: the ACK does not overtake the first segment in a queue by rank, nor that the
// ACK.
func TestRanksFallWithTheSequenceNumber(t *testing.T) {
	w := newWire(t, greeting())
	w.hosts[0].SetRanking(1, 7, rankings.Ranking{Kind: rankings.RankByBytes})
	var got []uint64
	w.fate = func(_ int, p *tcp.Packet) []clock.Duration {
		if p.From == 0 {
			got = append(got, p.Rank)
		} else if p.Rank != 0 {
			t.Errorf("the receiver's packet has rank %d", p.Rank)
		}
		return []clock.Duration{0}
	}
	w.write(t, 2*mss+1)
	w.run(clock.Time(clock.Second), 0)
	if diff := cmp.Diff([]uint64{2*mss + 1, 2 * mss, 2 * mss, mss, 0}, got); diff != "" {
		t.Error("ranks of SYN, ACK and three segments", diff)
	}
}
