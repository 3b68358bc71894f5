package switchtest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// report gathers what people read of the run.
func (r *run) report(v orchestrator.Verdict) *report.Report {
	t := r.plan.Test
	rep := &report.Report{
		Name: t.Title(), Metadata: orchestrator.MetadataFacts(t.Metadata),
		File: r.File, Testbed: fmt.Sprintf("%s of %d hosts", t.Topology.Model, t.Topology.HostCount()),
		Seed: t.Seed, Repeat: r.Repeat,
		Verdict: v.Verdict, Broken: v.Exit == orchestrator.ExitInfrastructure, Reasons: v.Reasons,
		SpanNS: r.end.Nanoseconds(), PacketIDs: "packet",
		Facts: []report.Fact{
			{Name: "tool", Value: r.Version}, {Name: "config sha256", Value: config.HashOf(r.canonical())},
			{Name: "switch under test", Value: modelText(r.plan)},
			{Name: "transport", Value: withBugs(t.Hosts.Model, t.Hosts.Bugs)},
		},
		Files: []report.File{
			{Name: "flows.json", What: "what became of each flow"},
			{Name: "switch-counters.json", What: "every counter of every switch, and of the taps"},
			{Name: "integrity.json", What: "whether the observation is complete"},
			{Name: "config.yml", What: "the test with all defaults explicit"},
			{Name: "environment.json", What: "what ran it"},
		},
	}
	if r.queues != nil {
		rep.Files = append(rep.Files, report.File{Name: "queues.json", What: "what queues held over time"})
	}
	if t.Taps.Capture {
		for i, name := range CaptureNames() {
			if i < len(stages()) {
				rep.Files = append(rep.Files, report.File{Name: name,
					What: "every packet at that side of the switches; Wireshark reads it"})
			} else if t.Topology.SwitchCount() > 1 {
				rep.Files = append(rep.Files, report.File{Name: name, What: "at which switch and port each of them was"})
			}
		}
	}
	if f := t.Taps.Decisions(); f != "" {
		rep.Files = append(rep.Files, report.File{Name: "decisions." + f,
			What: "what the switches decided about each packet, and on what state"})
	}
	if r.plan.showsQueuing() {
		rep.Files = append(rep.Files, report.File{Name: queuingFile, What: "the counters as `show queuing interface`"})
	}
	if text := r.plan.nicsText(); text != "" {
		rep.Facts = append(rep.Facts, report.Fact{Name: "NICs", Value: text})
	}
	if n := len(r.plan.NotJudged()); n > 0 {
		rep.Facts = append(rep.Facts, report.Fact{Name: "judge", Value: fmt.Sprintf("%s; %d rules are not judged, or in "+
			"part: run.json lists them", r.plan.Test.Judge, n)})
	}
	for _, text := range r.unjudged() {
		rep.Facts = append(rep.Facts, report.Fact{Name: "decision records", Value: text})
	}
	if r.checked != nil && r.checked.Live != "" {
		rep.Facts = append(rep.Facts, report.Fact{Name: "live", Value: r.checked.Live})
	}
	if r.net != nil && r.plan.Test.Outages() {
		rep.Facts = append(rep.Facts, report.Fact{Name: "out of service", Value: r.outages()})
	}
	for _, f := range []struct{ name, format, what string }{
		{"flows", t.Results.Flows(), "a row for each flow"}, {"metrics", t.Results.Metrics(), "a row for each metric"},
		{"queues", t.Results.Queues(), "what each queue held"}, {"queue-series", t.Results.Queues(), "the same over time"},
		{deflectionSeries, t.Results.Deflections(), "what each switch deflected over time"},
	} {
		if f.format != "" {
			rep.Files = append(rep.Files, report.File{Name: f.name + "." + f.format, What: f.what})
		}
	}
	if t.Series > 0 {
		rep.Files = append(rep.Files, report.File{Name: "series.csv", What: "queues, trims and goodput over time"})
	}
	if len(r.curves()) > 0 {
		rep.Files = append(rep.Files, report.File{Name: curvesFile, What: "curves that judges drew"})
	}
	for _, tab := range r.judgeTables() {
		if tab.File != "" {
			rep.Files = append(rep.Files, report.File{Name: tab.File + ".csv", What: "what a judge counted"})
		}
	}
	if r.net != nil {
		rep.Packets = int64(r.net.Total().Sent)
	}
	if r.flows != nil {
		if r.flows.kept() {
			rep.Tables = append(rep.Tables, r.flowTable())
		}
		if r.plan.Streamed() || r.plan.Count() >= manyFlows {
			rep.Tables = append(rep.Tables, r.groupTable())
		}
	}
	if r.flows != nil && r.net != nil {
		rep.Tables = append(rep.Tables, r.switchTable())
		if tab := r.nicTable(); len(tab.Rows) > 0 {
			rep.Tables = append(rep.Tables, tab)
		}
		for _, tab := range r.reasonTables() {
			if len(tab.Rows) > 0 {
				rep.Tables = append(rep.Tables, tab)
			}
		}
		rep.Charts = slices.Concat(r.charts(), r.tableCharts(), r.curveCharts())
	}
	if r.analysis != nil {
		if tab := r.familyTable(); len(tab.Rows) > 0 {
			rep.Tables = append(rep.Tables, tab)
		}
		rep.Tables = append(rep.Tables, r.shownTables()...)
		rep.Numbers = r.numbers()
		r.reportAnalysis(rep)
	}
	return rep
}

