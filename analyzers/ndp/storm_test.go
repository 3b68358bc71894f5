package ndp_test

import (
	"testing"

	"candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/clock"
	wire "candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// A timeout far shorter than the RTT has a packet sent tens of thousands of times, each copy is trimmed, and
// the receiver
// answers all of them. Only one NACK more than headers is blamed.
func TestTensOfThousandsOfHeadersOfOnePacketAreCounted(t *testing.T) {
	const copies = 1<<16 + 7
	for _, more := range []int{0, 1} {
		a := ndp.New(ndp.Config{RTO: clock.Nanosecond})
		now := clock.Time(0)
		observe := func(point trace.TapPoint, src, dst uint32, size int, h wire.Header) {
			now = now.Add(clock.Nanosecond)
			at := src
			if point == trace.TapAfter {
				at = dst
			}
			p := trace.Tap{Time: now, Point: point, At: at + 1, Src: src, Dst: dst, Size: int32(size), NDP: h}
			if size > 64 {
				p.Payload = payload
			}
			a.Observe(&p)
		}
		for i := range uint32(copies) {
			h := wire.Header{Kind: wire.Data, Seq: 0, Counter: i, Length: payload}
			observe(trace.TapBefore, 1, 0, 1500, h)
			h.Flags |= wire.FlagTrimmed
			observe(trace.TapAfter, 1, 0, 64, h)
		}
		for range copies + more {
			observe(trace.TapBefore, 0, 1, 64, wire.Header{Kind: wire.Nack})
		}
		blamed := 0
		for _, f := range a.Finish().Findings {
			if f.Rule != string(ndp.RuleNackUnprovoked) {
				t.Errorf("%s: %s", f.Rule, f.Message)
			}
			blamed++
		}
		if blamed != more {
			t.Errorf("%d NACKs too many: %d are blamed", more, blamed)
		}
	}
}

func TestStormsOfHeadersBlameNobody(t *testing.T) {
	tests := []struct {
		name string
		s    scenario
	}{
		{"sixty-four first windows of a thousand",
			scenario{hosts: 65, queue: 8, headers: 375, weight: 10, window: 1000, flows: incast(64, 1000)}},
		{"the same, watched at the NICs",
			scenario{hosts: 65, queue: 8, headers: 375, weight: 10, window: 1000, flows: incast(64, 1000), nics: true}},
		{"headers nearly always first",
			scenario{hosts: 65, queue: 8, headers: 375, weight: 100_000, window: 1000, flows: incast(64, 1000), nics: true}},
		{"headers and packets in turn",
			scenario{hosts: 33, queue: 20, headers: 100, weight: 1, window: 400, flows: incast(32, 600)}},
		{"a large header queue", scenario{hosts: 41, queue: 8, headers: 20_000, weight: 10, window: 300,
			flows: incast(40, 300)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.s.bounce, test.s.delay, test.s.rto, test.s.seed = true, clock.Microsecond, 20*clock.Millisecond, 1
			if r := test.s.run(t); len(r.Findings) > 0 {
				t.Error(show(r))
			}
		})
	}
}
