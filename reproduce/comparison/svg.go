package comparison

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"candela.dev/candela/orchestrator/report"
)

// Geometry of a plot in pixels.
const (
	svgWidth, svgHeight                    = 720, 400
	svgLeft, svgRight, svgTop, svgBottom   = 70, 180, 40, 50
	plotAreaWidth, plotAreaHeight          = svgWidth - svgLeft - svgRight, svgHeight - svgTop - svgBottom
	ticks                                  = 6
	legendLine, legendGap, legendTextShift = 20, 14, 26
)

// palette is also distinguishable for the colour-blind (Okabe and Ito).
var palette = [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// axis maps values to pixels; its ticks are at round numbers.
type axis struct {
	low, high, step float64
	from, to        float64 // pixels
}

// newAxis returns an axis that covers all values, from zero unless they are far above it.
func newAxis(values []float64, from, to float64) axis {
	low, high := 0.0, 0.0
	for i, v := range values {
		if i == 0 {
			low, high = v, v
		}
		low, high = math.Min(low, v), math.Max(high, v)
	}
	if low > 0 && low < high*0.7 || low == high {
		low = 0
	}
	if high <= low {
		high = low + 1
	}
	step := niceStep((high - low) / ticks)
	return axis{math.Floor(low/step) * step, math.Ceil(high/step) * step, step, from, to}
}

// niceStep rounds up to 1, 2 or 5 times a power of ten.
func niceStep(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*unit {
			return m * unit
		}
	}
	return 10 * unit
}

func (a axis) at(v float64) float64 { return a.from + (v-a.low)/(a.high-a.low)*(a.to-a.from) }

func (a axis) values() []float64 {
	var list []float64
	for i := 0; a.low+float64(i)*a.step <= a.high+a.step/2; i++ {
		list = append(list, a.low+float64(i)*a.step)
	}
	return list
}

// WriteSVG draws the plot.
func (p *Plot) WriteSVG(w io.Writer) error {
	var xs, ys []float64
	for _, s := range p.Series {
		xs, ys = append(xs, s.X...), append(ys, s.Y...)
	}
	x := newAxis(xs, svgLeft, svgLeft+plotAreaWidth)
	if p.FromZero {
		ys = append(ys, 0)
	}
	y := newAxis(ys, svgTop+plotAreaHeight, svgTop)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+
		"\n", svgWidth, svgHeight)
	fmt.Fprintf(&b, `<title>%s</title><rect width="100%%" height="100%%" fill="white"/>`+"\n", html.EscapeString(p.Title))
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="15">%s</text>`+"\n", svgLeft, html.EscapeString(p.Title))
	if len(p.Series) > 0 && p.Series[0].Style == Cells {
		p.drawCells(&b)
	} else {
		p.drawAxes(&b, x, y)
		for i, s := range p.Series {
			s.draw(&b, x, y, i)
		}
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// drawCells draws a heat map, whose rows are the series from top to bottom, and its scale.
func (p *Plot) drawCells(b *strings.Builder) {
	var edges []float64
	most := 0.0
	for _, s := range p.Series {
		for i, v := range s.Y {
			most = math.Max(most, v)
			edges = append(edges, s.X[i])
		}
		if n := len(s.X); n > 1 {
			edges = append(edges, s.X[n-1]+s.X[1]-s.X[0])
		}
	}
	x := newAxis(edges, svgLeft, svgLeft+plotAreaWidth)
	height := float64(plotAreaHeight) / float64(len(p.Series))
	for row, s := range p.Series {
		top := svgTop + height*float64(row)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", svgLeft-6, top+height/2+4,
			html.EscapeString(s.Name))
		for i, v := range s.Y {
			if len(s.X) > 1 && v > 0 {
				fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" fill-opacity="%.3f"/>`+"\n",
					x.at(s.X[i]), top, x.at(s.X[1])-x.at(s.X[0]), height, palette[1], v/most)
			}
		}
	}
	bottom := float64(svgTop + plotAreaHeight)
	for _, v := range x.values() {
		fmt.Fprintf(b, `<path d="M%.1f %.1fv5" stroke="#333"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			x.at(v), bottom, x.at(v), bottom+18, tickText(v))
	}
	fmt.Fprintf(b, `<path d="M%d %d H%d V%d H%d Z" fill="none" stroke="#333"/>`+"\n", svgLeft, svgTop,
		svgLeft+plotAreaWidth, svgTop+plotAreaHeight, svgLeft)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", svgLeft+plotAreaWidth/2, svgHeight-12,
		html.EscapeString(p.X))
	for i := range 5 {
		top, left := svgTop+legendGap+legendLine*i, svgWidth-svgRight+legendGap
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="20" height="12" fill="%s" fill-opacity="%.2f" stroke="#ddd"/>`+
			`<text x="%d" y="%d">%s</text>`+"\n", left, top-6, palette[1], float64(i)/4, left+legendTextShift, top+4,
			tickText(math.Round(most*float64(i)/4)))
	}
}

