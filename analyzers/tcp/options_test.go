package tcp_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
)

// first is ten segments, of which the first is lost; n duplicate ACKs arrive from 20 us on, one each 2 us.
func first(n int) (list []step) {
	for i := range uint32(10) {
		list = append(list, step{us: int(i), sent: true, at: 1000 * i})
	}
	for i := range uint32(n) {
		at := 20 + 2*int(i)
		list = append(list, step{us: at, at: 1000 * (i + 1)}, step{us: at, sent: true, ack: true},
			step{us: at + 1, ack: true})
	}
	return list
}

// acks is an acknowledgement that leaves and arrives a microsecond later.
func acks(us int, at uint32) []step {
	return []step{{us: us, sent: true, ack: true, at: at}, {us: us + 1, ack: true, at: at}}
}

func newReno(c *tcp.Config) {
	c.Detection, c.Beta, c.MinRTO = tcp.NewReno, 0.5, 100*clock.Millisecond
}

func TestTransportsAreJudgedByTheirOptions(t *testing.T) {
	sends := func(us int, at uint32) step { return step{us: us, sent: true, at: at} }
	arrives := func(us int, at uint32) step { return step{us: us, at: at} }
	// Segments 0 and 1 are lost, and a recovery has retransmitted the first.
	recovery := func(more ...step) []step {
		list := first(0)
		for i := range uint32(3) {
			at := 20 + 2*int(i)
			list = append(list, arrives(at, 1000*(i+2)), step{us: at, sent: true, ack: true}, step{us: at + 1, ack: true})
		}
		list = append(list, sends(30, 0), arrives(40, 0))
		return append(append(list, acks(41, 1000)...), more...)
	}
	for _, tt := range []struct {
		name   string
		change func(*tcp.Config)
		steps  []step
		want   []string
	}{
		{"two duplicate ACKs let two segments go, and one is to spare", newReno,
			append(first(2), sends(30, 10_000), sends(31, 11_000), sends(32, 12_000)), nil},
		{"two duplicate ACKs and four segments", newReno,
			append(first(2), sends(30, 10_000), sends(31, 11_000), sends(32, 12_000), sends(33, 13_000)),
			[]string{"tcp.limited-transmit"}},
		{"one duplicate ACK without limited transmit", func(c *tcp.Config) { newReno(c); c.NoLimitedTransmit = true },
			append(first(1), sends(30, 10_000), sends(31, 11_000)), []string{"tcp.congestion-window"}},
		{"three duplicate ACKs", newReno, append(first(3), sends(30, 0)), nil},
		{"two are too few", newReno, append(first(2), sends(30, 0)), []string{"tcp.timeout-early"}},
		{"a segment more after the first threshold", threshold, grown(11), nil},
		{"and one to spare", threshold, grown(12), nil},
		{"three segments more", threshold, grown(13), []string{"tcp.congestion-window"}},
		{"as many without threshold", func(c *tcp.Config) { c.Beta = 0.5 }, grown(20), nil},
		{"a partial ACK and the next segment", newReno, recovery(sends(43, 1000)), nil},
		{"a partial ACK and two segments", newReno, recovery(sends(43, 1000), sends(44, 2000)),
			[]string{"tcp.retransmit-early"}},
		{"a partial ACK and new data", newReno, recovery(sends(43, 10_000)), []string{"tcp.partial-ack"}},
		{"a partial ACK and nothing", newReno, recovery(arrives(20_000, 5000)), []string{"tcp.partial-ack"}},
		{"a partial ACK of a recovery after a timeout", newReno, afterTimeout(3, sends(200_143, 12_000)), nil},
		{"and two segments", newReno, afterTimeout(3, sends(200_143, 12_000), sends(200_144, 13_000)),
			[]string{"tcp.retransmit-early"}},
		{"two duplicate ACKs began no recovery", newReno, afterTimeout(2, sends(200_143, 12_000)),
			[]string{"tcp.timeout-early"}},
		{"a partial ACK asks for what has not left yet", held, afterRecovery(45), nil},
		{"what leaves later was decided after it", held, afterRecovery(100), []string{"tcp.timeout-early"}},
		{"without jitter it had left", newReno, afterRecovery(45), []string{"tcp.timeout-early"}},
		{"a recovery in which a window more is sent", newReno, append(first(9), sends(40, 0), sends(41, 10_000),
			sends(42, 11_000), sends(43, 12_000), sends(44, 13_000), sends(45, 14_000)), nil},
		{"and two segments more", newReno, append(first(9), sends(40, 0), sends(41, 10_000),
			sends(42, 11_000), sends(43, 12_000), sends(44, 13_000), sends(45, 14_000), sends(46, 15_000)),
			[]string{"tcp.congestion-window"}},
		{"packets are lost three packets later", func(c *tcp.Config) { c.Detection = tcp.PerPacket },
			slices.Concat(window(0, 1, 2), sack(20, 0, 3000, 4000), []step{sends(40, 0)}), nil},
		{"not two packets later", func(c *tcp.Config) { c.Detection = tcp.PerPacket },
			slices.Concat(window(0, 1, 2, 3), sack(20, 0, 4000, 5000), []step{sends(40, 0), sends(41, 1000), sends(42, 2000)}),
			[]string{"tcp.retransmit-early"}},
		{"duplicate ACKs where only timeouts retransmit", func(c *tcp.Config) { newReno(c); c.NoFastRetransmit = true },
			append(first(4), sends(40, 0)), []string{"tcp.fast-retransmit-off"}},
		{"SACKs where only timeouts retransmit", func(c *tcp.Config) { c.NoFastRetransmit = true },
			conversation(sends(40, 0)), []string{"tcp.fast-retransmit-off"}},
		{"a timeout there", func(c *tcp.Config) { c.NoFastRetransmit = true }, conversation(sends(1100, 0)), nil},
		{"two retries", func(c *tcp.Config) { c.MaxRetries = 2 },
			[]step{sends(0, 0), sends(1000, 0), sends(3000, 0), arrives(90_000, 0)}, nil},
		{"three retries of two", func(c *tcp.Config) { c.MaxRetries = 2 },
			[]step{sends(0, 0), sends(1000, 0), sends(3000, 0), sends(7000, 0)}, []string{"tcp.retries"}},
		{"one retry of two", func(c *tcp.Config) { c.MaxRetries = 2 },
			[]step{sends(0, 0), sends(1000, 0), {us: 90_000, sent: true, at: 0}}, []string{"tcp.timeout-missing"}},
		{"the timer doubles up to its maximum", func(c *tcp.Config) { c.MaxRTO = 2 * clock.Millisecond },
			[]step{sends(0, 0), sends(1000, 0), sends(3000, 0), sends(5000, 0)}, nil},
		{"the first timer runs for the initial timeout", func(c *tcp.Config) { c.InitialRTO = 3 * clock.Millisecond },
			[]step{sends(0, 0), sends(2900, 0)}, []string{"tcp.timeout-early"}},
		{"the timer runs for three round trips",
			threeSRTT,
			slices.Concat([]step{sends(0, 0), arrives(500, 0)}, acks(501, 1000),
				[]step{sends(503, 1000), sends(503+1510, 1000)}), nil},
		{"for two", threeSRTT,
			slices.Concat([]step{sends(0, 0), arrives(500, 0)}, acks(501, 1000),
				[]step{sends(503, 1000), sends(503+1000, 1000)}), []string{"tcp.timeout-early"}},
		{"after one sample the timer runs for three of it", short,
			slices.Concat([]step{sends(0, 0), arrives(500, 0)}, acks(501, 1000),
				[]step{sends(503, 1000), sends(503+1510, 1000)}), nil},
		{"for two of it", short,
			slices.Concat([]step{sends(0, 0), arrives(500, 0)}, acks(501, 1000),
				[]step{sends(503, 1000), sends(503+1000, 1000)}), []string{"tcp.timeout-early"}},
		{"after two equal samples, for two and a half", short,
			slices.Concat([]step{sends(0, 0), arrives(500, 0)}, acks(501, 1000), []step{sends(503, 1000), arrives(1003, 1000)},
				acks(1004, 2000), []step{sends(1006, 2000), sends(1006+1256, 2000)}), nil},
		{"for little more than two", short,
			slices.Concat([]step{sends(0, 0), arrives(500, 0)}, acks(501, 1000), []step{sends(503, 1000), arrives(1003, 1000)},
				acks(1004, 2000), []step{sends(1006, 2000), sends(1006+1100, 2000)}), []string{"tcp.timeout-early"}},
		{"every second segment is acknowledged", delays,
			slices.Concat([]step{sends(0, 0), sends(1, 1000), arrives(10, 0), arrives(14, 1000)}, acks(14, 2000)), nil},
		{"16 us late", delays,
			slices.Concat([]step{sends(0, 0), sends(1, 1000), arrives(10, 0), arrives(14, 1000)}, acks(30, 2000)),
			[]string{"tcp.ack-every"}},
		{"an acknowledgement is delayed as configured", delays,
			slices.Concat([]step{sends(0, 0), arrives(10, 0)}, acks(210, 1000)), nil},
		{"for longer", delays, slices.Concat([]step{sends(0, 0), arrives(10, 0)}, acks(310, 1000)),
			[]string{"tcp.ack-delay"}},
	} {
		c := config()
		tt.change(&c)
		if got := judgeBy(c, tt.steps); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// afterTimeout is a window that is lost and retransmitted after a timeout. An acknowledgement is late enough for a
// second timeout. Then n duplicates follow, and one that ends where the second timeout's retransmissions would.
func afterTimeout(n int, more ...step) []step {
	list := first(0)
	sent, took := []uint32{0, 1, 3, 7, 12}, 100_000
	for i, from := range sent[:len(sent)-1] {
		to := sent[i+1]
		if i == 3 {
			to--
		}
		for at := from; at < sent[i+1]; at++ {
			list = append(list, step{us: took, sent: true, at: 1000 * at})
		}
		for at := from; at < to; at++ {
			list = append(list, step{us: took + 5, at: 1000 * at})
		}
		if i < 3 {
			list = append(list, acks(took+5, 1000*to)...)
		}
		took += 10
	}
	list = append(list, step{us: took, sent: true, ack: true, at: 11_000}, step{us: 200_100, ack: true, at: 11_000})
	for i := range uint32(4) {
		list = append(list, step{us: 200_101, sent: true, at: 12_000 + 1000*i})
	}
	for i := range uint32(n) {
		list = append(list, step{us: 200_110 + int(i), at: 13_000 + 1000*i})
		list = append(list, step{us: 200_110 + int(i), sent: true, ack: true, at: 11_000},
			step{us: 200_120 + int(i), ack: true, at: 11_000})
	}
	list = append(list, step{us: 200_130, sent: true, at: 11_000}, step{us: 200_135, at: 11_000})
	return append(append(list, acks(200_140, 12_000)...), more...)
}

func held(c *tcp.Config) { newReno(c); c.Hold = 50 * clock.Microsecond }

// afterRecovery is a recovery that seems to end with the acknowledgement of all that has left, and then a segment that
// leaves at a time and again a microsecond later.
func afterRecovery(us int) []step {
	return slices.Concat(first(3), []step{{us: 30, sent: true, at: 0}}, arrive(31, 4, 10), []step{{us: 35, at: 0}},
		acks(36, 10_000), []step{{us: us, sent: true, at: 10_000}, {us: us + 1, sent: true, at: 10_000}})
}

// arrive is the arrival of a range of segments.
func arrive(us int, from, to uint32) (list []step) {
	for i := from; i < to; i++ {
		list = append(list, step{us: us, at: 1000 * i})
	}
	return list
}

func threshold(c *tcp.Config) { c.Beta, c.Threshold = 0.5, 10 }

// grown is a window of ten segments, then so many more.
func grown(n int) []step {
	list := first(0)
	for i := range uint32(10) {
		list = append(list, step{us: 20, at: 1000 * i})
	}
	list = append(list, acks(21, 10_000)...)
	for i := range n {
		list = append(list, step{us: 23 + i, sent: true, at: 10_000 + 1000*uint32(i)})
	}
	return list
}

func threeSRTT(c *tcp.Config) { short(c); c.ThreeSRTT = true }

func short(c *tcp.Config) { c.MinRTO, c.InitialRTO = 10*clock.Microsecond, clock.Millisecond }

func delays(c *tcp.Config) { c.ACKEvery, c.ACKDelay = 2, 200*clock.Microsecond }
