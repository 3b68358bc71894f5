package report

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// Wrapper breaks lines that are wider than a terminal between words. What is broken off is aligned with the text of
// its line. A word that is wider than the terminal stays whole.
type Wrapper struct {
	w     io.Writer
	width int
	rest  []byte // a line without its end
	err   error  // the first
}

// NewWrapper returns a Wrapper that writes to w, in lines of the width of o.
func NewWrapper(w io.Writer, o TextOptions) *Wrapper {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	return &Wrapper{w: w, width: o.Width}
}

// Write writes the lines that data ends.
func (r *Wrapper) Write(data []byte) (int, error) {
	r.rest = append(r.rest, data...)
	end := bytes.LastIndexByte(r.rest, '\n') + 1
	if end == 0 {
		return len(data), nil
	}
	var b strings.Builder
	for line := range strings.Lines(string(r.rest[:end])) {
		for _, part := range r.broken(strings.TrimSuffix(line, "\n")) {
			b.WriteString(part + "\n")
		}
	}
	r.rest = append(r.rest[:0], r.rest[end:]...)
	if r.err == nil {
		_, r.err = io.WriteString(r.w, b.String())
	}
	return len(data), r.err
}

// Flush writes a last line that has no end. It returns the first error of all writes.
func (r *Wrapper) Flush() error {
	if len(r.rest) > 0 && r.err == nil {
		_, r.err = io.WriteString(r.w, strings.Join(r.broken(string(r.rest)), "\n"))
	}
	r.rest = nil
	return r.err
}

// maxHang is the column beyond which no text of a line is looked for: behind it there would be no room.
const maxHang = 32

// broken returns the parts of a line.
func (r *Wrapper) broken(line string) []string {
	if utf8.RuneCountInString(line) <= r.width {
		return []string{line}
	}
	hang := hangOf(line)
	parts := wrap(line[hang:], r.width-hang-2)   // continued lines without a label are two deeper
	if longestWord(line[hang:]) > r.width-hang { // it has more room below
		deeper := len(line) - len(strings.TrimLeft(line, " ")) + 2
		if head := strings.TrimRight(line[:hang], " "); head != "" {
			lines := []string{head}
			for _, part := range wrap(line[hang:], r.width-deeper) {
				lines = append(lines, strings.Repeat(" ", deeper)+part)
			}
			return lines
		}
	}
	for i := range parts {
		head := line[:hang]
		if i > 0 {
			head = strings.Repeat(" ", hang)
			if strings.TrimSpace(line[:hang]) == "" {
				head += "  "
			}
		}
		parts[i] = strings.TrimRight(head+parts[i], " ")
	}
	return parts
}

// hangOf returns where the text of a line begins: after its labels, which two spaces divide from it. Labels are ASCII.
func hangOf(line string) int {
	hang := len(line) - len(strings.TrimLeft(line, " "))
	for i := hang; i < min(len(line)-2, maxHang) && line[i] < utf8.RuneSelf; i++ {
		if line[i] == ' ' && line[i+1] == ' ' && line[i+2] != ' ' {
			hang = i + 2
		}
	}
	return hang
}

// Grid writes a table that fits the terminal, behind an indent. The columns at the left that name a row, keys, are
// repeated where the others need more than one table.
func Grid(w io.Writer, o TextOptions, indent int, columns []Column, keys int, rows [][]string) error {
	p := newPrinter(w, o)
	tab := table{keys: keys}
	for _, c := range columns {
		tab.columns = append(tab.columns, column{c.Head, c.Right})
	}
	for _, row := range rows {
		cells := make([]cell, len(row))
		for i, text := range row {
			cells[i] = cell{text, plain}
		}
		tab.add(cells...)
	}
	p.table(indent, &tab)
	return p.Flush()
}
