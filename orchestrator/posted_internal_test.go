package orchestrator

import (
	"net/netip"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// wire builds records of one connection. Times at the switch are in ms.
type wire struct{ records []trace.Record }

func (w *wire) add(ms float64, flow trace.FlowID, op packet.Opcode, psn packet.PSN) *trace.Record {
	w.records = append(w.records, trace.Record{
		ID: uint64(len(w.records) + 1), TimeNS: int64(ms * 1e6), Flow: flow, Opcode: op, PSN: psn,
		Flags: trace.Sent | trace.Passed,
	})
	return &w.records[len(w.records)-1]
}

func (w *wire) write(ms float64, psn packet.PSN) { w.add(ms, 0, packet.WriteOnly, psn) }
func (w *wire) ack(ms float64, psn packet.PSN) *trace.Record {
	return w.add(ms, 1, packet.Acknowledge, psn)
}

// TestTheOrderOfPacketsProvesAnEarlyTimeoutOfSoftware: T is 67 ms. The last packet is retransmitted too early, with or
// without a proof from the packet order.
func TestTheOrderOfPacketsProvesAnEarlyTimeoutOfSoftware(t *testing.T) {
	for name, tt := range map[string]struct {
		depth  int
		pass   func(w *wire)
		proven bool
	}{
		"1.3 ms after the answer to the message before": {1, func(w *wire) {
			w.write(0, 9)
			w.ack(1, 9)
			w.write(1.8, 10)
			w.write(2.3, 10)
		}, true},
		"of a message of several packets": {1, func(w *wire) {
			w.write(0, 9)
			w.ack(1, 9)
			w.add(2, 0, packet.WriteFirst, 10)
			w.add(3, 0, packet.WriteLast, 11)
			w.add(4, 0, packet.WriteLast, 11)
		}, true},
		"as late as a timer that counts in ticks": {1, func(w *wire) {
			w.write(0, 9)
			w.ack(1, 9)
			w.write(59, 10)
			w.write(59.5, 10)
		}, false},
		"of a message that may have been posted long ago": {4, func(w *wire) {
			w.write(0, 9)
			w.ack(1, 9)
			w.write(1.8, 10)
			w.write(2.3, 10)
		}, false},
		"of the first message, which nothing preceded": {1, func(w *wire) {
			w.write(0, 9)
			w.write(1, 9)
		}, false},
		"of the message before, whose timer ran while its answer was on the way": {1, func(w *wire) {
			w.write(0, 8)
			w.ack(1, 8)
			w.write(2, 9)
			w.ack(68, 9)
			w.write(69, 10)
			w.write(69.1, 9)
		}, false},
		"after an answer that the injector dropped and its repetition": {1, func(w *wire) {
			w.write(0, 9)
			w.ack(1, 9).Event = trace.EventDrop
			w.write(68, 9)
			w.ack(69, 9)
			w.write(70, 10)
			w.write(71, 10)
		}, true},
		"after an answer that the injector dropped and no other": {1, func(w *wire) {
			w.write(0, 9)
			w.ack(1, 9).Event = trace.EventDrop
			w.write(2, 10)
			w.write(3, 10)
		}, false},
		"after an answer that the injector rewrote": {1, func(w *wire) {
			w.write(0, 8)
			w.ack(1, 8)
			w.write(2, 9)
			w.ack(3, 8).Event = trace.EventRewrite
			w.write(60, 10)
			w.write(61, 10)
		}, false},
		"of a READ that is asked for again from its middle": {1, func(w *wire) {
			w.write(0, 9)
			w.ack(1, 9)
			w.add(2, 0, packet.ReadRequest, 10)
			w.add(66, 1, packet.ReadResponseFirst, 10)
			w.add(69, 0, packet.ReadRequest, 11)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var w wire
			tt.pass(&w)
			last := uint64(len(w.records))
			test := &config.Test{Traffic: config.Traffic{TxDepth: tt.depth, AckTimeout: 14}}
			a := &analyzers.Analysis{}
			a.Add("", analyzers.Result{Findings: []analyzers.Finding{{Rule: "gbn.timeout-early", Severity: analyzers.Violation,
				Packets: []uint64{last}}}})
			known, err := trace.NewConnections([]trace.Connection{{
				Index: 1, MTU: 1024, Requester: trace.Side{IP: netip.MustParseAddr("10.0.0.2"), QPN: 5},
				Responder: trace.Side{IP: netip.MustParseAddr("10.0.0.1"), QPN: 6},
			}})
			if err != nil {
				t.Fatal(err)
			}
			checked := trace.CheckedRecords(trace.Meta{Connections: known}, w.records)
			foreign := &config.Test{Traffic: test.Traffic}
			foreign.Traffic.External = &config.External{}
			if proofs, err := proveTimes(t.Context(), checked, foreign, a); len(proofs) > 0 || err != nil {
				t.Errorf("of an application, which posts when it likes: %v, %v", proofs, err)
			}
			proofs, err := proveTimes(t.Context(), checked, test, a)
			if err != nil {
				t.Fatal(err)
			}
			reportTimes(a, proofs)
			want := analyzers.Pass
			if tt.proven {
				want = analyzers.Fail
			}
			if a.Verdict != want {
				t.Errorf("%s, want %s: %s", a.Verdict, want, a.Findings[0].Message)
			}
		})
	}
}
