package ndp_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/clock"
	wire "candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// Within a round trip it is unknown whether the host had the second NACK when it retransmitted.
func TestAnAnswerThatCrossesARetransmissionAllowsExactlyOneMore(t *testing.T) {
	for _, c := range []struct {
		name      string
		nacks     []int // us at which NACKs of packet 0 reach the host
		sends     []int // us at which it is retransmitted
		wantEarly bool
	}{
		{"two NACKs, both known, one retransmission", []int{100, 101}, []int{200}, false},
		{"the second NACK crosses the retransmission", []int{100, 200}, []int{201, 202}, false},
		{"the second NACK crosses, and there is a third retransmission", []int{100, 200}, []int{201, 202, 203}, true},
		{"the second NACK came a round trip before the first retransmission", []int{100, 150}, []int{201, 202}, true},
		{"one NACK, two retransmissions", []int{200}, []int{201, 202}, true},
		{"the RTO runs out, and each of two NACKs crosses a retransmission", []int{20_000, 20_002},
			[]int{20_001, 20_003, 20_004}, false},
		{"the same, and a fourth retransmission", []int{20_000, 20_002}, []int{20_001, 20_003, 20_004, 20_005}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := ndp.New(ndp.Config{InitialWindow: 8, RTO: 10 * clock.Millisecond, RoundTrip: 10 * clock.Microsecond})
			ordinal := uint32(0)
			at := func(us int) clock.Time { return clock.Time(clock.Duration(us) * clock.Microsecond) }
			send := func(us int) {
				a.Observe(&trace.Tap{Time: at(us), Point: trace.TapBefore, At: 2, Src: 1, Dst: 0, Size: 1500, Payload: payload,
					NDP: wire.Header{Kind: wire.Data, Counter: ordinal, Length: payload}})
				ordinal++
			}
			send(1)
			for now := range c.sends[len(c.sends)-1] + 1 {
				if slices.Contains(c.nacks, now) {
					a.Observe(&trace.Tap{Time: at(now), Point: trace.TapAfter, At: 2, Src: 0, Dst: 1, Size: headerSize,
						NDP: wire.Header{Kind: wire.Nack}})
				}
				if slices.Contains(c.sends, now) {
					send(now)
				}
			}
			early := false
			for _, f := range a.Finish().Findings {
				early = early || f.Rule == string(ndp.RuleTimeoutEarly)
			}
			if early != c.wantEarly {
				t.Errorf("timeout-early %v, want %v", early, c.wantEarly)
			}
		})
	}
}
