package main

import (
	"io"
	"os"
	"strings"

	"candela.dev/candela/orchestrator/report"
)

// textOptions fits reports to w: to the width and the colours of a terminal.
func textOptions(w io.Writer, verbose bool) report.TextOptions {
	return report.TextOptions{Color: colourful(w), Width: terminalWidth(w), Verbose: verbose}
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

// narrowest is the width below which a report gets no narrower.
const narrowest = 60

// terminalWidth returns the width of the terminal that w is; 0 if w is none.
func terminalWidth(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns := columnsOf(file)
	if columns == 0 {
		return 0
	}
	return max(columns, narrowest)
}
