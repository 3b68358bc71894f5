package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func TestAPageFromADocumentIsThePageOfTheReport(t *testing.T) {
	all := fixtures()
	drawn := accusing(12)
	illustrate(t, drawn, recovery())
	if len(drawn.Ladders) == 0 || len(drawn.Sequences) == 0 || len(drawn.Findings[0].Window) == 0 {
		t.Fatal("nothing is drawn: this test proves nothing")
	}
	all["drawn"], all["travelled"] = drawn, travelled()
	for name, r := range all {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := WriteDocument(&b, r); err != nil {
				t.Fatal(err)
			}
			read, err := ReadDocument(&b)
			if err != nil {
				t.Fatal(err)
			}
			if page := html(t, read); page != html(t, r) && utf8.ValidString(r.Name) {
				t.Error("the page from the document differs")
			}
		})
	}
}

func TestADocumentKeepsEveryFieldOfAPacket(t *testing.T) {
	steps := []Step{
		{Point: Point{TimeNS: -5, PSN: 3, Iter: 2, ID: 1 << 47, Class: packet.ClassNak, Event: trace.EventDrop,
			Resent: true, afterGap: true}},
		{Point: Point{Class: packet.ClassData, Reverse: true, Damaged: true}, Accused: true}, {Skipped: 9},
	}
	var b bytes.Buffer
	if err := WriteDocument(&b, &Report{Ladders: []Ladder{{Steps: steps}}}); err != nil {
		t.Fatal(err)
	}
	r, err := ReadDocument(&b)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range r.Ladders[0].Steps {
		if s != steps[i] {
			t.Errorf("step %d became %+v, was %+v", i, s, steps[i])
		}
	}
}

func TestADocumentLeavesOutWhatNobodyCanDraw(t *testing.T) {
	r := &Report{Charts: []Chart{{Lines: []Series{{Times: []float64{1, 2}, Values: []float64{math.NaN(), 4}}}}}}
	var b bytes.Buffer
	if err := WriteDocument(&b, r); err != nil {
		t.Fatal(err)
	}
	read, err := ReadDocument(&b)
	if err != nil || len(read.Charts[0].Lines[0].Values) != 1 {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestDocumentsThatCannotBeDrawnAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":              `x`,
		"another schema":       `{"schema": "candela.run/v1", "report": {}}`,
		"no report":            `{"schema": "candela.report/v1"}`,
		"a row too short":      `{"schema": "candela.report/v1", "report": {"Tables": [{"Columns": [{}], "Rows": [{}]}]}}`,
		"values without times": `{"schema": "candela.report/v1", "report": {"Charts": [{"Lines": [{"Values": [1]}]}]}}`,
		"an unknown class": `{"schema": "candela.report/v1",
			"report": {"Sequences": [{"Points": [[0,0,0,0,"x","",0]]}]}}`,
		"an unknown event": `{"schema": "candela.report/v1",
			"report": {"Sequences": [{"Points": [[0,0,0,0,"ack","x",0]]}]}}`,
		"a packet with a field": `{"schema": "candela.report/v1", "report": {"Sequences": [{"Points": [[0]]}]}}`,
	} {
		if _, err := ReadDocument(strings.NewReader(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDisplayFiltersNamePacketsByTheFileTheyAreIn(t *testing.T) {
	points := []Point{{ID: 3}, {ID: 5}, {ID: 4}, {ID: 300}, {ID: trace.PairSecond + 7}}
	mirror := &Report{PacketIDs: trace.PacketIDsMirror}
	pair := &Report{PacketIDs: trace.PacketIDsFrame, Observation: &Observation{Captures: []Capture{
		{Files: []string{"a.pcap"}}, {Files: []string{"b.pcap"}},
	}}}
	rings := &Report{PacketIDs: trace.PacketIDsFrame, Observation: &Observation{Captures: []Capture{
		{Files: []string{"a0.pcap", "a1.pcap"}},
	}}}
	for _, c := range []struct {
		name string
		r    *Report
		want []filterView
	}{
		{"a mirror trace has numbers as addresses", mirror, []filterView{{"these packets",
			"eth.src in {00:00:00:00:00:03..00:00:00:00:00:05, 00:00:00:00:01:2c}"}}},
		{"a pair has two files", pair, []filterView{{"these packets of a.pcap", "frame.number in {3..5, 300}"},
			{"these packets of b.pcap", "frame.number in {7}"}}},
		{"Wireshark counts the frames of each file of a capture anew", rings, nil},
	} {
		got := c.r.displayFilters(points)
		if len(got) != len(c.want) {
			t.Errorf("%s: %v", c.name, got)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", c.name, got[i], c.want[i])
			}
		}
	}
}
