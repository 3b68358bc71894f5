package history

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"candela.dev/candela/orchestrator/report"
)

// An Answer can be printed for people and as JSON.
type Answer interface {
	Text(w io.Writer, o report.TextOptions) error
}

// ParseVerdict reads a verdict.
func ParseVerdict(text string) (Verdict, error) {
	for _, v := range []Verdict{Pass, Fail, Invalid, Broken} {
		if v.String() == text {
			return v, nil
		}
	}
	return 0, usagef("verdict %q: want pass, fail, invalid or broken", text)
}

// shortID is how much of an id people see.
const shortID = 8

func short(id string) string { return id[:min(len(id), shortID)] }

// printable replaces control characters, which could control a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '�'
		}
		return r
	}, s)
}

// page prints answers in lines that fit.
type page struct {
	*report.Wrapper
	o report.TextOptions
}

func newPage(w io.Writer, o report.TextOptions) *page { return &page{report.NewWrapper(w, o), o} }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// grid prints a table; the first keys columns identify a row.
func (p *page) grid(heads string, keys int, rows [][]string) {
	var columns []report.Column
	for _, head := range strings.Split(heads, "|") {
		name, right := strings.CutPrefix(head, ">")
		columns = append(columns, report.Column{Head: name, Right: right})
	}
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
	}
	_ = report.Grid(p, p.o, 2, columns, keys, rows) // the page keeps the first error; Flush returns it
}

// Text writes what was imported.
func (i *Imported) Text(w io.Writer, _ report.TextOptions) error {
	_, err := fmt.Fprintf(w, "new        %d\nupdated    %d\nunchanged  %d\n", i.New, i.Updated, i.Unchanged)
	if err == nil && len(i.Unreadable) > 0 {
		_, err = fmt.Fprintf(w, "unreadable %d\n", len(i.Unreadable))
	}
	return err
}

// RunList is an answer with runs.
type RunList struct {
	Runs []RunRow `json:"runs"`
}

// Text writes one line a run.
func (l *RunList) Text(w io.Writer, o report.TextOptions) error {
	p := newPage(w, o)
	if len(l.Runs) == 0 {
		p.line("no run")
		return p.Flush()
	}
	var rows [][]string
	for i := range l.Runs {
		r := &l.Runs[i]
		rows = append(rows, []string{short(r.ID), r.Started.Format("2006-01-02 15:04"), r.Verdict.String(), r.Testbed,
			title(r.Test, "", r.Point)})
	}
	p.grid("run|started (UTC)|verdict|testbed|test", 1, rows)
	return p.Flush()
}

// Text writes the run, its environment first.
func (r *FoundRun) Text(w io.Writer, o report.TextOptions) error {
	p := newPage(w, o)
	p.line("%-8s %s  %s", strings.ToUpper(r.Verdict.String()), printable(title(r.Test, "", r.Point)), r.ID)
	p.line("  night %v, started %s, testbed %s, seed %d, tool %s", r.Night, r.Started.Format(time.DateTime),
		printable(r.Testbed), r.Seed, printable(r.Tool))
	if r.Owner != "" {
		p.line("  owner %s", printable(r.Owner))
	}
	for _, reason := range r.Reasons {
		p.line("  %s", printable(reason))
	}
	var rows [][]string
	for _, name := range sortedKeys(r.Environment) {
		if o.Verbose || telling(name) {
			rows = append(rows, []string{name, r.Environment[name]})
		}
	}
	if len(rows) > 0 {
		p.line("\nenvironment (%d properties; --json lists all)", len(r.Environment))
		p.grid("|", 1, rows)
	}
	r.findingsText(p)
	if len(r.Metrics) > 0 {
		rows = nil
		for i := range r.Metrics {
			m := &r.Metrics[i]
			rows = append(rows, []string{m.Name, strconv.FormatInt(m.N, 10), quantity(m.Min, m.Unit), quantity(m.P50, m.Unit),
				quantity(m.P99, m.Unit), quantity(m.Max, m.Unit)})
		}
		p.line("\nmetrics")
		p.grid("metric|>count|>min|>median|>p99|>max", 1, rows)
	}
	if len(r.Analyses) > 0 {
		rows = nil
		for _, a := range r.Analyses {
			rows = append(rows, []string{a.Analysed.Format(time.DateTime), a.Verdict.String(), a.Tool})
		}
		p.line("\nanalyses, of which the latest counts")
		p.grid("analysed|verdict|tool", 1, rows)
	}
	if len(r.Artefacts) > 0 {
		p.line("\nfiles")
		for _, a := range r.Artefacts {
			p.line("  %s  %s", printable(a.Kind), printable(a.Location))
		}
	}
	return p.Flush()
}

func (r *FoundRun) findingsText(p *page) {
	const most = 20
	if len(r.Findings) == 0 {
		return
	}
	p.line("\nfindings")
	for i := range r.Findings {
		f := &r.Findings[i]
		if i == most && !p.o.Verbose {
			p.line("  … and %d more (--json lists all)", len(r.Findings)-most)
			break
		}
		note := ""
		if f.Expected {
			note = ", expected"
		}
		if f.Waiver != "" {
			note = ", waived: " + f.Waiver
		}
		p.line("  %s %s (%s%s)", f.Severity, printable(f.Headline), printable(f.Rule), printable(note))
		p.line("    finding %s  qpn %d psn %d packets %s", short(f.ID), f.Connection, f.PSN,
			cmp.Or(printable(f.Packets), "-"))
	}
}

// telling reports whether a property is one that people look for: what was installed, not how it was set.
func telling(name string) bool {
	_, property, _ := strings.Cut(name, ".")
	for _, word := range []string{"firmware", "driver", "kernel", "version", "os", "nic", "model", "bugs", "fw"} {
		if property == word || strings.HasSuffix(property, "-"+word) || strings.HasSuffix(property, "/"+word) {
			return true
		}
	}
	return name == "tool"
}

// quantity writes a value with its unit, with three significant digits.
func quantity(v float64, unit string) string {
	if unit == "" {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return report.Quantity(int64(v+0.5), unit)
}
