package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"candela.dev/candela/clock"
)

// Table is a table of a report other than that of connections, such as the flows of a switch test.
type Table struct {
	Title   string
	Columns []Column
	Rows    []Row
	Note    string // printed after it: meaning of the columns
}

// Column is a column of a Table. Empty columns are left out.
type Column struct {
	Head  string
	Right bool // numbers
}

// Row is a row of a Table with a cell for each column.
type Row struct {
	Cells []string
	Loud  bool // important, preferred in a shortened table
	// Run is the run directory of the row, which a site links; empty: none.
	Run string `json:",omitempty"`
}

// Filled returns the tables that have rows.
func Filled(tables ...Table) []Table {
	return slices.DeleteFunc(tables, func(t Table) bool { return len(t.Rows) == 0 })
}

// Number is a key number of a run, by name with unit.
type Number struct {
	Name   string
	Value  float64
	Digits int // after the decimal point
}

// Total is a metric of which a run has one value. Its unit is one of package analyzers, or empty.
type Total struct {
	Name, Unit string
	Value      float64
}

// File is a file beside the report.
type File struct{ Name, What string }

// Chart is a line chart.
type Chart struct {
	Title string
	X, Y  string // axis titles with units
	Steps bool   // a value holds until the next one
	Lines []Series
	// Cells says that the lines are the rows of a heat map, whose values hold until the next one, at equal distances.
	Cells bool `json:",omitempty"`
	// Panel says that the chart is one of many: it is small, and points of lines are marked.
	Panel bool `json:"-"`
}

// Series is one line. Times are the x of Values; the series of a distribution has none.
type Series struct {
	Name   string
	Times  []float64
	Values []float64
}

