package switchtest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
)

// measured sums up the values of a metric, in its unit.
type measured struct {
	count                    int64
	min, max, mean, p50, p99 float64
}

// metric returns a metric of the analysis, empty if nothing was measured.
func (r *facts) metric(name string, flow int) analyzers.Metric {
	for _, m := range r.analysis.Metrics {
		if m.Name == name && m.Connection == flow {
			return m
		}
	}
	return analyzers.Metric{}
}

// with adds a metric. Quantiles of several are those of the worst.
func (m measured) with(n analyzers.Metric, unit float64) measured {
	if n.Count == 0 {
		return m
	}
	one := measured{n.Count, float64(n.Min) / unit, float64(n.Max) / unit, float64(n.Sum) / float64(n.Count) / unit,
		float64(n.P50) / unit, float64(n.P99) / unit}
	if m.count == 0 {
		return one
	}
	total := float64(m.count + one.count)
	m.mean = (m.mean*float64(m.count) + one.mean*float64(one.count)) / total
	m.count += one.count
	m.min, m.max, m.p50, m.p99 = min(m.min, one.min), max(m.max, one.max), max(m.p50, one.p50), max(m.p99, one.p99)
	return m
}

func sumUp(values []float64) measured {
	if len(values) == 0 {
		return measured{}
	}
	sorted := slices.Sorted(slices.Values(values))
	m := measured{count: int64(len(sorted)), min: sorted[0], max: sorted[len(sorted)-1]}
	for _, v := range sorted {
		m.mean += v
	}
	m.mean /= float64(len(sorted))
	rank := func(q float64) float64 { return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)] } // nearest rank
	m.p50, m.p99 = rank(0.5), rank(0.99)
	return m
}

// unmet returns the expectations that failed, in the words of the test.
func (r *facts) unmet() []string {
	e := &r.plan.Test.Expect
	var unmet []string
	if r.checked != nil {
		unmet = append(unmet, r.checked.Conservation...)
	}
	for i := range e.Metrics {
		unmet = append(unmet, r.unmetMetric("expect."+e.Metrics[i].Name, &e.Metrics[i], nil)...)
	}
	for i := range e.Flows {
		flows := e.Flows[i].Flows.All()
		for j := range e.Flows[i].Metrics {
			m := &e.Flows[i].Metrics[j]
			unmet = append(unmet, r.unmetMetric(fmt.Sprintf("expect.flows[%d].%s", i, m.Name), m, flows)...)
		}
	}
	unmet = append(unmet, r.unmetCounters(e.Counters)...)
	for i, rel := range e.Relations {
		unmet = append(unmet, r.unmetRelation(fmt.Sprintf("expect.relations[%d]", i), rel)...)
	}
	failed, _ := r.compared()
	return slices.Concat(unmet, failed, r.unmetCompletions())
}

// unmetCompletions: in a test that lasts until all flows have finished, flows over a reliable transport have to.
func (r *facts) unmetCompletions() []string {
	bounded := slices.ContainsFunc(r.plan.Test.Expect.Metrics,
		func(m config.MetricExpect) bool { return m.Name == "unfinished" })
	if r.plan.Test.Duration > 0 || bounded {
		return nil
	}
	var unmet []string
	if open := r.flows.totals().Open; !r.flows.kept() {
		if open > 0 {
			unmet = append(unmet, fmt.Sprintf("%d of %d flows did not finish within %s (statistics of flows.json names some)",
				open, r.plan.total, r.plan.Test.Deadline))
		}
		return unmet
	}
	for _, f := range r.unfinished() {
		t, err := findTransport(f.Transport)
		if err == nil && !t.Reliable {
			continue
		}
		unmet = append(unmet, fmt.Sprintf("flow %d (host %d to %d) did not finish within %s: %d of %d bytes arrived",
			f.Flow, f.Src, f.Dst, r.plan.Test.Deadline, f.Payload, f.Bytes))
	}
	return unmet
}

func (r *facts) unmetMetric(path string, e *config.MetricExpect, flows []int) []string {
	m := r.measure(e.Name, flows)
	var unmet []string
	if e.Count != nil && m.count != *e.Count {
		unmet = append(unmet, fmt.Sprintf("%s: %d values measured, want %d", path, m.count, *e.Count))
	}
	bounded := e.Each != config.Limit{} || e.Mean != nil || e.P50 != nil || e.P99 != nil
	if m.count == 0 && bounded {
		if e.Count == nil { // a bound on nothing proves nothing
			unmet = append(unmet, path+": nothing was measured")
		}
		return unmet
	}
	values := "value"
	if m.count > 1 {
		values = fmt.Sprintf("of %d values", m.count)
	}
	check := func(what string, got float64, limit config.Limit, low, high bool) {
		if low && limit.Min != nil && got < number(*limit.Min)-epsilon {
			unmet = append(unmet, fmt.Sprintf("%s: %s is %s, want at least %s", path, what, decimal(got),
				decimal(number(*limit.Min))))
		}
		if high && limit.Max != nil && got > number(*limit.Max)+epsilon {
			unmet = append(unmet, fmt.Sprintf("%s: %s is %s, want at most %s", path, what, decimal(got),
				decimal(number(*limit.Max))))
		}
	}
	if m.count == 1 {
		check("the "+values, m.min, e.Each, true, true)
	} else {
		check("the smallest "+values, m.min, e.Each, true, false)
		check("the largest "+values, m.max, e.Each, false, true)
	}
	for _, q := range []struct {
		name  string
		got   float64
		limit *config.Limit
	}{{"the mean", m.mean, e.Mean}, {"the median", m.p50, e.P50}, {"the 99th percentile", m.p99, e.P99}} {
		if q.limit != nil {
			check(q.name, q.got, *q.limit, true, true)
		}
	}
	return unmet
}

// epsilon is what floating point may add to a number with six digits behind the point.
const epsilon = 1e-9

func number(steps int64) float64 { return float64(steps) / config.MetricUnit }

// decimal prints a number with at most three digits behind the point.
func decimal(v float64) string {
	s := strconv.FormatFloat(v, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func (r *facts) unmetCounters(list []config.CounterExpect) []string {
	var unmet []string
	for _, c := range list {
		path := "expect.counters." + c.Name
		v, ok := config.CounterValue(c.Name, r.counted.Counters)
		switch {
		case !ok:
			unmet = append(unmet, path+": the run has no such counter (switch-counters.json lists them)")
		case c.Min != nil && v < *c.Min:
			unmet = append(unmet, fmt.Sprintf("%s: is %d, want at least %d", path, v, *c.Min))
		case c.Max != nil && v > *c.Max:
			unmet = append(unmet, fmt.Sprintf("%s: is %d, want at most %d", path, v, *c.Max))
		}
	}
	return unmet
}

func (r *facts) unmetRelation(path string, rel config.Relation) []string {
	left, unknown := config.Value(rel.Left, r.counted.Counters)
	right, more := config.Value(rel.Right, r.counted.Counters)
	if unknown = append(unknown, more...); len(unknown) > 0 {
		return []string{fmt.Sprintf("%s: the run has no counter %s (switch-counters.json lists them)", path,
			strings.Join(unknown, ", "))}
	}
	if !rel.Holds(left, right) {
		return []string{fmt.Sprintf("%s: %s does not hold: %d and %d", path, rel, left, right)}
	}
	return nil
}
