package tcp_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
)

// greet is a packet of a handshake of connection 1, opened by host 1.
type greet struct {
	us       int
	sent     bool
	back     bool // from host 2
	syn, ack bool
	seq, no  uint32 // sequence and acknowledgement number; a SYN has 0, data begins at 1
	payload  int
	stamped  bool // with a time stamp that echoes none
}

// judgeHandshake returns the rules that a handshake breaks. Its timer runs for 1 ms. If end is 0, nothing was in flight
// at the end.
func judgeHandshake(end int, steps []greet) (rules []string) {
	return judgeHandshakeBy(greeting(), end, steps)
}

func greeting() tcp.Config {
	return tcp.Config{MSS: 1000, InitialWindow: 3, MinRTO: 200 * clock.Microsecond, InitialRTO: clock.Millisecond,
		FirstSequence: 1, Handshake: true}
}

func judgeHandshakeBy(c tcp.Config, end int, steps []greet) (rules []string) {
	a := tcp.New(c)
	at := func(us int) clock.Time { return clock.Time(0).Add(clock.Duration(us) * clock.Microsecond) }
	for i, s := range steps {
		o := tcp.Observation{Time: at(s.us), Number: uint64(i + 1), Sent: s.sent, Connection: 1, Src: 1, Dst: 2,
			Window: 1 << 16, SYN: s.syn, HasACK: s.ack, Seq: s.seq, Ack: s.no, Payload: s.payload,
			HasEcho: s.stamped}
		if s.back {
			o.Src, o.Dst = 2, 1
		}
		a.Observe(&o)
	}
	if end == 0 {
		a.Drain()
	}
	for _, f := range book.Keep(a.Finish(at(end)).Findings) {
		rules = append(rules, f.Rule)
	}
	return rules
}

// both is a packet that leaves and arrives 10 us later.
func both(g greet) []greet {
	sent := g
	sent.sent = true
	g.us += 10
	return []greet{sent, g}
}

