package comparison

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// WriteJSON writes results.json.
func (r *Results) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// WriteText writes the table for people.
func (r *Results) WriteText(w io.Writer) error {
	head := []string{"id", "what", "paper", "measured", "deviation", "tolerance", "", "note"}
	lines := [][]string{head}
	for i := range r.Rows {
		lines = append(lines, r.Rows[i].cells())
	}
	widths := make([]int, len(head))
	for _, cells := range lines {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, cells := range lines {
		var b strings.Builder
		for i, c := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if leftAligned := i < 2 || i >= 6; leftAligned {
				c += pad
			} else {
				c = pad + c
			}
			b.WriteString(c + "  ")
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s\n%s\n", r.Paper, r.tally(), legend)
	return err
}

// legend says what the columns mean.
const legend = "deviation: from the nearer end of what the paper gives, as a share of it, also where the value is a percentage; info: shown, not judged"

// tally sums up: how many rows are judged and how many pass.
func (r *Results) tally() string {
	judged := 0
	for i := range r.Rows {
		if !r.Rows[i].Informative {
			judged++
		}
	}
	return fmt.Sprintf("%d of %d values within tolerance, %d more for information, from %d runs",
		judged-r.Failed(), judged, len(r.Rows)-judged, r.Runs)
}

func (r *Row) cells() []string {
	verdict := "PASS"
	switch {
	case r.Informative:
		verdict = "info"
	case !r.Pass:
		verdict = "FAIL"
	}
	deviation, tolerance := percent(r.Deviation, "%+.1f %%"), "±"+percent(r.Tolerance, "%.3g %%")
	if r.Low == 0 && r.High == 0 {
		deviation, tolerance = number(r.Deviation), "±"+number(r.Tolerance)
	}
	if r.Informative {
		tolerance = ""
	}
	return []string{r.ID, r.What, r.paper(), withUnit(number(r.Measured), r.Unit), deviation, tolerance, verdict, r.Note}
}

func (r *Row) paper() string {
	switch r.Bound {
	case AtMost:
		return "≤ " + withUnit(number(r.Low), r.Unit)
	case AtLeast:
		return "≥ " + withUnit(number(r.Low), r.Unit)
	}
	if r.Low == r.High {
		return withUnit(number(r.Low), r.Unit)
	}
	return withUnit(number(r.Low)+"–"+number(r.High), r.Unit)
}

func withUnit(n, unit string) string { return strings.TrimSpace(n + " " + unit) }

// number prints four significant digits.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e6 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

func percent(share float64, format string) string {
	if share == 0 {
		return "0 %"
	}
	return fmt.Sprintf(format, 100*share)
}
