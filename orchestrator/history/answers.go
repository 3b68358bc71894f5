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

// maxRows is how many rows of a table people see; JSON has all.
const maxRows = 40

func (p *page) cut(rows [][]string) [][]string {
	if p.o.Verbose || len(rows) <= maxRows {
		return rows
	}
	return rows[:maxRows]
}

func (p *page) more(n int) {
	if n > maxRows && !p.o.Verbose {
		p.line("  … and %d more (--json lists all)", n-maxRows)
	}
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

func signed(share float64) string {
	if share >= 0 {
		return "+" + percent(share)
	}
	return percent(share)
}

func (p *page) environment(list []EnvironmentChange) {
	if len(list) == 0 {
		return
	}
	p.line("\nenvironment")
	var rows [][]string
	for _, c := range list {
		rows = append(rows, []string{c.Testbed, c.Name, cmp.Or(c.A, "(none)") + " → " + cmp.Or(c.B, "(none)"),
			strconv.Itoa(c.Tests)})
	}
	p.grid("testbed|property|change|>tests", 2, p.cut(rows))
	p.more(len(rows))
}

// Text writes the comparison, changes of the environment first.
func (c *Comparison) Text(w io.Writer, o report.TextOptions) error {
	p := newPage(w, o)
	p.line("a: %s (%d runs)\nb: %s (%d runs)", printable(c.A), c.RunsA, printable(c.B), c.RunsB)
	p.environment(c.Environment)
	for _, state := range states() {
		var rows [][]string
		for i := range c.Findings {
			f := &c.Findings[i]
			if f.State == state {
				rows = append(rows, []string{short(f.ID), f.title(), f.Testbed, f.Rule, f.A.String(), f.B.String()})
			}
		}
		if len(rows) > 0 {
			p.line("\nfindings: %s (%d)", state, len(rows))
			p.grid("finding|test|testbed|rule|>a|>b", 1, p.cut(rows))
			p.more(len(rows))
		}
	}
	c.testsText(p)
	c.metricsText(p)
	if c.Same() && len(c.Environment) == 0 && len(c.Findings) == 0 {
		p.line("\nno difference")
	}
	return p.Flush()
}

func (c *Comparison) testsText(p *page) {
	for _, state := range []State{NotRun, New} {
		var rows [][]string
		for i := range c.Tests {
			t := &c.Tests[i]
			if t.State == state {
				rows = append(rows, []string{t.title(), t.Testbed, t.Reason})
			}
		}
		if len(rows) > 0 {
			p.line("\ntests: %s (%d)", state, len(rows))
			p.grid("test|testbed|reason", 1, p.cut(rows))
			p.more(len(rows))
		}
	}
}

func (c *Comparison) metricsText(p *page) {
	var rows [][]string
	for i := range c.Metrics {
		m := &c.Metrics[i]
		if m.State == NotRun {
			rows = append(rows, []string{string(m.State), m.title(), m.Testbed, m.Name, quantity(m.A, m.Unit), "", "", ""})
			continue
		}
		rows = append(rows, []string{string(m.State), m.title(), m.Testbed, m.Name, quantity(m.A, m.Unit),
			quantity(m.B, m.Unit), signed(m.Change), fmt.Sprintf("p=%.3f", m.P)})
	}
	if len(rows) > 0 {
		p.line("\nmetrics (medians)")
		p.grid("|test|testbed|metric|>a|>b|>change|", 4, p.cut(rows))
		p.more(len(rows))
	}
	if c.Alike+c.TooFew > 0 {
		p.line("\n%d metrics are alike; of %d, n is too small to tell (4 runs on each side are needed)", c.Alike, c.TooFew)
	}
}

// Text writes the flaky tests.
func (l *FlakyList) Text(w io.Writer, o report.TextOptions) error {
	p := newPage(w, o)
	p.line("nights %v to %v", l.From, l.To)
	var rows [][]string
	for i := range l.Tests {
		t := &l.Tests[i]
		rows = append(rows, []string{t.title(), t.Testbed, fmt.Sprintf("%d/%d", t.Failed, t.Runs), percent(t.Rate),
			fmt.Sprintf("%.0f-%.0f %%", 100*t.Low, 100*t.High), t.Since.String(), strings.Join(t.Rules, " ")})
	}
	if len(rows) == 0 {
		p.line("no flaky test")
		return p.Flush()
	}
	p.grid("test|testbed|>failed|>rate|>95 %|since|rules", 1, p.cut(rows))
	p.more(len(rows))
	return p.Flush()
}

// Text writes the failing tests by owner.
func (l *OwnerList) Text(w io.Writer, o report.TextOptions) error {
	p := newPage(w, o)
	p.line("night %v", l.Night)
	for i := range l.Owners {
		owner := &l.Owners[i]
		p.line("\n%s: %d failing, %d passing, %d not judged", printable(cmp.Or(owner.Owner, "(no owner)")), len(owner.Tests),
			owner.Passed, owner.Lost)
		var rows [][]string
		for j := range owner.Tests {
			t := &owner.Tests[j]
			rows = append(rows, []string{string(t.State), t.title(), t.Testbed, fmt.Sprintf("%d/%d", t.Failed, t.Runs),
				t.Since.String(), strings.Join(t.Rules, " ")})
		}
		if len(rows) > 0 {
			p.grid("|test|testbed|>failed|since|rules", 2, p.cut(rows))
			p.more(len(rows))
		}
	}
	return p.Flush()
}

func (p *page) shifts(list []Shift, named bool) {
	var rows [][]string
	for i := range list {
		s := &list[i]
		note := ""
		if s.Passed {
			note = "one night"
		}
		row := []string{s.First.String(), s.Found.String(), signed(s.Change), fmt.Sprintf("%.2g", s.P), note}
		if named {
			row = append([]string{s.title(), s.Testbed, cmp.Or(s.Name, "(all metrics)")}, row...)
		}
		rows = append(rows, row)
	}
	heads, keys := "from|found|>change|>p|", 0
	if named {
		heads, keys = "test|testbed|metric|"+heads, 3
	}
	p.grid(heads, keys, p.cut(rows))
	p.more(len(rows))
}

// Text writes the shifts.
func (l *ShiftList) Text(w io.Writer, o report.TextOptions) error {
	p := newPage(w, o)
	p.line("nights %v to %v", l.From, l.To)
	if len(l.Shifts) == 0 {
		p.line("no metric has shifted")
		return p.Flush()
	}
	p.shifts(l.Shifts, true)
	return p.Flush()
}

// Text writes each metric with its nights.
func (l *TrendList) Text(w io.Writer, o report.TextOptions) error {
	p := newPage(w, o)
	p.line("nights %v to %v", l.From, l.To)
	const most = 10
	for i := range l.Trends {
		if i == most && !o.Verbose {
			p.line("\n… and %d more metrics (--json lists all)", len(l.Trends)-most)
			break
		}
		t := &l.Trends[i]
		p.line("\n%s  %s  %s", printable(t.Name), printable(t.title()), printable(t.Testbed))
		if t.Noise > 0 {
			p.line("  usual change from night to night: up to %s", percent(t.Noise))
		}
		if t.Smallest > 0 {
			p.line("  smallest change that two nights would show: %s", percent(t.Smallest))
		} else {
			p.line("  too few nights to say which change would show")
		}
		if len(t.Shifts) > 0 {
			p.line("  shifts")
			p.shifts(t.Shifts, false)
		}
		var rows [][]string
		least, greatest := t.Points[0].Median, t.Points[0].Median
		for _, n := range t.Points {
			least, greatest = min(least, n.Median), max(greatest, n.Median)
		}
		for _, n := range t.Points {
			rows = append(rows, []string{n.Night.String(), strconv.Itoa(n.Runs), quantity(n.Median, t.Unit),
				bar(n.Median, least, greatest)})
		}
		p.grid("night|>runs|>median|", 1, rows)
	}
	return p.Flush()
}

// bar shows where a value is between the least and the greatest.
func bar(v, least, greatest float64) string {
	const width = 30
	if greatest <= least {
		return "|"
	}
	return strings.Repeat(" ", int((v-least)/(greatest-least)*width)) + "*"
}

// Text writes what testbeds can show.
func (l *BedList) Text(w io.Writer, o report.TextOptions) error {
	p := newPage(w, o)
	p.line("nights %v to %v", l.From, l.To)
	var rows [][]string
	share := func(v float64) string {
		if v == 0 {
			return "?"
		}
		return percent(v)
	}
	for _, b := range l.Testbeds {
		rows = append(rows, []string{b.Testbed, strconv.Itoa(b.Runs), strconv.Itoa(b.Lost), strconv.Itoa(b.Metrics),
			share(b.Smallest), share(b.Tenth), share(b.Within), share(b.Between), signed(b.Apart)})
	}
	p.grid("testbed|>runs|>not judged|>metrics|>shows|>90 % show|>in nights|>of nights|>apart", 1, rows)
	p.line("\nshows: smallest change of a metric that two nights would show (median); 90 %% show: of nine tenths of the " +
		"metrics;" +
		"\nin nights, of nights: deviation of runs within a night, and of nights; apart: difference from the other testbeds")
	return p.Flush()
}

// Text writes since when and what changed, the environment first.
func (l *BlameList) Text(w io.Writer, o report.TextOptions) error {
	p := newPage(w, o)
	for i := range l.Blames {
		if i > 0 {
			p.line("")
		}
		l.Blames[i].text(p, l)
	}
	return p.Flush()
}

func (b *Blame) text(p *page, l *BlameList) {
	p.line("%s  %s", printable(b.title()), printable(b.Testbed))
	switch {
	case b.Runs == 0:
		p.line("  no run was judged from night %v to %v", l.From, l.To)
		return
	case b.State == "":
		p.line("  it never failed: %d runs from night %v to %v", b.Runs, l.From, l.To)
		return
	}
	words := map[State]string{Still: "it fails since", Flaky: "it is flaky since", New: "it fails since",
		Fixed: "it failed from"}
	if b.FirstBad != nil {
		p.line("  %s night %v: %d of %d runs", words[b.State], b.FirstBad.Night, b.Failed, b.Runs)
	}
	if b.State == Fixed {
		p.line("  it passes now")
	}
	p.environment(b.Environment)
	if b.LastGood != nil && b.FirstBad != nil {
		p.line("\nwhat changed")
		if len(b.Environment) == 0 {
			p.line("  environment: nothing that was recorded")
		} else {
			p.line("  environment: %d properties, above", len(b.Environment))
		}
		if b.LastGood.Tool != b.FirstBad.Tool {
			p.line("  candela: %s → %s", printable(b.LastGood.Tool), printable(b.FirstBad.Tool))
		}
		if b.ConfigSame {
			p.line("  test: the configuration is the same")
		} else {
			p.line("  test: the configuration, or its seed, is another")
		}
	}
	p.line("")
	for _, r := range []struct {
		what string
		run  *BlameRun
	}{{"last good", b.LastGood}, {"first bad", b.FirstBad}} {
		if r.run == nil {
			p.line("  %s  none in these nights", r.what)
			continue
		}
		p.line("  %s  %s  night %v, started %s", r.what, short(r.run.ID), r.run.Night, r.run.Started.Format(time.DateTime))
	}
	if b.Lost > 0 {
		p.line("  %d runs between them were not judged", b.Lost)
	}
	if b.Earliest != nil && b.Latest != nil && *b.Earliest != *b.Latest {
		p.line("  the change lies between nights %v and %v (95 %%)", *b.Earliest, *b.Latest)
	}
	if b.Headline != "" {
		p.line("  %s", printable(b.Headline))
	}
	if len(b.Rules) > 0 {
		p.line("  rules: %s", printable(strings.Join(b.Rules, " ")))
	}
}
