package switchtest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// metric is a number that switch tests measure. Expectations, the analysis, reports and the reference walk the table
// of metrics.
type metric struct {
	name string // of test files, with its unit
	doc  string
	// unit and scale say how the analysis has the metric: so many of its steps are one unit of test files.
	unit  string
	scale float64
	of    string // name in the analysis; empty: it is not there
	worse config.Worse

	// Exactly one says where the values come from; none: an analyzer of the family puts the metric into the analysis.
	ofFlow func(f *FlowResult) (value int64, ok bool)
	ofRun  func(r *facts) (value float64, ok bool) // in the unit of test files
	sample func(r *run) []int64                    // of which the analysis has the distribution
	spread func(r *run) []*analyzers.Distribution

	ofQueues bool     // only queue statistics show it
	tapped   bool     // only taps at all ports show it
	byFlow   bool     // some flows can be bounded
	columns  []column // of tables of many runs
	chart    string   // title of the distribution; empty: none
	axis     string   // its unit
}

// column is a quantity of a metric in tables of many runs.
type column struct {
	head   string
	digits int
	of     func(m measured) float64
}

func least(m measured) float64    { return m.min }
func mean(m measured) float64     { return m.mean }
func median(m measured) float64   { return m.p50 }
func greatest(m measured) float64 { return m.max }

