package config

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Worse says in which direction a metric gets worse.
type Worse uint8

// Directions.
const (
	WorseEither Worse = iota // the direction alone says nothing
	WorseMore                // a time, for example
	WorseLess                // a rate, for example
)

// StoredMetric is a metric that the results store has of runs, and that tests can compare with earlier ones.
type StoredMetric struct {
	Metric string // in the store; with Parts, what the names of all parts start with
	Key    string // in test files: with its unit
	Worse  Worse
	Doc    string
	Parts  MetricParts
}

// MetricParts are what there is a metric of each for, such as counters. A test file names them in a mapping.
type MetricParts uint8

// Parts of metrics.
const (
	NoParts MetricParts = iota // it is one metric
	ByRetry
	BySize
	ByCounter
)

var partForms = [...]text{
	ByRetry: {newPattern(`^([1-9]|1[0-5])$`), "numbers of retries from 1 to 15, the last for all that follow"},
	BySize: {newPattern(`^(below-[0-9]+-B|[0-9]+-to-[0-9]+-B|[0-9]+-B-and-more)$`),
		"size classes, such as below-10000-B, 10000-to-99999-B or 100000-B-and-more"},
	ByCounter: counterForm,
}

// RelativeBound limits how a metric of a run may differ from those of earlier runs. Nil: no limit. 0.05 allows 5 % more
// than the median of the earlier runs, -0.05 allows 5 % less.
type RelativeBound struct{ Min, Mean, P50, P99, Max *float64 }

// RelativeLimit is one limit of a RelativeBound.
type RelativeLimit struct {
	Key   string // min, mean, p50, p99 or max
	Share float64
}

// Least reports whether the limit is a least value: a share with a minus.
func (l RelativeLimit) Least() bool { return math.Signbit(l.Share) }

// Limits returns those that are given.
func (b *RelativeBound) Limits() (list []RelativeLimit) {
	for _, l := range []struct {
		key   string
		share *float64
	}{{"min", b.Min}, {"mean", b.Mean}, {"p50", b.P50}, {"p99", b.P99}, {"max", b.Max}} {
		if l.share != nil {
			list = append(list, RelativeLimit{l.key, *l.share})
		}
	}
	return list
}

// BaselineExpect compares metrics with those of earlier runs in the results store.
type BaselineExpect struct {
	Ref     string           // last-green, night-2026-11-20, fw:28.39.1002; empty: nothing is compared
	Metrics []ComparedMetric // in the order of their keys
}

// ComparedMetric is a metric that a test compares with its baseline.
type ComparedMetric struct {
	Of    StoredMetric
	Part  string // of its parts; empty: it has none
	Bound RelativeBound

	place int // in the list of metrics
}

// Metric returns the name in the store.
func (m *ComparedMetric) Metric() string { return m.Of.Metric + m.Part }

// Key returns where the test has its limits.
func (m *ComparedMetric) Key() string {
	if m.Of.Parts != NoParts {
		return "expect." + m.Of.Key + "." + m.Part
	}
	return "expect." + m.Of.Key
}

var baselineForm = text{
	newPattern(`^(last-green|night-[0-9]{4}(-[0-9]{2}){2}|(fw|firmware|driver|kernel|os|tool):[^\x00-\x1f]{1,100})$`),
	"last-green, a night such as night-2026-11-20, or fw:, driver:, kernel:, os: or tool: with a version"}

// baselineFields declares the baseline of an expectation and the metrics that can be compared with it.
func baselineFields(metrics []StoredMetric, of func(parent any) *BaselineExpect) []field {
	fields := []field{{key: "baseline", doc: "Earlier runs of this test in the results store (candela history) that " +
		"metrics are compared with: last-green, night-2026-11-20, fw:28.39.1002.", kind: optionalText{baselineForm},
		at: func(parent any) any { return &of(parent).Ref }}}
	for i, m := range metrics {
		fields = append(fields, field{key: m.Key, doc: m.Doc + " Compared with the baseline.", kind: comparedKind{m, i},
			at: func(parent any) any { return &of(parent).Metrics }})
	}
	return fields
}

// comparedKind is the limits of one metric. The list stores only metrics that are given.
type comparedKind struct {
	of    StoredMetric
	place int
}

func (k comparedKind) bound() *object {
	share := optional[float64]{relative{k.of.Worse}}
	return &object{title: "compared", doc: "Limits relative to the median of the runs of the baseline. " +
		"A value that differs as much as these runs among themselves does not fail.", fields: []field{
		{key: "min", doc: "Change of the least value.", kind: share,
			at: at(func(b *RelativeBound) **float64 { return &b.Min })},
		{key: "mean", doc: "Change of the mean.", kind: share, at: at(func(b *RelativeBound) **float64 { return &b.Mean })},
		{key: "p50", doc: "Change of the median.", kind: share, at: at(func(b *RelativeBound) **float64 { return &b.P50 })},
		{key: "p99", doc: "Change of the 99th percentile.", kind: share,
			at: at(func(b *RelativeBound) **float64 { return &b.P99 })},
		{key: "max", doc: "Change of the greatest value.", kind: share,
			at: at(func(b *RelativeBound) **float64 { return &b.Max })},
	}}
}

