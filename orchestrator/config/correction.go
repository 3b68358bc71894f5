package config

import (
	"fmt"
	"strings"
)

// ProblemAt returns a problem of the value at path, for checks outside this package.
func (t *Test) ProblemAt(path, message, why string) Problem {
	return Problem{File: t.positions.file, Pos: t.positions.of(path), Path: path, Message: message, Why: why}
}

// Wrote reports whether the file gives the key at path.
func (t *Test) Wrote(path string) bool {
	_, ok := t.positions.at[path]
	return ok
}

// Corrected returns the changed lines of the test's file if the key at path, which the file does not give, is set to
// value: the line before it, for context, and the new line. In a mapping in braces both are one line.
func (t *Test) Corrected(source []byte, path, value string) string {
	parent := parentPath(path)
	pos, ok := t.positions.at[parent]
	entry := strings.TrimPrefix(path, parent+".") + ": " + value
	lines := strings.Split(strings.TrimPrefix(string(source), "\ufeff"), "\n")
	if !ok || pos.Line > len(lines) {
		return path + ": " + value
	}
	number := func(n int, mark, text string) string {
		return fmt.Sprintf("%4d %s %s", n, mark, strings.TrimRight(text, "\r"))
	}
	at := lines[pos.Line-1]
	runes := []rune(at)
	before, after := string(runes[:min(pos.Col-1, len(runes))]), string(runes[min(pos.Col-1, len(runes)):])
	if strings.IndexAny(after, "*&!") == 0 { // an alias, an anchor or a tag: the mapping itself is elsewhere
		return path + ": " + value
	}
	if rest, flow := strings.CutPrefix(after, "{"); flow {
		return number(pos.Line, "+", before+"{"+entry+", "+rest)
	}
	corrected := []string{number(pos.Line, "+", before+entry)}
	if pos.Line > 1 {
		corrected = append([]string{number(pos.Line-1, " ", lines[pos.Line-2])}, corrected...)
	}
	return strings.Join(append(corrected, number(pos.Line+1, " ", at)), "\n")
}
