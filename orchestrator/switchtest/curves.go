package switchtest

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report"
)

// curvesFile has the curves that judges draw.
const curvesFile = "curves.csv"

func (r *facts) curves() []analyzers.Curve {
	if r.analysis == nil {
		return nil
	}
	return r.analysis.Curves
}

// writeCurves writes the curves of the judges, one line for each point; without curves there is no file.
func (r *run) writeCurves() error {
	if len(r.curves()) == 0 {
		return nil
	}
	return r.Dir.WriteFile(curvesFile, func(w io.Writer) error {
		if _, err := io.WriteString(w, "t_ns,name,value\n"); err != nil {
			return err
		}
		for _, c := range r.curves() {
			for i, at := range c.Times {
				if _, err := fmt.Fprintf(w, "%d,%s,%s\n", at.Nanoseconds(), c.Name,
					strconv.FormatFloat(c.Values[i], 'g', -1, 64)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (r *facts) judgeTables() []analyzers.Table {
	if r.analysis == nil {
		return nil
	}
	return r.analysis.Tables
}

// writeJudgeTables writes the tables of the judges, each as a CSV file.
func (r *run) writeJudgeTables() error {
	for _, t := range r.judgeTables() {
		if t.File == "" {
			continue
		}
		err := r.Dir.WriteFile(t.File+".csv", func(w io.Writer) error {
			return csv.NewWriter(w).WriteAll(slices.Concat([][]string{t.Columns}, t.Rows))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shownTables are those tables of the judges that reports show.
func (r *facts) shownTables() (list []report.Table) {
	for _, t := range r.judgeTables() {
		if t.Title == "" || t.Cumulative {
			continue
		}
		tab := report.Table{Title: t.Title, Note: t.Note}
		for _, head := range t.Columns {
			tab.Columns = append(tab.Columns, report.Column{Head: head, Right: true})
		}
		for _, row := range t.Rows {
			cells := slices.Clone(row)
			for i, cell := range cells {
				if n, err := strconv.ParseInt(cell, 10, 64); err == nil {
					cells[i] = report.Grouped(n)
				}
			}
			tab.Rows = append(tab.Rows, report.Row{Cells: cells})
		}
		list = append(list, tab)
	}
	return list
}

// tableCharts draws the tables that count a quantity.
func (r *facts) tableCharts() (list []report.Chart) {
	for _, t := range r.judgeTables() {
		if !t.Cumulative {
			continue
		}
		line, all := report.Series{Name: t.Title}, 0.0
		for _, row := range t.Rows {
			at, err := strconv.ParseFloat(row[0], 64)
			n, wrong := strconv.ParseFloat(row[1], 64)
			if err != nil || wrong != nil {
				continue
			}
			all += n
			line.Times, line.Values = append(line.Times, at), append(line.Values, all)
		}
		for i := range line.Values {
			line.Values[i] /= all
		}
		if len(line.Values) > 1 && all > 0 {
			list = append(list, report.Chart{Title: t.Title + ", cumulative", X: t.Unit, Y: "share", Steps: true,
				Lines: []report.Series{line}})
		}
	}
	return list
}

// curveCharts draws the curves, those of one title together.
func (r *run) curveCharts() []report.Chart {
	var charts []report.Chart
	for _, c := range r.curves() {
		line := report.Series{Name: c.Name[:max(strings.LastIndexByte(c.Name, '.'), 0)], Values: c.Values}
		for _, at := range c.Times {
			line.Times = append(line.Times, float64(at.Nanoseconds())/1e3)
		}
		chart := report.Over(c.Title, c.Unit, nil)
		i := slices.IndexFunc(charts, func(known report.Chart) bool { return known.Title == chart.Title })
		if i < 0 {
			i, charts = len(charts), append(charts, chart)
		}
		charts[i].Lines = append(charts[i].Lines, line)
	}
	for i := range charts {
		charts[i].Lines = report.Greatest(charts[i].Lines, maxLines)
	}
	return charts
}
