package report

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A column of a table: its heading, and whether its cells are right-aligned numbers.
type column struct {
	head  string
	right bool
}

// A cell is text in a style. Text that is too wide wraps between words.
type cell struct {
	text  string
	style style
}

type table struct {
	columns []column
	rows    [][]cell
	keys    int // leftmost columns that identify a row; 0: one
}

func (t *table) add(cells ...cell) {
	for i := range cells {
		cells[i].text = oneLine(cells[i].text)
	}
	t.rows = append(t.rows, cells)
}

func (t *table) addColumn(c column, cells []cell) {
	t.columns = append(t.columns, c)
	for i, cell := range cells {
		cell.text = oneLine(cell.text)
		t.rows[i] = append(t.rows[i], cell)
	}
}

// dropEmpty removes empty columns, except the last.
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

// width returns the width of the table without wrapping, in characters.
func (t *table) width() int {
	n := columnGap * (len(t.columns) - 1)
	for _, w := range t.widths() {
		n += w
	}
	return n
}

const (
	columnGap = 2
	// minLast is the width below which wrapping the last column makes it hard to read.
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

// minText is the least width to which a text column is narrowed.
const minText = 12

// table writes t at an indent, with dimmed headings. If t is too wide, first the headings wrap, then the texts; then
// the remaining columns follow in another table that repeats the key columns.
func (p *printer) table(indent int, t *table) {
	room := p.width - indent
	for _, part := range t.parts(room) {
		widths := part.fit(room)
		heads := make([]cell, len(part.columns))
		for i, c := range part.columns {
			heads[i] = cell{c.head, dim}
		}
		if strings.TrimSpace(joinHeads(part.columns)) != "" {
			p.row(indent, part.columns, widths, heads)
		}
		for _, row := range part.rows {
			p.row(indent, part.columns, widths, row)
		}
	}
}

// parts divides a table that is too wide into tables that fit, each with the key columns.
func (t *table) parts(room int) []*table {
	least := t.least()
	keys := min(max(t.keys, 1), len(t.columns))
	start := 0 // width of the key columns
	for _, w := range least[:keys] {
		start += w + columnGap
	}
	var parts []*table
	part, used := t.pick(nil, keys), start
	for i := keys; i < len(t.columns); i++ {
		if used += least[i]; used > room && len(part) > keys {
			parts = append(parts, t.of(part))
			part, used = t.pick(nil, keys), start+least[i]
		}
		part = append(part, i)
		used += columnGap
	}
	parts = append(parts, t.of(part))
	if full := slices.DeleteFunc(slices.Clone(parts), func(p *table) bool { return len(p.rows) == 0 }); len(full) > 0 {
		return full
	}
	return parts[:1] // a table without rows keeps its headings
}

func (t *table) pick(list []int, n int) []int {
	for i := range n {
		list = append(list, i)
	}
	return list
}

func (t *table) of(columns []int) *table {
	if len(columns) == len(t.columns) {
		return t
	}
	part := &table{keys: t.keys, rows: make([][]cell, len(t.rows))}
	for _, i := range columns {
		part.columns = append(part.columns, t.columns[i])
		for r, row := range t.rows {
			part.rows[r] = append(part.rows[r], row[i])
		}
	}
	part.dropEmptyRows(t.keys)
	return part
}

func (t *table) dropEmptyRows(keys int) {
	t.rows = slices.DeleteFunc(t.rows, func(row []cell) bool {
		return !slices.ContainsFunc(row[min(max(keys, 1), len(row)):], func(c cell) bool { return c.text != "" })
	})
}

// least returns the minimum width of each column.
func (t *table) least() []int {
	least := t.widths()
	for i, c := range t.columns {
		widest, head := 0, longestWord(c.head)
		for _, row := range t.rows {
			n := utf8.RuneCountInString(row[i].text)
			if !c.right {
				n = min(n, max(minText, longestWord(row[i].text)))
			}
			widest = max(widest, n)
		}
		least[i] = min(least[i], max(widest, head))
	}
	return least
}

// fit returns the column widths for a line of room characters.
func (t *table) fit(room int) []int {
	widths, least := t.widths(), t.least()
	over := columnGap*(len(widths)-1) - room
	for _, w := range widths {
		over += w
	}
	narrow := func(i, to int) {
		by := min(max(over, 0), widths[i]-to)
		widths[i] -= by
		over -= by
	}
	last := len(widths) - 1
	if !t.columns[last].right { // the last column holds remarks: it wraps first
		narrow(last, min(widths[last], max(least[last], minLast)))
	}
	for i, c := range t.columns { // headings
		cells := 0
		for _, row := range t.rows {
			cells = max(cells, utf8.RuneCountInString(row[i].text))
		}
		if i != last || c.right {
			narrow(i, min(widths[i], max(cells, longestWord(c.head))))
		}
	}
	for i := last; i >= 0; i-- { // texts
		narrow(i, min(widths[i], least[i]))
	}
	return widths
}

func longestWord(s string) int {
	n := 0
	for word := range strings.SplitSeq(s, " ") {
		n = max(n, utf8.RuneCountInString(word))
	}
	return n
}

func joinHeads(columns []column) string {
	var b strings.Builder
	for _, c := range columns {
		b.WriteString(c.head)
	}
	return b.String()
}

// row writes the cells of a row in as many lines as its longest cell needs.
func (p *printer) row(indent int, columns []column, widths []int, cells []cell) {
	wrapped := make([][]string, len(cells))
	lines := 1
	for i, c := range cells {
		wrapped[i] = wrap(c.text, max(widths[i], 1))
		lines = max(lines, len(wrapped[i]))
	}
	for n := range lines {
		p.spaces(indent)
		pending := 0 // spaces before the next text; avoids trailing spaces
		for i, c := range cells {
			text := ""
			if n < len(wrapped[i]) {
				text = wrapped[i][n]
			}
			pad := max(widths[i]-utf8.RuneCountInString(text), 0)
			if columns[i].right {
				pending += pad
				pad = 0
			}
			if text != "" {
				p.spaces(pending)
				p.styled(text, c.style)
				pending = 0
			}
			pending += pad + columnGap
		}
		p.newline()
	}
}

// wrap breaks s at spaces into lines of at most width characters. A longer word gets its own line. There is at least
// one line.
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