func (p *Plot) drawAxes(b *strings.Builder, x, y axis) {
	bottom := y.from
	for _, v := range y.values() {
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			svgLeft, y.at(v), plotAreaWidth, svgLeft-6, y.at(v)+4, tickText(v))
	}
	for _, v := range x.values() {
		fmt.Fprintf(b, `<path d="M%.1f %.1fv5" stroke="#333"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			x.at(v), bottom, x.at(v), bottom+18, tickText(v))
	}
	fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="#333"/>`+"\n", svgLeft, bottom, plotAreaWidth)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n",
		svgLeft+plotAreaWidth/2, svgHeight-12, html.EscapeString(p.X))
	fmt.Fprintf(b, `<text x="16" y="%d" text-anchor="middle" transform="rotate(-90 16 %d)">%s</text>`+"\n",
		svgTop+plotAreaHeight/2, svgTop+plotAreaHeight/2, html.EscapeString(p.Y))
}

// tickText is a number at an axis, from 10,000 on with commas.
func tickText(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) >= 1e4 && math.Abs(v) < 1e15 {
		return report.Grouped(int64(v))
	}
	return number(v)
}

// draw draws the i-th series and its legend entry.
func (s *Series) draw(b *strings.Builder, x, y axis, i int) {
	colour := palette[i%len(palette)]
	var line, dots strings.Builder
	for n := range s.X {
		op := "L"
		if n == 0 || s.Style == Segments && n%2 == 0 {
			op = "M"
		}
		fmt.Fprintf(&line, "%s%.1f %.1f", op, x.at(s.X[n]), y.at(s.Y[n]))
		fmt.Fprintf(&dots, "M%.1f %.1fh0", x.at(s.X[n]), y.at(s.Y[n]))
	}
	if width := s.Style.width(); width != "" {
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="%s"/>`+"\n", line.String(), colour, width)
	}
	switch {
	case s.Style == "" && len(s.X) == 1: // a ring, which marks of other series at the same place do not hide
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%d" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", x.at(s.X[0]),
			y.at(s.Y[0]), 4+i, colour)
	case s.Style == "" || s.Style == Dots:
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="5" stroke-linecap="round"/>`+"\n", dots.String(),
			colour)
	}
	top, left := svgTop+legendGap+legendLine*i, svgWidth-svgRight+legendGap
	fmt.Fprintf(b, `<path d="M%d %dh20" stroke="%s" stroke-width="3"/><text x="%d" y="%d">%s</text>`+"\n",
		left, top, colour, left+legendTextShift, top+4, html.EscapeString(s.Name))
}

// width returns the width of the style's lines in pixels, "" if it has no lines.
func (s Style) width() string {
	switch s {
	case Dots:
		return ""
	case Segments:
		return "4"
	case Line, Cells:
	}
	return "1.5"
}
