package analyzers

import (
	"net/netip"
	"slices"
	"testing"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// reviewer reports given findings and observations.
type reviewer struct {
	findings []Finding
	observed []Observed
	packets  []trace.Record
}

func (v *reviewer) Name() string         { return "reviewer" }
func (v *reviewer) Packet(*trace.Record) {}
func (v *reviewer) Finish() Result       { return Result{Findings: v.findings} }
func (v *reviewer) Observer() Observer   { return &second{v} }

// second is the second pass of a reviewer.
type second struct{ v *reviewer }

func (s *second) Packet(r *trace.Record) { s.v.packets = append(s.v.packets, *r) }
func (s *second) Finish() []Observed     { return s.v.observed }

// TestAReviewTakesBackOnlyWhatItHasJudgedAndExplained has one thing found, and connection 1 observed.
func TestAReviewTakesBackOnlyWhatItHasJudgedAndExplained(t *testing.T) {
	found := func(rule string, s Severity, connection int, packets ...uint64) Finding {
		about := trace.FlowID(2*connection - 1)
		return Finding{Rule: rule, Severity: s, Connection: connection, Packets: packets, About: about}
	}
	skip := found("gbn.psn-skip", Violation, 1, 3)
	for name, c := range map[string]struct {
		finding              Finding
		requester, responder Observed
		stays                bool
	}{
		"a packet that a compliant requester may send": {finding: skip},
		"and a responder":       {finding: found("gbn.ack-beyond", Violation, 1, 3)},
		"it can't have sent it": {finding: skip, requester: Observed{Unexplained: []Finding{skip}}, stays: true},
		"nor the responder": {
			finding: found("gbn.msn", Violation, 1, 3), responder: Observed{Unexplained: []Finding{skip}}, stays: true,
		},
		"what the other endpoint can't have sent": {finding: skip, responder: Observed{Unexplained: []Finding{skip}}},
		"the requester was not judged": {finding: skip, requester: Observed{Blind: []Span{{From: 2}}},
			stays: true},
		"it was not judged later": {finding: skip, requester: Observed{Blind: []Span{{From: 4}}}},
		"after an error by the endpoint that is not judged": {
			finding: found("gbn.after-error", Violation, 1, 3), responder: Observed{Blind: []Span{{From: 2}}}, stays: true,
		},
		"after an error that neither endpoint shows": {finding: found("gbn.after-error", Violation, 1, 3)},
		"a rule about contents":                      {finding: found("gbn.pad-count", Violation, 1, 3), stays: true},
		"what is missing at the end of a trace that was not judged there": {
			finding: found("gbn.ack-missing", Violation, 1, 3), stays: true,
		},
		"what seems to be missing at the end and is not owed": {
			finding: found("gbn.ack-missing", Violation, 1, 3), responder: Observed{AtRest: true},
		},
		"what is missing at the end": {
			finding: found("gbn.ack-missing", Violation, 1, 3), stays: true,
			responder: Observed{AtRest: true, Unexplained: []Finding{found("gbn.ack-missing", Violation, 1)}},
		},
		"a warning":          {finding: found("gbn.psn-skip", Warning, 1, 3), stays: true},
		"another connection": {finding: found("gbn.psn-skip", Violation, 2, 3), stays: true},
		"no packet":          {finding: found("gbn.psn-skip", Violation, 1), stays: true},
		"the requests of the other host, which nobody observed": {
			finding: Finding{Rule: "gbn.psn-skip", Severity: Violation, Connection: 1, Packets: []uint64{3}, About: 2},
			stays:   true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
			connections, err := trace.NewConnections([]trace.Connection{
				{Index: 1, MTU: 1024, Requester: trace.Side{IP: a, QPN: 1}, Responder: trace.Side{IP: b, QPN: 2}},
				{Index: 2, MTU: 1024, Requester: trace.Side{IP: a, QPN: 3}, Responder: trace.Side{IP: b, QPN: 4}},
			})
			if err != nil {
				t.Fatal(err)
			}
			records := []trace.Record{
				{ID: 3, Flow: 0, Opcode: packet.SendOnly, Flags: trace.Sent | trace.Passed},
				{ID: 4, Flow: 2, Opcode: packet.SendOnly, Flags: trace.Sent | trace.Passed},
			}
			c.requester.Connection, c.responder.Connection, c.responder.Responder = 1, 1, true
			v := &reviewer{findings: []Finding{c.finding}, observed: []Observed{c.requester, c.responder}}
			meta := trace.Meta{Kind: trace.KindMirror, Connections: connections}
			doc, err := Run(t.Context(), trace.CheckedRecords(meta, records), v)
			if err != nil {
				t.Fatal(err)
			}
			if stays := len(doc.Findings) == 1; stays != c.stays {
				t.Errorf("findings: %+v", doc.Findings)
			}
			other := func(r trace.Record) bool { return r.Flow.Connection() != c.finding.Connection }
			if slices.ContainsFunc(v.packets, other) || c.finding.blames() != (len(v.packets) > 0) {
				t.Errorf("observed %+v", v.packets)
			}
		})
	}
}

// TestAReviewAddsWhatNoFindingIsAbout has a finding about the requester of connection 1 and an unexplained packet
// elsewhere.
func TestAReviewAddsWhatNoFindingIsAbout(t *testing.T) {
	found := func(rule string, about trace.FlowID, packets ...uint64) Finding {
		return Finding{Rule: rule, Severity: Violation, Connection: 1, Packets: packets, About: about}
	}
	doubt := found("gbn.ack-beyond", 1, 4)
	doubt.Severity = Warning
	for name, c := range map[string]struct {
		finding  Finding
		observed Observed
		added    int
	}{
		"the responder": {
			found("gbn.psn-skip", 1, 3), Observed{Responder: true, Unexplained: []Finding{found("gbn.ack-beyond", 0, 4)}}, 1,
		},
		"the responder, at the end": {
			found("gbn.psn-skip", 1, 3), Observed{Responder: true, Unexplained: []Finding{found("gbn.ack-missing", 0)}}, 1,
		},
		"the requester once more": {
			found("gbn.psn-skip", 1, 3), Observed{Unexplained: []Finding{found("gbn.round-gap", 0, 5)}}, 0,
		},
		"the requester of the other host": {
			found("gbn.psn-skip", 2, 3), Observed{Unexplained: []Finding{found("gbn.round-gap", 0, 5)}}, 1,
		},
		"the same packet, for its contents": {
			found("gbn.pad-count", 1, 4), Observed{Responder: true, Unexplained: []Finding{found("gbn.ack-beyond", 0, 4)}}, 0,
		},
		"another packet, for its contents": {
			found("gbn.pad-count", 1, 3), Observed{Responder: true, Unexplained: []Finding{found("gbn.ack-beyond", 0, 4)}}, 1,
		},
		"only in doubt": {
			found("gbn.psn-skip", 1, 3), Observed{Responder: true, Unexplained: []Finding{doubt}}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Analysis{Findings: []Finding{c.finding}}
			c.observed.Connection, c.observed.Certain = 1, true
			a.blame(&c.observed)
			if added := len(a.Findings) - 1; added != c.added {
				t.Errorf("added %d, want %d: %+v", added, c.added, a.Findings)
			}
		})
	}
}
