package report

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A column of a table: its heading, and whether its cells are numbers, which stand at the right.
type column struct {
	head  string
	right bool
}

// A cell is text in a style. In the last column it may be wider than the rest of the line: it wraps.
type cell struct {
	text  string
	style style
}

type table struct {
	columns []column
	rows    [][]cell
}

// add appends a row with one cell for each column.
func (t *table) add(cells ...cell) {
	for i := range cells {
		cells[i].text = oneLine(cells[i].text)
	}
	t.rows = append(t.rows, cells)
}

// addColumn appends a column with one cell for each row.
func (t *table) addColumn(c column, cells []cell) {
	t.columns = append(t.columns, c)
	for i, cell := range cells {
		cell.text = oneLine(cell.text)
		t.rows[i] = append(t.rows[i], cell)
	}
}

// dropEmpty removes columns that hold nothing, except the last.
func (t *table) dropEmpty() {
	for i := len(t.columns) - 2; i >= 0; i-- {
		if slices.ContainsFunc(t.rows, func(row []cell) bool { return row[i].text != "" }) {
			continue
		}
		t.columns = slices.Delete(t.columns, i, i+1)
		for j := range t.rows {
			t.rows[j] = slices.Delete(t.rows[j], i, i+1)
		}
	}
}

// width returns how wide the table is if nothing wraps.
func (t *table) width() int {
	n := columnGap * (len(t.columns) - 1)
	for _, w := range t.widths() {
		n += w
	}
	return n
}

const (
	columnGap = 2
	// minLast is the width below which wrapping the last column makes it worse.
	minLast = 24
)

// widths returns the width of each column, in characters.
func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.head)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	return widths
}

// table writes t behind an indent, with its heading dimmed.
func (p *printer) table(indent int, t *table) {
	widths := t.widths()
	last := len(widths) - 1
	offset := indent
	for _, w := range widths[:last] {
		offset += w + columnGap
	}
	room := max(p.width-offset, minLast)
	heads := make([]cell, len(t.columns))
	for i, c := range t.columns {
		heads[i] = cell{c.head, dim}
	}
	if strings.TrimSpace(joinHeads(t.columns)) != "" {
		p.row(indent, t.columns, widths, heads)
	}
	for _, row := range t.rows {
		lines := wrap(row[last].text, room)
		row[last].text = lines[0]
		p.row(indent, t.columns, widths, row)
		for _, line := range lines[1:] {
			p.line(offset, cell{line, row[last].style})
		}
	}
}

func joinHeads(columns []column) string {
	var b strings.Builder
	for _, c := range columns {
		b.WriteString(c.head)
	}
	return b.String()
}

func (p *printer) row(indent int, columns []column, widths []int, cells []cell) {
	p.spaces(indent)
	pending := 0 // spaces owed before the next text: lines have none at their end
	for i, c := range cells {
		pad := widths[i] - utf8.RuneCountInString(c.text)
		if columns[i].right {
			pending += pad
			pad = 0
		}
		if c.text != "" {
			p.spaces(pending)
			p.styled(c.text, c.style)
			pending = 0
		}
		pending += pad + columnGap
	}
	p.newline()
}

// wrap breaks s at spaces into lines of at most width characters; a longer word stands alone. There is at least one
// line.
func wrap(s string, width int) []string {
	if utf8.RuneCountInString(s) <= width {
		return []string{s}
	}
	var lines []string
	line, length := "", 0
	for word := range strings.SplitSeq(s, " ") {
		n := utf8.RuneCountInString(word)
		if length > 0 && length+1+n > width {
			lines = append(lines, line)
			line, length = word, n
			continue
		}
		if length > 0 || line != "" {
			line += " "
			length++
		}
		line += word
		length += n
	}
	return append(lines, line)
}