// CDF returns the cumulative distribution of each series.
func CDF(title, unit string, series []Series) Chart {
	c := Chart{Title: title + ", cumulative", X: unit, Y: "share", Steps: true}
	for _, s := range series {
		line := Series{Name: s.Name}
		sorted := slices.Sorted(slices.Values(s.Values))
		for i, v := range sorted {
			if i+1 < len(sorted) && sorted[i+1] == v {
				continue
			}
			line.Times, line.Values = append(line.Times, v), append(line.Values, float64(i+1)/float64(len(sorted)))
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// Over returns a chart of values over time, in microseconds.
func Over(title, unit string, series []Series) Chart {
	return Chart{Title: title + " over time", X: micros, Y: unit, Lines: series}
}

// Greatest returns the n series with the greatest values, in their original order.
func Greatest(series []Series, n int) []Series {
	if len(series) <= n {
		return series
	}
	order := make([]int, len(series))
	for i := range order {
		order[i] = i
	}
	peak := func(i int) float64 { return slices.Max(append([]float64{0}, series[i].Values...)) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(peak(b), peak(a)) })
	order = order[:n]
	slices.Sort(order)
	kept := make([]Series, n)
	for i, k := range order {
		kept[i] = series[k]
	}
	return kept
}

// Geometry of a chart, in the units of its view box.
const (
	chartWidth  = 1080
	chartHeight = 260
	chartTicks  = 6
	maxDrawn    = 2000 // points of a line; more are not visible
)

// Geometry of one chart of many.
const (
	panelWidth  = 400
	panelHeight = 220
)

// lineColours is how many colours of lines the style sheet has, for light and dark pages. They are distinguishable with
// colour blindness, too (after Okabe and Ito).
const lineColours = 8

// chartView is a Chart as an SVG.
type chartView struct {
	Title, X, Y               string
	Width, Height             int
	Left, Right, Top, Base    int
	Lines                     []chartLine
	XTicks, YTicks            []plotTick
	Label                     string
	Low, High, Bottom, Summit float64
	Cells                     []chartCell // of a heat map
	Names                     []plotTick  // of its rows
	Scale                     []chartShade
	Wide                      float64 // beyond it a label of the x axis ends at its tick, as it would be cut off
}

// chartCell is a cell of a heat map; Shade is its opacity.
type chartCell struct{ X, Y, Width, Height, Shade float64 }

// chartShade is a step of the scale of a heat map.
type chartShade struct {
	X     float64
	Shade float64
	Text  string
}

type chartLine struct{ Name, Path, Dots, Class string }

func newChartView(c *Chart) chartView {
	v := chartView{
		Title: c.Title, X: c.X, Y: c.Y, Width: chartWidth, Height: chartHeight, Left: plotLeft, Right: chartWidth - plotRight,
		Top:  plotTop,
		Base: chartHeight - plotBottom, Label: fmt.Sprintf("%s: %d lines", c.Title, len(c.Lines)),
	}
	if c.Panel {
		v.Width, v.Height, v.Right, v.Base = panelWidth, panelHeight, panelWidth-plotRight, panelHeight-plotBottom
	}
	v.scale(c)
	if c.Cells {
		v.cells(c)
		return v
	}
	for i := range c.Lines {
		line := chartLine{Name: c.Lines[i].Name, Path: v.path(&c.Lines[i], c.Steps),
			Class: fmt.Sprintf("s%d", i%lineColours)}
		if c.Panel && !c.Steps {
			for j := range c.Lines[i].Values {
				line.Dots += fmt.Sprintf("M%g %gh0", v.x(c.Lines[i].Times[j]), v.y(c.Lines[i].Values[j]))
			}
		}
		v.Lines = append(v.Lines, line)
	}
	v.XTicks, v.YTicks = ticksOf(v.Low, v.High, c.X, v.x), ticksOf(v.Bottom, v.Summit, c.Y, v.y)
	v.X, v.Y, v.Wide = axisTitle(c.X), axisTitle(c.Y), float64(v.Right-plotRight)
	return v
}

// Geometry of heat maps.
const (
	cellHeight = 18
	cellShades = 4 // of the scale, beside none
	shadeWide  = 90
)

// cells draws a heat map, whose rows are the lines from top to bottom.
func (v *chartView) cells(c *Chart) {
	v.Left += 3 * plotLeft / 4 // names are wider than numbers
	v.Base = v.Top + cellHeight*len(c.Lines)
	v.Height = v.Base + plotBottom
	wide := 1.0
	if len(c.Lines) > 0 && len(c.Lines[0].Times) > 1 {
		wide = c.Lines[0].Times[1] - c.Lines[0].Times[0]
	}
	v.High += wide
	for row := range c.Lines {
		line := &c.Lines[row]
		top := float64(v.Top + cellHeight*row)
		v.Names = append(v.Names, plotTick{top + cellHeight/2, line.Name})
		for i, value := range line.Values {
			if value > 0 {
				left := v.x(line.Times[i])
				v.Cells = append(v.Cells, chartCell{left, top, round(v.x(line.Times[i]+wide) - left), cellHeight,
					math.Round(1000*value/v.Summit) / 1000})
			}
		}
	}
	for i := range cellShades + 1 {
		share := float64(i) / cellShades
		v.Scale = append(v.Scale, chartShade{float64(v.Left + shadeWide*i), share, axisNumber(math.Round(share * v.Summit))})
	}
	v.Label = fmt.Sprintf("%s: a heat map of %d rows", c.Title, len(c.Lines))
	v.XTicks = ticksOf(v.Low, v.High, c.X, v.x)
	v.X, v.Y, v.Wide = axisTitle(c.X), axisTitle(c.Y), float64(v.Right-plotRight)
}

// scale fits the axes to the values. The y axis starts at 0, and so does the x axis unless all x are far from 0.
func (v *chartView) scale(c *Chart) {
	v.Low, v.High, v.Bottom, v.Summit = math.Inf(1), math.Inf(-1), 0, math.Inf(-1)
	for _, l := range c.Lines {
		for i := range l.Values {
			v.Low, v.High = min(v.Low, l.Times[i]), max(v.High, l.Times[i])
			v.Summit = max(v.Summit, l.Values[i])
		}
	}
	if !(v.Low <= v.High) {
		v.Low, v.High, v.Summit = 0, 1, 1
	}
	if v.Low > 0 && v.Low < v.High/2 {
		v.Low = 0
	}
	if v.High == v.Low {
		v.Low, v.High = v.Low-1, v.High+1
	}
	if v.Summit <= 0 {
		v.Summit = 1
	}
}

func (v *chartView) x(n float64) float64 {
	return round(float64(v.Left) + (n-v.Low)/(v.High-v.Low)*float64(v.Right-v.Left))
}

func (v *chartView) y(n float64) float64 {
	return round(float64(v.Base) - (n-v.Bottom)/(v.Summit-v.Bottom)*float64(v.Base-v.Top))
}

func (v *chartView) path(s *Series, steps bool) string {
	var b strings.Builder
	every := max(1, len(s.Values)/maxDrawn)
	for i := 0; i < len(s.Values); i += every {
		x, y := v.x(s.Times[i]), v.y(s.Values[i])
		switch {
		case i == 0 && steps:
			fmt.Fprintf(&b, "M%g %dV%g", x, v.Base, y)
		case i == 0:
			fmt.Fprintf(&b, "M%g %g", x, y)
		case steps:
			fmt.Fprintf(&b, "H%gV%g", x, y)
		default:
			fmt.Fprintf(&b, "L%g %g", x, y)
		}
	}
	return b.String()
}

// micros is the unit of time axes. Their labels have their own units.
const micros = "us"

func axisTitle(unit string) string {
	if unit == micros {
		return "time"
	}
	return unit
}

// ticksOf returns labels for round numbers between low and high.
func ticksOf(low, high float64, unit string, place func(float64) float64) []plotTick {
	power := math.Pow(10, math.Floor(math.Log10((high-low)/chartTicks)))
	step := power
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * power; (high-low)/step <= chartTicks {
			break
		}
	}
	var ticks []plotTick
	var ns []float64
	for i := math.Ceil(low / step); i*step <= high*(1+1e-12) && len(ticks) < 3*chartTicks; i++ {
		ticks = append(ticks, plotTick{place(i * step), axisNumber(i * step)})
		ns = append(ns, i*step*float64(clock.Microsecond/clock.Nanosecond))
	}
	if unit == micros {
		for i, text := range clock.TextsNS(ns) {
			ticks[i].Text = text
		}
	}
	return ticks
}

// axisNumber formats a number at an axis: from 10,000 on with commas, millions as 2.5 M.
func axisNumber(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1e6:
		return shortNumber(v/1e6) + " M"
	case size >= 1e4 && v == math.Trunc(v):
		return grouped(int64(v))
	}
	return shortNumber(v)
}

