package switchtest

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/report"
)

// deflections counts what each switch deflects over time, in stretches that become longer as the run does.
type deflections struct {
	r       *run
	stretch clock.Duration
	next    clock.Time // end of the stretch at hand
	before  []int64    // by switch: deflected when it began, since the switch started
	counts  [][]int64  // by switch, then by stretch
}

const (
	firstStretch  = 10 * clock.Microsecond
	mostStretches = 120 // then each two become one
)

func newDeflections(r *run) *deflections {
	n := r.net.Switches()
	return &deflections{r: r, stretch: firstStretch, next: clock.Time(0).Add(firstStretch), before: make([]int64, n),
		counts: make([][]int64, n)}
}

// sample ends the stretch at hand.
func (d *deflections) sample() {
	for i := range d.counts {
		sum := d.r.plan.family.Deflected(d.r.net.Switch(i))
		if sum < d.before[i] { // it has started anew
			d.before[i] = 0
		}
		d.counts[i] = append(d.counts[i], sum-d.before[i])
		d.before[i] = sum
	}
	if len(d.counts[0]) == mostStretches {
		for i, c := range d.counts {
			for j := range mostStretches / 2 {
				c[j] = c[2*j] + c[2*j+1]
			}
			d.counts[i] = c[:mostStretches/2]
		}
		d.stretch *= 2
	}
	d.next = clock.Time(0).Add(clock.Duration(len(d.counts[0])+1) * d.stretch)
}

// spell is a row of deflection-series.csv and deflection-series.parquet.
type spell struct {
	name       string
	start, end int64 // ns
	count      int64
}

// write writes the table, at the end of the run; the last stretch may be shorter than the others.
func (d *deflections) write() error {
	d.sample()
	columns := []tableColumn[spell]{
		{name: "switch", text: func(s *spell) string { return s.name }},
		{name: "start_ns", number: func(s *spell) int64 { return s.start }},
		{name: "end_ns", number: func(s *spell) int64 { return s.end }},
		{name: "deflected", number: func(s *spell) int64 { return s.count }},
	}
	var rows []spell
	for i, counts := range d.counts {
		for j, n := range counts {
			start := int64(j) * d.stretch.Nanoseconds()
			rows = append(rows, spell{d.r.net.Switch(i).Name(), start, max(start, min(d.r.end.Nanoseconds(),
				start+d.stretch.Nanoseconds())), n})
		}
	}
	return writeTable(d.r.Dir, deflectionSeries, d.r.plan.Test.Results.Deflections(), columns, rows)
}

const deflectionSeries = "deflection-series"

// chart draws them as a heat map.
func (d *deflections) chart() report.Chart {
	c := report.Over("Packets deflected at each switch", "packets", nil)
	c.Cells = true
	for i, counts := range d.counts {
		row := report.Series{Name: d.r.net.Switch(i).Name()}
		for j, n := range counts {
			at := clock.Duration(j) * d.stretch
			row.Times, row.Values = append(row.Times, float64(at.Nanoseconds())/1e3), append(row.Values, float64(n))
		}
		if slices.Max(append(counts, 0)) > 0 {
			c.Lines = append(c.Lines, row)
		}
	}
	return c
}
