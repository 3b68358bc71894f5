package analyzers

import (
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Units of a Metric.
const (
	UnitNS    = "ns"
	UnitCount = "count"
	UnitBytes = "bytes"
	UnitBPS   = "bps"
	UnitPPM   = "ppm" // a share
)

// keptValues is how many single values a Metric lists; up to here quantiles are exact, beyond they come from a
// histogram with three significant digits.
const keptValues = 1000

// histogramMax bounds the histogram: 2⁴⁷, a day and a half in ns. Larger values count as this.
const histogramMax = 1 << 47

// digits is how many significant digits it keeps.
const digits = 3

// denseFrom is from how many values on a histogram is an array of 300 KB, which takes a value in a few ns. Before, it
// keeps only the counts that are not zero: tests have hundreds of distributions of a few thousand values each.
const denseFrom = 1 << 16

// histogram is one of HdrHistogram's; both kinds answer alike.
type histogram interface {
	RecordValue(v int64) error
	ValueAtPercentile(percentile float64) int64
}

// Analyzer returns the analyzer that m belongs to: the part of its name before the first dot.
func (m *Metric) Analyzer() string {
	name, _, _ := strings.Cut(m.Name, ".")
	return name
}

// Distribution collects the values of one Metric in bounded memory.
type Distribution struct {
	name, unit string
	connection int
	values     []int64
	hist       histogram                     // nil: values are all
	packed     *hdrhistogram.PackedHistogram // hist, below denseFrom
	count, sum int64
	min, max   int64
}

// NewDistribution returns an empty distribution; the name starts with the analyzer's: "retrans.nack-generation".
func NewDistribution(name, unit string, connection int) *Distribution {
	return &Distribution{name: name, unit: unit, connection: connection}
}

// Record adds v. Negative values are kept among the first 1000 and count as zero in quantiles beyond.
func (d *Distribution) Record(v int64) {
	if d.count == 0 {
		d.min, d.max = v, v
	}
	d.count++
	d.sum += v
	d.min, d.max = min(d.min, v), max(d.max, v)
	if len(d.values) < keptValues {
		d.values = append(d.values, v)
		return
	}
	switch {
	case d.hist == nil:
		d.packed = hdrhistogram.NewPacked(1, histogramMax, digits)
		d.hist = d.packed
		for _, kept := range d.values {
			d.toHistogram(kept)
		}
	case d.count == denseFrom:
		dense := hdrhistogram.New(1, histogramMax, digits)
		d.packed.MergeInto(dense) // drops nothing: both have one range
		d.hist, d.packed = dense, nil
	}
	d.toHistogram(v)
}

func (d *Distribution) toHistogram(v int64) {
	// RecordValue fails only for values out of range, which the clamp excludes.
	_ = d.hist.RecordValue(min(max(v, 0), histogramMax))
}

// Count returns how many values were recorded.
func (d *Distribution) Count() int64 { return d.count }

// Metric returns the summary.
func (d *Distribution) Metric() Metric {
	m := Metric{
		Name: d.name, Unit: d.unit, Connection: d.connection, Count: d.count, Min: d.min, Max: d.max, Sum: d.sum,
		Values: slices.Clone(d.values), Truncated: d.hist != nil,
	}
	if m.Values == nil {
		m.Values = []int64{}
	}
	m.Histogram = d.encoded()
	m.P50, m.P95, m.P99, m.P999 = d.quantile(0.5), d.quantile(0.95), d.quantile(0.99), d.quantile(0.999)
	return m
}

// encoded returns the histogram for [Metric]; empty if the values are listed.
func (d *Distribution) encoded() string {
	packed := d.packed
	switch h := d.hist.(type) {
	case nil:
		return ""
	case *hdrhistogram.Histogram:
		packed = hdrhistogram.NewPacked(1, histogramMax, digits)
		packed.MergeFrom(h) // drops nothing: both have one range
	}
	text, err := packed.Encode()
	if err != nil {
		panic("analyzers: a histogram in memory cannot be encoded: " + err.Error())
	}
	return string(text)
}

// Quantile returns the smallest recorded value that at least the share q of all values does not exceed.
func (d *Distribution) Quantile(q float64) int64 { return d.quantile(q) }

// Mean returns the mean of all values, 0 if there are none.
func (d *Distribution) Mean() float64 { return float64(d.sum) / float64(max(d.count, 1)) }

// Range returns the smallest and the greatest value.
func (d *Distribution) Range() (least, most int64) { return d.min, d.max }

// quantile returns the smallest recorded value that at least the share q of all values does not exceed (nearest rank).
func (d *Distribution) quantile(q float64) int64 {
	switch {
	case d.count == 0:
		return 0
	case d.hist != nil:
		return min(max(d.hist.ValueAtPercentile(q*100), d.min), d.max)
	}
	sorted := slices.Sorted(slices.Values(d.values))
	rank := int(q * float64(len(sorted)))
	if float64(rank) < q*float64(len(sorted)) {
		rank++
	}
	return sorted[max(rank, 1)-1]
}
