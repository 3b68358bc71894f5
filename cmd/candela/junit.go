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

// experimentMeter is the meter of a reproduction, which reports each experiment before it begins.
type experimentMeter struct {
	*meter
	begun int
}

func newExperimentMeter(w io.Writer, name string, of int) *experimentMeter {
	return &experimentMeter{meter: newMeter(w, name, of)}
}

// next reports that an experiment begins.
func (e *experimentMeter) next(name string) {
	e.at(e.begun, name)
	e.begun++
}
