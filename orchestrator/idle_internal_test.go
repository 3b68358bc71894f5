package orchestrator

import (
	"context"
	"net/netip"
	"runtime"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// idleState bounds the state of an idle connection that has carried a few packets, in bytes, over all analyzers.
const idleState = 8 << 10

// TestAnIdleConnectionTakesLittleMemory measures the heap with many connections that have carried a message each, for a
// mirror trace and for a single capture, whose observer keeps state, too.
func TestAnIdleConnectionTakesLittleMemory(t *testing.T) {
	for _, kind := range []trace.Kind{trace.KindMirror, trace.KindPlain} {
		t.Run(kind.String(), func(t *testing.T) { testIdleConnections(t, kind) })
	}
}

func testIdleConnections(t *testing.T, kind trace.Kind) {
	for _, tt := range []struct {
		name    string
		records func(connection int) []trace.Record
	}{
		{"a WRITE", idleWrite}, {"a READ", idleRead}, {"a WRITE with a loss", idleLoss},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if n := measureIdleState(t, kind, 4000, tt.records); n > idleState {
				t.Errorf("%d bytes a connection, at most %d are allowed", n, idleState)
			} else {
				t.Logf("%d bytes a connection", n)
			}
		})
	}
}

// BenchmarkIdleConnection reports the bytes of state per idle connection.
func BenchmarkIdleConnection(b *testing.B) {
	for _, kind := range []trace.Kind{trace.KindMirror, trace.KindPlain} {
		b.Run(kind.String(), func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = measureIdleState(b, kind, 4000, idleWrite)
			}
			b.ReportMetric(float64(n), "bytes/connection")
		})
	}
}

func measureIdleState(t testing.TB, kind trace.Kind, connections int, records func(connection int) []trace.Record) int {
	t.Helper()
	var list []trace.Connection
	for i := range connections {
		list = append(list, trace.Connection{
			Index: i + 1, MTU: 1024,
			Requester: trace.Side{IP: netip.AddrFrom4([4]byte{10, 0, 0, 1}), QPN: packet.QPN(2*i + 16)},
			Responder: trace.Side{IP: netip.AddrFrom4([4]byte{10, 0, 0, 2}), QPN: packet.QPN(2*i + 17)},
		})
	}
	known, err := trace.NewConnections(list)
	if err != nil {
		t.Fatal(err)
	}
	var all []trace.Record
	for c := range connections {
		for _, r := range records(c + 1) {
			r.ID, r.TimeNS = uint64(len(all)+1), int64(len(all))*100
			r.PKey, r.Flags = trace.DefaultPKey, r.Flags|trace.Sent|trace.Passed
			all = append(all, r)
		}
	}
	checked := trace.CheckedRecords(trace.Meta{Kind: kind, Connections: known}, all)
	before := heap()
	held := 0
	set := []analyzers.Analyzer{atTheEnd(func() { held = heap() - before })} // before the others build their results
	set = append(append(set, captureAnalyzers(checked.Meta(), &trace.Settings{})...), newSummary(known))
	if _, err := analyzers.Run(context.Background(), checked, set...); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(all) // otherwise freed records would reduce the measured state
	return held / connections
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// idleWrite returns a WRITE of three packets and its ACK.
func idleWrite(connection int) []trace.Record {
	flow := trace.NewFlowID(connection, false)
	return []trace.Record{
		{Flow: flow, PSN: 0, Opcode: packet.WriteFirst, PayloadLen: 1024, DMALen: 3072, Flags: trace.HasRETH},
		{Flow: flow, PSN: 1, Opcode: packet.WriteMiddle, PayloadLen: 1024},
		{Flow: flow, PSN: 2, Opcode: packet.WriteLast, PayloadLen: 1024, Flags: trace.AckReq},
		{Flow: flow.Peer(), PSN: 2, Opcode: packet.Acknowledge, Syndrome: packet.SyndromeAckNoCredit, MSN: 1,
			Flags: trace.HasAETH},
	}
}

// idleRead returns a READ of three packets.
func idleRead(connection int) []trace.Record {
	flow := trace.NewFlowID(connection, false)
	return []trace.Record{
		{Flow: flow, PSN: 0, Opcode: packet.ReadRequest, DMALen: 3072, Flags: trace.HasRETH},
		{Flow: flow.Peer(), PSN: 0, Opcode: packet.ReadResponseFirst, PayloadLen: 1024, Syndrome: packet.SyndromeAckNoCredit,
			MSN: 1, Flags: trace.HasAETH},
		{Flow: flow.Peer(), PSN: 1, Opcode: packet.ReadResponseMiddle, PayloadLen: 1024},
		{Flow: flow.Peer(), PSN: 2, Opcode: packet.ReadResponseLast, PayloadLen: 1024, Syndrome: packet.SyndromeAckNoCredit,
			MSN: 1, Flags: trace.HasAETH},
	}
}

// idleLoss returns a WRITE whose second packet is lost, reported by a NAK and retransmitted.
func idleLoss(connection int) []trace.Record {
	flow := trace.NewFlowID(connection, false)
	w := idleWrite(connection)
	lost := w[1]
	lost.Event = trace.EventDrop
	return []trace.Record{
		w[0], lost, w[2],
		{Flow: flow.Peer(), PSN: 1, Opcode: packet.Acknowledge, Syndrome: packet.SyndromeNakSequence, MSN: 0,
			Flags: trace.HasAETH},
		w[1], w[2], w[3],
	}
}

// atTheEnd is an analyzer that calls a function after the last packet, while the others still have their state.
type atTheEnd func()

func (f atTheEnd) Name() string             { return "at the end" }
func (f atTheEnd) Packet(*trace.Record)     {}
func (f atTheEnd) Finish() analyzers.Result { f(); return analyzers.Result{} }