// outages says when switches were out of service, and what they lost.
func (r *run) outages() string {
	var list []string
	for _, c := range sortedChanges(r.plan.Test.Changes) {
		if c.State() != "" {
			list = append(list, fmt.Sprintf("%s %s at %s", r.plan.switchesOf(&c), c.State(), c.At))
		}
	}
	list = append(list, r.trunkOutages()...)
	for i := range r.net.Switches() {
		if n := r.net.Switch(i).Dropped(fabric.ReasonStopped); n > 0 {
			list = append(list, fmt.Sprintf("%s lost %s packets", r.net.Switch(i).Name(), report.Grouped(int64(n))))
		}
	}
	return strings.Join(list, "; ")
}

// reportAnalysis adds what the analyzers found.
func (r *facts) reportAnalysis(rep *report.Report) {
	rep.Metrics, rep.Coverage, rep.Analyzers = r.analysis.Metrics, r.analysis.Coverage, AnalyzerNames()
	rep.Totals, rep.MetricsNote = r.totals(), r.withoutLatency()
	_, rep.Unjudged = r.compared()
	for _, f := range r.analysis.Findings {
		violates := f.Severity == analyzers.Violation
		finding := report.Finding{Finding: f, Wanted: violates &&
			orchestrator.Allows(r.plan.Test.Expect.Of(f.Analyzer), f.Rule)}
		if violates && !finding.Wanted {
			if w := r.excuse(f.Rule); w != nil {
				finding.Waiver = fmt.Sprintf("%s, %s, until %s", w.Reference, w.Owner, w.Expires)
				rep.Waived++
			}
		}
		rep.Findings = append(rep.Findings, finding)
	}
}

// withinSwitch are metrics of the time from a packet's arrival at a switch to the first bit of what leaves for it.
var withinSwitch = []string{"lock.latency-switch", "lock.latency-server", "netchain.latency", "sai.trim-latency"}

