package main

import (
	"fmt"
	"io"

	"candela.dev/candela/orchestrator/report"
)

// junitWritable fails if the file of --junit cannot be written; an error after minutes of measuring would be too late.
func junitWritable(path string) error {
	if path == "" {
		return nil
	}
	if err := writable(path); err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	return nil
}

// checksJUnit writes the checks of a command as JUnit XML; nothing without a path.
func checksJUnit(path string, suites ...report.CheckSuite) error {
	if path == "" {
		return nil
	}
	var set fileSet
	defer set.discard()
	set.add(path, func(w io.Writer) error { return report.JUnitOfChecks(w, suites) })
	return set.commit()
}

// experiments is the meter of a reproduction, which reports each experiment before it begins.
type experiments struct {
	*meter
	begun int
}

func newExperiments(w io.Writer, name string, of int) *experiments {
	return &experiments{meter: newMeter(w, name, of)}
}

// next reports that an experiment begins.
func (e *experiments) next(name string) {
	e.at(e.begun, name)
	e.begun++
}
