package analyzers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/trace"
)

func TestDistributionIsExactUpToAThousandValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(-1000, 1_000_000_000), 1, 1000).Draw(t, "values")
		d := analyzers.NewDistribution("x.y", analyzers.UnitNS, 3)
		for _, v := range values {
			d.Record(v)
		}
		sorted := slices.Sorted(slices.Values(values))
		// The nearest rank: the smallest value that at least q of all values do not exceed.
		rank := func(num, den int) int64 { return sorted[max((len(sorted)*num+den-1)/den, 1)-1] }
		m := d.Metric()
		want := analyzers.Metric{
			Name: "x.y", Unit: "ns", Connection: 3, Count: int64(len(values)), Min: sorted[0], Max: sorted[len(sorted)-1],
			P50: rank(1, 2), P95: rank(95, 100), P99: rank(99, 100), P999: rank(999, 1000), Sum: m.Sum, Values: values,
		}
		sum := int64(0)
		for _, v := range values {
			sum += v
		}
		want.Sum = sum
		if diff := cmp.Diff(want, m); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestDistributionBeyondAThousandValuesIsRightToThreeDigits(t *testing.T) {
	d := analyzers.NewDistribution("x.y", analyzers.UnitNS, 0)
	const n = 100_000
	for i := int64(1); i <= n; i++ {
		d.Record(i * 1000)
	}
	m := d.Metric()
	if m.Count != n || m.Min != 1000 || m.Max != n*1000 || !m.Truncated || len(m.Values) != 1000 {
		t.Errorf("got count %d, min %d, max %d, truncated %v, %d values", m.Count, m.Min, m.Max, m.Truncated, len(m.Values))
	}
	for _, q := range []struct{ got, want int64 }{{m.P50, n * 500}, {m.P99, n * 990}, {m.P999, n * 999}} {
		if d := q.got - q.want; d*1000 > q.want || -d*1000 > q.want {
			t.Errorf("quantile %d, want %d within 0.1 %%", q.got, q.want)
		}
	}
}

func TestEmptyDistributionIsAMetricOfNothing(t *testing.T) {
	got := analyzers.NewDistribution("x.y", analyzers.UnitCount, 0).Metric()
	if diff := cmp.Diff(analyzers.Metric{Name: "x.y", Unit: "count", Values: []int64{}}, got); diff != "" {
		t.Error(diff)
	}
}

// scripted is an analyzer that reports given findings.
type scripted struct {
	name    string
	packets int
	result  analyzers.Result
}

func (s *scripted) Name() string             { return s.name }
func (s *scripted) Packet(*trace.Record)     { s.packets++ }
func (s *scripted) Finish() analyzers.Result { return s.result }

func checked(t *testing.T, n int) *trace.Checked {
	t.Helper()
	c, err := trace.NewConnections(nil)
	if err != nil {
		t.Fatal(err)
	}
	return trace.CheckedRecords(trace.Meta{Connections: c}, make([]trace.Record, n))
}

func TestRunFeedsAllAtOnceAndSortsFindingsByFirstPacketThenRule(t *testing.T) {
	a := &scripted{name: "a", result: analyzers.Result{
		Findings: []analyzers.Finding{
			{Analyzer: "a", Rule: "a.whole", Severity: analyzers.Note},
			{Analyzer: "a", Rule: "a.late", Severity: analyzers.Warning, Packets: []uint64{9}},
			{Analyzer: "a", Rule: "a.early", Severity: analyzers.Note, Packets: []uint64{2}},
		},
		Metrics:  []analyzers.Metric{{Name: "a.m", Values: []int64{}}},
		Coverage: map[string]int64{"X": 1},
	}}
	b := &scripted{name: "b", result: analyzers.Result{
		Findings: []analyzers.Finding{{Analyzer: "b", Rule: "a.before-late", Severity: analyzers.Violation,
			Packets: []uint64{9}}},
	}}
	doc, err := analyzers.Run(t.Context(), checked(t, 5), a, b)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, f := range doc.Findings {
		rules = append(rules, f.Rule)
	}
	if diff := cmp.Diff([]string{"a.early", "a.before-late", "a.late", "a.whole"}, rules); diff != "" {
		t.Error(diff)
	}
	if doc.Verdict != analyzers.Fail || a.packets != 5 || b.packets != 5 {
		t.Errorf("verdict %s, %d and %d packets; want fail, 5 and 5", doc.Verdict, a.packets, b.packets)
	}
	if only := doc.Only("a"); only.Verdict != analyzers.Pass || len(only.Findings) != 3 || len(only.Metrics) != 1 ||
		len(only.Coverage) != 1 {
		t.Errorf("the part of one analyzer is %+v", only)
	}
}

func TestRunStopsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := analyzers.Run(ctx, checked(t, 1), &scripted{}); !errors.Is(err, cause) {
		t.Errorf("error %v, want one that tells the cause", err)
	}
}

func TestDocumentListsAreNeverNull(t *testing.T) {
	doc, err := analyzers.Run(t.Context(), checked(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := doc.Write(&b); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"schema": "candela.analysis/v1", "verdict": "pass", "packet_ids": "mirror",
		"findings": []any{}, "metrics": []any{}, "coverage": map[string]any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A judge that forgets the severity of a rule must not acquit.
func TestAFindingWithoutSeverityIsAViolation(t *testing.T) {
	for declared, want := range map[analyzers.Severity]analyzers.Verdict{
		"": analyzers.Fail, analyzers.Violation: analyzers.Fail,
		analyzers.Warning: analyzers.Pass, analyzers.Note: analyzers.Pass,
	} {
		r := analyzers.NewReporter("x", []analyzers.Rule{{ID: "x.y", Severity: declared}})
		r.Tell(cause.Of("x.y", "z", "It happened."), analyzers.Finding{})
		var a analyzers.Analysis
		if a.Add("x", analyzers.Result{Findings: r.Findings()}); a.Verdict != want {
			t.Errorf("severity %q: %s, want %s", declared, a.Verdict, want)
		}
	}
}
