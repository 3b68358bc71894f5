package bolt_test

import (
	"os"
	"slices"
	"testing"

	"candela.dev/candela/analyzers/bolt"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/clock"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(bolt.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, bolt.Rules(), bolt.Causes())
}

const (
	first = bolt.First
	last  = bolt.Last
	inc   = bolt.Inc
	dec   = bolt.Dec
	ack   = bolt.Ack
	src   = bolt.SRC
)

// step is a packet of a flow of packets of 1000 bytes from host 1 to host 2.
type step struct {
	us      int
	kind    bolt.Kind // 0: Data
	arrives bool
	flags   bolt.Flags
	number  uint32
	total   uint32 // of an ACK
	sent    int    // us; 0: of data, now
	queue   uint32
}

// judge shows the judge a flow of so many packets, with a window of 2 packets at first, one of 45 us as timeout, at
// 8 Gb/s: a packet takes 1 us.
func judge(packets uint32, steps []step, drained bool) (rules []string) {
	a := bolt.New(bolt.Config{Frame: 1000, Window: 2, MaxWindow: 8, MinWindow: 0.01, Increase: 1,
		RTO: 45 * clock.Microsecond, Reorder: 2, RateOf: func(uint32) clock.BitRate { return 8 * clock.Gbps },
		AckLimit: 100 * clock.Microsecond, Idle: true})
	at := func(us int) clock.Time { return clock.Time(0).Add(clock.Duration(us) * clock.Microsecond) }
	for i, s := range steps {
		o := bolt.Observation{Time: at(s.us), ID: uint64(i + 1), Sent: !s.arrives, Kind: max(s.kind, bolt.Data),
			Flags: s.flags, Src: 1, Dst: 2, Number: s.number, Total: s.total, SentNS: uint32(s.sent) * 1000, Queue: s.queue,
			RateMbps: 8000}
		if s.kind != 0 {
			o.Src, o.Dst = 2, 1
		} else if o.Total = packets; s.sent == 0 {
			o.SentNS = uint32(s.us) * 1000
		}
		if o.Sent {
			a.Leaves(o.Src, o.Time, clock.Microsecond)
		}
		a.Observe(&o)
	}
	if drained {
		a.Drain()
	}
	for _, f := range book.Keep(a.Finish(at(steps[len(steps)-1].us)).Findings) {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	return rules
}

// acked is the arrival of an ACK for a packet that was sent at an instant.
func acked(us int, number uint32, sent int, flags bolt.Flags) step {
	return step{us: us, kind: ack, arrives: true, number: number, total: number + 1, sent: sent, flags: flags}
}

func data(us int, number uint32, flags bolt.Flags) step {
	return step{us: us, number: number, flags: flags}
}

func TestWindowsFollowNoticesAndAcknowledgements(t *testing.T) {
	start := []step{data(1, 0, first), data(2, 1, first)}
	with := func(steps ...step) []step { return append(slices.Clone(start), steps...) }
	notice := step{us: 3, kind: src, arrives: true, number: 1, sent: 1, queue: 9000} // 2 us after its data, 9 packets wait
	grown := with(acked(5, 0, 1, first), data(5, 2, inc), data(6, 3, inc), acked(6, 1, 2, inc), data(7, 4, inc),
		data(8, 5, inc)) // a window of 4, and an RTT of 4 us: the rate of the link
	later := func(us int) step { return step{us: us, kind: src, arrives: true, number: 2, sent: 5, queue: 9000} }
	for _, test := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"a first window", start, nil},
		{"a packet more", with(data(3, 2, first)), []string{"bolt.window"}},
		{"an ACK lets one go, and a round trip another", with(acked(5, 0, 1, first), data(5, 2, inc), data(6, 3, inc)), nil},
		{"INC lets a third go", with(acked(5, 0, 1, inc), data(5, 2, inc), data(6, 3, inc), data(7, 4, inc)), nil},
		{"DEC takes it back", with(acked(5, 0, 1, inc|dec), data(5, 2, inc), data(6, 3, inc), data(7, 4, inc)),
			[]string{"bolt.window"}},
		{"a round trip adds one packet once", with(acked(5, 0, 1, first), data(5, 2, inc), data(6, 3, inc),
			acked(6, 1, 2, first), data(7, 4, inc), data(8, 5, inc)), []string{"bolt.window"}},
		{"what may be sent is sent", with(acked(5, 0, 1, first), data(5, 2, inc), data(20, 3, inc)),
			[]string{"bolt.send-missing"}},
		{"a notice takes a packet", with(notice, acked(5, 0, 1, first), data(5, 2, inc)), nil},
		{"it is not obeyed", with(notice, acked(5, 0, 1, first), data(5, 2, inc), data(6, 3, inc)),
			[]string{"bolt.window"}},
		{"of two within the time to drain one is", slices.Concat(grown, []step{later(9), later(9),
			acked(10, 2, 5, 0), data(10, 6, inc)}), nil},
		{"the second comes later", slices.Concat(grown, []step{later(9), later(10), acked(10, 2, 5, 0),
			data(10, 6, inc)}), []string{"bolt.window"}},
		{"a short queue takes none yet", with(step{us: 3, kind: src, arrives: true, number: 1, sent: 1, queue: 900},
			acked(5, 0, 1, first), data(5, 2, inc), data(6, 3, inc)), nil},
		{"the flags of a packet", with(acked(5, 0, 1, first), data(5, 2, first), data(6, 3, inc)), []string{"bolt.flags"}},
		{"its time", []step{{us: 3, flags: first, sent: 2}, data(4, 1, first)}, []string{"bolt.time"}},
		{"its turn", []step{data(1, 0, first), data(2, 2, first)}, []string{"bolt.sequence"}},
		{"too early once more", with(step{us: 5, kind: ack, arrives: true, flags: first, number: 1,
			sent: 2}, data(5, 0, 0)), []string{"bolt.retransmit-early"}},
		{"an acknowledged packet is retransmitted", with(acked(5, 0, 1, first), data(5, 0, 0)), []string{"bolt.retransmit-acknowledged"}},
		{"lost for the timer", with(data(46, 0, 0)), nil},
		{"below one packet they are paced", with(notice, // the window is 1, then 1/2
			step{us: 4, kind: src, arrives: true, number: 1, sent: 1, queue: 9000}, data(9, 2, first)),
			[]string{"bolt.window"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := judge(100, test.steps, false); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// With a window of half a packet the next one follows two round trips after the last.
func TestPacketsOfNarrowWindowsAreSpaced(t *testing.T) {
	narrow := func(us int) []step {
		steps := []step{data(1, 0, first), data(2, 1, first)}
		for range 4 { // takes a packet, then halves: the increase of the ACKs' round trip makes the window 1 + 1/8
			steps = append(steps, step{us: 3, kind: src, arrives: true, number: 1, sent: 1, queue: 9000})
		}
		steps = append(steps, acked(5, 0, 1, first), // 1 1/8
			step{us: 5, kind: src, arrives: true, number: 1, sent: 1, queue: 90000}, // 1/8
			acked(6, 1, 2, first)) // RTT 4 us: 32 us after the last packet
		return append(steps, data(us, 2, inc))
	}
	for us, want := range map[int][]string{34: nil, 30: {"bolt.window"}, 40: {"bolt.send-missing"}} {
		if got := judge(100, narrow(us), false); !slices.Equal(got, want) {
			t.Errorf("after %d us: %v, want %v", us-2, got, want)
		}
	}
}

func TestReceiversAnswerWhatArrives(t *testing.T) {
	here := step{us: 5, arrives: true, flags: last, sent: 1}
	there := step{us: 6, kind: ack, flags: last, total: 1, sent: 1}
	begin := data(1, 0, first|last)
	change := func(f func(s *step)) step {
		s := there
		f(&s)
		return s
	}
	for _, test := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"an ACK", []step{begin, here, there, acked(9, 0, 1, last)}, nil},
		{"none", []step{begin, here}, []string{"bolt.send-missing", "bolt.ack-missing", "bolt.incomplete"}},
		{"of another packet", []step{begin, here, there, change(func(s *step) { s.number = 1 }), acked(9, 0, 1, last)},
			[]string{"bolt.ack-false"}},
		{"other flags", []step{begin, here, change(func(s *step) { s.flags = inc }), acked(9, 0, 1, last)},
			[]string{"bolt.ack-content"}},
		{"another time", []step{begin, here, change(func(s *step) { s.sent = 5 }), acked(9, 0, 1, last)},
			[]string{"bolt.ack-content"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := judge(1, test.steps, true); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
