package tcp_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
)

func config() tcp.Config {
	// numbers wrap after 1024 bytes
	return tcp.Config{MSS: 1000, InitialWindow: 10, MinRTO: clock.Millisecond, FirstSequence: 0xfffffc00}
}

// step is a packet of connection 1: data from host 1 to host 2, acknowledgements back.
type step struct {
	us         int
	sent, ack  bool
	at         uint32 // sequence or acknowledgement number, from 0
	start, end uint32 // SACK
	window     uint64 // 0: 1 MB
}

// judge returns the rules that a conversation breaks.
func judge(steps []step) (rules []string) { return judgeBy(config(), steps) }

func judgeBy(c tcp.Config, steps []step) (rules []string) { return judgeAll(c, steps, false) }

// judgeAll judges a conversation. If it is drained, nothing was in flight at its end.
func judgeAll(c tcp.Config, steps []step, drained bool) (rules []string) {
	a := tcp.New(c)
	now := clock.Time(0)
	for i, s := range steps {
		now = clock.Time(0).Add(clock.Duration(s.us) * clock.Microsecond)
		o := tcp.Observation{Time: now, Number: uint64(i + 1), Sent: s.sent, Connection: 1, Src: 1, Dst: 2, Window: 1 << 20,
			Ack: config().FirstSequence}
		if s.ack {
			o.Src, o.Dst, o.Ack = 2, 1, config().FirstSequence+s.at
			if s.start != s.end {
				o.SACKStart, o.SACKEnd = config().FirstSequence+s.start, config().FirstSequence+s.end
			}
		} else {
			o.Seq, o.Payload = config().FirstSequence+s.at, 1000
		}
		if s.window > 0 {
			o.Window = s.window
		}
		a.Observe(&o)
	}
	if drained {
		a.Drain()
	}
	for _, f := range book.Keep(a.Finish(now).Findings) {
		rules = append(rules, f.Rule)
	}
	return rules
}

// window is the first five segments; all but those in lost arrive.
func window(lost ...uint32) (list []step) {
	for i := range uint32(5) {
		list = append(list, step{us: int(i), sent: true, at: 1000 * i})
	}
	for i := range uint32(5) {
		if !slices.Contains(lost, i) {
			list = append(list, step{us: 10 + int(i), at: 1000 * i})
		}
	}
	return list
}

func sack(us int, at, start, end uint32) []step {
	return []step{{us: us, sent: true, ack: true, at: at, start: start, end: end},
		{us: us + 5, ack: true, at: at, start: start, end: end}}
}

func TestConversationsAreJudgedByTheRFCs(t *testing.T) {
	retransmit := step{us: 40, sent: true, at: 0}
	for _, tt := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"all is acknowledged", append(window(), sack(20, 5000, 0, 0)...), ""},
		{"the first is lost, four are SACKed, it goes again",
			append(append(window(0), sack(20, 0, 1000, 5000)...), retransmit), ""},
		{"two SACKed segments are too few", append(append(window(0), sack(20, 0, 1000, 3000)...), retransmit),
			"tcp.retransmit-early"},
		{"without any news", append(window(0), retransmit), "tcp.timeout-early"},
		{"after the timeout", append(window(0), step{us: 1200, sent: true, at: 0}), ""},
		{"the second timeout comes too soon",
			append(window(0), step{us: 1200, sent: true, at: 0}, step{us: 2300, sent: true, at: 0}), "tcp.backoff"},
		{"the second timeout comes in time",
			append(window(0), step{us: 1200, sent: true, at: 0}, step{us: 3300, sent: true, at: 0}), ""},
		{"what is acknowledged goes again", append(append(window(), sack(20, 5000, 0, 0)...), retransmit),
			"tcp.retransmit-spurious"},
		{"a byte is left out", []step{{sent: true, at: 0}, {us: 1, sent: true, at: 1001}}, "tcp.seq-skip"},
		{"a gap is acknowledged", append(window(0), sack(20, 5000, 0, 0)...), "tcp.ack-beyond"},
		{"an acknowledgement goes back", append(append(window(), sack(20, 5000, 0, 0)...), sack(40, 4000, 0, 0)...),
			"tcp.ack-backwards"},
		{"a block that has not arrived", append(window(0, 4), sack(20, 0, 1000, 5000)...), "tcp.sack-false"},
	} {
		got := judge(tt.steps)
		if tt.want == "" && len(got) > 0 || tt.want != "" && !slices.Contains(got, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, got, tt.want)
		}
	}
}

