package diff

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

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

// Text writes r for people.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "a: %s\nb: %s\n", printable(r.A), printable(r.B))
	if r.Same {
		b.WriteString("\nno difference\n")
	}
	writeChanges(&b, "environment", r.Environment)
	writeChanges(&b, "configuration", r.Config)
	writeChanges(&b, "verdict", r.Verdict)
	r.Findings.write(&b)
	if len(r.Metrics) > 0 {
		table(&b, "metrics", func(w io.Writer) {
			fmt.Fprint(w, "  \tqpn\tcount\tp50\tp99\tp50 b/a\n")
			for i := range r.Metrics {
				r.Metrics[i].write(w)
			}
		})
	}
	if len(r.Counters) > 0 {
		table(&b, "counters", func(w io.Writer) {
			for _, c := range r.Counters {
				fmt.Fprintf(w, "  %s\t%d → %d\t%+d\n", printable(c.Name), c.A, c.B, c.B-c.A)
			}
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func table(b *strings.Builder, title string, fill func(io.Writer)) {
	fmt.Fprintf(b, "\n%s\n", title)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fill(t)
	_ = t.Flush() // into memory
}

func writeChanges(b *strings.Builder, title string, list []Change) {
	if len(list) == 0 {
		return
	}
	table(b, title, func(w io.Writer) {
		for _, c := range list {
			fmt.Fprintf(w, "  %s\t%s → %s\n", printable(c.Name), value(c.A), value(c.B))
		}
	})
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

// printable keeps what files say from steering a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '�'
		}
		return r
	}, s)
}

func (f *Findings) write(b *strings.Builder) {
	if len(f.Appeared)+len(f.Disappeared) == 0 {
		return
	}
	fmt.Fprintf(b, "\nfindings (%d in both)\n", f.Same)
	writeFindings(b, "-", f.Disappeared)
	writeFindings(b, "+", f.Appeared)
}

func writeFindings(b *strings.Builder, sign string, list []analyzers.Finding) {
	for i := range list {
		f := &list[i]
		fmt.Fprintf(b, "  %s %s %s (%s", sign, printable(string(f.Severity)), printable(f.Summary()), printable(f.Rule))
		if f.Connection != 0 {
			fmt.Fprintf(b, ", qpn %d", f.Connection)
		}
		if f.PSN != 0 {
			fmt.Fprintf(b, ", psn %d", f.PSN)
		}
		b.WriteString(")\n")
	}
}

func (m *Metric) write(w io.Writer) {
	connection, ratio := "all", "–"
	if m.Connection != 0 {
		connection = fmt.Sprint(m.Connection)
	}
	if m.Ratio != nil {
		ratio = fmt.Sprintf("%.3g", *m.Ratio)
	}
	fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\n", printable(m.Name), connection,
		arrow(fmt.Sprint(m.A.Count), fmt.Sprint(m.B.Count)),
		arrow(m.A.show(m.A.P50, m.Unit), m.B.show(m.B.P50, m.Unit)),
		arrow(m.A.show(m.A.P99, m.Unit), m.B.show(m.B.P99, m.Unit)), ratio)
}

func arrow(a, b string) string {
	if a == b {
		return a
	}
	return a + " → " + b
}

// show prints a value of a distribution, which has none if nothing was measured.
func (d *Distribution) show(v int64, unit string) string {
	if d.Count == 0 {
		return "–"
	}
	return report.Quantity(v, unit)
}