// withoutLatency says what those metrics lack: a simulated switch adds its forwarding latency behind the tap.
func (r *facts) withoutLatency() string {
	const name = "latency-ns"
	v := r.plan.Test.Switch.Values
	if r.plan.live || v.Table().Find(name) < 0 || v.Duration(name) == 0 {
		return ""
	}
	var list []string
	for _, of := range withinSwitch {
		if slices.ContainsFunc(r.analysis.Metrics, func(m analyzers.Metric) bool { return m.Name == of && m.Count > 0 }) {
			list = append(list, of)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%s do not contain latency-ns (%s), which a simulated switch adds on the way out; 0 ns: it "+
		"answered at once", strings.Join(list, ", "), v.Duration(name))
}

func modelText(p *Plan) string { return withBugs("model "+p.Test.Switch.Model, p.Test.Switch.Bugs) }

func withBugs(text string, bugs []string) string {
	if len(bugs) == 0 {
		return text
	}
	return text + " with seeded bugs " + strings.Join(bugs, ", ")
}

// manyFlows is how many flows make statistics worth a table.
const manyFlows = 32

// groupTable has a row for each group of flows, if there are several.
func (r *facts) groupTable() report.Table {
	tab := report.Table{Title: "Flow statistics", Note: "fct: of flows that finished; slowdown: fct over that of the " +
		"flow alone at line rate; fairness: Jain's index of goodput over weight.",
		Columns: []report.Column{{Head: "flows"}, {Head: "count", Right: true}, {Head: "finished", Right: true},
			{Head: "fct mean", Right: true}, {Head: "p50", Right: true}, {Head: "p95", Right: true}, {Head: "p99", Right: true},
			{Head: "p99.9", Right: true}, {Head: "slowdown p50", Right: true}, {Head: "slowdown p99", Right: true},
			{Head: "goodput mean", Right: true}, {Head: "fairness", Right: true},
			{Head: "resent", Right: true}, {Head: "reordered", Right: true}, {Head: ""}}}
	for i := range r.flows.totals().Groups {
		g := &r.flows.Statistics.Groups[i]
		row := []string{strings.TrimSpace(g.By + " " + g.Name), report.Grouped(g.Flows), report.Grouped(g.Finished), "", "",
			"", "", "", "", "", "", "", some(g.Retransmissions), some(g.Reordered), ""}
		if f := g.FCT; f != nil {
			for j, v := range []int64{int64(f.Mean), f.P50, f.P95, f.P99, f.P999} {
				row[3+j] = report.Span(v)
			}
		}
		if s := g.Slowdown; s != nil {
			row[8], row[9] = fmt.Sprintf("%.2f", float64(s.P50)/1000), fmt.Sprintf("%.2f", float64(s.P99)/1000)
		}
		if g.Goodput != nil {
			row[10] = report.Quantity(int64(g.Goodput.Mean), analyzers.UnitBPS)
		}
		if g.Fairness > 0 && g.Goodput.Count > 1 {
			row[11] = fmt.Sprintf("%.3f", g.Fairness)
		}
		tab.Rows = append(tab.Rows, report.Row{Cells: row})
	}
	return tab
}

// flowTable has a row for each flow, or a few where neighbours are alike.
func (r *facts) flowTable() report.Table {
	tab := report.Table{Title: "Flows", Note: "Data packets. fct: time until the receiver had all of the flow; at " +
		"sender: until the sender knew; whole, trimmed: reached the receiver with all payload, as a header only; " +
		"returned: as headers, to the sender; dropped: reached nobody in any form; resent: by the sender.",
		Columns: []report.Column{
			{Head: "flow", Right: true}, {Head: "hosts"}, {Head: "transport"}, {Head: "goodput", Right: true},
			{Head: "fct", Right: true}, {Head: "at sender", Right: true}, {Head: "sent", Right: true},
			{Head: "whole", Right: true}, {Head: "trimmed", Right: true}, {Head: "returned", Right: true},
			{Head: "dropped", Right: true},
			{Head: "resent", Right: true}, {Head: "timeouts", Right: true}, {Head: "rtt p50", Right: true},
			{Head: "rtt max", Right: true}, {Head: ""},
		}}
	for i := range r.flows.Flows {
		f := &r.flows.Flows[i]
		row := []string{
			strconv.Itoa(f.Flow), fmt.Sprintf("%d → %d", f.Src, f.Dst), f.Transport, "", "", "", some(f.Sent), some(f.Whole),
			some(f.Headers), some(f.Returned),
			some(f.Dropped), some(f.Retransmissions), some(f.Timeouts), "", "", "",
		}
		if f.Kind == Transfer {
			row[3] = report.Quantity(f.GoodputBPS, analyzers.UnitBPS)
		} else if f.Kind != Pings {
			row[2] += " " + string(f.Kind)
		}
		if f.Finished {
			row[4] = report.Span(f.FCTNS)
		}
		if f.SenderFCTNS > 0 {
			row[5] = report.Span(f.SenderFCTNS)
		}
		if f.Trips != nil {
			row[13], row[14] = report.Span(f.Trips.P50), report.Span(f.Trips.Max)
		}
		bad := !f.Finished && !f.endless()
		if bad {
			row[15] = "not finished"
		}
		tab.Rows = append(tab.Rows, report.Row{Cells: row, Loud: bad})
	}
	return tab
}

func some(n int64) string {
	if n == 0 {
		return ""
	}
	return report.Grouped(n)
}

// switchTable has a row for each switch that did more than forward, at most so many.
func (r *run) switchTable() report.Table {
	tab := report.Table{Title: "Switches", Note: "Packets of all kinds, at front ports. trimmed: cut by this switch; " +
		"consumed: for the switch itself; dropped: as the switch counts, so that a packet whose trimmed " +
		"copy went on may be among them; queues: greatest length, in packets.", Columns: []report.Column{
		{Head: "switch"}, {Head: "in", Right: true}, {Head: "out", Right: true}, {Head: "trimmed", Right: true},
		{Head: "consumed", Right: true}, {Head: "dropped", Right: true},
		{Head: "marked", Right: true}, {Head: "pauses", Right: true}, {Head: "longest data queue", Right: true},
		{Head: "recirculation queue", Right: true}, {Head: ""},
	}}
	for i := range r.net.Switches() {
		sw := r.net.Switch(i)
		var s *switchTaps
		if r.ledger != nil {
			s = &r.ledger.taps[i]
		}
		var in, out, dropped, marked, pauses, longest, recirculation int64
		for port := range sw.Ports() {
			c := sw.Port(port).Counters()
			in, out, dropped, pauses = in+int64(c.Received-c.PausesReceived), out+int64(c.Sent-c.PausesSent),
				dropped+int64(c.Dropped), pauses+int64(c.PausesSent)
			for q := range sw.Port(port).Queues() {
				qc := sw.Port(port).Queue(q).Counters()
				marked += int64(qc.Marked)
				if s == nil || s.data[port]&(1<<q) != 0 {
					longest = max(longest, int64(qc.MaxPackets))
				}
			}
		}
		for pipe := range sw.Pipelines() {
			if p := sw.Recirculation(pipe); p != nil {
				for q := range p.Queues() {
					recirculation = max(recirculation, int64(p.Queue(q).Counters().MaxPackets))
				}
			}
		}
		tab.Rows = append(tab.Rows, report.Row{Cells: []string{
			sw.Name(), some(in), some(out), some(s.trims()), some(consumed(r.familyAt(i), sw)), some(dropped), some(marked),
			some(pauses), some(longest), some(recirculation), "",
		}})
	}
	return tab
}

// loses reports whether packets that end for a reason are lost: those that are for the switch are not.
func loses(why fabric.Reason, reason analyzers.DropReason) bool {
	return why != fabric.ReasonConsumed && !reason.Consumed
}

// consumed returns how many packets of a family were for a switch.
func consumed(f *family, sw *fabric.Switch) (packets int64) {
	for why := fabric.ReasonOwn; why < fabric.Reasons; why++ {
		if f.Reason(why).Consumed {
			packets += int64(sw.Dropped(why))
		}
	}
	return packets
}

// reasonTables have a row for each reason for which a switch dropped packets, and consumed them.
func (r *run) reasonTables() []report.Table {
	columns := func(head string) []report.Column {
		return []report.Column{{Head: "switch"}, {Head: head}, {Head: "packets", Right: true}, {Head: ""}}
	}
	drops := report.Table{Title: "Drops by reason", Columns: columns("reason")}
	consumed := report.Table{Title: "Packets for switches, which are not lost", Columns: columns("fate")}
	for i := range devices(r.net) {
		sw := deviceAt(r.net, i)
		for why := fabric.ReasonTail; why < fabric.Reasons; why++ {
			reason := r.familyAt(i).Reason(why)
			if sw.Dropped(why) == 0 || why == fabric.ReasonConsumed {
				continue
			}
			row := report.Row{Cells: []string{sw.Name(), reason.Name, some(int64(sw.Dropped(why))), reason.Doc}}
			if loses(why, reason) {
				drops.Rows = append(drops.Rows, row)
			} else {
				consumed.Rows = append(consumed.Rows, row)
			}
		}
	}
	return []report.Table{drops, consumed}
}

// familyTable has a row for each metric that the judge of the family measures, but for times, which are latencies.
func (r *run) familyTable() report.Table {
	tab := report.Table{Title: "Measured by " + r.plan.family.Name, Columns: []report.Column{{Head: "metric"},
		{Head: "values", Right: true}, {Head: "min", Right: true}, {Head: "mean", Right: true}, {Head: "max", Right: true}}}
	for _, m := range r.plan.family.Metrics {
		of := r.metric(m.Of, 0)
		if of.Count == 0 || of.Unit == analyzers.UnitNS {
			continue
		}
		got, row := measured{}.with(of, m.Scale), []string{m.Name, report.Grouped(of.Count)}
		for _, v := range []float64{got.min, got.mean, got.max} {
			rounded := math.Round(v*1000) / 1000
			switch {
			case math.Abs(v) < 0.01 && v != 0:
				row = append(row, strconv.FormatFloat(v, 'g', 3, 64))
			case rounded == math.Trunc(rounded):
				row = append(row, report.Grouped(int64(rounded)))
			default:
				row = append(row, strconv.FormatFloat(rounded, 'f', -1, 64))
			}
		}
		tab.Rows = append(tab.Rows, report.Row{Cells: row})
		tab.Note = strings.TrimSpace(tab.Note + " " + m.Name + ": " + strings.ToLower(m.Doc[:1]) + m.Doc[1:])
	}
	return tab
}

// charts are the distributions and time series of the page.
func (r *run) charts() []report.Chart {
	charts := r.distributions()
	if c, ok := r.queueChart(); ok && r.series == nil {
		charts = append(charts, c)
	}
	if r.series != nil {
		charts = append(charts, r.seriesCharts()...)
	}
	if r.spread != nil {
		if c := r.spread.chart(); len(c.Lines) > 0 {
			charts = append(charts, c)
		}
	}
	return charts
}

// maxLines is how many lines a chart bears.
const maxLines = 8

// seriesCharts draws queues and goodput over time: those with the greatest values.
func (r *run) seriesCharts() []report.Chart {
	queues, goodput := []report.Series{}, []report.Series{}
	for _, name := range r.series.names() {
		line := report.Series{Name: name}
		scale, list := 1.0, &queues
		switch {
		case len(name) > 12 && name[len(name)-12:] == ".goodput-bps":
			scale, list, line.Name = 1e-9, &goodput, name[:len(name)-12]
		case len(name) > 6 && name[len(name)-6:] == ".trims":
			continue
		default:
			line.Name = name[:len(name)-len(".packets")]
		}
		for _, s := range r.series.of(name) {
			line.Times = append(line.Times, float64(s.at)/1e3)
			line.Values = append(line.Values, float64(s.value)*scale)
		}
		*list = append(*list, line)
	}
	var charts []report.Chart
	for _, c := range []struct {
		title, unit string
		lines       []report.Series
	}{{"Queues", "packets", queues}, {"Goodput", "Gb/s", goodput}} {
		if len(c.lines) > 0 {
			charts = append(charts, report.Over(c.title, c.unit, report.Greatest(c.lines, maxLines)))
		}
	}
	return charts
}
