package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

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
