// Package comparison compares measured values with those of a publication, as rows with tolerances and figures. It
// writes both as text, JSON, SVG and HTML. It is independent of the paper; the packages that reproduce one fill it.
package comparison

import (
	"math"
	"slices"
	"time"
)

// Row compares one number with the paper's.
type Row struct {
	ID   string `json:"id"`   // of the result: L1, T5
	What string `json:"what"` // "CX5, NACK generation, 20 KB"
	Unit string `json:"unit"` // us, ms, s, KB, %, or empty for counts
	// Low and High are the paper's range; they are equal for a single number.
	Low       float64 `json:"paper_low"`
	High      float64 `json:"paper_high"`
	Measured  float64 `json:"measured"`
	Tolerance float64 `json:"tolerance"` // relative, beyond the range
	Deviation float64 `json:"deviation"` // relative, from the nearer end of the range; 0 inside
	Pass      bool    `json:"pass"`
	// Bound is set if the paper gives one end only; Low and High are both that end.
	Bound Bound `json:"bound,omitempty"`
	// Informative rows are not judged; their basis is NotJudged.
	Informative bool   `json:"informative,omitempty"`
	Note        string `json:"note,omitempty"`
	Basis       Basis  `json:"basis"`         // why the model yields the value
	Why         string `json:"why,omitempty"` // reason for the basis, where it is not obvious
	Source      Source `json:"source,omitempty"`

	Took time.Duration `json:"-"` // of the runs, in the first row of an experiment
}

// nothingMeasured begins the note of a row without a measured value.
const nothingMeasured = "nothing was measured"

// NewRow judges a measured value against a number of a paper (low equals high) or a range. Tolerance is a share. The
// row of a NaN fails.
func NewRow(id, what, unit string, low, high, tolerance, measured float64) Row {
	r := Row{ID: id, What: what, Unit: unit, Low: low, High: high, Measured: measured, Tolerance: tolerance}
	switch {
	case math.IsNaN(measured):
		r.Measured, r.Deviation, r.Note = 0, 1, nothingMeasured
		return r
	case measured < low:
		r.Deviation = relative(measured, low)
	case measured > high:
		r.Deviation = relative(measured, high)
	}
	const rounding = 1e-9
	r.Pass = math.Abs(r.Deviation) <= tolerance+rounding
	return r
}

// Bound is the end of a range that a paper gives.
type Bound string

// Bounds; the zero Bound is both ends.
const (
	AtMost  Bound = "at most"
	AtLeast Bound = "at least"
)

// NewBound judges a measured value against one end of a range.
func NewBound(id, what, unit string, bound Bound, limit, tolerance, measured float64) Row {
	r := NewRow(id, what, unit, limit, limit, tolerance, measured)
	r.Bound = bound
	if bound == AtMost && measured < limit || bound == AtLeast && measured > limit {
		r.Deviation, r.Pass = 0, true
	}
	return r
}

// relative returns the deviation of v as a share of want, or v itself if want is zero.
func relative(v, want float64) float64 {
	if want == 0 {
		return v
	}
	return v/want - 1
}

// Noted returns the row with a remark appended to its note.
func (r Row) Noted(note string) Row {
	if r.Note != "" {
		note = r.Note + "; " + note
	}
	r.Note = note
	return r
}

// Plot is the measured version of a figure of the paper.
type Plot struct {
	Name   string   `json:"name"` // of its file, without suffix
	Title  string   `json:"title"`
	X      string   `json:"x"`
	Y      string   `json:"y"`
	Series []Series `json:"series"`
	// FromZero begins the Y axis at zero however far above it all values are: for figures that show that they are level.
	FromZero bool `json:"-"`
}

// Series is one line of a Plot.
type Series struct {
	Name  string    `json:"name"`
	X     []float64 `json:"x"`
	Y     []float64 `json:"y"`
	Style Style     `json:"style,omitempty"`
}

// Style is how a Series is drawn; the zero Style joins marked points by a line.
type Style string

// Styles.
const (
	Line     Style = "line"     // a line without marks, for many points
	Dots     Style = "dots"     // marks without a line
	Segments Style = "segments" // points 0 and 1 are the ends of a bar, points 2 and 3 those of the next
	Cells    Style = "cells"    // a row of a heat map: cells from X on, at equal distances, whose shade is Y
)

// CDF returns the distribution of values as a line of at most points steps. It sorts values in place.
func CDF(name string, values []float64, points int) Series {
	slices.Sort(values)
	s := Series{Name: name, Style: Line}
	n := len(values)
	for i := range min(n, points) {
		k := i
		if n > points {
			k = i * (n - 1) / (points - 1)
		}
		s.X, s.Y = append(s.X, values[k]), append(s.Y, float64(k+1)/float64(n))
	}
	return s
}

// ResultsSchema names the format of results.json.
const ResultsSchema = "candela.reproduction/v1"

// Results are all rows and plots of a reproduction.
type Results struct {
	Schema string `json:"schema"`
	Paper  string `json:"paper"`
	Runs   int    `json:"runs"`
	Rows   []Row  `json:"rows"`
	Plots  []Plot `json:"plots"`

	Took time.Duration `json:"-"` // of all experiments
}

// Add appends a row with its origin. An origin without a basis is a bug of the caller.
func (r *Results) Add(from Origin, row Row) {
	if from.basis == "" {
		panic("comparison: row without a basis: " + row.ID + " " + row.What)
	}
	row.Basis, row.Why, row.Informative, row.Source = from.basis, from.why, from.basis == NotJudged, from.source
	r.Rows = append(r.Rows, row)
}

// Failed counts the rows outside their tolerance.
func (r *Results) Failed() int {
	n := 0
	for i := range r.Rows {
		if !r.Rows[i].Pass && !r.Rows[i].Informative {
			n++
		}
	}
	return n
}

// Timed runs an experiment and adds its duration to its first row and to r.Took.
func (r *Results) Timed(wall func() time.Time, experiment func() error) error {
	start, rows := wall(), len(r.Rows)
	err := experiment()
	took := wall().Sub(start)
	r.Took += took
	if len(r.Rows) > rows {
		r.Rows[rows].Took = took
	}
	return err
}
