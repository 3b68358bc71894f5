package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInvalid matches every [Error] of this package: a file that can be read but not run.
var ErrInvalid = errors.New("invalid configuration")

// Pos is a position in a file; lines and columns count from 1.
type Pos struct{ Line, Col int }

// Problem is one error in a file.
type Problem struct {
	File    string
	Pos     Pos
	Path    string // configuration path, "" for the file as a whole
	Message string // the value and the allowed values
	Why     string // the reason or the remedy; may be empty
	Lines   string // corrected lines of the file; may be empty
}

// String prints p on one line; the reason follows, indented, on the next.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Pos.Line, p.Pos.Col)
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	b.WriteString(indented(p.Why))
	for line := range strings.Lines(p.Lines) {
		b.WriteString("\n  " + strings.TrimRight(line, "\n"))
	}
	return b.String()
}

// indented returns why on its own lines. The caller wraps long lines.
func indented(why string) string {
	var b strings.Builder
	for line := range strings.Lines(why) {
		b.WriteString("\n  " + strings.TrimRight(line, "\n"))
	}
	return b.String()
}

// Error lists all problems of a file, in the order of the file.
type Error struct {
	Problems []Problem
	Omitted  int // problems beyond the first hundred
}

// Error prints one problem per line group.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	if e.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", e.Omitted))
	}
	return strings.Join(lines, "\n")
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *Error) Is(target error) bool { return target == ErrInvalid }

// maxProblems bounds an error message; a reader of more starts over.
const maxProblems = 100

// NewError returns an error that lists problems; nil if there are none.
func NewError(problems []Problem) error { return newError(problems, 0) }

func newError(problems []Problem, omitted int) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Col, b.Pos.Col))
	})
	problems = slices.Compact(problems)
	e := &Error{Problems: problems, Omitted: omitted}
	if len(problems) > maxProblems {
		e.Problems, e.Omitted = problems[:maxProblems], omitted+len(problems)-maxProblems
	}
	return e
}

// positions maps configuration paths to positions in a file.
type positions struct {
	file string
	at   map[string]Pos
}

// of returns the position of path, or of the closest mapping or list around it.
func (p positions) of(path string) Pos {
	for path != "" {
		if pos, ok := p.at[path]; ok {
			return pos
		}
		path = parentPath(path)
	}
	if pos, ok := p.at[""]; ok {
		return pos
	}
	return Pos{1, 1}
}

// parentPath returns the path of the mapping or list around path, "" for the file as a whole.
func parentPath(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

func (p positions) where(path string) string {
	pos := p.of(path)
	return fmt.Sprintf("%s:%d:%d: %s", p.file, pos.Line, pos.Col, path)
}
