package gbn_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
)

func TestAFindingSaysWhatWasExpectedInTheWordsOfTheConfiguration(t *testing.T) {
	s := scene{traffic: "write*10", ipsn: 1000,
		trace: `> 1-4; > 5 drop; > 6-10; < nak 5; > 6-10; @ 68ms; > 5-10; < ack 10`}
	want := []analyzers.Finding{{
		Analyzer: "gbn", Rule: "gbn.retransmit-first", Clause: "9.7.5.2; 9.7.6.1.1", Severity: analyzers.Violation,
		Connection: 1,
		Packets:    []uint64{12, 11}, TimeNS: 12_000, PSN: 6, PSNAbs: 1005,
		Expected: "data psn 5 iter 2, the packet that the NACK asked for", Actual: "data psn 6 iter 2",
		Cause:    "restarted-elsewhere",
		Headline: "Requester of qpn 1 sent psn 6 instead of retransmitting psn 5 after the NAK at 10 us.",
		Role:     "requester",
	}}
	got := s.run(t).Findings
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(analyzers.Finding{}, "Message", "About")); diff != "" {
		t.Error(diff)
	}
}

func TestFindingsOfOneRuleAreBoundedAndTheRestCounted(t *testing.T) {
	s := scene{traffic: "send*50", trace: "> 1; > 2-49 len=8; > 50; < ack 50", cfg: gbn.Config{MaxPerRule: 3}}
	res := s.run(t)
	last := res.Findings[len(res.Findings)-1]
	if len(res.Findings) != 5 || last.Message != "45 more findings of this rule on connection 1 are not listed" {
		t.Errorf("%d findings, the last: %q", len(res.Findings), last.Message)
	}
}

func TestCoverageListsTransitionsThatWereNotTaken(t *testing.T) {
	s := scene{traffic: "write*10", trace: `> 1-4; > 5 drop; > 6-10; < nak 5; > 5-10; < ack 10`}
	cover := s.run(t).Coverage
	for transition, want := range map[string]int64{
		"requester: nacked + restart-nack -> resending": 1,
		"responder: ready + ahead -> gap":               1,
		"responder: gap + nack -> nacked":               1,
		"requester: nacked + restart-rnr -> resending":  0,
	} {
		if got, ok := cover[transition]; !ok || got != want {
			t.Errorf("%s: %d (present: %v), want %d", transition, got, ok, want)
		}
	}
}
