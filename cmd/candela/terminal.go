package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"candela.dev/candela/orchestrator/report"
)

// textOptions fits reports to w: to the width and the colours of a terminal.
func textOptions(w io.Writer, verbose bool) report.TextOptions {
	return report.TextOptions{Color: colourful(w), Width: terminalWidth(w), Verbose: verbose}
}

// fitted writes text to w in lines that fit the terminal.
func fitted(w io.Writer, write func(io.Writer) error) error {
	lines := report.NewWrapper(w, textOptions(w, false))
	return errors.Join(write(lines), lines.Flush())
}

// logColumns is the width of what errors and warnings explain where no terminal says another.
const logColumns = 120

// numbered matches a corrected line of a file with its number, which is printed as it is.
var numbered = regexp.MustCompile(`^ +[0-9]+ [ +] `)

// printProblem writes an error or a warning that may have many lines. On a terminal it wraps. Elsewhere only the
// explanations do, which are indented: programs read place and problem on one line.
func printProblem(w io.Writer, text string) {
	width := 0
	if file, ok := w.(*os.File); ok {
		width = columnsOf(file)
	}
	room := logColumns
	if width > 0 {
		room = max(width, narrowest)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if !numbered.MatchString(line) && (width > 0 || strings.HasPrefix(line, " ")) {
			line = broken(line, room)
		}
		_, _ = io.WriteString(w, line+"\n") // nothing remains to be done if an error cannot be written
	}
}

// broken breaks a line between words. What follows is indented like the line, by two spaces at least.
func broken(line string, width int) string {
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	var b strings.Builder
	b.WriteString(indent)
	indent = "\n" + cmp.Or(indent, "  ")
	used := len(line) - len(text)
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
			used += n
		case used+1+n > width:
			b.WriteString(indent)
			used = len(indent) - 1 + n
		default:
			b.WriteByte(' ')
			used += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}

// printError writes an error of the command. Editors and CI systems find file, line and column at the start of a line
// only, so an error that begins with them has no name of the program in front.
func printError(w io.Writer, err error) { printProblem(w, errorPrefix(err)+err.Error()) }

// colourful reports whether w is a terminal that wants colour (https://no-color.org).
func colourful(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || strings.EqualFold(os.Getenv("TERM"), "dumb") {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// narrowest is the smallest width of a report.
const narrowest = 60

// terminalWidth returns the width of the terminal w. If w is not a terminal, it returns COLUMNS, or 0 without that.
func terminalWidth(w io.Writer) int {
	if file, ok := w.(*os.File); ok {
		if columns := columnsOf(file); columns > 0 {
			return max(columns, narrowest)
		}
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return max(columns, narrowest)
	}
	return 0
}
