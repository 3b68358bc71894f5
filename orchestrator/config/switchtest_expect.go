package config

import (
	"cmp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// SwitchMetric is a number that switch tests can bound.
type SwitchMetric struct {
	Name string
	Flow bool // one value for each flow; otherwise one for the run or for each port
	Doc  string
}

func switchExpectSchema(o *Options) *object {
	var fields []field
	for _, name := range o.SwitchAnalyzers {
		fields = append(fields, field{
			key: name, doc: "The analyzer " + name + ".",
			kind: analyzer(name, judgementOf(func(j *Judgement) *Judgement { return j })),
			at:   func(parent any) any { return analyzerOf(parent.(*SwitchExpect), name) },
		})
	}
	for i, m := range o.SwitchMetrics {
		fields = append(fields, metricField(m, i,
			func(parent any) *[]MetricExpect { return &parent.(*SwitchExpect).Metrics }))
	}
	fields = append(fields, baselineFields(o.SwitchStored,
		func(e any) *BaselineExpect { return &e.(*SwitchExpect).Baseline })...)
	return &object{
		title: "expect",
		doc: "Expectations. An analyzer takes pass, fail (at least one violation), or a mapping: violations " +
			"lists the rules that " +
			"must be violated, and no others. A metric takes a number or bounds.",
		fields: append(fields,
			field{key: "flows", doc: "Metrics of some flows only.",
				kind: list[FlowExpect]{of: flowExpectSchema(o), max: 1000, omit: true}, def: "[]",
				at: at(func(e *SwitchExpect) *[]FlowExpect { return &e.Flows })},
			field{key: "counters", doc: "Counters at the end by name, each N or {min: N, max: N}; a name with * is the sum of " +
				"all that match (switch-counters.json of a run lists them).",
				kind: switchCounters(), at: at(func(e *SwitchExpect) *[]CounterExpect { return &e.Counters })},
			field{key: "relations", doc: "Statements about counters that must hold, such as `sw0.trim-packets == " +
				"sw0.tx-trim-packets + sw0.dropped-trim-packets`.",
				kind: list[Relation]{of: relationKind{}, max: 1000, omit: true}, def: "[]",
				at: at(func(e *SwitchExpect) *[]Relation { return &e.Relations })},
		),
	}
}

// analyzerOf returns the expectation of an analyzer; it adds one if there is none.
func analyzerOf(e *SwitchExpect, name string) *Judgement {
	i := slices.IndexFunc(e.Analyzers, func(a AnalyzerExpect) bool { return a.Name == name })
	if i < 0 {
		e.Analyzers = append(e.Analyzers, AnalyzerExpect{Name: name})
		i = len(e.Analyzers) - 1
	}
	return &e.Analyzers[i].Judgement
}

func switchCounters() keyed[CounterExpect] {
	k := counterFields()[0].kind.(keyed[CounterExpect])
	k.key = text{termForm, "names of counters, such as sw0.port-3.trim-packets; * matches anything but a slash"}
	return k
}

func flowExpectSchema(o *Options) *object {
	fields := []field{{key: "flows", doc: "The flows, counted from 1 in the order of the workload.",
		kind:     numbers{of: integer{min: 1, max: maxFlows}},
		required: true, at: at(func(e *FlowExpect) *Numbers { return &e.Flows })}}
	for i, m := range o.SwitchMetrics {
		if m.Flow {
			fields = append(fields, metricField(m, i, func(parent any) *[]MetricExpect { return &parent.(*FlowExpect).Metrics }))
		}
	}
	return &object{title: "expectation of flows", doc: "Expectations of some flows.", fields: fields}
}

// metricField declares a metric; the list stores only metrics that are given.
func metricField(m SwitchMetric, place int, of func(parent any) *[]MetricExpect) field {
	return field{key: m.Name, doc: m.Doc, kind: metricKind{m.Name, place}, at: func(parent any) any { return of(parent) }}
}

// metricKind is the bounds of one metric.
type metricKind struct {
	name  string
	place int // index among all metrics
}

// maxMetric is the greatest bound, in units.
const maxMetric = 1 << 42

// decimal returns the kind of a metric's bounds. The unit is the end of the metric's name.
func decimal(metric string) quantity {
	name := metric[strings.LastIndexByte(metric, '-')+1:]
	if unitOf(name).of == noDimension {
		name = "the metric's unit"
	}
	return quantity{unit: name, scale: MetricUnit, max: maxMetric}
}

func (k metricKind) value() *orScalar {
	n := optional[int64]{decimal(k.name)}
	limits := optional[Limit]{limitSchema(k.name)}
	return &orScalar{
		scalar: n,
		fromScalar: func(d *decoder, v *yaml.Node, path string, dst any) {
			m := dst.(*MetricExpect)
			n.decode(d, v, path, &m.Each.Min)
			m.Each.Max = m.Each.Min
		},
		toScalar: func(src any) *yaml.Node {
			m := src.(*MetricExpect)
			if l := m.Each; m.Mean == nil && m.P50 == nil && m.P99 == nil && m.Count == nil && l.Min != nil && l.Max != nil &&
				*l.Min == *l.Max {
				return n.encode(&l.Min)
			}
			return nil
		},
		object: object{
			title: "metric", doc: "Bounds of every value that is measured; a lone number is both.",
			fields: append(limitFields(k.name, func(p any) *Limit { return &p.(*MetricExpect).Each }),
				field{key: "mean", doc: "Bounds of the mean.", kind: limits,
					at: at(func(m *MetricExpect) **Limit { return &m.Mean })},
				field{key: "p50", doc: "Bounds of the median.", kind: limits,
					at: at(func(m *MetricExpect) **Limit { return &m.P50 })},
				field{key: "p99", doc: "Bounds of the 99th percentile.", kind: limits,
					at: at(func(m *MetricExpect) **Limit { return &m.P99 })},
				field{key: "count", doc: "Number of values.", kind: optional[int64]{integer{min: 0, max: maxRelPSN}},
					at: at(func(m *MetricExpect) **int64 { return &m.Count })},
			),
		},
	}
}

func limitFields(metric string, of func(parent any) *Limit) []field {
	n := optional[int64]{decimal(metric)}
	return []field{
		{key: "min", doc: "Least value.", kind: n, at: func(parent any) any { return &of(parent).Min }},
		{key: "max", doc: "Greatest value.", kind: n, at: func(parent any) any { return &of(parent).Max }},
	}
}

func limitSchema(metric string) *object {
	return &object{title: "limits", doc: "Limits of a number.",
		fields: limitFields(metric, func(p any) *Limit { return p.(*Limit) })}
}

func (k metricKind) allowed() string { return k.value().allowed() }

func (k metricKind) decode(d *decoder, n *yaml.Node, path string, dst any) {
	m := MetricExpect{Name: k.name, place: k.place}
	k.value().decode(d, n, path, &m)
	for _, l := range []*Limit{&m.Each, m.Mean, m.P50, m.P99} {
		if l != nil && l.Min != nil && l.Max != nil && *l.Min > *l.Max {
			d.problem(n, path, "min is greater than max", "no value satisfies both")
		}
	}
	list := dst.(*[]MetricExpect)
	*list = append(*list, m)
	slices.SortStableFunc(*list, func(a, b MetricExpect) int { return cmp.Compare(a.Name, b.Name) })
}

func (k metricKind) encode(src any) *yaml.Node {
	for _, m := range *src.(*[]MetricExpect) {
		if m.Name == k.name {
			return present(k.value().encode(&m))
		}
	}
	return nil
}

func (k metricKind) jsonSchema() map[string]any { return k.value().jsonSchema() }
