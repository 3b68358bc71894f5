package switchtest

import (
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