func TestHandshakesAreJudged(t *testing.T) {
	syn := func(us int) greet { return greet{us: us, syn: true} }
	synACK := func(us int) greet { return greet{us: us, back: true, syn: true, ack: true, no: 1} }
	ack := func(us int) greet { return greet{us: us, ack: true, seq: 1, no: 1} }
	data := func(us int, at uint32) greet { return greet{us: us, ack: true, seq: 1 + at, no: 1, payload: 1000} }
	sent := func(g greet) []greet { g.sent = true; return []greet{g} }
	opened := slices.Concat(both(syn(0)), both(synACK(20)), both(ack(40)))
	with := func(g greet, change func(*greet)) greet { change(&g); return g }
	for _, tt := range []struct {
		name  string
		steps []greet
		end   int
		want  []string
	}{
		{"three packets", opened, 100, nil},
		{"three packets, and the initial window", slices.Concat(opened, sent(data(41, 0)), sent(data(42, 1000)),
			sent(data(43, 2000))), 100, nil},
		{"a segment more", slices.Concat(opened, sent(data(41, 0)), sent(data(42, 1000)), sent(data(43, 2000)),
			sent(data(44, 3000))), 100, []string{"tcp.initial-window"}},
		{"the SYN is lost once", slices.Concat(sent(syn(0)), both(syn(1000)), both(synACK(1020)), both(ack(1040)),
			sent(data(1050, 0)), sent(data(1051, 1000))), 1100, nil},
		{"the SYN is lost twice: one segment", slices.Concat(sent(syn(0)), sent(syn(1000)), both(syn(3000)),
			both(synACK(3020)), both(ack(3040)), sent(data(3050, 0))), 3100, nil},
		{"the SYN is lost twice: two segments", slices.Concat(sent(syn(0)), sent(syn(1000)), both(syn(3000)),
			both(synACK(3020)), both(ack(3040)), sent(data(3050, 0)), sent(data(3051, 1000))), 3100,
			[]string{"tcp.initial-window"}},
		{"the SYN is retransmitted early", slices.Concat(sent(syn(0)), both(syn(900))), 900, []string{"tcp.syn-early"}},
		{"its timer does not double", slices.Concat(sent(syn(0)), sent(syn(1000)), sent(syn(2900))), 2900,
			[]string{"tcp.syn-early"}},
		{"it is not retransmitted", sent(syn(0)), 12_000, []string{"tcp.timeout-missing"}},
		{"it never is", sent(syn(0)), 0, []string{"tcp.timeout-missing"}},
		{"a SYN-ACK answers a copy of the SYN", slices.Concat(both(syn(0)), sent(synACK(20)), both(syn(1000)),
			both(synACK(1011)), both(ack(1030))), 1100, nil},
		{"a SYN-ACK is retransmitted for no reason", slices.Concat(both(syn(0)), sent(synACK(20)), both(synACK(120)),
			both(ack(130))), 200, []string{"tcp.syn-early"}},
		{"no SYN", sent(data(0, 0)), 1, []string{"tcp.handshake"}},
		{"a wrong sequence number", sent(with(syn(0), func(g *greet) { g.seq = 7 })), 1, []string{"tcp.handshake"}},
		{"a SYN-ACK without a SYN", sent(synACK(0)), 1, []string{"tcp.handshake"}},
		{"a wrong acknowledgement number", slices.Concat(both(syn(0)),
			sent(with(synACK(20), func(g *greet) { g.no = 0 }))), 100, []string{"tcp.handshake"}},
		{"a SYN that is not answered", both(syn(0)), 10_500, []string{"tcp.handshake"}},
		{"a SYN-ACK that is not answered", slices.Concat(both(syn(0)), both(synACK(20))), 10_500,
			[]string{"tcp.handshake"}},
		{"data after the SYN", slices.Concat(both(syn(0)), sent(data(20, 0))), 30,
			[]string{"tcp.data-before-established"}},
		{"data after the SYN-ACK", slices.Concat(both(syn(0)), both(synACK(20)),
			sent(with(data(25, 0), func(g *greet) { g.back = true }))), 40, []string{"tcp.data-before-established"}},
	} {
		if got := judgeHandshake(tt.end, tt.steps); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// The ACK of a handshake may be repeated while the first segment waits on its way to the NIC: a sender of NewReno
// counts it as a duplicate (RFC 5681, 2; RFC 3042).
func TestTheRepeatedACKOfAHandshakeLetsMoreThanTheInitialWindowGo(t *testing.T) {
	held := func(c *tcp.Config) { c.Hold = 50 * clock.Microsecond }
	unlimited := func(c *tcp.Config) { held(c); c.NoLimitedTransmit = true }
	slow := func(c *tcp.Config) { held(c); c.NoFastRetransmit = true }
	beyond, early := []string{"tcp.initial-window"}, []string{"tcp.timeout-early"}
	for _, tt := range []struct {
		name           string
		change         func(*tcp.Config)
		repeated, sent int
		again          bool // the first segment is retransmitted
		then           int  // repeated after the segments were sent
		want           []string
	}{
		{"none", held, 0, 3, false, 0, nil},
		{"none, and a segment more", held, 0, 4, false, 0, beyond},
		{"one", held, 1, 4, false, 0, nil},
		{"one, and two segments more", held, 1, 5, false, 0, beyond},
		{"one, and packets leave when they are decided", func(*tcp.Config) {}, 1, 4, false, 0, beyond},
		{"one without limited transmit", unlimited, 1, 4, false, 0, beyond},
		{"two", held, 2, 5, false, 0, nil},
		{"two, and three segments more", held, 2, 6, false, 0, beyond},
		{"two, and the first segment again", held, 2, 1, true, 0, early},
		{"three begin a recovery", held, 3, 1, true, 0, nil},
		{"two, and one after the departure", held, 2, 1, true, 1, nil},
		{"one, and one after the departure", held, 1, 1, true, 1, early},
		{"three, without limited transmit", unlimited, 3, 1, true, 0, nil},
		{"three, without fast retransmit", slow, 3, 1, true, 0, early},
		{"three, and three segments without limited transmit", unlimited, 3, 6, false, 0, nil},
		{"three, and three segments without fast retransmit", slow, 3, 6, false, 0, beyond},
		{"three, and three segments more", held, 3, 6, false, 0, nil},
		{"three, and four segments more", held, 3, 7, false, 0, beyond},
	} {
		c := greeting()
		c.Detection = tcp.NewReno
		tt.change(&c)
		steps := slices.Concat(both(greet{us: 0, syn: true}), both(greet{us: 20, back: true, syn: true, ack: true, no: 1}),
			both(greet{us: 40, ack: true, seq: 1, no: 1}))
		for i := range tt.repeated {
			steps = append(steps, greet{us: 60 + i, ack: true, seq: 1, no: 1})
		}
		data := greet{us: 70, sent: true, back: true, ack: true, seq: 1, no: 1, payload: 1000}
		for range tt.sent {
			steps = append(steps, data)
			data.us++
			data.seq += 1000
		}
		for range tt.then {
			steps = append(steps, greet{us: data.us, ack: true, seq: 1, no: 1})
		}
		if data.seq = 1; tt.again {
			steps = append(steps, data)
		}
		if got := judgeHandshakeBy(c, data.us, steps); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// SYNs have no time stamps, so that of the ACK of a handshake echoes nothing (RFC 7323, 3.2): it measures no round
// trip, however late it comes.
func TestTheACKOfAHandshakeGivesNoSampleByItsTimeStamp(t *testing.T) {
	c := greeting()
	c.Detection, c.Timestamps = tcp.NewReno, true
	answer := greet{us: 50_060, back: true, ack: true, seq: 1, no: 1001, payload: 1000}
	steps := slices.Concat(both(greet{us: 50_000, syn: true}),
		both(greet{us: 50_020, back: true, syn: true, ack: true, no: 1}),
		[]greet{{us: 50_040, sent: true, ack: true, seq: 1, no: 1}},
		both(greet{us: 50_041, ack: true, seq: 1, no: 1, payload: 1000}),
		both(greet{us: 50_055, back: true, ack: true, seq: 1, no: 1001}),
		[]greet{answer, {us: 50_070, ack: true, seq: 1, no: 1, stamped: true}})
	steps[len(steps)-2].sent = true
	for us, want := range map[int][]string{51_060: nil, 50_900: {"tcp.timeout-early"}, 80_000: {"tcp.timeout-missing"}} {
		again := answer
		again.us, again.sent = us, true
		if got := judgeHandshakeBy(c, us, append(slices.Clone(steps), again)); !slices.Equal(got, want) {
			t.Errorf("retransmitted at %d us: %v, want %v", us, got, want)
		}
	}
}
