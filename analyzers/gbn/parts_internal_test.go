package gbn

import (
	"testing"

	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestAPartKnowsWhatWasRewrittenForItsConnections: the injector may give a packet another queue pair, and so another
// part.
func TestAPartKnowsWhatWasRewrittenForItsConnections(t *testing.T) {
	meta := trace.CheckedRecords(trace.Meta{Connections: tracetest.Connections(2, true)}, nil).Meta()
	parts := New(meta, Config{}).Split(2)
	sent := trace.Record{ID: 7, Flow: trace.NewFlowID(1, false), Opcode: packet.WriteOnly, Event: trace.EventRewrite,
		Flags: trace.Sent}
	passed := sent
	passed.Flow, passed.Flags = trace.NewFlowID(2, false), trace.Passed
	for _, p := range parts {
		p.Begin(&sent)
	}
	parts[0].Packet(&sent)
	other := parts[1].(*Analyzer)
	if other.forged(&passed) {
		t.Error("a part takes a packet for forged that it has been told nothing of")
	}
	if other.Elsewhere(&sent); !other.forged(&passed) {
		t.Error("the part of the other connection does not know that the packet was for another one")
	}
}
