package orchestrator

import (
	"fmt"
	"slices"

	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/trace"
)

// observe describes how captures were read: their places, how their clocks relate, and the evidence for both.
func observe(o *AnalyzeOptions, pair *trace.PairReport) *report.Observation {
	out := &report.Observation{Observer: "tap"}
	var places [2]string
	out.What = "One capture. What became of a packet after it passed the tap is not observed."
	if pair != nil {
		out.Observer, places = "taps", [2]string{"first", "second"}
		out.What = "Two captures of the same traffic. Comparing them shows what became of each packet in between."
	}
	switch {
	case o.Placement == trace.PlacementHosts:
		places = [2]string{"at the requester", "at the responder"}
	case o.Placement == trace.PlacementBracket, o.Ordered:
		places = [2]string{"before", "after"}
	}
	out.Captures = append(out.Captures, report.Capture{Place: places[0], Files: append([]string{o.Trace}, o.More...)})
	if o.Second != "" {
		out.Captures = append(out.Captures,
			report.Capture{Place: places[1], Files: append([]string{o.Second}, o.SecondMore...)})
	}
	if pair == nil {
		return out
	}
	for i := range pair.Ways {
		w := &pair.Ways[i]
		way := report.Way{From: w.Source.String(), To: w.Destination.String(), Upstream: "first", Reason: w.Reason}
		if !w.FirstUpstream {
			way.Upstream = "second"
		}
		out.Ways = append(out.Ways, way)
		out.Said = append(out.Said, w.String())
	}
	out.Said = append(append(out.Said, pair.Clock.String()), pairNotes(pair)...)
	out.Clock, out.Between = clockFacts(&pair.Clock), betweenFacts(pair)
	return out
}

// observeMirror replaces the description for a mirror trace, whose observer is the injector.
func observeMirror(out *report.Observation) {
	out.Observer, out.What = "",
		"The trace of an injector's mirror copies. Its sequence numbers show that none is missing."
}

func clockFacts(c *trace.ClockReport) []report.Fact {
	if c.SameClock {
		return []report.Fact{{Name: "clocks", Value: "one clock stamped both captures (--same-clock)"}}
	}
	uncertainty := report.Span(c.UncertaintyNS)
	if c.UncertaintyNS < 0 {
		uncertainty = "not bounded: no answer in the captures shows how much later frames passed the second tap"
	}
	return []report.Fact{
		{Name: "offset of the second clock", Value: report.Span(c.OffsetNS)},
		{Name: "drift", Value: fmt.Sprintf("%+.1f ppm", float64(c.DriftPPB)/1000)},
		{Name: "uncertainty", Value: uncertainty},
		{Name: "frames in both captures", Value: fmt.Sprintf("%d; %d contradicted the others", c.Matched, c.Discarded)},
	}
}

func betweenFacts(p *trace.PairReport) []report.Fact {
	var facts []report.Fact
	for _, f := range []struct {
		name string
		n    int64
		all  bool
	}{
		{"packets at the upstream tap", p.Sent, true}, {"packets at the downstream tap", p.Passed, true},
		{"dropped in between", p.Dropped, true},
		{"marked (CE)", p.Marked, false}, {"corrupted", p.Corrupted, false}, {"trimmed", p.Trimmed, false},
		{"reordered", p.Reordered, false}, {"copied", p.Copied, false},
		{"missed by the upstream tap", p.Missed, true},
	} {
		if f.all || f.n > 0 {
			facts = append(facts, report.Fact{Name: f.name, Value: fmt.Sprint(f.n)})
		}
	}
	return append(facts, report.Fact{Name: "time between the taps",
		Value: report.Span(p.MinTransitNS) + " to " + report.Span(p.MaxTransitNS)})
}

// addInterfaces lists the interfaces that recorded the (first) capture and the frames that they missed.
func addInterfaces(out *report.Observation, list []trace.Interface) {
	const most = 8 // a ring buffer has one per file
	for _, i := range list[:min(len(list), most)] {
		name := i.Name
		if name == "" {
			name = "(no name)"
		}
		text := fmt.Sprintf("%s: %v", name, i.Link)
		if i.Counted {
			text += fmt.Sprintf(", %d frames received, %d missed", i.Received, i.Dropped)
		} else {
			text += ", the file does not say whether it missed frames"
		}
		if c := &out.Captures[0]; !slices.Contains(c.Interfaces, text) {
			c.Interfaces = append(c.Interfaces, text)
		}
	}
}
