package report

import (
	"bytes"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
)

// travelled is a report of a switch test with the packets of a finding.
func travelled() *Report {
	r := &Report{Name: "incast", Verdict: analyzers.Fail, PacketIDs: "packet", Tables: []Table{{Title: "Flows",
		Columns: []Column{{Head: "flow"}}, Rows: []Row{{Cells: []string{"1"}}}}}}
	for _, rule := range []string{"ndp.nack-missing", "ndp.nack-missing", "sai.headers"} {
		f := Finding{Finding: analyzers.Finding{Rule: rule, Cause: "a", Severity: analyzers.Violation, Connection: 1,
			Packets: []uint64{7}, TimeNS: 9000, Headline: "Receiver did not NACK data 1."}}
		r.Findings = append(r.Findings, f)
	}
	r.Findings[0].Packets[0] = 1110000000007 // packet 7 of host 111
	r.Journeys = []Journey{{Finding: 1, FoundNS: 9000, Lanes: []string{"host 1", "<b>leaf</b>", "host 0"},
		Before: "taps/before.pcap", Behind: "taps/behind.pcap", Omitted: 2, Hops: []Hop{
			{ID: 7, What: "data 1", Class: "data", From: 0, To: 1, FromPort: None, ToPort: 3, SentNS: 1000, ArrivedNS: 1500,
				Accused: true, Before: 4},
			{ID: 7, What: "trimmed data 1", Class: "trimmed", From: 1, To: 2, FromPort: 0, ToPort: None, SentNS: 1520,
				ArrivedNS: 2000, Fate: "cut to 64 B", Accused: true, Behind: 5},
			{ID: 8, What: "data 2", Class: "data", From: 1, To: None, FromPort: 0, ToPort: None, SentNS: 1600, Lost: true,
				Fate: "dropped: tail"},
			{ID: 12, What: "data 1 retransmitted", Class: "resent", From: 0, To: 1, FromPort: None, ToPort: 3, SentNS: 990_000,
				ArrivedNS: 990_500, Gap: true, Before: 5},
		}}}
	return r
}

func TestAFindingOfASwitchTestIsDrawnAndListed(t *testing.T) {
	page := html(t, travelled())
	for _, want := range []string{
		"Packet by packet, host 1 and host 0", "&lt;b&gt;leaf&lt;/b&gt;", `id="f1-h2"`, "host 1 → &lt;b&gt;leaf&lt;/b&gt; port 3",
		"packet #111.7", "cut to 64 B", "data 2, dropped: tail", "⋮ finding, t=9 us", "⋮ hops left out", "and 2 more hops",
		`data-copy="frame.number in {4..5}"`, `data-copy="frame.number in {5}"`, "before 4", "behind 5",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "taps: {capture: true}") {
		t.Error("a run with captures is asked for them")
	}
	bare := travelled()
	bare.Journeys[0].Before, bare.Journeys[0].Behind = "", ""
	if page := html(t, bare); !strings.Contains(page, "taps: {capture: true}") || strings.Contains(page, "frame.number") {
		t.Error("a run without captures has filters for them")
	}
}

func TestOnlyTheFirstFindingOfAGroupIsDrawn(t *testing.T) {
	r := travelled()
	r.Findings = append(r.Findings, Finding{Finding: analyzers.Finding{Rule: "w", Severity: analyzers.Warning}},
		Finding{Finding: analyzers.Finding{Rule: "n", Severity: analyzers.Note}})
	if got := r.Leading(9); len(got) != 3 || got[0] != 1 || got[1] != 3 || got[2] != 4 {
		t.Errorf("drawn are %v, want 1, 3 and 4", got)
	}
	if got := r.Leading(1); len(got) != 1 {
		t.Errorf("%d are drawn, want 1", len(got))
	}
}

func TestAJourneyThatNobodyCouldDrawIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Journey){
		"a lane too far": func(j *Journey) { j.Hops[0].To = 3 }, "no lane": func(j *Journey) { j.Hops[0].From = None },
		"no lanes": func(j *Journey) { j.Lanes = nil },
	} {
		r := travelled()
		spoil(&r.Journeys[0])
		var b bytes.Buffer
		if err := WriteDocument(&b, r); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadDocument(&b); err == nil || !strings.Contains(err.Error(), "finding 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
