package trim_test

import (
	"net/netip"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/trim"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// seen is one record of a test trace: everything passes at once, a microsecond after the one before.
type seen struct {
	op       packet.Opcode
	psn      packet.PSN
	syndrome packet.Syndrome
	event    trace.EventType
	gapNS    int64 // more than the microsecond
}

const (
	first, middle, last = packet.WriteFirst, packet.WriteMiddle, packet.WriteLast
	nak                 = packet.SyndromeNakSequence
)

func data(op packet.Opcode, psn packet.PSN) seen { return seen{op: op, psn: psn} }
func cut(op packet.Opcode, psn packet.PSN) seen {
	return seen{op: op, psn: psn, event: trace.EventTrim}
}
func answer(s packet.Syndrome, psn packet.PSN) seen {
	return seen{op: packet.Acknowledge, psn: psn, syndrome: s}
}
func after(ns int64, s seen) seen { s.gapNS = ns; return s }

func connections(t *testing.T) *trace.Connections {
	t.Helper()
	conns, err := trace.NewConnections([]trace.Connection{{
		Index: 1, Verb: "write", MTU: 1024,
		Requester: trace.Side{IP: netip.MustParseAddr("10.0.0.2"), QPN: 18, IPSN: 0},
		Responder: trace.Side{IP: netip.MustParseAddr("10.0.0.1"), QPN: 17, IPSN: 0},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return conns
}

func analyse(t *testing.T, reaction trace.TrimReaction, cfg trim.Config, list []seen) (analyzers.Result,
	[]trim.Packet) {
	t.Helper()
	conns := connections(t)
	var records []trace.Record
	now := int64(0)
	for i, s := range list {
		now += 1000 + s.gapNS
		r := trace.Record{ID: uint64(i + 1), TimeNS: now, PSN: s.psn, Opcode: s.op, Syndrome: s.syndrome, Event: s.event,
			PayloadLen: 1024,
			Flags:      trace.Sent | trace.Passed, ICRC: packet.ICRCValid}
		if s.op.IsResponse() {
			r.Flow, r.Flags, r.PayloadLen = 1, r.Flags|trace.HasAETH, 0
		}
		records = append(records, r)
	}
	c := trace.CheckedRecords(trace.Meta{Connections: conns},
		records).WithTrims(trace.TrimReactions{Requester: reaction, Responder: reaction}, cfg.Cuts)
	a := trim.New(c.Meta(), cfg)
	if err := c.ForEach(t.Context(), func(r *trace.Record) error { a.Packet(r); return nil }); err != nil {
		t.Fatal(err)
	}
	result := a.Finish()
	book.Add(t, result.Findings)
	return result, a.Packets()
}

func TestReactionsToTrimmedHeaders(t *testing.T) {
	const ok = packet.SyndromeAckNoCredit
	whole := []seen{data(first, 0), cut(middle, 1), data(last, 2)}
	retransmitted := []seen{data(middle, 1), data(last, 2), answer(ok, 2)}
	with := func(parts ...[]seen) []seen { return slices.Concat(parts...) }
	for _, c := range []struct {
		name     string
		reaction trace.TrimReaction
		list     []seen
		rules    []string
	}{
		{"one NAK at once is right", trace.TrimAnswered, with(whole, []seen{answer(nak, 1)}, retransmitted), nil},
		{"silence until the timeout is wrong where a reaction is declared", trace.TrimAnswered,
			with(whole, []seen{after(1_000_000, data(middle, 1)), data(last, 2), answer(ok, 2)}), []string{"trim.nack-missing"}},
		{"silence is right without a reaction", trace.TrimIgnored,
			with(whole, []seen{after(1_000_000, data(middle, 1)), data(last, 2), answer(ok, 2)}), nil},
		{"nothing is demanded of an unknown device", trace.TrimReactionUnknown,
			with(whole, []seen{after(1_000_000, data(middle, 1)), data(last, 2), answer(ok, 2)}), nil},
		{"a NAK for the packet after is wrong", trace.TrimAnswered, with(whole, []seen{answer(nak, 2), data(last, 2)}),
			[]string{"trim.nack-psn"}},
		{"two NAKs for one header are wrong", trace.TrimAnswered,
			with(whole, []seen{answer(nak, 1), answer(nak, 1)}, retransmitted), []string{"trim.nack-repeat"}},
		{"a NAK for each of two headers is right", trace.TrimAnswered,
			with(whole, []seen{answer(nak, 1), cut(middle, 1), data(last, 2), answer(nak, 1)}, retransmitted), nil},
		{"an ACK beyond a header is wrong, declared or not", trace.TrimIgnored, with(whole, []seen{answer(ok, 2)}),
			[]string{"trim.acknowledged"}},
		{"the header of a duplicate brings nothing", trace.TrimAnswered,
			[]seen{data(first, 0), data(last, 1), after(1_000_000, cut(last, 1)), after(1_000_000, data(last, 1)),
				answer(ok, 1)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, _ := analyse(t, c.reaction, trim.Config{}, c.list)
			var fired []string
			for _, f := range result.Findings {
				if f.Severity == analyzers.Violation {
					fired = append(fired, f.Rule)
				}
			}
			if !slices.Equal(fired, c.rules) {
				t.Errorf("fired %v, want %v: %+v", fired, c.rules, result.Findings)
			}
		})
	}
}

func TestEachTrimIsMeasuredFromHeaderToDelivery(t *testing.T) {
	cuts := []trace.Cut{{Flow: 0, PSN: 1, Nth: 1, Size: 128, DSCP: 48,
		Flags: packet.TrimSetDSCP | packet.TrimUpdateIPLength},
		{Flow: 0, PSN: 1, Nth: 2, Size: 64, DSCP: 48, Flags: packet.TrimSetDSCP}}
	result, packets := analyse(t, trace.TrimAnswered, trim.Config{Cuts: cuts}, []seen{
		data(first, 0), cut(middle, 1), data(last, 2), answer(nak, 1),
		cut(middle, 1), data(last, 2), answer(nak, 1),
		data(middle, 1), data(last, 2), answer(packet.SyndromeAckNoCredit, 2),
	})
	want := map[string][]int64{
		"trim.nack-generation": {2000, 2000}, "trim.nack-reaction": {1000, 1000}, "trim.recovery": {6000, 3000},
		"trim.size": {128, 64},
	}
	for _, m := range result.Metrics {
		if m.Connection == 0 && !slices.Equal(m.Values, want[m.Name]) {
			t.Errorf("%s: %v, want %v", m.Name, m.Values, want[m.Name])
		}
	}
	if len(packets) != 2 || packets[1].Nth != 2 || packets[1].Size != 64 ||
		packets[0].RecoveredID != packets[1].RecoveredID {
		t.Errorf("packets %+v", packets)
	}
	note := result.Findings[0]
	if note.Rule != "trim.headers" || note.Actual != "dscp 48 on 2; IP length updated on 1 of 2; IP checksum right on 2 "+
		"of 2; UDP length updated on 0 of 2" {
		t.Errorf("note %+v", note)
	}
}
