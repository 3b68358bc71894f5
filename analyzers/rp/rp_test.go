package rp_test

import (
	"net/netip"
	"slices"
	"testing"

	"candela.dev/candela/analyzers/rp"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

const (
	payload = 1024
	onWire  = (14 + 24 + 20 + 8 + 12 + 4 + payload) * 8 * 10 // ns at 100 Mb/s, so that gaps are whole numbers
)

// wire plays senders that pace their packets.
type wire struct {
	a   *rp.Analyzer
	now int64
	id  uint64
	psn [2]packet.PSN
}

func connections(t testing.TB) *trace.Connections {
	t.Helper()
	var list []trace.Connection
	for i := range 2 {
		list = append(list, trace.Connection{
			Index: i + 1, Verb: "write", MTU: payload,
			Requester: trace.Side{IP: netip.MustParseAddr("10.0.0.2"), QPN: packet.QPN(0x10 + i)},
			Responder: trace.Side{IP: netip.MustParseAddr("10.0.0.1"), QPN: packet.QPN(0x20 + i)},
		})
	}
	c, err := trace.NewConnections(list)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newWire(t testing.TB, cfg rp.Config) *wire {
	t.Helper()
	return &wire{a: rp.New(trace.Meta{Connections: connections(t)}, cfg)}
}

// enabled is a requester at 100 Mb/s that a CNP reaches within a millisecond.
func enabled(on bool) rp.Config {
	return rp.Config{Requester: rp.ReactionPoint{Known: true, Enabled: on, LineRate: 100_000_000, DelayNS: 1_000_000}}
}

func (w *wire) record(flow trace.FlowID, op packet.Opcode, psn packet.PSN) trace.Record {
	w.id++
	return trace.Record{ID: w.id, TimeNS: w.now, Flow: flow, Opcode: op, PSN: psn, PayloadLen: payload,
		Flags: trace.Sent | trace.Passed,
		ICRC:  packet.ICRCNotCheckable}
}

// send sends n packets in the middle of a message at a multiple of their time on the wire.
func (w *wire) send(connection, n int, pace float64) {
	for range n {
		w.now += int64(pace * onWire)
		r := w.record(trace.NewFlowID(connection, false), packet.WriteMiddle, w.psn[connection-1])
		w.psn[connection-1] = w.psn[connection-1].Next()
		w.a.Packet(&r)
	}
}

func (w *wire) cnp(event trace.EventType) {
	r := w.record(trace.NewFlowID(1, true), packet.CNP, 0)
	r.Event = event
	w.a.Packet(&r)
}

func (w *wire) nak() {
	r := w.record(trace.NewFlowID(1, true), packet.Acknowledge, 0)
	r.Syndrome = packet.SyndromeNakSequence
	w.a.Packet(&r)
}

func (w *wire) rules(t *testing.T) []string {
	rules := []string{}
	findings := w.a.Finish().Findings
	book.Add(t, findings)
	for _, f := range findings {
		rules = append(rules, f.Rule)
	}
	return slices.Compact(rules)
}

func TestRates(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  rp.Config
		play func(w *wire)
		want []string
	}{
		{"line rate without a CNP", enabled(true), func(w *wire) { w.send(1, 500, 1) }, nil},
		{"half the rate after a CNP, then recovery", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventNone)
			w.send(1, 50, 2)
			w.send(1, 100, 1.5)
			w.send(1, 200, 1)
		}, nil},
		{"line rate after a CNP", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventNone)
			w.send(1, 100, 1)
		}, []string{rp.RuleNoReaction}},
		{"line rate while the CNP may be on its way", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventNone)
			w.send(1, 10, 1)
			w.send(1, 60, 1.3)
			w.send(1, 60, 1)
		}, nil},
		{"line rate again after another connection had the port", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventNone)
			for range 200 {
				w.send(2, 1, 1)
				w.send(1, 1, 1)
			}
			w.send(1, 200, 1)
		}, nil},
		{"line rate again after an idle time", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventNone)
			w.psn[0]++ // a LAST and a FIRST
			w.now += 100_000_000
			w.send(1, 200, 1)
		}, nil},
		{"a CNP at the end", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventNone)
			w.send(1, 40, 1)
		}, nil},
		{"a CNP to a sender that was slow already", enabled(true), func(w *wire) {
			w.send(1, 200, 1.1)
			w.cnp(trace.EventNone)
			w.send(1, 200, 1.1)
		}, nil},
		{"slow for ever after a CNP", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventNone)
			w.send(1, 200, 2)
		}, []string{rp.RuleNoRecovery}},
		{"slow for ever, but CNPs go on", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			for range 20 {
				w.cnp(trace.EventNone)
				w.send(1, 30, 2)
			}
		}, nil},
		{"a steady pace below line rate from the start", enabled(true), func(w *wire) { w.send(1, 500, 2) }, nil},
		{"a steady pace below line rate after line rate", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			w.send(1, 100, 2)
		}, []string{rp.RuleUnprovoked}},
		{"hiccups", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			for i := range 100 {
				w.send(1, 1, 1.5+float64(i%7)/10)
			}
		}, nil},
		{"slow after a CNP that was dropped", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventDrop)
			w.send(1, 100, 2)
		}, []string{rp.RuleUnprovoked}},
		{"slow after a loss", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			w.nak()
			w.send(1, 100, 2)
		}, nil},
		{"slow because another connection shares the port", enabled(true), func(w *wire) {
			w.send(1, 20, 1)
			for range 100 {
				w.send(2, 1, 1)
				w.send(1, 1, 1)
			}
		}, nil},
		{"slow after a CNP with the reaction point off", enabled(false), func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventNone)
			w.send(1, 100, 2)
		}, []string{rp.RuleDisabled}},
		{"line rate after a CNP with the reaction point off", enabled(false), func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventNone)
			w.send(1, 200, 1)
		}, nil},
		{"nothing known", rp.Config{}, func(w *wire) {
			w.send(1, 20, 1)
			w.cnp(trace.EventNone)
			w.send(1, 200, 1)
			w.send(1, 200, 2)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire(t, c.cfg)
			c.play(w)
			if got := w.rules(t); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestReactionIsMeasuredFromTheCNP(t *testing.T) {
	w := newWire(t, enabled(true))
	w.send(1, 20, 1)
	w.cnp(trace.EventNone)
	w.send(1, 3, 1)
	w.send(1, 10, 2)
	m := w.a.Finish().Metrics[0]
	if want := int64(5 * onWire); m.Count != 1 || m.Min != want {
		t.Errorf("reaction %d ns, %d values; want one of %d ns", m.Min, m.Count, want)
	}
}

func TestAnUnprovokedPaceNamesThePacket(t *testing.T) {
	w := newWire(t, enabled(true))
	w.send(1, 20, 1)
	w.send(1, 100, 2)
	f := w.a.Finish().Findings[0]
	if f.Packets[0] != 52 || f.Clause == "" || f.Expected == "" || f.Actual == "" || f.Connection != 1 {
		t.Errorf("finding %+v", f)
	}
}

func TestPacketsCostNoAllocation(t *testing.T) {
	w := newWire(t, enabled(true))
	w.send(1, 100, 1)
	w.cnp(trace.EventNone)
	if n := runtimetest.FewestAllocs(0, func() { w.send(1, 10, 1.5) }); n != 0 {
		t.Errorf("%d allocations for 10 packets", n)
	}
}

func BenchmarkPacket(b *testing.B) {
	w := newWire(b, enabled(true))
	b.ReportAllocs()
	for b.Loop() {
		w.send(1, 1, 1)
	}
}
