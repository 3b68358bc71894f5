package tcp_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
)

func config() tcp.Config {
	return tcp.Config{MSS: 1000, InitialWindow: 10, MinRTO: clock.Millisecond, FirstSequence: 0xfffffc00} // numbers wrap after 1024 bytes
}

// step is a packet of connection 1: data from host 1 to host 2, acknowledgements back.
type step struct {
	us         int
	sent, ack  bool
	at         uint32 // sequence or acknowledgement number, from 0
	start, end uint32 // SACK
}

// judge returns the rules that a conversation breaks.
func judge(steps []step) (rules []string) {
	a := tcp.New(config())
	now := clock.Time(0)
	for i, s := range steps {
		now = clock.Time(0).Add(clock.Duration(s.us) * clock.Microsecond)
		o := tcp.Observation{Time: now, Number: uint64(i + 1), Sent: s.sent, Connection: 1, Src: 1, Dst: 2, Window: 1 << 20, Ack: config().FirstSequence}
		if s.ack {
			o.Src, o.Dst, o.Ack = 2, 1, config().FirstSequence+s.at
			if s.start != s.end {
				o.SACKStart, o.SACKEnd = config().FirstSequence+s.start, config().FirstSequence+s.end
			}
		} else {
			o.Seq, o.Payload = config().FirstSequence+s.at, 1000
		}
		a.Observe(&o)
	}
	for _, f := range a.Finish(now).Findings {
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

func told(us int, at, start, end uint32) []step {
	return []step{{us: us, sent: true, ack: true, at: at, start: start, end: end}, {us: us + 5, ack: true, at: at, start: start, end: end}}
}

func TestConversationsAreJudgedByTheRFCs(t *testing.T) {
	again := step{us: 40, sent: true, at: 0}
	for _, tt := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"all is acknowledged", append(window(), told(20, 5000, 0, 0)...), ""},
		{"the first is lost, four are SACKed, it goes again", append(append(window(0), told(20, 0, 1000, 5000)...), again), ""},
		{"two SACKed segments are too few", append(append(window(0), told(20, 0, 1000, 3000)...), again), "tcp.retransmit-early"},
		{"without any news", append(window(0), again), "tcp.timeout-early"},
		{"after the timeout", append(window(0), step{us: 1200, sent: true, at: 0}), ""},
		{"the second timeout comes too soon", append(window(0), step{us: 1200, sent: true, at: 0}, step{us: 2300, sent: true, at: 0}), "tcp.backoff"},
		{"the second timeout comes in time", append(window(0), step{us: 1200, sent: true, at: 0}, step{us: 3300, sent: true, at: 0}), ""},
		{"what is acknowledged goes again", append(append(window(), told(20, 5000, 0, 0)...), again), "tcp.retransmit-spurious"},
		{"a byte is left out", []step{{sent: true, at: 0}, {us: 1, sent: true, at: 1001}}, "tcp.seq-skip"},
		{"a gap is acknowledged", append(window(0), told(20, 5000, 0, 0)...), "tcp.ack-beyond"},
		{"an acknowledgement goes back", append(append(window(), told(20, 5000, 0, 0)...), told(40, 4000, 0, 0)...), "tcp.ack-backwards"},
		{"a block that has not arrived", append(window(0, 4), told(20, 0, 1000, 5000)...), "tcp.sack-false"},
	} {
		got := judge(tt.steps)
		if tt.want == "" && len(got) > 0 || tt.want != "" && !slices.Contains(got, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, got, tt.want)
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

// FuzzObservations feeds the analyzer packets of nobody's making: it says what it likes and never breaks.
func FuzzObservations(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := tcp.New(config())
		now := clock.Time(0)
		for len(data) >= 16 {
			now = now.Add(clock.Duration(data[0]) * 10 * clock.Microsecond)
			at := func(i int) uint32 { return config().FirstSequence + uint32(int16(binary.BigEndian.Uint16(data[i:]))) }
			a.Observe(&tcp.Observation{
				Time: now, Sent: data[1]&1 > 0, Damaged: data[1]&2 > 0, Src: uint32(data[2] & 1), Dst: uint32(data[2] >> 1 & 1), Connection: uint32(data[3] & 1),
				Seq: at(4), Ack: at(6), SACKStart: at(8), SACKEnd: at(10), Window: uint64(binary.BigEndian.Uint16(data[12:])), Payload: int(binary.BigEndian.Uint16(data[14:]) % 3000),
			})
			data = data[16:]
		}
		a.Drain()
		a.Finish(now)
	})
}

// A timer runs from when the host decides to send. What leaves behind other packets was decided earlier than it is seen.
func TestAWaitAtTheNICIsNotTakenFromATimer(t *testing.T) {
	const us, frame = clock.Microsecond, 2 * clock.Microsecond
	judge := func(waits bool) (rules []string) {
		a := tcp.New(config())
		send := func(at clock.Time) {
			a.Leaves(1, at, frame)
			a.Observe(&tcp.Observation{
				Time: at, Sent: true, Src: 1, Dst: 2, Connection: 1, Seq: config().FirstSequence, Ack: config().FirstSequence, Payload: 1000,
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
		for _, f := range a.Finish(first.Add(3 * clock.Millisecond)).Findings {
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
				Time: at(us), Sent: true, Src: 1, Dst: 2, Connection: 1, Seq: config().FirstSequence, Ack: config().FirstSequence, Payload: 1000, Window: 1 << 20,
			})
		}
		send(0)
		if paused { // from 500 µs on: the first timeout, at 1 ms, has to wait; the second comes 2 ms later
			a.Silenced(1, at(2900))
		}
		send(2900)
		send(3100)
		// A pause of 30 ms: the third timeout, at 7 ms, is seen at its end.
		if paused {
			a.Silenced(1, at(40_000))
		}
		send(40_000)
		for _, f := range a.Finish(at(40_001)).Findings {
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

// However busy a NIC is, the second timeout comes no earlier than the first can have come and twice its time later.
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
					Time: at, Sent: true, Src: 1, Dst: 2, Connection: 1, Seq: config().FirstSequence, Ack: config().FirstSequence, Payload: 1000, Window: 1 << 20,
				})
			}
		}
		for _, f := range a.Finish(clock.Time(0).Add(clock.Duration(times[len(times)-1]) * clock.Microsecond)).Findings {
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
		{[]int{0, 1000, 3000, 5000}, []string{"tcp.backoff"}}, // not doubled again
		{[]int{0, 700}, []string{"tcp.timeout-early"}},
		{[]int{0, 2500, 3100}, []string{"tcp.timer-unjudged"}}, // the first waited, or the second was early
	} {
		if got := judge(c.times...); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.times, got, c.want)
		}
	}
}
