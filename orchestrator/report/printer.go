package report

import (
	"bufio"
	"io"
	"strings"
	"unicode/utf8"
)

// A style is the appearance of a text on a terminal with colour.
type style string

// Styles, as parameters of the terminal's "select graphic rendition" sequence.
const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"

	boldRed    style = "1;31"
	boldGreen  style = "1;32"
	boldYellow style = "1;33"
)

// printer writes lines with indents and styles. Errors stick in the buffered writer until flush.
type printer struct {
	*bufio.Writer
	colour bool
	width  int
	lines  int // written so far
}

// defaultWidth is used if the caller gives no width.
const defaultWidth = 80

func newPrinter(w io.Writer, o TextOptions) *printer {
	p := &printer{Writer: bufio.NewWriter(w), colour: o.Color, width: o.Width}
	if p.width <= 0 {
		p.width = defaultWidth
	}
	return p
}

// bufio.Writer keeps the first error and returns it from Flush, so single writes need no check.

func (p *printer) spaces(n int) {
	for range n {
		_ = p.WriteByte(' ')
	}
}

func (p *printer) newline() {
	p.lines++
	_ = p.WriteByte('\n')
}

// styled writes all text of the output and cleans it.
func (p *printer) styled(text string, s style) {
	text = clean(text)
	if !p.colour || s == plain || text == "" {
		_, _ = p.WriteString(text)
		return
	}
	_, _ = p.WriteString("\x1b[" + string(s) + "m" + text + "\x1b[0m")
}

// labelled writes text after a label. Wrapped lines are aligned with the text.
func (p *printer) labelled(indent, labelWidth int, label cell, text string, s style) {
	room := max(p.width-indent-labelWidth, minLast)
	for i, line := range wrap(oneLine(text), room) {
		if i > 0 {
			label = cell{}
		}
		p.spaces(indent)
		p.styled(label.text, label.style)
		if labelWidth > 0 {
			p.spaces(max(labelWidth-utf8.RuneCountInString(label.text), 1))
		}
		p.styled(strings.TrimRight(line, " "), s)
		p.newline()
	}
}

func (p *printer) section(title string) {
	p.newline()
	p.styled(title, bold)
	p.newline()
}
