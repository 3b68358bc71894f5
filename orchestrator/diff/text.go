package diff

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report"
)

// Write writes r as indented JSON.
func (r *Report) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// Text writes r as text.
func (r *Report) Text(to io.Writer, o report.TextOptions) error {
	b := report.NewWrapper(to, o)
	fmt.Fprintf(b, "a: %s\nb: %s\n", printable(r.A), printable(r.B))
	if r.Same {
		fmt.Fprint(b, "\nno difference\n")
	}
	writeChanges(b, "environment", r.Environment)
	writeChanges(b, "configuration", r.Config)
	writeChanges(b, "verdict", r.Verdict)
	r.Findings.write(b)
	if len(r.Metrics) > 0 {
		columns := []report.Column{{Head: "metric"}, {Head: "qpn", Right: true}, {Head: "count", Right: true},
			{Head: "p50", Right: true}, {Head: "p99", Right: true}, {Head: "p50 b/a", Right: true}}
		var rows [][]string
		for i := range r.Metrics {
			rows = append(rows, r.Metrics[i].row())
		}
		fmt.Fprint(b, "\nmetrics\n")
		_ = report.Grid(b, o, 2, columns, 2, rows) // b keeps the first error; Flush returns it
	}
	if len(r.Counters) > 0 {
		var rows [][]string
		for _, c := range r.Counters {
			rows = append(rows, []string{printable(c.Name), fmt.Sprintf("%d → %d", c.A, c.B), fmt.Sprintf("%+d", c.B-c.A)})
		}
		fmt.Fprint(b, "\ncounters\n")
		_ = report.Grid(b, o, 2, []report.Column{{}, {Right: true}, {Right: true}}, 1, rows)
	}
	return b.Flush()
}

func writeChanges(b io.Writer, title string, list []Change) {
	if len(list) == 0 {
		return
	}
	wide := 0
	for _, c := range list {
		wide = max(wide, utf8.RuneCountInString(printable(c.Name)))
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, c := range list {
		fmt.Fprintf(b, "  %-*s  %s → %s\n", wide, printable(c.Name), value(c.A), value(c.B))
	}
}

func value(s *string) string {
	switch {
	case s == nil:
		return "(none)"
	case *s == "":
		return `""`
	}
	return printable(*s)
}

// printable replaces control characters, which could control a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '�'
		}
		return r
	}, s)
}

func (f *Findings) write(b io.Writer) {
	if len(f.Appeared)+len(f.Disappeared) == 0 {
		return
	}
	fmt.Fprintf(b, "\nfindings (%d in both)\n", f.Same)
	writeFindings(b, "-", f.Disappeared)
	writeFindings(b, "+", f.Appeared)
}

func writeFindings(b io.Writer, sign string, list []analyzers.Finding) {
	for i := range list {
		f := &list[i]
		fmt.Fprintf(b, "  %s %s %s (%s", sign, printable(string(f.Severity)), printable(f.Summary()), printable(f.Rule))
		if f.Connection != 0 {
			fmt.Fprintf(b, ", qpn %d", f.Connection)
		}
		if f.PSN != 0 {
			fmt.Fprintf(b, ", psn %d", f.PSN)
		}
		fmt.Fprint(b, ")\n")
	}
}

func (m *Metric) row() []string {
	connection, ratio := "all", "–"
	if m.Connection != 0 {
		connection = fmt.Sprint(m.Connection)
	}
	if m.Ratio != nil {
		ratio = fmt.Sprintf("%.3g", *m.Ratio)
	}
	return []string{printable(m.Name), connection,
		arrow(fmt.Sprint(m.A.Count), fmt.Sprint(m.B.Count)),
		arrow(m.A.show(m.A.P50, m.Unit), m.B.show(m.B.P50, m.Unit)),
		arrow(m.A.show(m.A.P99, m.Unit), m.B.show(m.B.P99, m.Unit)), ratio}
}

func arrow(a, b string) string {
	if a == b {
		return a
	}
	return a + " → " + b
}

// show formats a value of a distribution; "–" if nothing was measured.
func (d *Distribution) show(v int64, unit string) string {
	if d.Count == 0 {
		return "–"
	}
	return report.Quantity(v, unit)
}
