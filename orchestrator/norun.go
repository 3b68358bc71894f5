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

type notARun struct {
	dir   string
	cause error
}

// Error names the missing file and omits the system call of the cause.
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

// NoRun returns the error that dir is not a run directory because of cause. It lists the runs in dir if there are any,
// for example those of a sweep.
func NoRun(dir string, cause error) error {
	if errors.Is(cause, fs.ErrNotExist) && exists(filepath.Join(dir, "run.json")) {
		return inputError{fmt.Errorf("%s: %w", dir, cause)} // another file of the run is missing
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

// runsBelow lists the run directories directly in dir, sorted by name.
func runsBelow(dir string) []string {
	const most = 100_000 // entries looked at
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	entries, _ := d.ReadDir(most) // the hint may be incomplete
	_ = d.Close()                 // read only
	var runs []string
	for _, e := range entries {
		if e.IsDir() && exists(filepath.Join(dir, e.Name(), "run.json")) {
			runs = append(runs, e.Name())
		}
	}
	slices.Sort(runs)
	return runs
}

// shortList shortens a long list to its first three names and the last.
func shortList(names []string) string {
	const few = 6
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s … %s (%d)", strings.Join(names[:3], ", "), names[len(names)-1], len(names))
}