// conversation is the first ten segments with the first one lost and four SACKed, followed by then.
func conversation(then ...step) []step {
	return append(append(window(0), sack(20, 0, 1000, 5000)...), then...)
}

// The first segment is retransmitted when its timer may have expired, and SACKs explain the retransmission, too. RFC
// 6298, 5.5 and 5.6: a timeout would double the timer and restart it, so that the next retransmission is due two timers
// later.
func TestARetransmissionThatATimeoutMayHaveCausedRestartsTheTimer(t *testing.T) {
	sends := func(us int) step { return step{us: us, sent: true, at: 0} }
	for _, tt := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"at the timer and two timers later", conversation(sends(20_000), sends(60_000)), nil},
		{"at the timer and far more than two timers later", conversation(sends(20_000), sends(75_000)),
			[]string{"tcp.timeout-missing"}},
		{"fast, and at the timer", conversation(sends(40), sends(20_040), sends(60_040)), nil},
		{"fast, and never again", conversation(sends(40), step{us: 90_000, ack: true, at: 0}),
			[]string{"tcp.timeout-missing"}},
		{"the timer starts at the fast retransmission (RFC 6675, 6)", conversation(sends(12_000), sends(35_000)), nil},
		{"the second timer is not doubled", conversation(sends(20_000), sends(60_000), sends(80_000)),
			[]string{"tcp.backoff"}},
		{"the second timer is doubled", conversation(sends(20_000), sends(60_000), sends(140_000)), nil},
	} {
		c := config()
		c.MinRTO = 20 * clock.Millisecond
		if got := judgeBy(c, tt.steps); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// RFC 6298, 5: a doubled timer stays doubled until a new sample, which retransmitted segments cannot give (Karn).
func TestADoubledTimerMayStayDoubledUntilThereIsANewSample(t *testing.T) {
	data := func(us int, at uint32) step { return step{us: us, sent: true, at: at} }
	arrives := func(us int, at uint32) step { return step{us: us, at: at} }
	ack := func(us int, at uint32) []step {
		return []step{{us: us, sent: true, ack: true, at: at}, {us: us + 5, ack: true, at: at}}
	}
	start := append([]step{data(0, 0), data(20_000, 0), arrives(20_100, 0)}, ack(20_200, 1000)...) // one timeout
	start = append(start, data(20_300, 1000))
	// Without a sample of byte 1000 the timer may still be 40 ms long.
	judge := func(more ...step) []string {
		c := config()
		c.MinRTO = 20 * clock.Millisecond
		return judgeBy(c, append(slices.Clone(start), more...))
	}
	if got := judge(data(64_000, 1000)); len(got) > 0 {
		t.Errorf("the doubled timer: %v", got)
	}
	if got := judge(data(80_000, 1000)); !slices.Equal(got, []string{"tcp.timeout-missing"}) {
		t.Errorf("longer than the doubled timer: %v", got)
	}
	fresh := append([]step{arrives(20_400, 1000)}, ack(20_500, 2000)...)
	fresh = append(fresh, data(21_000, 2000))
	if got := judge(append(fresh, data(64_000, 2000))...); !slices.Equal(got, []string{"tcp.timeout-missing"}) {
		t.Errorf("after a sample of new data: %v", got)
	}
}

// A busy NIC explains a late retransmission for as long as its connections need to be served in turn, not for ever.
func TestABusyNICExcusesAMissingRetransmissionForATurn(t *testing.T) {
	judge := func(frame clock.Duration, until clock.Duration) (rules []string) {
		a := tcp.New(config())
		a.Leaves(1, 0, frame)
		a.Observe(&tcp.Observation{Time: 0, Sent: true, Src: 1, Dst: 2, Connection: 1, Seq: config().FirstSequence,
			Ack: config().FirstSequence, Payload: 1000})
		end := clock.Time(0).Add(until)
		for at := clock.Time(0).Add(frame); at < end; at = at.Add(frame) {
			a.Leaves(1, at, frame)
		}
		for _, f := range book.Keep(a.Finish(end).Findings) {
			rules = append(rules, f.Rule)
		}
		return rules
	}
	const frame = 5 * clock.Millisecond // 1500 bytes at 2.4 Mb/s
	if got := judge(frame, 30*clock.Millisecond); len(got) > 0 {
		t.Errorf("a NIC that was never idle: %v", got)
	}
	if got := judge(frame, 200*clock.Millisecond); !slices.Equal(got, []string{"tcp.timeout-missing"}) {
		t.Errorf("a NIC that served the connection long ago: %v", got)
	}
}

// What a host sent last has not reached a distant tap when the observation ends.
func TestWhatATapCannotHaveSeenIsNotMissing(t *testing.T) {
	judge := func(until func(uint32) clock.Time) (rules []string) {
		c := config()
		c.Until = until
		a := tcp.New(c)
		a.Observe(&tcp.Observation{Time: 0, Sent: true, Src: 1, Dst: 2, Connection: 1, Seq: c.FirstSequence,
			Ack: c.FirstSequence, Payload: 1000})
		for _, f := range book.Keep(a.Finish(clock.Time(0).Add(20 * clock.Millisecond)).Findings) {
			rules = append(rules, f.Rule)
		}
		return rules
	}
	at := func(ms int) func(uint32) clock.Time {
		return func(uint32) clock.Time { return clock.Time(0).Add(clock.Duration(ms) * clock.Millisecond) }
	}
	if got := judge(at(5)); len(got) > 0 {
		t.Errorf("seen up to 5 ms: %v", got)
	}
	for _, until := range []func(uint32) clock.Time{nil, at(19), at(50)} {
		if got := judge(until); !slices.Equal(got, []string{"tcp.timeout-missing"}) {
			t.Errorf("seen for longer: %v", got)
		}
	}
}

func TestElevenSegmentsAndOneMoreExceedAWindowOfTen(t *testing.T) {
	for n, want := range map[int]bool{11: false, 12: true} {
		var steps []step
		for i := range n {
			steps = append(steps, step{us: i, sent: true, at: uint32(1000 * i)})
		}
		if got := slices.Contains(judge(steps), "tcp.congestion-window"); got != want {
			t.Errorf("%d segments: %v", n, got)
		}
	}
}

// FuzzObservations feeds arbitrary packets: the analyzer must not panic.
func FuzzObservations(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := tcp.New(config())
		now := clock.Time(0)
		for len(data) >= 16 {
			now = now.Add(clock.Duration(data[0]) * 10 * clock.Microsecond)
			at := func(i int) uint32 { return config().FirstSequence + uint32(int16(binary.BigEndian.Uint16(data[i:]))) }
			a.Observe(&tcp.Observation{
				Time: now, Sent: data[1]&1 > 0, Damaged: data[1]&2 > 0, Src: uint32(data[2] & 1), Dst: uint32(data[2] >> 1 & 1),
				Connection: uint32(data[3] & 1),
				Seq:        at(4), Ack: at(6), SACKStart: at(8), SACKEnd: at(10),
				Window:  uint64(binary.BigEndian.Uint16(data[12:])),
				Payload: int(binary.BigEndian.Uint16(data[14:]) % 3000),
			})
			data = data[16:]
		}
		a.Drain()
		causetest.Declared(t, tcp.Causes(), a.Finish(now).Findings)
	})
}

