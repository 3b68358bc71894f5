package orchestrator

import (
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestWhatALaterResponseShowsToBeMissingIsMissing has a NAK missing at the end of two captures: with nothing after the
// gap, and with an ACK that the responder would have sent after the NAK.
func TestWhatALaterResponseShowsToBeMissingIsMissing(t *testing.T) {
	const end = 100_000
	list := []trace.Record{
		{ID: 1, Flow: 0, PSN: 2, TimeNS: end - 5000, Opcode: packet.WriteOnly, Flags: trace.Sent | trace.Passed},
		{ID: 2, Flow: 1, PSN: 2, TimeNS: end, Opcode: packet.Acknowledge, Flags: trace.Sent | trace.Passed},
	}
	checked := trace.CheckedRecords(trace.Meta{Kind: trace.KindPair, Connections: &trace.Connections{}}, list)
	timeout := 14
	for first, want := range map[uint64]analyzers.Severity{1: analyzers.Warning, 2: analyzers.Violation} {
		a := &analyzers.Analysis{Verdict: analyzers.Fail, Findings: []analyzers.Finding{
			{Rule: "gbn.nak-missing", Severity: analyzers.Violation, Connection: 1, TimeNS: end, Packets: []uint64{first, 1}},
		}}
		if err := softenUnfinished(t.Context(), checked, a, &trace.Settings{Timeout: &timeout}); err != nil {
			t.Fatal(err)
		}
		if a.Findings[0].Severity != want || (a.Verdict == analyzers.Fail) != (want == analyzers.Violation) {
			t.Errorf("first packet %d: %s, verdict %s, want %s", first, a.Findings[0].Severity, a.Verdict, want)
		}
	}
}
