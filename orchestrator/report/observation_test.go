package report

import (
	"strings"
	"testing"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestNotesThatTablesSayStandOnceOnThePage checks that notes shown in tables are not repeated and other notes stay.
func TestNotesThatTablesSayStandOnceOnThePage(t *testing.T) {
	page := html(t, twoCaptures())
	if strings.Contains(page, "said by the tables") || !strings.Contains(page, "40 of 80 frames are second sights") {
		t.Error("the notes are not those that no table says")
	}
	for _, text := range []string{">taps</text>", "ring_1.pcapng", "the second capture", "12.5 ppm", "0 missed"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

// pair returns a trace of two taps, with two records of each packet.
func pair(t *testing.T, packets int) *trace.Checked {
	t.Helper()
	known := twoConnections(t)
	var records []trace.Record
	for i := range packets {
		r := trace.Record{
			ID: uint64(i + 1), TimeNS: int64(i) * 1000, Opcode: packet.WriteOnly, PSN: packet.PSN(1000).Add(i),
			Flags: trace.Sent,
			Flow:  trace.NewFlowID(1, false),
		}
		if i == packets/2 {
			r.Event = trace.EventDrop
		}
		records = append(records, r)
		if r.Event == trace.EventNone {
			r.TimeNS, r.Flags = r.TimeNS+500, r.Flags&^trace.Sent|trace.Passed
			records = append(records, r)
		}
	}
	return trace.CheckedRecords(trace.Meta{Kind: trace.KindPair, Connections: known}, records)
}

func TestALadderOfTwoTapsShowsEachPacketOnce(t *testing.T) {
	r := &Report{Connections: []Connection{{Index: 1, Events: 1}}, PacketIDs: trace.PacketIDsFrame}
	if err := Illustrate(t.Context(), r, pair(t, 12), true); err != nil {
		t.Fatal(err)
	}
	if len(r.Ladders) != 1 {
		t.Fatalf("%d ladders, want that of the drop", len(r.Ladders))
	}
	seen := map[uint64]bool{}
	for _, s := range r.Ladders[0].Steps {
		if seen[s.ID] {
			t.Errorf("packet %d stands there twice", s.ID)
		}
		seen[s.ID] = true
	}
}

// TestAPageStaysSmallWhateverTheTrace: a browser must be able to open the page.
func TestAPageStaysSmallWhateverTheTrace(t *testing.T) {
	size := func(packets int) int {
		r := twoCaptures()
		r.Findings = nil
		for i := range packets {
			f := warningsOnly().Findings[0]
			f.Packets, f.Connection, f.Around = []uint64{uint64(i + 1)}, 1, nil
			r.Findings = append(r.Findings, f)
		}
		r.Connections, r.Ladders, r.Sequences = []Connection{{Index: 1, Events: 1}}, nil, nil
		if err := Illustrate(t.Context(), r, pair(t, packets), true); err != nil {
			t.Fatal(err)
		}
		return len(html(t, r))
	}
	small, large := size(5_000), size(50_000)
	if large > 2_000_000 || large > small+small/4 {
		t.Errorf("%d bytes for 5,000 packets with as many findings, %d for 50,000", small, large)
	}
}

func TestTicksHaveThreeDigitsAndTellInstantsApart(t *testing.T) {
	r := &Report{OriginNS: 5}
	for want, ns := range map[string]int64{"0": 5, "1 us": 1005, "500 ns": 505, "67.1 ms": 67_114_656, "-2 us": -1995} {
		if got := r.tick(ns); got != want {
			t.Errorf("%d: %q, want %q", ns, got, want)
		}
	}
	const after = 402_000_000_005 // a silence of 402 s
	for n, want := range []string{"+0 ns", "+1 us", "+2 us"} {
		if ns, got := r.roundTick(after, 1000, n); got != want || ns != after+int64(n)*1000 {
			t.Errorf("tick %d after the silence: %q at %d, want %q", n, got, ns, want)
		}
	}
	if ns, got := r.roundTick(1205, 500, 1); ns != 1505 || got != "1.5 us" {
		t.Errorf("near the origin: %q at %d", got, ns)
	}
}