// A timer starts when the host decides to send. What leaves after other packets was decided earlier than it is seen.
func TestAWaitAtTheNICIsNotTakenFromATimer(t *testing.T) {
	const us, frame = clock.Microsecond, 2 * clock.Microsecond
	judge := func(waits bool) (rules []string) {
		a := tcp.New(config())
		send := func(at clock.Time) {
			a.Leaves(1, at, frame)
			a.Observe(&tcp.Observation{
				Time: at, Sent: true, Src: 1, Dst: 2, Connection: 1, Seq: config().FirstSequence, Ack: config().FirstSequence,
				Payload: 1000,
			})
		}
		send(0)
		first := clock.Time(1200 * us)
		if waits { // two other packets leave just before
			a.Leaves(1, first.Add(-2*frame), frame)
			a.Leaves(1, first.Add(-frame), frame)
		}
		send(first)
		send(first.Add(2*clock.Millisecond - 5*us))
		for _, f := range book.Keep(a.Finish(first.Add(3 * clock.Millisecond)).Findings) {
			rules = append(rules, f.Rule)
		}
		return rules
	}
	if got := judge(true); len(got) > 0 {
		t.Errorf("a packet that waited: %v", got)
	}
	if got := judge(false); !slices.Equal(got, []string{"tcp.backoff"}) {
		t.Errorf("one that did not wait: %v", got)
	}
}

