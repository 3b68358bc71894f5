package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// anyReport draws reports that no run makes, as in a damaged or forged bundle.
func anyReport(t *rapid.T) *Report {
	text := rapid.OneOf(rapid.String(),
		rapid.SampledFrom([]string{"", "\x1b[31m", "a\nb", "<b>&\"'", "\xff\xfe", "\u202e", "{{.}}"}))
	number := rapid.OneOf(rapid.Int64Range(-3, 2000), rapid.Int64(),
		rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}))
	list := func(n int) *rapid.Generator[[]string] { return rapid.SliceOfN(text, 0, n) }
	severity := rapid.SampledFrom([]analyzers.Severity{analyzers.Violation, analyzers.Warning, analyzers.Note, "?"})
	finding := rapid.Custom(func(t *rapid.T) Finding {
		return Finding{Finding: analyzers.Finding{
			Analyzer: text.Draw(t, "analyzer"), Rule: text.Draw(t, "rule"), Severity: severity.Draw(t, "severity"),
			Connection: int(number.Draw(t, "connection")), TimeNS: number.Draw(t, "time"), Expected: text.Draw(t, "expected"),
			Packets: rapid.SliceOfN(rapid.Uint64(), 0, 9).Draw(t, "packets"), Message: text.Draw(t, "message"),
		}, Around: list(4).Draw(t, "around"), Waiver: text.Draw(t, "waiver"), Wanted: rapid.Bool().Draw(t, "wanted")}
	})
	connection := rapid.Custom(func(t *rapid.T) Connection {
		return Connection{Index: int(number.Draw(t, "index")), Traffic: text.Draw(t, "traffic"),
			Outcome: text.Draw(t, "outcome"),
			OK:      rapid.Bool().Draw(t, "ok"), Data: number.Draw(t, "data"), Naks: number.Draw(t, "naks")}
	})
	metric := rapid.Custom(func(t *rapid.T) analyzers.Metric {
		return analyzers.Metric{Name: text.Draw(t, "name"),
			Unit:  rapid.SampledFrom([]string{"ns", "bps", "bytes", "count", "?"}).Draw(t, "unit"),
			Count: number.Draw(t, "count"), Min: number.Draw(t, "min"), P50: number.Draw(t, "p50"), Max: number.Draw(t, "max"),
			Values: rapid.SliceOfN(number, 0, 50).Draw(t, "values"), Truncated: rapid.Bool().Draw(t, "truncated")}
	})
	point := rapid.Custom(func(t *rapid.T) Point {
		return Point{TimeNS: number.Draw(t, "at"), PSN: number.Draw(t, "psn"), Iter: number.Draw(t, "iter"),
			ID:    rapid.Uint64().Draw(t, "id"),
			Class: packet.Class(rapid.Byte().Draw(t, "class")), Event: trace.EventType(rapid.Byte().Draw(t, "event")),
			Resent: rapid.Bool().Draw(t, "resent"), Reverse: rapid.Bool().Draw(t, "reverse")}
	})
	r := &Report{
		Name: text.Draw(t, "name"), File: text.Draw(t, "file"), Testbed: text.Draw(t, "testbed"), Dir: text.Draw(t, "dir"),
		Verdict: rapid.SampledFrom([]analyzers.Verdict{analyzers.Pass, analyzers.Fail, analyzers.Invalid, ""}).Draw(t,
			"verdict"),
		Reasons: list(10).Draw(t, "reasons"), Notes: list(3).Draw(t, "notes"), Next: list(3).Draw(t, "next"),
		Packets: number.Draw(t, "packets"), SpanNS: number.Draw(t, "span"), OriginNS: number.Draw(t, "origin"),
		Findings:    rapid.SliceOfN(finding, 0, 15).Draw(t, "findings"),
		Connections: rapid.SliceOfN(connection, 0, 20).Draw(t, "connections"),
		Metrics:     rapid.SliceOfN(metric, 0, 5).Draw(t, "metrics"), MetricsNote: text.Draw(t, "note"),
		Coverage: map[string]map[string]int64{text.Draw(t,
			"machine"): {text.Draw(t, "transition"): number.Draw(t, "taken")}},
		Sequences: []Sequence{{Points: rapid.SliceOfN(point, 0, 40).Draw(t, "points")}},
	}
	for _, p := range r.Sequences[0].Points {
		steps := Ladder{Steps: []Step{{Point: p}, {Skipped: int(p.PSN)}}}
		r.Ladders = append(r.Ladders, steps)
	}
	return r
}

func TestAnyReportCanBePrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyReport(t)
		var text, suite, junit, page bytes.Buffer
		for _, err := range []error{
			Text(&text, r, TextOptions{Width: rapid.IntRange(-5, 200).Draw(t, "width"), Verbose: true}),
			SuiteText(&suite, []*Report{r, r}, nil, TextOptions{}),
			JUnit(&junit, []*Report{r}), HTML(&page, r),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, out := range []string{text.String(), suite.String(), page.String()} {
			if !utf8.ValidString(out) {
				t.Fatalf("invalid UTF-8 in %q", out)
			}
			for line := range strings.SplitSeq(out, "\n") {
				if strings.ContainsFunc(line, suspect) {
					t.Fatalf("control character in %q", line)
				}
			}
		}
		if strings.Contains(page.String(), "NaN") || strings.Contains(page.String(), "Inf") ||
			strings.Contains(page.String(), "ZgotmplZ") {
			t.Fatal("a drawing has a coordinate that is no number, or a text stands where the template can't have it")
		}
		dec := xml.NewDecoder(&junit)
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	})
}