// builtin are the metrics of every switch test, in the order of the reference.
func builtin() []metric {
	transfer := func(value func(f *FlowResult) int64) func(*FlowResult) (int64, bool) {
		return func(f *FlowResult) (int64, bool) { return value(f), f.Kind == Transfer }
	}
	const bps, ns, count, bytes = analyzers.UnitBPS, analyzers.UnitNS, analyzers.UnitCount, analyzers.UnitBytes
	const more, less = config.WorseMore, config.WorseLess
	return []metric{
		{name: "goodput-gbps", worse: less, of: "goodput", unit: bps, scale: 1e9, byFlow: true,
			doc: "Payload that reached its receiver whole, per flow, over the time from its start to its end or the end of " +
				"the run.",
			ofFlow: transfer(func(f *FlowResult) int64 { return f.GoodputBPS }), chart: "Goodput of flows", axis: "Gb/s",
			columns: []column{{"min Gb/s", 2, least}, {"mean Gb/s", 2, mean}, {"max Gb/s", 2, greatest}}},
		{name: "fct-us", worse: more, of: "fct", unit: ns, scale: 1e3, byFlow: true,
			doc:    "Flow completion time of each flow that finished: from its start until its receiver has all of it.",
			ofFlow: func(f *FlowResult) (int64, bool) { return f.FCTNS, f.Finished && f.Kind == Transfer },
			chart:  "Flow completion time", axis: "us", columns: []column{{"max fct us", 1, greatest}}},
		{name: "slowdown", worse: more, of: "slowdown-permille", unit: count, scale: 1e3, byFlow: true,
			doc: "Completion time of each flow that finished, over that of the flow alone in the network at line rate, " +
				"without handshake or feedback.",
			ofFlow: func(f *FlowResult) (int64, bool) { return permille(f.Slowdown()), f.Slowdown() > 0 },
			chart:  "Slowdown", axis: "times the ideal"},
		{name: "sender-fct-us", worse: more, of: "sender-fct", unit: ns, scale: 1e3, byFlow: true,
			doc: "The same until its sender knows, about half a round trip later: what csg-htsim prints as finished at. Of " +
				"ndp.",
			ofFlow: func(f *FlowResult) (int64, bool) { return f.SenderFCTNS, f.SenderFCTNS > 0 }},
		{name: "flow-trims", tapped: true, of: "trims", unit: count, scale: 1, byFlow: true,
			doc:    "Headers of trimmed packets that reached receiver or sender, per flow.",
			ofFlow: transfer(func(f *FlowResult) int64 { return f.Headers + f.Returned })},
		{name: "flow-drops", worse: more, tapped: true, of: "drops", unit: count, scale: 1, byFlow: true,
			doc:    "Packets of the flow that neither arrived whole nor as a header.",
			ofFlow: transfer(func(f *FlowResult) int64 { return f.Dropped })},
		{name: "retransmissions", worse: more, of: "retransmissions", unit: count, scale: 1, byFlow: true,
			doc:    "Packets retransmitted, per flow.",
			ofFlow: transfer(func(f *FlowResult) int64 { return f.Retransmissions })},
		{name: "timeouts", worse: more, of: "timeouts", unit: count, scale: 1, byFlow: true,
			doc:    "Retransmission timeouts, per flow.",
			ofFlow: transfer(func(f *FlowResult) int64 { return f.Timeouts })},
		{name: "rtt-us", worse: more, of: "rtt", unit: ns, scale: 1e3, byFlow: true, doc: "Round trips of ping and requests.",
			sample: (*run).trips, spread: (*run).tripsOfFlows, chart: "Round trips", axis: "us",
			columns: []column{{"median rtt us", 1, median}}},
		{name: "qct-us", worse: more, of: "qct", unit: ns, scale: 1e3,
			doc:    "Query completion time of each completed query: from its start to the last byte of its last answer.",
			spread: (*run).qct, chart: "Query completion time", axis: "us",
			columns: []column{{"mean qct us", 1, mean}}},
		{name: "completed-flows", worse: less, doc: "Share of the flows with an end that finished, from 0 to 1.",
			ofRun: func(r *facts) (float64, bool) {
				t := r.flows.totals()
				return float64(t.Finished) / float64(max(1, t.Finished+t.Open)), t.Finished+t.Open > 0
			}},
		{name: "completed-queries", worse: less, doc: "Share of the queries all of whose flows finished, from 0 to 1.",
			ofRun: (*facts).completedQueries},
		{name: "total-goodput-gbps", worse: less,
			doc:   "Sum of the payload that reached its receiver, over the time of the run.",
			ofRun: (*facts).totalGoodput},
		{name: "fairness", worse: less,
			doc: "Jain's index of goodput over weight of all transfers: 1 if each has its share by weight, " +
				"1/n if one of n has everything.",
			ofRun: (*facts).fairness},
		{name: "makespan-us", worse: more, doc: "From the first start to the last end of a flow.", ofRun: (*facts).makespan},
		{name: "unfinished", worse: more, doc: "Flows with a size that did not finish.",
			ofRun: func(r *facts) (float64, bool) { return float64(r.flows.totals().Open), true }},
		{name: "trims", tapped: true, doc: "Packets that switches trimmed.", columns: []column{{"trims", 0, mean}},
			ofRun: func(r *facts) (float64, bool) { return float64(r.counted.Counters["total.trims"]), true }},
		{name: "drops", worse: more, tapped: true, doc: "Packets that switches dropped.",
			columns: []column{{"drops", 0, mean}},
			ofRun:   (*facts).drops},
		{name: "queue-packets", worse: more, tapped: true, of: "queue-packets", unit: count, scale: 1,
			doc: "Greatest length of each data queue, in packets.",
			sample: func(r *run) []int64 {
				return r.dataQueues(func(c fabric.QueueCounters) int64 { return int64(c.MaxPackets) })
			},
			columns: []column{{"queue packets", 0, greatest}}},
		{name: "queue-bytes", worse: more, tapped: true, of: "queue-bytes", unit: bytes, scale: 1,
			doc: "Greatest length of each data queue, in bytes.",
			sample: func(r *run) []int64 {
				return r.dataQueues(func(c fabric.QueueCounters) int64 { return int64(c.MaxBytes) })
			}},
		queueMetric("queue-mean-bytes", "queue-mean-bytes",
			"What each queue that carried a packet held on average over the time of the run.",
			func(q *QueueResult) int64 { return int64(math.Round(q.Mean)) }),
		queueMetric("queue-p99-bytes", "queue-p99-bytes", "What each of them did not exceed for 99 % of the time.",
			func(q *QueueResult) int64 { return q.P99 }),
		queueMetric("queue-max-bytes", "queue-max-bytes", "The most that each of them held at any instant.",
			func(q *QueueResult) int64 { return q.Max }),
		{name: "header-latency-us", worse: more, tapped: true, of: "header-latency", unit: ns, scale: 1e3,
			doc:    "From a trimmed packet's arrival at the switch to its header's departure.",
			spread: func(r *run) []*analyzers.Distribution { return []*analyzers.Distribution{r.ledger.latency} },
			chart:  "Latency of trimmed headers", axis: "us"},
		{name: "header-bytes", tapped: true, of: "header-bytes", unit: bytes, scale: 1,
			doc:    "Size of each trimmed packet that reached a host.",
			spread: func(r *run) []*analyzers.Distribution { return []*analyzers.Distribution{r.ledger.sizes} }},
		{name: "header-dscp", tapped: true, of: "header-dscp", unit: count, scale: 1,
			doc:    "DSCP of each trimmed packet that reached a host.",
			spread: func(r *run) []*analyzers.Distribution { return []*analyzers.Distribution{r.ledger.dscps} }},
	}
}

