package diff

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report"
)

// names returns the column heads of the runs: the last part of their paths, or the full paths if those are equal.
func (r *Report) names() (a, b string) {
	a, b = filepath.Base(r.A), filepath.Base(r.B)
	if a == b {
		return r.A, r.B
	}
	return a, b
}

// Tables returns the differences for a page, in the order in which to read them.
func (r *Report) Tables() []report.Table {
	nameA, nameB := r.names()
	tables := []report.Table{
		changed("Environment", r.Environment), changed("Configuration", r.Config), changed("Verdict", r.Verdict),
	}
	findings := report.Table{Title: "Findings", Columns: []report.Column{{Head: "finding"}, {Head: "rule"},
		{Head: "connection", Right: true}, {Head: "what happened"}},
		Note: fmt.Sprintf("%d findings are the same. New: only in %s; gone: only in %s.", r.Findings.Same, nameB, nameA)}
	add := func(word string, list []analyzers.Finding) {
		for i := range list {
			f := &list[i]
			findings.Rows = append(findings.Rows, report.Row{Cells: []string{word, f.Rule, strconv.Itoa(f.Connection),
				cmp.Or(f.Headline, f.Actual, f.Message)}, Loud: word == "new"})
		}
	}
	add("new", r.Findings.Appeared)
	add("gone", r.Findings.Disappeared)
	metrics := report.Table{Title: "Measured", Columns: []report.Column{{Head: "metric"},
		{Head: "connection", Right: true},
		{Head: "median in " + nameA, Right: true}, {Head: "median in " + nameB, Right: true}, {Head: "ratio", Right: true},
		{Head: "p99 in " + nameA, Right: true}, {Head: "p99 in " + nameB, Right: true}}}
	for i := range r.Metrics {
		m := &r.Metrics[i]
		ratio := ""
		if m.Ratio != nil {
			ratio = strconv.FormatFloat(*m.Ratio, 'f', 2, 64)
		}
		quantity := func(d Distribution, v int64) string {
			if d.Count == 0 {
				return ""
			}
			return report.Quantity(v, m.Unit)
		}
		metrics.Rows = append(metrics.Rows, report.Row{Cells: []string{m.Name, strconv.Itoa(m.Connection),
			quantity(m.A, m.A.P50), quantity(m.B, m.B.P50), ratio, quantity(m.A, m.A.P99), quantity(m.B, m.B.P99)}})
	}
	counters := report.Table{Title: "Counters", Columns: []report.Column{{Head: "counter"}, {Head: nameA, Right: true},
		{Head: nameB, Right: true}}}
	for _, c := range r.Counters {
		counters.Rows = append(counters.Rows, report.Row{Cells: []string{c.Name, report.Grouped(c.A), report.Grouped(c.B)}})
	}
	same := report.Table{Title: "Differences", Columns: []report.Column{{Head: ""}}}
	if r.Same {
		same.Rows = []report.Row{{Cells: []string{"none: the runs are the same"}}}
	}
	for i := range tables {
		if n := len(tables[i].Columns); n > 0 {
			tables[i].Columns[1].Head, tables[i].Columns[2].Head = nameA, nameB
		}
	}
	return report.Filled(append(tables, findings, metrics, counters, same)...)
}

func changed(title string, list []Change) report.Table {
	t := report.Table{Title: title, Columns: []report.Column{{Head: "name"}, {}, {}}}
	text := func(s *string) string {
		if s == nil {
			return "(none)"
		}
		return *s
	}
	for _, c := range list {
		t.Rows = append(t.Rows, report.Row{Cells: []string{c.Name, text(c.A), text(c.B)}})
	}
	return t
}
