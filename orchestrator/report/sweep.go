package report

import (
	"io"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
)

// Sweep is the outcome of a sweep: one row for each run.
type Sweep struct {
	Name    string
	Columns []string // names of the varied settings
	Rows    []SweepRow
	Dir     string // directory of the sweep
}

// SweepRow is the result of one point of a sweep. Times are in nanoseconds; −1: not measured.
type SweepRow struct {
	Point  int
	Values []string
	Report *Report

	NackGenerationNS, NackReactionNS, RetransmissionNS int64 // medians
	Timeouts, CNPs                                     int64
	CompletionNS                                       int64 // mean message completion time
}

// SweepText writes the table of a sweep, the counts of verdicts, and the first run to inspect.
func SweepText(w io.Writer, sw *Sweep, o TextOptions) error {
	s := suite{printer: newPrinter(w, o), verbose: o.Verbose}
	for i := range sw.Rows {
		s.reports = append(s.reports, sw.Rows[i].Report)
	}
	s.labelled(0, 0, cell{}, sw.Name, bold)
	tab := sweepTable(sw)
	s.table(0, &tab)
	s.counts()
	s.next()
	if sw.Dir != "" {
		s.labelled(0, 0, cell{}, "all of it: "+sw.Dir, dim)
	}
	return s.Flush()
}

func sweepTable(sw *Sweep) table {
	tab := table{columns: []column{{"", false}, {"point", true}}, keys: 2}
	for i, name := range sw.Columns {
		tab.columns = append(tab.columns, column{name, numeric(sw.Rows, i)})
	}
	for _, head := range []string{"repeat", "nack gen", "nack reaction", "retransmission", "timeouts", "CNPs",
		"mean MCT"} {
		tab.columns = append(tab.columns, column{head, true})
	}
	numbers := numberNames(sw.Rows)
	for _, name := range numbers {
		tab.columns = append(tab.columns, column{name, true})
	}
	tab.columns = append(tab.columns, column{"", false})
	for i := range sw.Rows {
		r := &sw.Rows[i]
		row := []cell{{r.Report.word(), verdictStyle(r.Report.Verdict)}, {strconv.Itoa(r.Point), dim}}
		for _, v := range r.Values {
			row = append(row, cell{v, bold})
		}
		for _, text := range r.measured() {
			row = append(row, cell{text, plain})
		}
		for _, name := range numbers {
			row = append(row, cell{r.Report.number(name), plain})
		}
		tab.add(append(row, cell{r.remark(), plain})...)
	}
	tab.dropEmpty()
	return tab
}

// numberNames returns the names of the numbers of the first row that has most.
func numberNames(rows []SweepRow) []string {
	var names []string
	for _, r := range rows {
		if len(r.Report.Numbers) > len(names) {
			names = names[:0]
			for _, n := range r.Report.Numbers {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// number formats the number of that name; "" if there is none.
func (r *Report) number(name string) string {
	for _, n := range r.Numbers {
		if n.Name == name {
			return strconv.FormatFloat(n.Value, 'f', n.Digits, 64)
		}
	}
	return ""
}

func numeric(rows []SweepRow, column int) bool {
	for _, r := range rows {
		if _, err := strconv.ParseFloat(r.Values[column], 64); err != nil {
			return false
		}
	}
	return true
}

func (r *SweepRow) measured() []string {
	return []string{
		some(int64(r.Report.Repeat)), spanOrNone(r.NackGenerationNS), spanOrNone(r.NackReactionNS),
		spanOrNone(r.RetransmissionNS),
		some(r.Timeouts), some(r.CNPs), spanOrNone(r.CompletionNS),
	}
}

// some formats a count; "" for 0.
func some(n int64) string {
	if n == 0 {
		return ""
	}
	return grouped(n)
}

func spanOrNone(ns int64) string {
	if ns < 0 {
		return ""
	}
	return clock.TextNS(ns)
}

// remark returns what the verdict and the numbers do not show.
func (r *SweepRow) remark() string {
	if r.Report.Verdict == analyzers.Pass {
		return strings.Join(r.Report.asides(), ", ")
	}
	return r.Report.inBrief()
}