// ofFamily are the metrics that the judge of a family measures.
func ofFamily(f *family) []metric {
	var list []metric
	for _, m := range f.Metrics {
		of := metric{name: m.Name, doc: m.Doc, of: m.Of, scale: m.Scale}
		if m.Head != "" {
			of.columns = []column{{m.Head, 2, mean}}
		}
		list = append(list, of)
	}
	return list
}

// measurable refuses expectations of what is not seen.
func (p *Plan) measurable() error {
	e := &p.Test.Expect
	lists := [][]config.MetricExpect{e.Metrics}
	for i := range e.Flows {
		lists = append(lists, e.Flows[i].Metrics)
	}
	for _, m := range slices.Concat(lists...) {
		for _, of := range append(builtin(), ofFamily(p.family)...) {
			if of.name == m.Name && (of.tapped || of.ofFlow == nil && of.ofRun == nil && of.sample == nil && of.spread == nil &&
				!p.Test.Judge.Ports.All) {
				return fmt.Errorf("%s: is measured by taps at all ports: set judge: full, or expect counters",
					p.Test.Where("expect."+m.Name))
			}
		}
	}
	if len(e.Flows) > 0 && p.total > keptFlows {
		return fmt.Errorf("%s: of more than %d flows no results of single flows are kept: expect the metrics of all",
			p.Test.Where("expect.flows"), keptFlows)
	}
	for i := range e.Analyzers {
		a := &e.Analyzers[i]
		for _, of := range judgeTable() {
			off := of.transport != nil && p.Test.Judge.Flows == 0 || of.transport == nil && !p.Test.Judge.Ports.Some()
			if of.name == a.Name && off && a.Outcome > config.OutcomePass {
				return fmt.Errorf("%s: the analyzer sees nothing (judge)", p.Test.Where("expect."+a.Name))
			}
		}
	}
	return nil
}

// metricsTable returns all metrics of the run in the order of analysis and reports: of flows, of the run, of queues,
// distributions, of the family.
func (r *facts) metricsTable() []metric {
	list := builtin()
	slices.SortStableFunc(list, func(a, b metric) int { return a.class() - b.class() })
	return append(list, ofFamily(r.plan.family)...)
}

func (m *metric) class() int {
	switch {
	case m.ofFlow != nil:
		return 0
	case m.ofRun != nil:
		return 1
	case m.spread == nil:
		return 2
	}
	return 3
}

// measure returns what a metric came to; flows nil: over all.
func (r *facts) measure(name string, flows []int) measured {
	table := r.metricsTable()
	m := &table[slices.IndexFunc(table, func(m metric) bool { return m.name == name })]
	switch {
	case m.ofFlow != nil && r.flows.kept():
		return sumUp(m.flowValues(r, flows))
	case m.ofRun != nil:
		if v, ok := m.ofRun(r); ok {
			return sumUp([]float64{v})
		}
		return measured{}
	}
	if flows == nil {
		flows = []int{0}
	}
	var all measured
	for _, flow := range flows {
		all = all.with(r.metric(m.inAnalysis(), flow), m.scale)
	}
	return all
}

// inAnalysis returns the name in the analysis.
func (m *metric) inAnalysis() string {
	if strings.Contains(m.of, ".") {
		return m.of
	}
	return "flows." + m.of
}

// flowValues returns the value of each flow, or of some, in the unit of test files.
func (m *metric) flowValues(r *facts, flows []int) []float64 {
	var list []float64
	for i := range r.flows.Flows {
		f := &r.flows.Flows[i]
		if v, ok := m.ofFlow(f); ok && (flows == nil || slices.Contains(flows, f.Flow)) {
			list = append(list, float64(v)/m.scale)
		}
	}
	return list
}

// metrics turns the books into metrics of the analysis document.
func (r *run) metrics() []analyzers.Metric {
	var list []analyzers.Metric
	add := func(d *analyzers.Distribution) {
		if d.Count() > 0 {
			list = append(list, d.Metric())
		}
	}
	for _, m := range r.metricsTable() {
		if m.tapped && r.ledger == nil {
			continue
		}
		d := analyzers.NewDistribution("flows."+m.of, m.unit, 0)
		switch {
		case m.ofFlow != nil && r.stream != nil:
			d = r.stream.stats.values[m.of]
		case m.ofFlow != nil:
			for i := range r.flows.Flows {
				if v, ok := m.ofFlow(&r.flows.Flows[i]); ok {
					d.Record(v)
				}
			}
		}
		if m.sample != nil && (m.spread == nil || r.ledger != nil) { // streamed round trips are one distribution
			for _, v := range m.sample(r) {
				d.Record(v)
			}
		}
		add(d)
		if m.spread != nil {
			for _, d := range m.spread(r) {
				add(d)
			}
		}
	}
	if r.flows != nil && r.flows.Statistics != nil {
		list = append(list, r.flows.Statistics.bySize()...)
	}
	return list
}

