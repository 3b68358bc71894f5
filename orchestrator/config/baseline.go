package config

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// RelativeBound limits how metrics of a run may differ from those of earlier runs. Nil: no limit. 0.05 allows 5 % more
// than the median of the earlier runs, -0.05 allows 5 % less.
type RelativeBound struct{ Mean, P50, P99, Max *float64 }

// RelativeLimit is one limit of a RelativeBound.
type RelativeLimit struct {
	Key   string // mean, p50, p99 or max
	Share float64
}

// Limits returns those that are given.
func (b *RelativeBound) Limits() (list []RelativeLimit) {
	for _, l := range []struct {
		key   string
		share *float64
	}{{"mean", b.Mean}, {"p50", b.P50}, {"p99", b.P99}, {"max", b.Max}} {
		if l.share != nil {
			list = append(list, RelativeLimit{l.key, *l.share})
		}
	}
	return list
}

// comparedMetrics are the metrics that can be compared with a baseline; their keys have the unit of the others.
var comparedMetrics = [...]struct{ metric, doc string }{
	{"retrans.nack-generation", "From the first out-of-order packet to the NAK"},
	{"retrans.nack-reaction", "From the NAK to the retransmission"},
	{"retrans.retransmission", "From the lost packet to its retransmission"},
	{"retrans.timeout", "From the last transmission to the retransmission by timeout"},
}

// BaselineExpect compares metrics with those of earlier runs in the results store.
type BaselineExpect struct {
	Ref    string // last-green, night-2026-11-20, fw:28.39.1002
	Bounds [len(comparedMetrics)]*RelativeBound
}

// ComparedMetric is a metric that a test compares with its baseline.
type ComparedMetric struct {
	Metric, Key string
	Limits      []RelativeLimit
}

// Compared lists the metrics with a limit.
func (b *BaselineExpect) Compared() (list []ComparedMetric) {
	for i, bound := range b.Bounds {
		if bound != nil {
			name := comparedMetrics[i].metric
			list = append(list, ComparedMetric{name, "expect." + name + "-us", bound.Limits()})
		}
	}
	return list
}

var baselineForm = text{
	newPattern(`^(last-green|night-[0-9]{4}(-[0-9]{2}){2}|(fw|firmware|driver|kernel|os|tool):[^\x00-\x1f]{1,100})$`),
	"last-green, a night such as night-2026-11-20, or fw:, driver:, kernel:, os: or tool: with a version"}

func baselineFields() []field {
	fields := []field{{key: "baseline", doc: "Earlier runs of this test in the results store (candela history) that " +
		"metrics are compared with: last-green, night-2026-11-20, fw:28.39.1002.", kind: optionalText{baselineForm},
		at: at(func(e *Expect) *string { return &e.Baseline.Ref })}}
	share := optional[float64]{relative{}}
	for i, m := range comparedMetrics {
		fields = append(fields, field{key: m.metric + "-us", doc: m.doc + ", compared with the baseline: +5 % allows 5 % " +
			"more than the median of its runs. What its own runs differ by does not fail.",
			kind: optional[RelativeBound]{&object{title: "compared", doc: "Limits relative to the baseline.", fields: []field{
				{key: "mean", doc: "Change of the mean.", kind: share, at: at(func(b *RelativeBound) **float64 { return &b.Mean })},
				{key: "p50", doc: "Change of the median.", kind: share, at: at(func(b *RelativeBound) **float64 { return &b.P50 })},
				{key: "p99", doc: "Change of the 99th percentile.", kind: share,
					at: at(func(b *RelativeBound) **float64 { return &b.P99 })},
				{key: "max", doc: "Change of the greatest value.", kind: share,
					at: at(func(b *RelativeBound) **float64 { return &b.Max })},
			}}},
			at: at(func(e *Expect) **RelativeBound { return &e.Baseline.Bounds[i] })})
	}
	return fields
}

// relative is a signed share in percent: "+5 %".
type relative struct{}

var relativeForm = newPattern(`^[+-][0-9]{1,4}(\.[0-9]{1,3})? ?%$`)

func (relative) allowed() string { return "a change such as +5 % or -10 %" }

func (k relative) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.wrongType(n, path, k.allowed())
		return
	}
	if !relativeForm.MatchString(n.Value) {
		d.problem(n, path, "is "+strconv.Quote(printable(n.Value)), "it takes "+k.allowed())
		return
	}
	percent, _ := strconv.ParseFloat(strings.TrimRight(n.Value, " %"), 64) // relativeForm leaves only numbers
	*dst.(*float64) = percent / 100
}

func (relative) encode(src any) *yaml.Node {
	text := strconv.FormatFloat(*src.(*float64)*100, 'f', -1, 64)
	if percent, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(percent, 'f', 3, 64)
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if !strings.HasPrefix(text, "-") {
		text = "+" + text
	}
	return stringNode(text + " %")
}

func (relative) jsonSchema() map[string]any {
	return map[string]any{"type": "string", "pattern": relativeForm.String()}
}

// validateBaseline checks that a baseline is compared with something, and that what is compared has a baseline.
func (d *decoder) validateBaseline(t *Test) {
	compared := t.Expect.Baseline.Compared()
	switch {
	case t.Expect.Baseline.Ref == "" && len(compared) > 0:
		d.problemAt(compared[0].Key, "has no baseline", "expect.baseline names the runs to compare with, such as last-green")
	case t.Expect.Baseline.Ref != "" && len(compared) == 0:
		d.problemAt("expect.baseline", "is compared with nothing",
			"give a limit, such as retrans.nack-reaction-us: {p99: +5 %}")
	}
}
