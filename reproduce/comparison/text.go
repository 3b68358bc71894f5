package comparison

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// textWidth is the maximum width of the table in characters.
const textWidth = 80

// WriteText writes the table for people. The description of a row may be long, so it is the last column. Notes follow
// the table by number, as rows may share them.
func (r *Results) WriteText(w io.Writer) error {
	head := []string{"", "", "", "paper", "measured", "deviation", "tolerance", "what"}
	lines, notes := [][]string{head}, []string(nil)
	for i := range r.Rows {
		c := r.Rows[i].cells()
		what := c.what + r.Rows[i].Source.mark()
		for _, note := range []string{c.note, c.why} {
			if note == "" {
				continue
			}
			n := slices.Index(notes, note)
			if n < 0 {
				n, notes = len(notes), append(notes, note)
			}
			what += fmt.Sprintf(" [%d]", n+1)
		}
		lines = append(lines, []string{c.id, c.verdict, c.basis.letter(), c.paper, c.measured, c.deviation,
			c.tolerance, what})
	}
	var b strings.Builder
	writeColumns(&b, lines)
	b.WriteByte('\n')
	for i, note := range notes {
		mark := fmt.Sprintf("%4s ", fmt.Sprintf("[%d]", i+1))
		for j, line := range wrapped(note, textWidth-len(mark)) {
			if j > 0 {
				mark = strings.Repeat(" ", len(mark))
			}
			b.WriteString(mark + line + "\n")
		}
	}
	if len(notes) > 0 {
		b.WriteByte('\n')
	}
	for _, text := range []string{r.Paper, r.Headline(), r.legend()} {
		b.WriteString(strings.Join(wrapped(text, textWidth), "\n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// marks are the columns before the numbers of a row: result, verdict and basis.
const marks = 3

// tall is the number of lines of a row from which its description is better placed above its numbers.
const tall = 5

// writeColumns aligns the cells of lines: the marks and the description to the left, the numbers between them to the
// right. A table whose numbers leave too little width for its descriptions has the numbers of a row below them.
func writeColumns(b *strings.Builder, lines [][]string) {
	last := len(lines[0]) - 1
	widths, indent := make([]int, last), 0
	for i := range widths {
		for _, cells := range lines {
			widths[i] = max(widths[i], utf8.RuneCountInString(cells[i]))
		}
		indent += widths[i] + 2
	}
	if slices.ContainsFunc(lines, func(c []string) bool { return len(wrappedBelow(c[last], textWidth-indent)) >= tall }) {
		writeBelow(b, lines, widths)
		return
	}
	for _, cells := range lines {
		b.WriteString(leftAligned(cells[:marks], widths) + rightAligned(cells[marks:last], widths[marks:]))
		what := wrappedBelow(cells[last], textWidth-indent)
		b.WriteString(strings.Join(what, "\n"+strings.Repeat(" ", indent+2)) + "\n")
	}
}

// writeBelow writes the description of each row beside its marks, and its numbers in a line of their own.
func writeBelow(b *strings.Builder, lines [][]string, widths []int) {
	last := len(lines[0]) - 1
	for i, cells := range lines {
		first := leftAligned(cells[:marks], widths)
		indent := strings.Repeat(" ", utf8.RuneCountInString(first))
		if i > 0 {
			b.WriteString(first + strings.Join(wrappedBelow(cells[last], textWidth-len(indent)), "\n  "+indent) + "\n")
		}
		b.WriteString(strings.TrimRight(indent+rightAligned(cells[marks:last], widths[marks:]), " ") + "\n")
	}
}

// leftAligned returns cells in columns of these widths, two spaces after each.
func leftAligned(cells []string, widths []int) (line string) {
	for i, cell := range cells {
		line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
	}
	return line
}

// rightAligned is leftAligned with the padding before each cell.
func rightAligned(cells []string, widths []int) (line string) {
	for i, cell := range cells {
		line += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + cell + "  "
	}
	return line
}

// wrappedBelow wraps a description whose continuation lines are indented by two.
func wrappedBelow(text string, width int) []string {
	if what := wrapped(text, width); len(what) == 1 {
		return what
	}
	return wrapped(text, width-2)
}

// wrapped breaks text at spaces into lines of at most width characters; a longer word gets its own line.
func wrapped(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		line := &lines[len(lines)-1]
		switch room := width - utf8.RuneCountInString(*line); {
		case *line == "":
			*line = word
		case utf8.RuneCountInString(word) < room:
			*line += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// legend explains the columns.
const legend = "m: follows from a mechanism; p: a profile constant, measured back; c: chosen, which means fitted to " +
	"the paper, given by how the test is built, or held against a bound of ours; info: shown, not judged; deviation: " +
	"from the nearer end of what the paper gives, as a share of it, also where the value is a percentage"

// legend explains the columns and marks.
func (r *Results) legend() string {
	if slices.ContainsFunc(r.Rows, func(r Row) bool { return r.Source != "" }) {
		return legend + "; (paper): the value is a statement of the paper; (data): of the data published with it; " +
			"(spec): a calibration of the specification; (hw): of hardware, not reproducible here"
	}
	return legend
}

// mark is the source in the table for people.
func (s Source) mark() string {
	switch s {
	case PaperStatement:
		return " (paper)"
	case PublishedData:
		return " (data)"
	case SpecCalibration:
		return " (spec)"
	case Hardware:
		return " (hw)"
	}
	return ""
}

// cells are the texts of a row.
type cells struct {
	id, what, paper, measured, deviation, tolerance, verdict, note, why string
	basis                                                               Basis
}

func (r *Row) cells() cells {
	c := cells{
		id: r.ID, what: r.What, paper: r.paper(), measured: withUnit(number(r.Measured), r.Unit), note: r.Note,
		verdict: "PASS", basis: r.Basis, why: r.Why,
		deviation: percent(r.Deviation, "%+.1f %%"), tolerance: "±" + percent(r.Tolerance, "%.3g %%"),
	}
	if r.Low == 0 && r.High == 0 {
		c.deviation, c.tolerance = number(r.Deviation), "±"+number(r.Tolerance)
	}
	if strings.HasPrefix(r.Note, nothingMeasured) {
		c.measured, c.deviation = "–", "–"
	}
	switch {
	case strings.HasPrefix(r.Why, skip):
		c.verdict, c.tolerance = "SKIP", ""
	case r.Informative:
		c.verdict, c.tolerance = "info", ""
	case !r.Pass:
		c.verdict = "FAIL"
	}
	return c
}

// described is the description with the source, if rows have several.
func (r *Row) described() string {
	if r.Source == "" {
		return r.What
	}
	return r.What + ", " + string(r.Source)
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

// number prints integers below 1e6 in full, other values with four significant digits.
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