// What flow control keeps a host from sending is neither missing nor early.
func TestAPauseExplainsWhatComesLateAndTimersThatSeemShort(t *testing.T) {
	judge := func(paused bool) (rules []string) {
		a := tcp.New(config())
		at := func(us int) clock.Time { return clock.Time(0).Add(clock.Duration(us) * clock.Microsecond) }
		send := func(us int) {
			a.Leaves(1, at(us), clock.Microsecond)
			a.Observe(&tcp.Observation{
				Time: at(us), Sent: true, Src: 1, Dst: 2, Connection: 1, Seq: config().FirstSequence, Ack: config().FirstSequence,
				Payload: 1000, Window: 1 << 20,
			})
		}
		send(0)
		if paused { // from 500 us on: the first timeout, at 1 ms, waits; the second comes 2 ms later
			a.Silenced(1, at(2900))
		}
		send(2900)
		send(3100)
		// A pause of 30 ms: the third timeout, at 7 ms, is seen at its end.
		if paused {
			a.Silenced(1, at(40_000))
		}
		send(40_000)
		for _, f := range book.Keep(a.Finish(at(40_001)).Findings) {
			if f.Severity != "note" {
				rules = append(rules, f.Rule)
			}
		}
		return rules
	}
	if got := judge(true); len(got) > 0 {
		t.Errorf("a host that was paused: %v", got)
	}
	if got := judge(false); !slices.Equal(got, []string{"tcp.timeout-early", "tcp.timeout-missing"}) {
		t.Errorf("one that was not: %v", got)
	}
}

// However busy a NIC is, the second timeout comes at the earliest twice the timer after the first can have come.
func TestANICThatNeverIdlesHidesNoTimerThatDoesNotDouble(t *testing.T) {
	judge := func(times ...int) (rules []string) {
		a := tcp.New(config())
		next := 0
		for us := 0; us <= times[len(times)-1]; us++ { // a frame each microsecond, which takes as long
			at := clock.Time(0).Add(clock.Duration(us) * clock.Microsecond)
			a.Leaves(1, at, clock.Microsecond)
			if us == times[next] {
				next++
				a.Observe(&tcp.Observation{
					Time: at, Sent: true, Src: 1, Dst: 2, Connection: 1, Seq: config().FirstSequence, Ack: config().FirstSequence,
					Payload: 1000, Window: 1 << 20,
				})
			}
		}
		end := clock.Time(0).Add(clock.Duration(times[len(times)-1]) * clock.Microsecond)
		for _, f := range book.Keep(a.Finish(end).Findings) {
			rules = append(rules, f.Rule)
		}
		return rules
	}
	for _, c := range []struct {
		times []int
		want  []string
	}{
		{[]int{0, 1000, 3000, 7000}, nil},
		{[]int{0, 1000, 2000}, []string{"tcp.backoff"}},       // not doubled
		{[]int{0, 1000, 3000, 5000}, []string{"tcp.backoff"}}, // not doubled a second time
		{[]int{0, 700}, []string{"tcp.timeout-early"}},
		{[]int{0, 2500, 3100}, []string{"tcp.timer-unjudged"}}, // the first waited, or the second was early
	} {
		if got := judge(c.times...); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.times, got, c.want)
		}
	}
}