// numbers are the few that a table of many runs shows.
func (r *facts) numbers() []report.Number {
	var list []report.Number
	for _, m := range r.metricsTable() {
		if len(m.columns) == 0 || m.tapped && r.plan.Streamed() {
			continue
		}
		got := r.measure(m.name, nil)
		for _, c := range m.columns {
			if got.count > 0 {
				list = append(list, report.Number{Name: c.head, Value: c.of(got), Digits: c.digits})
			}
		}
	}
	return list
}

// chartPoints is how many quantiles draw the distribution of flows that are not kept.
const chartPoints = 1000

// distributions are the charts of metrics, by title.
func (r *run) distributions() []report.Chart {
	table := r.metricsTable()
	slices.SortFunc(table, func(a, b metric) int { return strings.Compare(a.chart, b.chart) })
	var charts []report.Chart
	if lines := r.flows.totals().linesBySize(); len(lines) > 1 {
		charts = append(charts, report.CDF("Flow completion time by size", "us", lines))
	}
	for _, m := range table {
		if m.chart == "" || m.tapped && r.ledger == nil {
			continue
		}
		var values []float64
		switch {
		case m.ofFlow != nil && r.flows.kept():
			values = m.flowValues(&r.facts, nil)
		case m.ofFlow != nil:
			for q := range chartPoints {
				values = append(values, float64(r.stream.stats.values[m.of].Quantile(float64(q+1)/chartPoints))/m.scale)
			}
		case m.sample != nil:
			for _, v := range m.sample(r) {
				values = append(values, float64(v)/m.scale)
			}
		default:
			for _, d := range m.spread(r) {
				for _, v := range d.Metric().Values {
					values = append(values, float64(v)/m.scale)
				}
			}
		}
		if len(values) > 1 {
			charts = append(charts, report.CDF(m.chart, m.axis, []report.Series{{Name: m.chart, Values: values}}))
		}
	}
	return charts
}

func (r *facts) totalGoodput() (float64, bool) {
	if r.flows.EndNS == 0 {
		return 0, false
	}
	bytes := r.flows.totals().Payload
	return float64(bitsPerSecond(bytes, clock.Duration(r.flows.EndNS)*clock.Nanosecond)) / 1e9, true
}

// qct returns the completion times of queries.
func (r *run) qct() []*analyzers.Distribution {
	return []*analyzers.Distribution{r.flows.totals().qct}
}

func (r *facts) completedQueries() (float64, bool) {
	for _, g := range r.flows.totals().Groups {
		if g.By == "all" && g.Queries > 0 {
			return float64(g.QueriesCompleted) / float64(g.Queries), true
		}
	}
	return 0, false
}

func (r *facts) fairness() (float64, bool) {
	for _, g := range r.flows.totals().Groups {
		if g.By == "all" {
			return g.Fairness, g.Fairness > 0
		}
	}
	return 0, false
}

func (r *facts) makespan() (float64, bool) {
	t := r.flows.totals()
	return float64(t.LastNS-t.FirstNS) / 1e3, t.Finished > 0
}

func (r *facts) drops() (float64, bool) { return float64(r.flows.totals().Dropped), true }

// tripsOfFlows returns the round trips of each flow.
func (r *run) tripsOfFlows() []*analyzers.Distribution {
	if r.ledger == nil {
		return []*analyzers.Distribution{r.stream.stats.trips}
	}
	list := make([]*analyzers.Distribution, len(r.ledger.flows))
	for i := range r.ledger.flows {
		list[i] = r.ledger.flows[i].Trips
	}
	return list
}

// trips returns the round trips that are kept of all flows, in nanoseconds.
func (r *run) trips() []int64 {
	var list []int64
	for _, d := range r.tripsOfFlows() {
		list = append(list, d.Metric().Values...)
	}
	return list
}

// dataQueues returns a number of every queue of a front port that carried whole data packets.
func (r *run) dataQueues(of func(fabric.QueueCounters) int64) []int64 {
	var list []int64
	for i := range r.net.Switches() {
		sw := r.net.Switch(i)
		for port := range sw.Ports() {
			for q := range sw.Port(port).Queues() {
				if r.ledger.taps[i].data[port]&(1<<q) != 0 {
					list = append(list, of(sw.Port(port).Queue(q).Counters()))
				}
			}
		}
	}
	return list
}
