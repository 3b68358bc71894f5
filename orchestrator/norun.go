package orchestrator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// notARun is the error of a path that is not the directory of a run.
type notARun struct {
	dir   string
	cause error
}

// Error says what is missing. A call of the operating system, which the cause names, is of no use to a reader.
func (e notARun) Error() string {
	text := e.dir + " is not a run directory"
	var path *fs.PathError
	switch {
	case !errors.As(e.cause, &path):
		return fmt.Sprintf("%s: %v", text, e.cause)
	case errors.Is(e.cause, fs.ErrNotExist) && path.Path != e.dir:
		return fmt.Sprintf("%s: it has no %s", text, path.Path)
	}
	return fmt.Sprintf("%s: %v", text, path.Err)
}

func (e notARun) Unwrap() error { return e.cause }

// NoRun says why dir, at which cause was met, is not the directory of a run, and which runs are in it if there are
// some: of a sweep, or of whatever else was run there.
func NoRun(dir string, cause error) error {
	if errors.Is(cause, fs.ErrNotExist) && exists(filepath.Join(dir, "run.json")) {
		return inputError{fmt.Errorf("%s: %w", dir, cause)} // the run lacks something else
	}
	runs := runsBelow(dir)
	if !errors.Is(cause, fs.ErrNotExist) || len(runs) == 0 {
		return inputError{notARun{dir, cause}}
	}
	what := "a directory of runs"
	if exists(filepath.Join(dir, sweepFile)) {
		what = "the directory of a sweep"
	}
	return inputError{fmt.Errorf("%s is %s, not of one run; in it are %s: name one, such as %s",
		dir, what, shortList(runs), filepath.Join(dir, runs[0]))}
}

// runsBelow lists the run directories directly in dir, in order of their names.
func runsBelow(dir string) []string {
	const most = 100_000 // entries looked at
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	entries, _ := d.ReadDir(most) // what cannot be listed is not there for a hint
	_ = d.Close()                 // nothing was written
	var runs []string
	for _, e := range entries {
		if e.IsDir() && exists(filepath.Join(dir, e.Name(), "run.json")) {
			runs = append(runs, e.Name())
		}
	}
	slices.Sort(runs)
	return runs
}

// shortList names the first and the last of many.
func shortList(names []string) string {
	const few = 6
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s … %s (%d)", strings.Join(names[:3], ", "), names[len(names)-1], len(names))
}
