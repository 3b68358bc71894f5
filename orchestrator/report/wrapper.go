package report

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// Wrapper breaks lines that are wider than a terminal between words. Continuation lines are aligned with the text of
// their line. A word that is wider than the terminal is not broken.
type Wrapper struct {
	w     io.Writer
	width int
	rest  []byte // an incomplete line
	err   error  // the first error
}

// NewWrapper returns a Wrapper that writes to w with the line width of o.
func NewWrapper(w io.Writer, o TextOptions) *Wrapper {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	return &Wrapper{w: w, width: o.Width}
}

// Write writes the complete lines of data.
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

// Flush writes an incomplete last line. It returns the first error of all writes.
func (r *Wrapper) Flush() error {
	if len(r.rest) > 0 && r.err == nil {
		_, r.err = io.WriteString(r.w, strings.Join(r.broken(string(r.rest)), "\n"))
	}
	r.rest = nil
	return r.err
}

// maxHang bounds the column at which the text of a line may begin; further right there is too little room.
const maxHang = 32

func (r *Wrapper) broken(line string) []string {
	if utf8.RuneCountInString(line) <= r.width {
		return []string{line}
	}
	hang := hangOf(line)
	parts := wrap(line[hang:], r.width-hang-2)   // continuation lines without a label are indented by two more
	if longestWord(line[hang:]) > r.width-hang { // there is more room on the next line
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

// hangOf returns the column at which the text of a line begins: after its labels and two spaces. Labels are ASCII.
func hangOf(line string) int {
	hang := len(line) - len(strings.TrimLeft(line, " "))
	for i := hang; i < min(len(line)-2, maxHang) && line[i] < utf8.RuneSelf; i++ {
		if line[i] == ' ' && line[i+1] == ' ' && line[i+2] != ' ' {
			hang = i + 2
		}
	}
	return hang
}

// Grid writes a table that fits the terminal, at an indent. A table that is too wide is divided; each part repeats the
// first keys columns, which identify a row.
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