// shortNumber formats v with at most six decimals and no trailing zeros.
func shortNumber(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.6f", v), "0"), ".")
}

// maxTableRows bounds the rows of a table on a terminal, unless the report is verbose.
const (
	maxTableRows  = 16
	pageTableRows = 500
)

// tables prints the report's tables.
func (t *textReport) tables() {
	for i := range t.Tables {
		src := &t.Tables[i]
		t.section(src.Title)
		shown := src.telling(t.limit(len(src.Rows), maxTableRows))
		tab := table{}
		for _, c := range src.Columns {
			tab.columns = append(tab.columns, column{c.Head, c.Right})
		}
		for _, row := range shown {
			cells := make([]cell, len(row.Cells))
			for j, text := range row.Cells {
				cells[j] = cell{text, plain}
				if row.Loud {
					cells[j].style = yellow
				}
			}
			tab.add(cells...)
		}
		tab.dropEmpty()
		t.table(2, &tab)
		t.more(2, len(src.Rows)-len(shown), "row", "report.html, or -v")
		if src.Note != "" && t.verbose {
			t.labelled(2, 0, cell{}, src.Note, dim)
		}
	}
}

// telling returns n rows in table order, the loud ones preferred.
func (t *Table) telling(n int) []Row {
	if n >= len(t.Rows) {
		return t.Rows
	}
	keep := make([]bool, len(t.Rows))
	left := n
	for _, loud := range []bool{true, false} {
		for i := range t.Rows {
			if left > 0 && t.Rows[i].Loud == loud && !keep[i] {
				keep[i], left = true, left-1
			}
		}
	}
	var rows []Row
	for i := range t.Rows {
		if keep[i] {
			rows = append(rows, t.Rows[i])
		}
	}
	return rows
}

// tableView is a Table without empty columns, for the page.
type tableView struct {
	Title   string
	Columns []Column
	Rows    []Row
	Hrefs   []string // by row; nil: no row is a link
	More    string
	Note    string
}

// Wide reports whether a cell of a site's table may wrap.
func (v *tableView) Wide(cell string) bool { return v.Hrefs != nil && len(cell) > 40 }

// Href returns the address of a row's page; empty: none.
func (v *tableView) Href(row int) string {
	if row < len(v.Hrefs) {
		return v.Hrefs[row]
	}
	return ""
}

func newTableView(t *Table) *tableView {
	v := &tableView{Title: t.Title, Note: t.Note}
	shown := t.telling(pageTableRows)
	if more := len(t.Rows) - len(shown); more > 0 {
		v.More = "and " + moreOf(more, "row")
	}
	var kept []int
	for i, c := range t.Columns {
		if slices.ContainsFunc(shown, func(r Row) bool { return r.Cells[i] != "" }) {
			kept = append(kept, i)
			v.Columns = append(v.Columns, c)
		}
	}
	for _, r := range shown {
		row := Row{Loud: r.Loud, Run: r.Run}
		for _, i := range kept {
			row.Cells = append(row.Cells, r.Cells[i])
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}
