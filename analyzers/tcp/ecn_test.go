package tcp_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// marked is a packet of a conversation with ECN: data from host 1 to host 2, acknowledgements back.
type marked struct {
	us        int
	sent, ack bool
	at        uint32
	ece, cwr  bool
	ecn       packet.ECN
	from, to  uint32 // SACK
}

func judgeMarks(e tcp.ECN, conversation ...[]marked) (rules []string) {
	c := config()
	c.ECN, c.Beta = e, 0.5
	a := tcp.New(c)
	now := clock.Time(0)
	for i, s := range slices.Concat(conversation...) {
		now = clock.Time(0).Add(clock.Duration(s.us) * clock.Microsecond)
		o := tcp.Observation{Time: now, Number: uint64(i + 1), Sent: s.sent, Connection: 1, Src: 1, Dst: 2, Window: 1 << 20,
			Ack: c.FirstSequence, ECE: s.ece, CWR: s.cwr, ECN: s.ecn}
		if s.ack {
			o.Src, o.Dst, o.Ack = 2, 1, c.FirstSequence+s.at
			if s.from < s.to {
				o.SACKStart, o.SACKEnd = c.FirstSequence+s.from, c.FirstSequence+s.to
			}
		} else {
			o.Seq, o.Payload = c.FirstSequence+s.at, 1000
		}
		if s.sent {
			a.Leaves(o.Src, now, clock.Nanosecond)
		}
		a.Observe(&o)
	}
	for _, f := range book.Keep(a.Finish(now).Findings) {
		rules = append(rules, f.Rule)
	}
	return rules
}

// burst sends so many segments from one on.
func burst(us int, from, count uint32) (list []marked) {
	for i := range count {
		list = append(list, marked{us: us, sent: true, at: 1000 * (from + i), ecn: packet.ECT0})
	}
	return list
}

// arrivals has segments arrive; the mark is that of all of them.
func arrivals(us int, from, count uint32, ecn packet.ECN) (list []marked) {
	for i := range count {
		list = append(list, marked{us: us, at: 1000 * (from + i), ecn: ecn})
	}
	return list
}

// answer sends an acknowledgement that arrives 5 us later.
func answer(us int, at uint32, ece bool) []marked {
	return []marked{{us: us, sent: true, ack: true, at: at, ece: ece}, {us: us + 5, ack: true, at: at, ece: ece}}
}

func one(m marked) []marked { return []marked{m} }

