package report

import (
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/analyzers"
)

// Geometry of a histogram, in the units of its view box.
const (
	histogramWidth  = 320
	histogramHeight = 84
	histogramBase   = 66
	histogramBins   = 32
	// logRatio is the ratio of largest to smallest value above which the axis is logarithmic.
	logRatio = 30
)

// metricView is a Metric with its distribution as an SVG.
type metricView struct {
	Title, Scope                     string
	Count, Min, P50, P99, P999, Max  string
	Bars                             []histogramBar
	MedianX                          float64
	Low, High                        string
	Logarithmic, Drawn               bool
	Note                             string
	Width, Height, Base, LabelHeight int
}

type histogramBar struct {
	X, Y, Width, Height float64
	Title               string
}

func newMetricView(r *Report, m *analyzers.Metric) metricView {
	v := metricView{
		Title: m.Analyzer() + ": " + metricTitle(m), Scope: r.flowWord() + " " + metricScope(m), Count: grouped(m.Count),
		Min: quantity(m.Min, m.Unit), P50: quantity(m.P50, m.Unit), P99: quantity(m.P99, m.Unit),
		P999: quantity(m.P999, m.Unit), Max: quantity(m.Max, m.Unit), Width: histogramWidth, Height: histogramHeight,
		Base: histogramBase, LabelHeight: histogramBase + 13,
	}
	if m.Connection == 0 {
		v.Scope = "all connections"
		if len(r.Tables) > 0 {
			v.Scope = "all" // flows and queues
		}
	}
	if m.Truncated {
		v.Note = fmt.Sprintf("drawn from the first %s of %s values", grouped(int64(len(m.Values))), grouped(m.Count))
	}
	v.draw(m)
	return v
}

// draw fills in the bars. A distribution of a single value has no bars.
func (v *metricView) draw(m *analyzers.Metric) {
	if len(m.Values) < 2 {
		return
	}
	low, high := slices.Min(m.Values), slices.Max(m.Values)
	if low == high {
		return
	}
	v.Drawn = true
	v.Logarithmic = low > 0 && high/low >= logRatio
	axis := valueAxis{low: float64(low), high: float64(high), logarithmic: v.Logarithmic}
	var bins [histogramBins]int64
	for _, value := range m.Values {
		bins[axis.bin(float64(value))]++
	}
	most := slices.Max(bins[:])
	const width = float64(histogramWidth) / histogramBins
	for i, n := range bins {
		if n == 0 {
			continue
		}
		height := max(2, float64(n)/float64(most)*(histogramBase-6))
		v.Bars = append(v.Bars, histogramBar{
			X: round(float64(i)*width + 0.5), Y: round(histogramBase - height), Width: round(width - 1), Height: round(height),
			Title: fmt.Sprintf("%s from %s to %s", plural(n, "value"), quantity(axis.edge(i), m.Unit),
				quantity(axis.edge(i+1), m.Unit)),
		})
	}
	v.MedianX = round(min(max(axis.share(float64(m.P50)), 0), 1) * histogramWidth)
	v.Low, v.High = quantity(low, m.Unit), quantity(high, m.Unit)
}

// valueAxis maps values to shares of the axis length.
type valueAxis struct {
	low, high   float64
	logarithmic bool
}

func (a valueAxis) share(v float64) float64 {
	if a.logarithmic {
		return math.Log(max(v, a.low)/a.low) / math.Log(a.high/a.low)
	}
	return (v - a.low) / (a.high - a.low)
}

func (a valueAxis) bin(v float64) int {
	return min(max(int(a.share(v)*histogramBins), 0), histogramBins-1)
}

// edge returns the value at which bin i starts.
func (a valueAxis) edge(i int) int64 {
	share := float64(i) / histogramBins
	if a.logarithmic {
		return int64(a.low * math.Pow(a.high/a.low, share))
	}
	return int64(a.low + share*(a.high-a.low))
}