// parts is the mapping from parts to their limits.
func (k comparedKind) parts() keyed[ComparedMetric] {
	return keyed[ComparedMetric]{
		key:     partForms[k.of.Parts],
		parse:   func(key string, m *ComparedMetric) { m.Part = key },
		format:  func(m *ComparedMetric) string { return m.Part },
		of:      partKind{k.bound()},
		compare: func(a, b ComparedMetric) int { return strings.Compare(a.Part, b.Part) },
	}
}

// partKind is the limits of a part.
type partKind struct{ *object }

func (k partKind) inner() kind { return k.object }

func (k partKind) decode(d *decoder, n *yaml.Node, path string, dst any) {
	k.object.decode(d, n, path, &dst.(*ComparedMetric).Bound)
}

func (k partKind) encode(src any) *yaml.Node { return k.object.encode(&src.(*ComparedMetric).Bound) }

func (k comparedKind) inner() kind {
	if k.of.Parts != NoParts {
		return k.parts()
	}
	return k.bound()
}

func (k comparedKind) allowed() string {
	limits := k.bound().allowed() + ", each " + relative{k.of.Worse}.allowed()
	if k.of.Parts != NoParts {
		return k.parts().allowed() + ", each with " + limits
	}
	return limits
}

func (k comparedKind) jsonSchema() map[string]any { return k.inner().jsonSchema() }

func (k comparedKind) decode(d *decoder, n *yaml.Node, path string, dst any) {
	list := dst.(*[]ComparedMetric)
	given := []ComparedMetric{{}}
	if k.of.Parts != NoParts {
		given = nil
		k.parts().decode(d, n, path, &given)
	} else {
		k.bound().decode(d, n, path, &given[0].Bound)
	}
	for i := range given {
		given[i].Of, given[i].place = k.of, k.place
	}
	*list = append(*list, given...)
	slices.SortStableFunc(*list, func(a, b ComparedMetric) int {
		return cmp.Or(strings.Compare(a.Of.Key, b.Of.Key), strings.Compare(a.Part, b.Part))
	})
}

func (k comparedKind) encode(src any) *yaml.Node {
	var given []ComparedMetric
	for _, m := range *src.(*[]ComparedMetric) {
		if m.Of.Key == k.of.Key {
			given = append(given, m)
		}
	}
	switch {
	case len(given) == 0:
		return nil
	case k.of.Parts != NoParts:
		return k.parts().encode(&given)
	}
	return present(k.bound().encode(&given[0].Bound))
}

// relative is a signed share in percent: "+5 %".
type relative struct{ worse Worse }

var relativeForm = newPattern(`^[+-][0-9]{1,4}(\.[0-9]{1,3})? ?%$`)

func (k relative) allowed() string {
	switch k.worse {
	case WorseMore:
		return "a change such as +5 %"
	case WorseLess:
		return "a change such as -5 %"
	case WorseEither:
	}
	return "a change such as +5 % or -10 %"
}

func (k relative) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.wrongType(n, path, k.allowed())
		return
	}
	is := "is " + strconv.Quote(printable(n.Value))
	if !relativeForm.MatchString(n.Value) {
		d.problem(n, path, is, "it takes "+k.allowed())
		return
	}
	percent, _ := strconv.ParseFloat(strings.TrimRight(n.Value, " %"), 64) // relativeForm leaves only numbers
	switch less := math.Signbit(percent); {
	case k.worse == WorseMore && less:
		d.problem(n, path, is, "more is worse of this metric: give how much more is allowed, such as +5 %")
		return
	case k.worse == WorseLess && !less:
		d.problem(n, path, is, "less is worse of this metric: give how much less is allowed, such as -5 %")
		return
	case percent <= -100:
		d.problem(n, path, is, "no value is that much less, so that this cannot fail: it takes more than -100 %")
		return
	}
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

func (k relative) jsonSchema() map[string]any {
	pattern := relativeForm.String()
	switch k.worse {
	case WorseMore:
		pattern = strings.Replace(pattern, "[+-]", "[+]", 1)
	case WorseLess:
		pattern = strings.Replace(pattern, "[+-]", "[-]", 1)
	case WorseEither:
	}
	return map[string]any{"type": "string", "pattern": pattern}
}

// validateBaseline checks that a baseline is compared with something, and that what is compared has a baseline.
func (d *decoder) validateBaseline(e *BaselineExpect, example string) {
	for i := range e.Metrics {
		if m := &e.Metrics[i]; len(m.Bound.Limits()) == 0 && d.fine(m.Key()) {
			d.problemAt(m.Key(), "is empty", "it takes min, mean, p50, p99 or max")
		}
	}
	switch {
	case e.Ref == "" && len(e.Metrics) > 0:
		d.problemAt(e.Metrics[0].Key(), "has no baseline",
			"expect.baseline names the runs to compare with, such as last-green")
	case e.Ref != "" && len(e.Metrics) == 0:
		d.problemAt("expect.baseline", "is compared with nothing", "give a limit, such as "+example)
	}
}