func TestMarksAreJudgedByTheRFCs(t *testing.T) {
	classic := tcp.ECN{On: true, Immediate: true}
	dctcp := classic
	dctcp.DCTCP, dctcp.Gain, dctcp.Alpha = true, 1./16, 1
	waits := dctcp
	waits.Immediate = false
	const ce = packet.CE
	cwr := one(marked{us: 40, sent: true, at: 10_000, ecn: packet.ECT0, cwr: true})
	said := one(marked{us: 50, at: 10_000, ecn: packet.ECT0, cwr: true})
	reduced := func(us int, at uint32) []marked {
		return one(marked{us: us, sent: true, at: 1000 * at, ecn: packet.ECT0, cwr: true})
	}
	selected := func(us int, from, count uint32) []marked {
		m := marked{us: us, sent: true, ack: true, from: 1000 * from, to: 1000 * (from + count)}
		got := m
		got.us, got.sent = us+5, false
		return append(arrivals(us, from, count, packet.ECT0), m, got)
	}
	// The first segment is lost, retransmitted, and followed by three.
	recovery := slices.Concat(burst(0, 0, 10), selected(20, 1, 8), one(marked{us: 30, sent: true}), reduced(31, 10),
		burst(32, 11, 2))
	echoed := slices.Concat(burst(0, 0, 10), arrivals(10, 0, 10, ce), answer(20, 10_000, true))
	for _, tt := range []struct {
		name string
		ecn  tcp.ECN
		said [][]marked
		want []string
	}{
		{"a mark is echoed until CWR", classic, [][]marked{echoed, cwr, said, answer(60, 11_000, false)}, nil},
		{"a mark is not echoed", classic,
			[][]marked{burst(0, 0, 10), arrivals(10, 0, 10, ce), answer(20, 10_000, false)}, []string{"tcp.ece-missing"}},
		{"a mark is echoed once", classic, [][]marked{echoed, arrivals(30, 9, 1, packet.NotECT),
			one(marked{us: 35, sent: true, ack: true, at: 10_000})}, []string{"tcp.ece-missing"}},
		{"CWR does not end the echo", classic, [][]marked{echoed, cwr, said, answer(60, 11_000, true)},
			[]string{"tcp.ece-unfounded"}},
		{"a mark with CWR is another one", classic, [][]marked{echoed, cwr,
			one(marked{us: 50, at: 10_000, ecn: ce, cwr: true}), answer(60, 11_000, true)}, nil},
		{"nothing was marked", classic,
			[][]marked{burst(0, 0, 10), arrivals(10, 0, 10, packet.ECT0), answer(20, 10_000, true)},
			[]string{"tcp.ece-unfounded"}},
		{"DCTCP echoes two marks of ten", dctcp, [][]marked{burst(0, 0, 10), arrivals(10, 0, 8, packet.ECT0),
			arrivals(11, 8, 1, ce), answer(11, 8000, false), arrivals(12, 9, 1, ce), answer(20, 10_000, true)}, nil},
		{"DCTCP acknowledges the segments before a mark with it", dctcp, [][]marked{burst(0, 0, 10),
			arrivals(10, 0, 8, packet.ECT0), arrivals(11, 8, 2, ce), answer(20, 10_000, true)}, []string{"tcp.ece-unfounded"}},
		{"DCTCP acknowledges a mark with the segments after it", dctcp, [][]marked{burst(0, 0, 10),
			arrivals(10, 0, 8, ce), arrivals(11, 8, 2, packet.ECT0), answer(20, 10_000, false)}, []string{"tcp.ece-missing"}},
		{"new data after a mark has no CWR", classic, [][]marked{echoed, burst(40, 10, 1)}, []string{"tcp.cwr-missing"}},
		{"CWR without a mark", classic, [][]marked{one(marked{sent: true, cwr: true, ecn: packet.ECT0})},
			[]string{"tcp.cwr-unfounded"}},
		{"CWR twice for a mark", classic, [][]marked{echoed, cwr,
			one(marked{us: 41, sent: true, at: 11_000, ecn: packet.ECT0, cwr: true})}, []string{"tcp.cwr-unfounded"}},
		{"CWR again as the retransmission is lost", classic, [][]marked{recovery, selected(40, 10, 3), reduced(50, 13)}, nil},
		{"and a third time", classic, [][]marked{recovery, selected(40, 10, 3), reduced(50, 13), reduced(51, 14)},
			[]string{"tcp.cwr-unfounded"}},
		{"CWR again although it need not be lost", classic, [][]marked{recovery, selected(40, 10, 2), reduced(50, 13)},
			[]string{"tcp.cwr-unfounded"}},
		{"ECT without ECN", tcp.ECN{}, [][]marked{burst(0, 0, 1)}, []string{"tcp.ect"}},
		{"ECT on a retransmission", classic, [][]marked{burst(0, 0, 1), burst(2000, 0, 1)}, []string{"tcp.ect"}},
		{"ECT on an acknowledgement", classic, [][]marked{burst(0, 0, 1), arrivals(10, 0, 1, packet.ECT0),
			one(marked{us: 20, sent: true, ack: true, at: 1000, ecn: packet.ECT0})}, []string{"tcp.ect"}},
		{"the window stays after a mark", classic,
			[][]marked{burst(0, 0, 10), arrivals(10, 0, 2, ce), answer(20, 1000, true), cwr},
			[]string{"tcp.ecn-window"}},
		{"half of the window is unused after a mark of a tenth", lasting(dctcp), [][]marked{burst(0, 0, 10),
			arrivals(10, 0, 1, packet.ECT0), arrivals(10, 1, 1, ce), answer(10, 1000, false), answer(20, 2000, true),
			arrivals(30, 2, 6, ce), answer(40, 5000, true), answer(50, 8000, true)}, []string{"tcp.ecn-overreaction"}},
		{"alpha is not known", waits, [][]marked{echoed}, []string{"tcp.ecn-unjudged"}},
	} {
		if got := judgeMarks(tt.ecn, tt.said...); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// lasting has more to send than it sends, and alpha begins at 0.
func lasting(e tcp.ECN) tcp.ECN {
	e.Alpha, e.Written = 0, func(_, _, _ uint32) int64 { return 1 << 20 }
	return e
}
