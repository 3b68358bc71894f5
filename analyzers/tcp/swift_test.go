package tcp_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
)

// timed is a packet of a conversation with Swift: data from host 1 to host 2, acknowledgements back.
type timed struct {
	us        int
	sent, ack bool
	at        uint32
	held      int // microseconds that an acknowledgement says; negative: it says nothing
}

func swiftConfig() tcp.Swift {
	const us = clock.Microsecond
	return tcp.Swift{On: true, Immediate: true, InitialTTL: 250, BaseTarget: 25 * us, FlowMin: 0.1, FlowMax: 100,
		EndpointTarget: 100 * us, Increase: 1, Beta: 1, MaxDecrease: 0.75, MinWindow: 0.01, MaxWindow: 100, ResetAfter: 2}
}

func judgeTimes(c tcp.Config, conversation ...[]timed) (rules []string) {
	c.ECN.Written = func(_, _, _ uint32) int64 { return 1 << 20 }
	a := tcp.New(c)
	now := clock.Time(0)
	for i, s := range slices.Concat(conversation...) {
		now = clock.Time(0).Add(clock.Duration(s.us) * clock.Microsecond)
		o := tcp.Observation{Time: now, Number: uint64(i + 1), Sent: s.sent, Connection: 1, Src: 1, Dst: 2, Window: 1 << 20,
			Ack: c.FirstSequence, TTL: 250}
		if s.ack {
			o.Src, o.Dst, o.Ack = 2, 1, c.FirstSequence+s.at
			o.Delay, o.HasDelay = uint32(max(s.held, 0))*1000, s.held >= 0
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

// trip sends segments at one instant; they are answered at another.
func trip(us, back int, from, count uint32) (list []timed) {
	for i := range count {
		list = append(list, timed{us: us, sent: true, at: 1000 * (from + i)})
	}
	for i := range count {
		list = append(list, timed{us: us + 1, at: 1000 * (from + i)})
	}
	return append(list, timed{us: back - 1, sent: true, ack: true, at: 1000 * (from + count), held: back - us - 2},
		timed{us: back, ack: true, at: 1000 * (from + count), held: back - us - 2})
}

func sendAll(us int, from, count uint32) (list []timed) {
	for i := range count {
		list = append(list, timed{us: us, sent: true, at: 1000 * (from + i)})
	}
	return list
}

func TestSwiftsWindowsFollowTheDelays(t *testing.T) {
	prompt := func(us, back int, at uint32) []timed {
		return []timed{{us: back - 1, sent: true, ack: true, at: at, held: back - us - 1}, {us: back, ack: true, at: at}}
	}
	for _, tt := range []struct {
		name         string
		window       int
		conversation [][]timed
		want         []string
	}{
		{"ten segments and one of grace", 10, [][]timed{sendAll(0, 0, 10)}, nil},
		{"twelve segments", 10, [][]timed{sendAll(200, 0, 12)}, []string{"tcp.initial-window", "tcp.swift-window"}},
		// 2 us of fabric delay: ten segments acknowledged add 10/10
		{"eleven and one", 10, [][]timed{trip(0, 20, 0, 10), sendAll(21, 10, 12)}, nil},
		{"thirteen", 10, [][]timed{trip(0, 20, 0, 10), sendAll(21, 10, 13)}, []string{"tcp.swift-window"}},
		{"five of ten, and more to send", 10, [][]timed{trip(0, 20, 0, 1), sendAll(30, 1, 5), {{us: 200, ack: true, at: 1000}}},
			[]string{"tcp.swift-overreaction"}},
		{"nine of ten", 10, [][]timed{trip(0, 20, 0, 1), sendAll(30, 1, 9), {{us: 200, ack: true, at: 1000}}}, nil},
		// 100 us of fabric delay leave a quarter of a segment: 400 us
		{"paced", 1, [][]timed{sendAll(0, 0, 1), {{us: 98, at: 0}}, prompt(98, 100, 1000), sendAll(400, 1, 1)}, nil},
		{"paced too fast", 1, [][]timed{sendAll(0, 0, 1), {{us: 98, at: 0}}, prompt(98, 100, 1000), sendAll(150, 1, 1)},
			[]string{"tcp.swift-pacing"}},
		{"a delay is not told", 1, [][]timed{sendAll(29, 0, 1), {{us: 30, at: 0},
			{us: 50, sent: true, ack: true, at: 1000, held: -1}}}, []string{"tcp.swift-delay"}},
	} {
		c := config()
		c.MinRTO, c.InitialWindow, c.Swift = clock.Second, tt.window, swiftConfig()
		if got := judgeTimes(c, tt.conversation...); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		c.Swift.Immediate = false
		got := judgeTimes(c, tt.conversation...)
		if got = slices.DeleteFunc(got, func(rule string) bool { return rule == "tcp.initial-window" }); len(got) > 0 &&
			!slices.Equal(got, []string{"tcp.swift-unjudged"}) {
			t.Errorf("%s, with unknown delays: %v", tt.name, got)
		}
	}
}
